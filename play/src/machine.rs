//! What is under a run: everything that decides about its result and is not the trace's.

use crate::cgroup::Cgroup;
use rustix::fs::{flock, FlockOperation};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// `uname -r`.
    pub kernel: String,
    /// The multi-gen LRU is on; none: the kernel has none.
    pub multi_gen: Option<bool>,
    /// Huge pages of anonymous memory: always, madvise or never.
    pub huge_pages: Option<String>,
    /// Swap areas: name and KiB.
    pub swap: Vec<(String, u64)>,
    /// vm.swappiness, or the group's own.
    pub swappiness: Option<u16>,
    /// File system of the files.
    pub file_system: String,
    /// Its device, and what that reads ahead, KiB.
    pub device: Option<(String, u64)>,
    /// Faults of mapped files read nothing ahead either: it could be switched off for our descriptors.
    pub quiet_faults: bool,
    /// Bytes mapped round a fault, where that can be read.
    pub fault_around: Option<u64>,
    /// The kernel's own monitor of accesses (DAMON) is on.
    pub monitored: bool,
    /// CPUs, and KiB of memory.
    pub size: (usize, u64),
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// "always [madvise] never" is `madvise`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

impl Description {
    /// Of this machine, with files in `dir`.
    pub fn here(dir: &Path) -> Self {
        let uname = rustix::system::uname();
        let enabled = read("/sys/kernel/mm/lru_gen/enabled");
        let bits = |text: String| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let meminfo = read("/proc/meminfo").unwrap_or_default();
        let total = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"));
        let total = total.and_then(|t| t.trim().trim_end_matches(" kB").parse().ok());
        Self {
            kernel: uname.release().to_string_lossy().into_owned(),
            multi_gen: enabled.and_then(bits).map(|bits| bits & 1 == 1),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|t| chosen(&t)),
            swap: read("/proc/swaps").map(|t| swaps(&t)).unwrap_or_default(),
            swappiness: read("/proc/sys/vm/swappiness").and_then(|t| t.parse().ok()),
            file_system: file_system(dir),
            device: device(dir),
            quiet_faults: false,
            fault_around: read("/sys/kernel/debug/fault_around_bytes").and_then(|t| t.parse().ok()),
            monitored: read("/sys/module/damon_stat/parameters/enabled").as_deref() == Some("Y"),
            size: (
                std::thread::available_parallelism().map_or(1, usize::from),
                total.unwrap_or(0),
            ),
        }
    }

    /// What is otherwise in this group: version 1 has a swappiness for each.
    pub(crate) fn in_group(&mut self, group: &Cgroup) {
        let own = group.read("memory.swappiness");
        let own = own.and_then(|text| text.trim().parse().ok());
        self.swappiness = own.or(self.swappiness);
    }

    /// How a table calls it: the kernel and its policy.
    pub fn label(&self) -> String {
        let policy = match self.multi_gen {
            Some(true) => "multi-gen",
            _ => "classic",
        };
        format!("{} {policy}", self.kernel)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let multi_gen = match self.multi_gen {
            Some(true) => "on",
            Some(false) => "off",
            None => "not built in",
        };
        let (cpus, kib) = self.size;
        write!(f, "Linux {}, multi-gen LRU {multi_gen}", self.kernel)?;
        let s = if cpus == 1 { "" } else { "s" };
        write!(f, "; {cpus} CPU{s}, {:.1} GiB", kib as f64 / 1048576.0)?;
        match &self.huge_pages {
            Some(word) => write!(f, "; huge pages {word}")?,
            None => write!(f, "; no huge pages")?,
        }
        match self.swap.as_slice() {
            [] => write!(f, "; no swap")?,
            areas => {
                let area = |(name, kib): &(String, u64)| format!("{name} {}", area_size(*kib));
                write!(
                    f,
                    "; swap {}",
                    areas.iter().map(area).collect::<Vec<_>>().join(", ")
                )?;
            }
        }
        if let Some(n) = self.swappiness {
            write!(f, ", swappiness {n}")?;
        }
        write!(f, "; files on {}", self.file_system)?;
        if let Some((name, kb)) = &self.device {
            write!(f, ", {name}")?;
            if !self.quiet_faults {
                write!(f, ", which reads {kb} KiB round a fault")?;
            }
        }
        match self.fault_around {
            Some(bytes) => write!(f, "; {} KiB mapped round a fault", bytes / 1024),
            None => write!(
                f,
                "; how much is mapped around a fault cannot be read without debugfs, but is 64 KiB by default"
            ),
        }?;
        match self.monitored {
            true => write!(f, "; accesses monitored by DAMON"),
            false => Ok(()),
        }
    }
}

