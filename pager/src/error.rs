//! What can go wrong, with the remedy.

use crate::sys::probe::Missing;
use crate::sys::shortage;
use crate::sys::sigbus::InstallError;
use coldset_engine::memcg::MemcgError;
use coldset_engine::switches::SwitchError;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// An error of the pager.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A feature of the kernel is missing.
    #[error(transparent)]
    Missing(Missing),
    /// The SIGBUS handler is not in place.
    #[error(transparent)]
    Sigbus(#[from] InstallError),
    /// A policy name or switch.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// A group's limit, or too many groups.
    #[error("group: {0}")]
    Group(#[from] MemcgError),
    /// A group cannot have this name.
    #[error("{name:?} cannot be the name of a group in {parent}: {why}")]
    GroupName {
        /// What was given.
        name: String,
        /// Path of the group that it was to be made in.
        parent: String,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// A setting is out of its range.
    #[error("{what} is {value}; {range}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
    /// A setting that was given as text.
    #[error("cannot read {text:?}: {part:?} is not {expected}; write for example {example}")]
    Parse {
        /// What was given.
        text: String,
        /// The part of it that is wrong.
        part: String,
        /// What that part should be.
        expected: &'static str,
        /// Good ones.
        example: &'static str,
    },
    /// The kernel or a device refused.
    #[error("{what}: {source}{}", shortage::remedy(source.raw_os_error()))]
    Io {
        /// What was tried, with the name of the file if it is known.
        what: Cow<'static, str>,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error(
        "{what}{}{}: {why}{}",
        if what.is_empty() { "" } else { " " },
        path.display(),
        shortage::remedy(Some(*errno))
    )]
    File {
        /// What was tried, if that is not plain.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
        why: String,
        /// The kernel's number for it.
        errno: i32,
    },
    /// A file is used already, in a way that leaves no room for this one.
    #[error("{} is {used}; {remedy}", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
        /// How, and by whom as far as that is known.
        used: String,
        /// What to do.
        remedy: &'static str,
    },
    /// More anonymous memory than budget and swap can hold, with pages on their way and tables.
    #[error(
        "{asked} bytes of anonymous memory do not fit: {promised} of {available} bytes (budget and \
         swap) are promised already; give the pool more swap"
    )]
    Overcommit {
        /// Bytes asked for.
        asked: u64,
        /// Bytes promised to other regions.
        promised: u64,
        /// Bytes there are.
        available: u64,
    },
    /// The budget cannot shrink so far.
    #[error(
        "the budget cannot shrink to {asked} bytes: {taken} bytes are in use and cannot be given up now, \
         {pinned} of them pinned, {store} compressed contents and tables; it stays at {budget} bytes"
    )]
    Shrink {
        /// Bytes asked for.
        asked: u64,
        /// Bytes of pinned pages.
        pinned: u64,
        /// Bytes of compressed contents and tables that count to the budget.
        store: u64,
        /// Bytes in use when it was given up.
        taken: u64,
        /// The budget as before, bytes.
        budget: u64,
    },
    /// A smaller budget and swap could not hold what has been promised.
    #[error(
        "the budget cannot shrink to {asked} bytes: {promised} bytes of anonymous memory are promised, \
         and with swap it would hold {available}; drop regions first, or make the pool with overcommit"
    )]
    Promised {
        /// Bytes asked for.
        asked: u64,
        /// Bytes promised to regions.
        promised: u64,
        /// Bytes there would be.
        available: u64,
    },
    /// The kernel does not tell of pressure on memory.
    #[error(
        "cannot shrink under pressure: {path}: {source}; start the kernel with psi=1, or leave \
         shrink_under_pressure off"
    )]
    Pressure {
        /// Where it should be told.
        path: String,
        /// Why it is not.
        source: io::Error,
    },
    /// Nothing could be evicted.
    #[error(
        "no memory for {pages} more page{} in {group}: everything in it is pinned, protected or \
         cannot be stored (swap is full or failing, or is compressed memory alone and the contents do not \
         compress); {}raise the budget, or give more swap, with a file behind compressed memory: \
         lz4:SIZE+temp:SIZE{failed}",
        if *pages == 1 { "" } else { "s" },
        if *pinning { "pin one part at a time, " } else { "" }
    )]
    NoMemory {
        /// Pages wanted.
        pages: u64,
        /// Where: `the pool`, or `the group` with its path.
        group: String,
        /// They were to be pinned.
        pinning: bool,
        /// The last error of a store, if there has been one.
        failed: String,
    },
    /// A range does not lie in the region.
    #[error("bytes {from}..{to} are outside the region of {len} bytes")]
    Range {
        /// First byte.
        from: usize,
        /// End.
        to: usize,
        /// Bytes of the region.
        len: usize,
    },
    /// A guard has a page for writing, so it has not been written; all others have.
    #[error(
        "the page at byte {at} of the region is fixed for writing and has not been written, all others have: drop its guard, then \
         sync again"
    )]
    Fixed {
        /// First byte of the page.
        at: usize,
    },
    /// A page does not lie in the region.
    #[error("page {page} is outside the region of {pages} page(s), which are counted from 0")]
    NoPage {
        /// Its number.
        page: usize,
        /// Pages of the region.
        pages: usize,
    },
    /// The program has changed the region's mapping by itself.
    #[error(
        "the region has been unmapped, moved or mapped over (munmap, mremap, MAP_FIXED); what it held is \
         written, but it cannot be used any more: drop it, and leave regions to the pager"
    )]
    Torn,
    /// A store to a read-only region.
    #[error("the region is read-only")]
    ReadOnly,
    /// A policy outside of the engine has failed. The pool goes on without asking it: the oldest pages go.
    #[error("{0}")]
    Policy(coldset_engine::policies::desk::Failure),
    /// The call needs the other kind of region.
    #[error("{0}")]
    Mode(&'static str),
    /// The pool was made by another process.
    #[error("a pool cannot be used after fork; make one in the child, or start it with exec")]
    Forked,
    /// The pool is gone.
    #[error("the pool has been closed")]
    Closed,
}

