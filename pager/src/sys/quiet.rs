//! Panics as text: what the engine asserts of what it is told, a journal may break, and its user
//! wants one line.

/// Longest text of a panic that is kept.
const TEXT_MAX: usize = 200;

/// Runs `f`; if it panics there is its text, and nothing is printed.
pub(crate) fn quietly<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    coldset_quiet::quietly(f).map_err(|panic| panic.text.chars().take(TEXT_MAX).collect())
}
