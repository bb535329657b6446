//! What is read off the machine.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that is mapped; removed when dropped.
#[derive(Debug)]
pub struct Data(pub PathBuf);

impl Data {
    pub fn new(dir: &Path, mib: usize) -> io::Result<Self> {
        let data = Self(dir.join(format!("coldset-bench-{}", std::process::id())));
        let mut f = File::create(&data.0)?;
        let mut block = vec![0; 1 << 20];
        for i in 0..mib {
            crate::work::fill(&mut block, i as u64);
            f.write_all(&block)?;
        }
        f.sync_all()?;
        Ok(data)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Takes a file out of the page cache.
pub fn drop_cache(path: &Path) -> io::Result<()> {
    let f = File::open(path)?;
    f.sync_all()?;
    // SAFETY: a call with a descriptor and numbers.
    unsafe { libc::posix_fadvise(f.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}

/// Read-ahead of the device under a file.
pub fn read_ahead(path: &Path) -> String {
    let Ok(meta) = fs::metadata(path) else {
        return "unknown".into();
    };
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    fs::read_to_string(format!(
        "/sys/dev/block/{major}:{minor}/queue/read_ahead_kb"
    ))
    .map_or("unknown".into(), |s| format!("{} KiB", s.trim()))
}

/// Interrupts that flushed translations so far, over all CPUs.
pub fn shootdowns() -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let line = text.lines().find(|l| l.trim_start().starts_with("TLB:"));
    line.map_or(0, |l| {
        l.split_whitespace()
            .filter_map(|w| w.parse::<u64>().ok())
            .sum()
    })
}

/// CPU seconds that the whole machine has been busy so far, and those that its host gave to others.
pub fn busy() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let n: Vec<f64> = line
        .split_whitespace()
        .filter_map(|w| w.parse().ok())
        .collect();
    // user, nice, system; not idle and waiting; interrupts of both kinds, stolen. In 1/100 s.
    let idle = |i: &usize| !matches!(i, 3 | 4);
    (0..n.len().min(8)).filter(idle).map(|i| n[i]).sum::<f64>() / 100.0
}

/// CPU seconds of children that have ended.
pub fn of_children() -> f64 {
    of(libc::RUSAGE_CHILDREN).0
}

/// CPU seconds (user and system) and major faults of this process so far.
pub fn usage() -> (f64, u64) {
    of(libc::RUSAGE_SELF)
}

fn of(whom: libc::c_int) -> (f64, u64) {
    // SAFETY: getrusage fills the structure it is given.
    let u = unsafe {
        let mut u = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(whom, &mut u);
        u
    };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (s(u.ru_utime) + s(u.ru_stime), u.ru_majflt as u64)
}