/// The first page of an area says what it is, so its size is a little less than a whole number of MiB: 5,116 KiB of 5
/// MiB. From 100 MiB on that is less than a digit.
fn area_size(kib: u64) -> String {
    match kib {
        kib if kib >= 100 << 10 => format!("{:.0} MiB", kib as f64 / 1024.0),
        kib => format!("{kib} KiB"),
    }
}

fn swaps(text: &str) -> Vec<(String, u64)> {
    let area = |line: &str| {
        let mut fields = line.split_whitespace();
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    text.lines().skip(1).filter_map(area).collect()
}

fn file_system(dir: &Path) -> String {
    // The longest mount point that holds it.
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut best = (0, "unknown");
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(at), Some(kind)) = (fields.next(), fields.next()) else {
            continue;
        };
        if dir.starts_with(at) && at.len() >= best.0 {
            best = (at.len(), kind);
        }
    }
    best.1.to_owned()
}

/// No read-ahead for descriptors that are opened while it is there: the setting of the device is taken over
/// when a file is opened, so that nobody else's change. It takes privilege.
#[derive(Debug)]
pub(crate) struct NoReadAhead {
    setting: String,
    was: String,
    /// Others who want the same wait: what they would find is not what was there.
    _lock: File,
}

impl NoReadAhead {
    /// For files in `dir`.
    pub fn begin(dir: &Path) -> Option<Self> {
        let setting = read_ahead(&number(dir)?);
        let lock = File::open(&setting).ok()?;
        flock(&lock, FlockOperation::LockExclusive).ok()?;
        let was = read(&setting)?;
        fs::write(&setting, "0").ok()?;
        Some(Self {
            setting,
            was,
            _lock: lock,
        })
    }
}

impl Drop for NoReadAhead {
    fn drop(&mut self) {
        let _ = fs::write(&self.setting, &self.was);
    }
}

/// The device of `dir`: MAJOR:MINOR.
pub(crate) fn number(dir: &Path) -> Option<String> {
    let dev = fs::metadata(dir).ok()?.dev();
    Some(format!(
        "{}:{}",
        rustix::fs::major(dev),
        rustix::fs::minor(dev)
    ))
}

fn read_ahead(number: &str) -> String {
    format!("/sys/class/bdi/{number}/read_ahead_kb")
}

fn device(dir: &Path) -> Option<(String, u64)> {
    let number = number(dir)?;
    let kb = read(&read_ahead(&number))?;
    let link = fs::read_link(format!("/sys/dev/block/{number}")).ok()?;
    let name = link.file_name()?.to_string_lossy().into_owned();
    Some((name, kb.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_area_is_not_rounded_down() {
        for (kib, said) in [
            (5_116, "5116 KiB"),
            (111_612, "109 MiB"),
            (8_388_604, "8192 MiB"),
        ] {
            assert_eq!(area_size(kib), said);
        }
    }

    /// Runs side by side would otherwise leave what they found in the middle of each other.
    #[test]
    fn read_ahead_is_as_it_was_after_several_at_once() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let setting = || number(dir).and_then(|n| read(&read_ahead(&n)));
        let before = setting();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        if let Some(quiet) = NoReadAhead::begin(dir) {
                            assert_eq!(setting().as_deref(), Some("0"));
                            std::thread::yield_now();
                            drop(quiet);
                        }
                    }
                });
            }
        });
        assert_eq!(setting(), before);
    }

    #[test]
    fn this_machine_describes_itself() {
        let here = Description::here(Path::new("/"));
        assert!(
            !here.kernel.is_empty() && here.size.0 > 0 && here.size.1 > 0,
            "{here:?}"
        );
        assert!(here.to_string().contains(&here.kernel));
    }

    #[test]
    fn settings_are_words() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise".into()));
        assert_eq!(chosen("always"), None);
        let text = "Filename Type Size Used Priority\n/dev/zram0 partition 1024 0 100\n";
        assert_eq!(swaps(text), [("/dev/zram0".into(), 1024)]);
    }
}
