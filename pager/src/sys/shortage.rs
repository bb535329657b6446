//! Limits of the process that make calls fail, for messages.

use rustix::process::{getrlimit, Resource};

/// Descriptors that a pool gets by with, beside those of mapped files: a test runs one under this limit.
pub const POOL_DESCRIPTORS: u64 = 24;

/// Which limit an error comes from and what to do, to be put behind its text; nothing if no limit explains it.
pub fn remedy(errno: Option<i32>) -> String {
    let limit = |r| getrlimit(r).current;
    match errno {
        Some(libc::EMFILE) => match limit(Resource::Nofile) {
            Some(n) => format!(
                "; the limit on open files (ulimit -n) is {n}: raise it. A pool takes up to {POOL_DESCRIPTORS} descriptors, \
                 and each mapped file 2 more"
            ),
            None => String::new(),
        },
        Some(libc::EFBIG) => match limit(Resource::Fsize) {
            Some(n) => format!(
                "; the limit on the sizes of files (ulimit -f) is {n} bytes, and holds for the file in memory behind regions, \
                 too: raise it, best to unlimited"
            ),
            None => String::new(),
        },
        Some(libc::ENFILE) => "; the machine's limit on open files (fs.file-max) is reached".into(),
        _ => String::new(),
    }
}
