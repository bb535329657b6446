//! Who uses a file: one that is written through a map has no other map, and what is swap or a journal is
//! nothing else.
//!
//! Two guards, since a lock does not say whose it is: a list of this process's claims, and locks of the
//! open file on two bytes that lie beyond any data, so that locks on the data stay its users' own. Where
//! the file system has no locks, only the list is left. A process that holds a lock of the old kind
//! (`lockf`) on the whole file is not in its own way.

use crate::error::{Error, Result};
use crate::sys::again::again;
use crate::sys::fd::Kept;
use crate::sys::fork::OfProcess;
use crate::sys::lock::{try_lock, unlock, Kind, Locked};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::fstat;
use std::fmt::Debug;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What a file is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A map that is only read.
    Read,
    /// A map that is written.
    Write,
    /// A map, read or written, whose user takes care of the others.
    Shared,
    Swap,
    Journal,
}

use Purpose::{Journal, Read, Shared, Swap, Write};

/// Locked by whatever uses the file: exclusively if as something else than a map.
const USED: Range<i64> = i64::MAX - 2..i64::MAX - 1;
/// Locked by maps: exclusively by one that is written.
const MAPPED: Range<i64> = i64::MAX - 1..i64::MAX;
const BOTH: Range<i64> = USED.start..MAPPED.end;

impl Purpose {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Swap | Journal, _) | (_, Swap | Journal) => true,
            (Shared, _) | (_, Shared) => false,
            (Write, _) | (_, Write) => true,
            (Read, Read) => false,
        }
    }

    fn locks(self) -> &'static [(Kind, Range<i64>)] {
        match self {
            Read => &[(Kind::Shared, BOTH)],
            Write => &[(Kind::Shared, USED), (Kind::Exclusive, MAPPED)],
            Shared => &[(Kind::Shared, USED)],
            Swap | Journal => &[(Kind::Exclusive, BOTH)],
        }
    }

    /// For "the file is ... by this process".
    fn as_used(self) -> &'static str {
        match self {
            Read => "mapped already, to be read,",
            Write => "mapped already, for writing,",
            Shared => "mapped already",
            Swap => "used as swap",
            Journal => "being written as a journal",
        }
    }

    /// What to do about a file that is used for `other` already, as far as that is known.
    fn remedy(self, other: Option<Self>) -> &'static str {
        match self {
            Read | Write | Shared if matches!(other, Some(Swap | Journal)) => {
                "a swap file or a journal cannot be mapped while it is one, not even as shared: name another file"
            }
            Read | Write | Shared => {
                "maps do not see each other's stores: use the one there is or drop it first, or map \
                 all of them as shared if you take care of that"
            }
            Swap => "a swap file belongs to one pool: give this one a file of its own, or temp:SIZE",
            Journal => "give this journal a file of its own",
        }
    }
}

#[derive(Debug)]
struct Entry {
    id: u64,
    file: (u64, u64),
    purpose: Purpose,
}

static CLAIMS: OfProcess<Mutex<Vec<Entry>>> = OfProcess::new();
static IDS: AtomicU64 = AtomicU64::new(0);

fn claims() -> MutexGuard<'static, Vec<Entry>> {
    // Each change of the list is a single call: a panic elsewhere leaves it whole.
    CLAIMS.get().lock().unwrap_or_else(|e| e.into_inner())
}

/// How often, and how long apart, a file is looked at that a pool may be about to give up.
const LEAVING_TRIES: u32 = 50;
const LEAVING_PAUSE: Duration = Duration::from_millis(10);

/// Lists a claim, unless there is one that excludes it: then what for.
fn list(id: u64, file: (u64, u64), purpose: Purpose) -> std::result::Result<(), Purpose> {
    let mut all = claims();
    match all
        .iter()
        .find(|e| e.file == file && e.purpose.excludes(purpose))
    {
        Some(e) => Err(e.purpose),
        None => {
            all.push(Entry { id, file, purpose });
            Ok(())
        }
    }
}

/// A file that can be claimed.
pub(crate) trait Claimed: Send + Sync + Debug {
    fn fd(&self) -> BorrowedFd<'_>;
}

impl Claimed for Kept<fs::File> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

#[cfg(test)]
impl Claimed for fs::File {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

/// A use of a file, until dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    file: Arc<dyn Claimed>,
    id: u64,
    pid: u32,
}