impl Error {
    /// An error of a call, with what it was for.
    pub(crate) fn io(what: impl Into<Cow<'static, str>>) -> impl Fn(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io {
            what: what.clone(),
            source,
        }
    }

    /// An error of a file by its name.
    pub(crate) fn file(path: &Path, e: io::Error) -> Error {
        Error::File {
            what: "",
            path: path.into(),
            errno: match (e.raw_os_error(), e.kind()) {
                (Some(errno), _) => errno,
                (None, io::ErrorKind::StorageFull) => libc::ENOSPC,
                (None, _) => libc::EIO,
            },
            why: e.to_string(),
        }
    }

    /// Says what an error of a file was met at.
    pub(crate) fn at(what: &'static str) -> impl Fn(Error) -> Error {
        move |e| match e {
            Error::File {
                path, why, errno, ..
            } => Error::File {
                what,
                path,
                why,
                errno,
            },
            other => other,
        }
    }

    /// An error of a system call, with what it was for.
    pub(crate) fn sys(what: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
        move |e| Error::Io {
            what: what.into(),
            source: e.into(),
        }
    }
}

impl From<Missing> for Error {
    fn from(missing: Missing) -> Self {
        match missing.failure() {
            Some(source) => Error::Io {
                what: match missing.call {
                    Some(call) => format!("trying what this kernel offers ({call})").into(),
                    None => "trying what this kernel offers".into(),
                },
                source,
            },
            None => Error::Missing(missing),
        }
    }
}

/// Results of the pager.
pub type Result<T> = std::result::Result<T, Error>;

/// The same error once more: one failed transfer is the failure of each of its pages, and of all who ask.
pub(crate) fn copy_of(e: &io::Error) -> io::Error {
    match e.raw_os_error() {
        Some(n) => io::Error::from_raw_os_error(n),
        None => io::Error::new(e.kind(), e.to_string()),
    }
}
