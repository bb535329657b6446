//! What the running kernel offers. Features are probed, never versions.

use super::memfd::Memfd;
use super::memory::{Mapping, PageBuf};
use super::pagemap::{Pagemap, Scan, PRESENT};
use super::pipe::PinPipe;
use super::userfaultfd::{feature, Copied, Userfaultfd};
use super::PAGE;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

/// A feature of the kernel that the fault-driven mode needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Feature {
    /// Pages of 4 KiB.
    PageSize,
    /// `userfaultfd(UFFD_USER_MODE_ONLY)`.
    Userfaultfd,
    /// Its SIGBUS form on files in memory.
    Sigbus,
    /// Write protection that the kernel resolves by itself.
    WpAsync,
    /// `ioctl(PAGEMAP_SCAN)` on the own page map.
    PagemapScan,
    /// `memfd_create` with seals.
    Memfd,
    /// `splice` into a pipe holds a page that is punched out.
    SplicePin,
    /// `userfaultfd` for misses of system calls too, which takes privilege. Only
    /// [`FaultMode::Thread`](crate::FaultMode::Thread) needs it.
    FullUserfaultfd,
}

impl Feature {
    /// Name as the kernel's documentation has it, and the kernel that brought it.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::PageSize => "a page size of 4096 bytes",
            Feature::Userfaultfd => "userfaultfd(UFFD_USER_MODE_ONLY) (Linux 5.11)",
            Feature::Sigbus => "UFFD_FEATURE_SIGBUS with UFFD_FEATURE_MISSING_SHMEM (Linux 4.14)",
            Feature::WpAsync => "UFFD_FEATURE_WP_ASYNC (Linux 6.7)",
            Feature::PagemapScan => "ioctl(PAGEMAP_SCAN) (Linux 6.7)",
            Feature::Memfd => "memfd_create with seals (Linux 3.17)",
            Feature::SplicePin => "splice from a memfd that holds punched pages",
            Feature::FullUserfaultfd => {
                "userfaultfd for misses of system calls (Linux 6.7 and one of: root, \
                 CAP_SYS_PTRACE, vm.unprivileged_userfaultfd=1, read and write access to \
                 /dev/userfaultfd)"
            }
        }
    }

    /// What there is without it.
    pub const fn fallback(self) -> &'static str {
        match self {
            Feature::FullUserfaultfd => {
                "use FaultMode::Sigbus, which needs no privilege, and hold a Pin on what system \
                 calls use"
            }
            _ => {
                "regions must be used in explicit mode (FaultMode::Explicit, access through fix \
                 and fix_mut)"
            }
        }
    }

    /// All that misses by SIGBUS need, in the order in which they are probed.
    pub const ALL: [Feature; 7] = [
        Feature::PageSize,
        Feature::Memfd,
        Feature::Userfaultfd,
        Feature::Sigbus,
        Feature::WpAsync,
        Feature::PagemapScan,
        Feature::SplicePin,
    ];
}

/// A feature that is not there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}; {}", self.reason(), feature.fallback())]
pub struct Missing {
    /// Which feature.
    pub feature: Feature,
    /// What the kernel said.
    pub why: String,
    /// Its error number, if that was one.
    pub errno: Option<i32>,
    /// The call that failed, if it is not the feature itself but one that trying it takes.
    pub call: Option<&'static str>,
}

impl Missing {
    /// What is missing and why, without what to do.
    pub fn reason(&self) -> String {
        let (feature, why) = (self.feature.name(), &self.why);
        match self.call {
            None => format!("this kernel does not offer {feature}: {why}"),
            Some(call) => format!(
                "{call} failed when {feature} was tried: {why}; if a container's seccomp profile blocks this call, use one \
                 that allows it"
            ),
        }
    }

    /// Not missing, as far as that can be told: the attempt itself has failed, for want of descriptors or memory, or because
    /// of what passes. A kernel that has no such call, or lets nobody use it, says so.
    pub(crate) fn failure(&self) -> Option<std::io::Error> {
        const SAYS_SO: [i32; 9] = [
            libc::ENOSYS,
            libc::EOPNOTSUPP,
            libc::EINVAL,
            libc::ENOTTY,
            libc::ENODEV,
            libc::ENXIO,
            libc::ENOENT,
            libc::EPERM,
            libc::EACCES,
        ];
        let n = self.errno.filter(|n| !SAYS_SO.contains(n))?;
        Some(std::io::Error::from_raw_os_error(n))
    }
}

/// Tries everything the fault-driven mode needs, and the eviction order on a page of its own.
///
/// # Errors
/// The first feature that is missing, or that `denied` says to treat as missing.
pub fn probe(denied: &[Feature]) -> Result<(), Missing> {
    probe_these(&Feature::ALL, denied)
}

