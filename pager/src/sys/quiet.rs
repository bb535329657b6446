//! Panics as text: what the engine asserts of what it is told, a journal may break, and its user
//! wants one line.

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Longest text of a panic that is kept.
const TEXT_MAX: usize = 200;

/// Runs `f`, which is thrown away if it panics: then there is its text, on one line, and nothing is
/// printed. Panics of other threads, and of other calls, go where they went.
pub(crate) fn quietly<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return usual(info);
            }
            let payload = info.payload();
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied());
            let words: Vec<&str> = text.unwrap_or_default().split_whitespace().collect();
            let line: String = words.join(" ").chars().take(TEXT_MAX).collect();
            TEXT.with_borrow_mut(|t| *t = line);
        }));
    });
    let before = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(before);
    result.map_err(|_| TEXT.with_borrow_mut(std::mem::take))
}

#[cfg(test)]
mod tests {
    use super::quietly;

    #[test]
    fn a_panic_becomes_a_line() {
        assert_eq!(quietly(|| 7), Ok(7));
        let text = quietly(|| assert_eq!(1 + 1, 3, "sum of {}", "two")).unwrap_err();
        assert!(text.contains("sum of two left: 2 right: 3"), "{text}");
    }
}