impl Claim {
    /// Claims an open file.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub(crate) fn new(path: &Path, file: Arc<dyn Claimed>, purpose: Purpose) -> Result<Self> {
        let stat = again(|| fstat(file.fd())).map_err(|e| Error::file(path, e.into()))?;
        #[allow(clippy::useless_conversion, reason = "not 64 bits everywhere")]
        let key = (u64::from(stat.st_dev), u64::from(stat.st_ino));
        let pid = std::process::id();
        let id = IDS.fetch_add(1, Relaxed);
        // Listed before it is locked: another thread is refused by the list, which can say why.
        let mut tries = 0;
        while let Err(other) = list(id, key, purpose) {
            // A pool that its program has dropped goes when the last of its own threads notices.
            if other != purpose || !matches!(purpose, Swap | Journal) || tries == LEAVING_TRIES {
                let used = format!("{} by this process", other.as_used());
                return Err(in_use(path, used, purpose.remedy(Some(other))));
            }
            tries += 1;
            std::thread::sleep(LEAVING_PAUSE);
        }
        let claim = Self { file, id, pid };
        for (kind, bytes) in purpose.locks() {
            match try_lock(&claim.file.fd(), *kind, bytes).map_err(|e| Error::file(path, e))? {
                Locked::Yes | Locked::Unsupported => {}
                Locked::No(Some(holder)) if holder == pid => {}
                Locked::No(holder) => {
                    let holder = holder.or_else(|| holder_of(key));
                    // Maps never have this part for themselves alone.
                    let used = try_lock(&claim.file.fd(), Kind::Shared, &USED);
                    let other = matches!(used, Ok(Locked::No(_))).then_some(Swap);
                    return Err(in_use(path, used_by(holder), purpose.remedy(other)));
                }
            }
        }
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // In a child of fork the open file, and so the lock, is still the parent's.
        if self.pid == std::process::id() {
            // What cannot be unlocked is so when the file is closed, soon. Not left to that: a child of
            // fork may have it open.
            let _ = unlock(&self.file.fd(), &BOTH);
            claims().retain(|e| e.id != self.id);
        }
    }
}

fn in_use(path: &Path, used: String, remedy: &'static str) -> Error {
    Error::InUse {
        path: path.into(),
        used,
        remedy,
    }
}

/// "in use by ...", with the name of the process if it is known.
pub(crate) fn used_by(pid: Option<u32>) -> String {
    let Some(pid) = pid else {
        return "in use by another process".into();
    };
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("in use by process {pid} ({})", name.trim_end()),
        Err(_) => format!("in use by process {pid}"),
    }
}

/// A process that has the file open and locked, as far as this one may look.
fn holder_of(file: (u64, u64)) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let own = std::process::id();
    { numbers }.find(|&pid| pid != own && has_locked(pid, file))
}

fn has_locked(pid: u32, file: (u64, u64)) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    open.flatten().any(|e| {
        let same = fs::metadata(e.path()).is_ok_and(|m| (m.dev(), m.ino()) == file);
        let info = format!("/proc/{pid}/fdinfo/{}", e.file_name().to_string_lossy());
        same && fs::read_to_string(info).is_ok_and(|i| i.contains("OFDLCK"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Arc<fs::File> {
        let mut o = fs::File::options();
        let o = o.read(true).write(true).create(true).truncate(false);
        Arc::new(o.open(path).unwrap())
    }

    /// The list and the locks say the same, for each pair of purposes.
    #[test]
    #[cfg_attr(miri, ignore = "it needs files")]
    fn list_and_locks_agree() {
        let path = std::env::temp_dir().join(format!("coldset-claims-{}", std::process::id()));
        let all = [Read, Write, Shared, Swap, Journal];
        for first in all {
            for second in all {
                let one = Claim::new(&path, open(&path), first).unwrap();
                let other = Claim::new(&path, open(&path), second);
                assert_eq!(
                    other.is_err(),
                    first.excludes(second),
                    "{first:?} {second:?}"
                );
                drop(other);
                // As another process would.
                let file = open(&path);
                let tried: Vec<Locked> = { second.locks().iter() }
                    .map(|(kind, bytes)| try_lock(&*file, *kind, bytes).unwrap())
                    .collect();
                if tried.contains(&Locked::Unsupported) {
                    fs::remove_file(&path).unwrap();
                    return println!("skipped: no locks here");
                }
                let refused = tried.contains(&Locked::No(None));
                assert_eq!(refused, first.excludes(second), "{first:?} {second:?}");
                drop((file, one));
                Claim::new(&path, open(&path), Swap).unwrap();
            }
        }
        fs::remove_file(path).unwrap();
    }
}