/// As [`probe`], for misses handled by threads.
///
/// # Errors
/// As [`probe`].
pub fn probe_threads(denied: &[Feature]) -> Result<(), Missing> {
    probe(denied)?;
    probe_these(&[Feature::FullUserfaultfd], denied)
}

fn probe_these(features: &[Feature], denied: &[Feature]) -> Result<(), Missing> {
    /// Those that have been found: trying some of them takes 2 MiB for a moment.
    static FOUND: AtomicU32 = AtomicU32::new(0);
    for &feature in features {
        let bit = 1 << feature as u32;
        let refused = if denied.contains(&feature) {
            Err(Refused::from("denied by configuration".to_string()))
        } else if FOUND.load(Relaxed) & bit != 0 {
            Ok(())
        } else {
            try_one(feature).inspect(|()| {
                FOUND.fetch_or(bit, Relaxed);
            })
        };
        refused.map_err(|Refused { why, errno, call }| Missing {
            feature,
            why,
            errno,
            call,
        })?;
    }
    Ok(())
}

/// The call that gives a file in memory its size, for messages.
const FILE: &str = "making a file in memory large enough";

struct Refused {
    why: String,
    errno: Option<i32>,
    /// Not the feature itself.
    call: Option<&'static str>,
}

impl Refused {
    fn by(e: Errno) -> Self {
        Self {
            why: e.to_string(),
            errno: Some(e.raw_os_error()),
            call: None,
        }
    }

    /// A call that trying the feature takes has failed.
    fn at(call: &'static str) -> impl Fn(Errno) -> Self {
        move |e| Self {
            call: Some(call),
            ..Self::by(e)
        }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self {
            why,
            errno: None,
            call: None,
        }
    }
}

fn try_one(feature: Feature) -> Result<(), Refused> {
    let text = Refused::by;
    let with = |bits: u64| {
        let have = Userfaultfd::features().map_err(text)?;
        match feature::NEEDED.iter().find(|f| f.0 & bits & !have != 0) {
            Some((_, name)) => Err(Refused::from(format!("{name} is missing"))),
            None => Ok(()),
        }
    };
    match feature {
        Feature::PageSize => match rustix::param::page_size() {
            PAGE => Ok(()),
            other => Err(Refused::from(format!("pages have {other} bytes"))),
        },
        Feature::Memfd => Memfd::new().map(drop).map_err(text),
        Feature::Userfaultfd => Userfaultfd::features().map(drop).map_err(|e| match e {
            Errno::PERM | Errno::NOSYS => Refused {
                why: format!(
                    "{e}; if a container's seccomp profile blocks it, use one that allows userfaultfd"
                ),
                ..Refused::by(e)
            },
            e => text(e),
        }),
        Feature::Sigbus => with(feature::SIGBUS | feature::MISSING_SHMEM),
        Feature::WpAsync => with(feature::WP_ASYNC | feature::WP_SHMEM | feature::WP_UNPOPULATED),
        Feature::PagemapScan => self_test(false),
        Feature::SplicePin => self_test(true),
        Feature::FullUserfaultfd => Userfaultfd::with_messages().map(drop).map_err(text),
    }
}

