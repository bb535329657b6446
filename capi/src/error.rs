//! Status codes, messages, and the border that no panic crosses.

use coldset_pager::{Error, Feature, Missing};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Done.
pub const COLDSET_OK: c_int = 0;
/// An argument, option, policy or limit is wrong; a null pointer; text that is not UTF-8.
pub const COLDSET_INVALID: c_int = 1;
/// The kernel or a device refused; `coldset_last_errno` has its number.
pub const COLDSET_IO: c_int = 2;
/// More than budget and swap can hold, or nothing that could be evicted.
pub const COLDSET_NO_MEMORY: c_int = 3;
/// The kernel lacks a feature, or the handler of SIGBUS is not in place.
pub const COLDSET_UNSUPPORTED: c_int = 4;
/// The region is read-only.
pub const COLDSET_READ_ONLY: c_int = 5;
/// The process was forked from the one that made the pool.
pub const COLDSET_FORKED: c_int = 6;
/// The region is pinned; the file is in use.
pub const COLDSET_BUSY: c_int = 7;
/// A defect of this library; the message says more.
pub const COLDSET_INTERNAL: c_int = 8;

/// `EIO`, for errors of a store that are not the kernel's.
const EIO: c_int = 5;

/// An error on its way out.
#[derive(Debug)]
pub(crate) struct Failure {
    status: c_int,
    errno: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(status: c_int, text: impl Into<String>) -> Self {
        Self {
            status,
            errno: 0,
            text: text.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let mut errno = 0;
        let status = match &e {
            Error::Io { source, .. } => {
                errno = source.raw_os_error().unwrap_or(EIO);
                COLDSET_IO
            }
            Error::File { errno: number, .. } => {
                errno = *number;
                COLDSET_IO
            }
            Error::InUse { .. } => COLDSET_BUSY,
            Error::Overcommit { .. }
            | Error::NoMemory { .. }
            | Error::Shrink { .. }
            | Error::Promised { .. } => COLDSET_NO_MEMORY,
            Error::Missing(_) | Error::Sigbus(_) | Error::Pressure { .. } => COLDSET_UNSUPPORTED,
            Error::ReadOnly => COLDSET_READ_ONLY,
            Error::Forked => COLDSET_FORKED,
            _ => COLDSET_INVALID,
        };
        Failure {
            status,
            errno,
            text: match &e {
                Error::Missing(m) => missing(m),
                other => other.to_string(),
            },
        }
    }
}

/// What the kernel lacks, and what to do in C: the pager's own text names calls of Rust, and there are none here that
/// do without page faults.
fn missing(m: &Missing) -> String {
    let remedy = match m.feature {
        Feature::FullUserfaultfd => {
            "use fault_mode=sigbus, which needs no privilege, and coldset_region_pin what system calls use"
        }
        _ => "regions of this interface need it: run where the kernel offers it and nothing denies it",
    };
    format!("{}; {remedy}", m.reason())
}

/// The last error of a thread.
struct Last {
    status: c_int,
    errno: c_int,
    text: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last {
        status: COLDSET_OK,
        errno: 0,
        text: CString::default(),
    });
}

fn remember(f: Failure) {
    // No text has a null in the middle; if one had, the end of it would be missing.
    let text = f.text.split('\0').next().unwrap_or("");
    let text = CString::new(text).unwrap_or_default();
    // At the end of a thread there may be nowhere left to put it.
    let _ = LAST.try_with(|l| {
        *l.borrow_mut() = Last {
            status: f.status,
            errno: f.errno,
            text,
        };
    });
}

/// Runs a call and gives `failed` instead of its result if it fails or panics.
pub(crate) fn guard<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    // After a panic the pager refuses all further work by itself, so nothing broken is seen.
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(f)) => f,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Failure::new(
                COLDSET_INTERNAL,
                format!("a defect of this library: {text}"),
            )
        }
    };
    remember(failure);
    failed
}

