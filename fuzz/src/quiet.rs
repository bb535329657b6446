//! Panics as values: a broken invariant becomes a line of text, and nothing is printed.

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `f`. A panic inside gives its message and place.
pub(super) fn quietly<T>(f: impl FnOnce() -> T) -> Result<T, String> {
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
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("panic");
            let at = info.location().map_or(String::new(), |l| {
                let file = l.file().rsplit('/').next().unwrap_or_default();
                format!(" ({file}:{})", l.line())
            });
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            // The first panic is the cause; others come from cleaning up.
            TEXT.with_borrow_mut(|t| {
                if t.is_empty() {
                    *t = line + &at;
                }
            });
        }));
    });
    TEXT.with_borrow_mut(String::clear);
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
        assert!(
            text.contains("sum of two left: 2 right: 3 (quiet.rs:"),
            "{text}"
        );
    }
}