/// Fills a page, looks it up, changes it, pins it, changes it again, punches it, and compares.
fn self_test(whole: bool) -> Result<(), Refused> {
    let pages = 512;
    let at = Refused::at;
    let all = Arc::new(Memfd::new().map_err(at("memfd_create"))?);
    // Not at the beginning, as most regions.
    let _before = all.extent(1).map_err(at(FILE))?;
    let file = Arc::new(all.extent(pages).map_err(at(FILE))?);
    let map = Mapping::shared(file.clone(), true).map_err(at("mmap"))?;
    map.no_huge_pages().map_err(at("madvise"))?;
    let uffd = Userfaultfd::with_signals().map_err(at("userfaultfd"))?;
    uffd.register(&map).map_err(at("ioctl(UFFDIO_REGISTER)"))?;
    let pagemap = Pagemap::open().map_err(at("opening /proc/self/pagemap"))?;
    let mut src = PageBuf::new(pages).map_err(at("mmap"))?;
    for (i, p) in src.bytes_mut().chunks_exact_mut(PAGE).enumerate() {
        p.fill(i as u8 | 1);
    }
    let mut done = 0;
    while done < src.bytes().len() {
        let copied = uffd.copy(&map, done, &src.bytes()[done..], true);
        done += match copied.map_err(at("ioctl(UFFDIO_COPY)"))? {
            Copied::All => src.bytes().len() - done,
            Copied::Some(n) => n,
        };
    }
    let wrong = || Refused::by(Errno::NOTSUP);
    let mut seen = 0;
    let scanned = pagemap.scan(&map, Scan::Present, 0, pages, |r| {
        if r.categories == PRESENT {
            seen += r.pages;
        }
    });
    scanned.map_err(Refused::by)?;
    if seen != pages {
        return Err(wrong());
    }
    if !whole {
        return Ok(());
    }
    let mut pipe = PinPipe::new(8).map_err(at("pipe2"))?;
    let mut back = PageBuf::new(8).map_err(at("mmap"))?;
    for first in (0..pages).step_by(8) {
        pipe.pin(&file, first, 8).map_err(Refused::by)?;
        for p in first..first + 8 {
            // SAFETY: the page was filled above; nobody else knows the mapping.
            unsafe { map.ptr().add(p * PAGE + 17).write_volatile(0xEE) };
        }
        file.punch(first, 8)
            .map_err(at("fallocate(FALLOC_FL_PUNCH_HOLE)"))?;
        pipe.drain(back.bytes_mut()).map_err(at("reading a pipe"))?;
        for i in 0..8 {
            let p = back.page(i);
            if p[0] != (first + i) as u8 | 1 || p[17] != 0xEE {
                return Err(wrong());
            }
        }
        let mut written = 0;
        pagemap
            .scan(&map, Scan::Written, first, 8, |r| written += r.pages)
            .map_err(at("ioctl(PAGEMAP_SCAN)"))?;
        if written != 8 {
            return Err(wrong());
        }
    }
    match all.resident().map_err(at("fstat"))? {
        0 => Ok(()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who falls back to another mode because of an interruption keeps it for good.
    #[test]
    fn what_passes_is_no_missing_feature() {
        let missing = |errno| Missing {
            feature: Feature::SplicePin,
            why: String::new(),
            errno,
            call: None,
        };
        for n in [
            libc::EMFILE,
            libc::ENOMEM,
            libc::EINTR,
            libc::EAGAIN,
            libc::EIO,
        ] {
            let failure = missing(Some(n)).failure();
            assert_eq!(failure.and_then(|e| e.raw_os_error()), Some(n));
        }
        for n in [
            None,
            Some(libc::ENOSYS),
            Some(libc::EPERM),
            Some(libc::EINVAL),
        ] {
            assert!(missing(n).failure().is_none(), "{n:?}");
        }
    }

    #[test]
    fn a_denied_feature_is_named_with_the_fallback() {
        // The first thing probed, so that it is the one named on every machine.
        let e = probe(&[Feature::PageSize]).unwrap_err();
        assert_eq!(e.feature, Feature::PageSize);
        let text = e.to_string();
        assert!(text.contains("4096") && text.contains("explicit"), "{text}");
    }

    /// The states, one by one, on which dirty tracking rests.
    #[test]
    fn the_written_mark_survives_zap_and_arming_of_an_empty_entry() {
        if let Err(missing) = probe(&[]) {
            println!("skipped: {missing}");
            return;
        }
        let file = Arc::new(Arc::new(Memfd::new().unwrap()).extent(512).unwrap());
        let map = Mapping::shared(file, true).unwrap();
        let uffd = Userfaultfd::with_signals().unwrap();
        uffd.register(&map).unwrap();
        let pm = Pagemap::open().unwrap();
        let src = PageBuf::new(1).unwrap();
        uffd.copy(&map, 0, src.bytes(), true).unwrap();
        // SAFETY: page 0 is present, and only this test knows the mapping.
        let store = || unsafe { map.ptr().write_volatile(1) };
        // SAFETY: as above.
        let load = || unsafe { map.ptr().read_volatile() };
        let written = || {
            let mut n = 0;
            pm.scan(&map, Scan::Written, 0, 1, |r| n += r.pages)
                .unwrap();
            n == 1
        };
        let present = || {
            let mut n = 0;
            pm.scan(&map, Scan::Present, 0, 1, |r| n += r.pages)
                .unwrap();
            n == 1
        };
        assert!(!written() && present());
        map.zap(0, PAGE).unwrap();
        assert!(!written() && !present());
        load();
        assert!(!written() && present());
        store();
        assert!(written() && present());
        map.zap(0, PAGE).unwrap();
        assert!(written() && !present());
        let mut n = 0;
        pm.scan(&map, Scan::WrittenAndArm, 0, 1, |r| n += r.pages)
            .unwrap();
        assert_eq!(n, 1);
        assert!(!written(), "armed while it had no entry");
        load();
        assert!(!written());
        store();
        assert!(written());
        pm.scan(&map, Scan::WrittenAndArm, 0, 1, |_| ()).unwrap();
        assert!(!written() && present());
        store();
        assert!(written());
    }
}
