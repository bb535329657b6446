//! Panics as values: a broken invariant becomes a line of text, and nothing is printed.

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

/// A panic that was caught.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// Its message on one line.
    pub text: String,
    /// `FILE:LINE`.
    pub at: String,
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static FIRST: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

impl Panic {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        let payload = info.payload();
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("panic");
        let at = info.location().map_or(String::new(), |l| {
            let file = l.file().rsplit('/').next().unwrap_or_default();
            format!("{file}:{}", l.line())
        });
        Self {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            at,
        }
    }
}

/// Runs `f`, which is thrown away if it panics. Panics of other threads, and of other calls, go where they
/// went.
///
/// # Errors
/// The first panic inside; others come from cleaning up.
pub fn quietly<T>(f: impl FnOnce() -> T) -> Result<T, Panic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return usual(info);
            }
            FIRST.with_borrow_mut(|first| {
                first.get_or_insert_with(|| Panic::of(info));
            });
        }));
    });
    let (was_quiet, outer) = (QUIET.replace(true), FIRST.take());
    let result = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(was_quiet);
    let first = FIRST.replace(outer);
    result.map_err(|_| first.expect("the hook has seen it"))
}

#[cfg(test)]
mod tests {
    use super::quietly;

    #[test]
    fn a_panic_becomes_a_line() {
        assert_eq!(quietly(|| 7), Ok(7));
        let panic = quietly(|| assert_eq!(1 + 1, 3, "sum of {}", "two")).unwrap_err();
        assert!(
            panic.text.contains("sum of two left: 2 right: 3"),
            "{panic:?}"
        );
        assert!(panic.at.starts_with("lib.rs:"), "{panic:?}");
    }

    #[test]
    fn a_panic_while_another_unwinds_is_its_own() {
        struct Worse;
        impl Drop for Worse {
            fn drop(&mut self) {
                let inner = quietly(|| panic!("inner")).unwrap_err();
                assert_eq!(inner.text, "inner");
            }
        }
        let nested = quietly(|| {
            let _worse = Worse;
            panic!("outer");
        });
        assert_eq!(nested.unwrap_err().text, "outer");
    }
}