/// Runs a call and gives its status.
pub(crate) fn status(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match guard(None, || call().map(Some)) {
        Some(()) => COLDSET_OK,
        None => LAST
            .try_with(|l| l.borrow().status)
            .unwrap_or(COLDSET_INTERNAL),
    }
}

/// The object behind a pointer.
///
/// # Safety
/// `p` is null, or points to a live object of this type that nobody changes meanwhile.
pub(crate) unsafe fn object<'a, T>(p: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: by contract.
    unsafe { p.as_ref() }
        .ok_or_else(|| Failure::new(COLDSET_INVALID, format!("{what} is a null pointer")))
}

/// The text behind a pointer.
///
/// # Safety
/// `p` is null or a null-terminated string that lives and stays the same during the call.
pub(crate) unsafe fn text<'a>(p: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if p.is_null() {
        let text = format!("{what} is a null pointer");
        return Err(Failure::new(COLDSET_INVALID, text));
    }
    // SAFETY: not null, and by contract a string.
    unsafe { CStr::from_ptr(p) }
        .to_str()
        .map_err(|e| Failure::new(COLDSET_INVALID, format!("{what} is not UTF-8: {e}")))
}

/// Frees what `Box::into_raw` has given out. Null does nothing.
///
/// # Safety
/// `p` is null or comes from `Box::into_raw` of this library, and nobody uses it any more.
pub(crate) unsafe fn free<T>(p: *mut T) {
    guard((), || {
        if !p.is_null() {
            // SAFETY: by contract.
            drop(unsafe { Box::from_raw(p) });
        }
        Ok(())
    });
}

/// Message of the last call that failed on this thread, with the remedy; empty if no call has failed. It stays
/// valid until the next call that fails on this thread.
#[no_mangle]
pub extern "C" fn coldset_last_error() -> *const c_char {
    LAST.try_with(|l| l.borrow().text.as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// Status of the last call that failed on this thread; for functions that return a pointer.
#[no_mangle]
pub extern "C" fn coldset_last_status() -> c_int {
    LAST.try_with(|l| l.borrow().status).unwrap_or(COLDSET_OK)
}

/// `errno` of the last call that failed on this thread, if its status is `COLDSET_IO`; else 0.
#[no_mangle]
pub extern "C" fn coldset_last_errno() -> c_int {
    LAST.try_with(|l| l.borrow().errno).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> String {
        // SAFETY: the string is this thread's and stays until the next failure.
        let text = unsafe { CStr::from_ptr(coldset_last_error()) };
        text.to_str().unwrap().to_string()
    }

    #[test]
    fn no_panic_crosses_the_border() {
        assert_eq!(status(|| panic!("{}", "of a test")), COLDSET_INTERNAL);
        assert!(told().contains("of a test"), "{}", told());
        assert_eq!(guard(7, || panic!("again")), 7);
        assert!(told().contains("again"));
    }

    #[test]
    fn errors_are_of_a_thread_and_stay() {
        let failing = || Err(Failure::new(COLDSET_BUSY, "one\0two"));
        assert_eq!(status(failing), COLDSET_BUSY);
        assert_eq!(status(|| Ok(())), COLDSET_OK);
        assert_eq!(
            (told().as_str(), coldset_last_status()),
            ("one", COLDSET_BUSY)
        );
        let other = std::thread::spawn(|| (told(), coldset_last_status()));
        assert_eq!(other.join().unwrap(), (String::new(), COLDSET_OK));
    }

    #[test]
    fn errors_of_devices_have_their_number() {
        let io = |source| Error::Io {
            what: "x".into(),
            source,
        };
        let full = || Err(io(std::io::Error::from_raw_os_error(28)).into());
        assert_eq!((status(full), coldset_last_errno()), (COLDSET_IO, 28));
        let short = || Err(io(std::io::ErrorKind::UnexpectedEof.into()).into());
        assert_eq!((status(short), coldset_last_errno()), (COLDSET_IO, EIO));
    }
}
