//! Memory cgroups: the hierarchy found, a group of our own made, limited, entered and removed.

mod mounts;

pub use mounts::{Hierarchy, Version};

use crate::PlayError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How our groups are called: this and the process that made them.
const PREFIX: &str = "coldset-play-";

/// Bytes of protection and limits; none: as the kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// `memory.max`; version 1: `memory.limit_in_bytes`.
    pub max: Option<u64>,
    /// `memory.high`; version 2 only.
    pub high: Option<u64>,
    /// `memory.low`; version 2 only.
    pub low: Option<u64>,
    /// `memory.swap.max`; version 1: what `memory.memsw.limit_in_bytes` allows beyond the limit.
    pub swap_max: Option<u64>,
}

/// A group. Made by us, it is removed when it is dropped.
#[derive(Debug)]
pub struct Cgroup {
    version: Version,
    path: PathBuf,
    ours: bool,
}

impl Cgroup {
    /// A new group below the place where this process may make one.
    ///
    /// # Errors
    /// No memory controller, or no permission to make a group.
    pub fn create() -> Result<Self, PlayError> {
        let hierarchy = Hierarchy::find()?;
        let parent = hierarchy.place()?;
        sweep(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(PlayError::denied(&path))?;
        Ok(Self {
            version: hierarchy.version,
            path,
            ours: true,
        })
    }

    /// A group that is there.
    ///
    /// # Errors
    /// It is no memory cgroup.
    pub fn at(path: &Path) -> Result<Self, PlayError> {
        let has = |file: &str| path.join(file).exists();
        let version = match (has("memory.max"), has("memory.limit_in_bytes")) {
            (true, _) => Version::V2,
            (_, true) => Version::V1,
            _ => {
                let text = "no memory cgroup here (neither memory.max nor memory.limit_in_bytes)";
                return Err(PlayError::Plan(format!("{}: {text}", path.display())));
            }
        };
        Ok(Self {
            version,
            path: path.to_owned(),
            ours: false,
        })
    }

    /// Which version it is of.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets what is given.
    ///
    /// # Errors
    /// A value the kernel refuses, or one that this version does not have.
    pub fn limit(&self, limits: Limits) -> Result<(), PlayError> {
        let v1 = self.version == Version::V1;
        let none = |name: &str| {
            PlayError::Plan(format!(
                "{name}: cgroup {} has no such setting; leave it out",
                self.version
            ))
        };
        if let Some(max) = limits.max {
            let file = if v1 {
                "memory.limit_in_bytes"
            } else {
                "memory.max"
            };
            self.write(file, &max.to_string())?;
            if let (true, Some(swap)) = (v1, limits.swap_max) {
                let both = (max + swap).to_string();
                self.write("memory.memsw.limit_in_bytes", &both)?;
            }
        }
        if let (false, Some(swap)) = (v1, limits.swap_max) {
            self.write("memory.swap.max", &swap.to_string())?;
        }
        for (name, file, value) in [
            ("high", "memory.high", limits.high),
            ("low", "memory.low", limits.low),
        ] {
            match value {
                Some(_) if v1 => return Err(none(name)),
                Some(bytes) => self.write(file, &bytes.to_string())?,
                None => {}
            }
        }
        Ok(())
    }

    /// Moves a process into it. What the process has charged so far stays where it is.
    ///
    /// # Errors
    /// No permission.
    pub fn enter(&self, pid: u32) -> Result<(), PlayError> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// A file of the group, if there is one.
    pub fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }

    /// Bytes in use.
    pub fn usage(&self) -> Option<u64> {
        let file = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        self.read(file)?.trim().parse().ok()
    }

    /// Tasks that it has killed.
    pub fn kills(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = self.read(file).unwrap_or_default();
        let value = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
        text.lines().find_map(value).unwrap_or(0)
    }

    fn write(&self, file: &str, value: &str) -> Result<(), PlayError> {
        write(&self.path.join(file), value)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if self.ours {
            remove(&self.path);
        }
    }
}

/// Writes to a file of a cgroup.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), PlayError> {
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => PlayError::Denied {
            path: path.to_owned(),
            source,
        },
        _ => PlayError::Refused {
            path: path.to_owned(),
            value: value.to_owned(),
            source,
        },
    };
    fs::write(path, value).map_err(refused)
}

/// Removes groups that runs have left that were killed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if abandoned(&entry.file_name().to_string_lossy(), PREFIX) {
            remove(&entry.path());
        }
    }
}

/// `name` is this prefix and a process that is no more, whatever follows.
pub(crate) fn abandoned(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else {
        return false;
    };
    let pid = rest.split(|c: char| !c.is_ascii_digit()).next();
    let pid = pid.and_then(|digits| digits.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

/// Kills what runs in a group and below, and removes it. It can take a moment until the killed are gone.
fn remove(path: &Path) {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                remove(&entry.path());
            }
        }
    }
    let end = Instant::now() + Duration::from_secs(10);
    while fs::remove_dir(path).is_err() && path.exists() && Instant::now() < end {
        let procs = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.lines().filter_map(|p| p.parse().ok()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_the_dead_are_abandoned() {
        let own = format!("{PREFIX}{}", std::process::id());
        assert!(!abandoned(&own, PREFIX) && !abandoned(&format!("{own}-files"), PREFIX));
        assert!(abandoned("coldset-play-4194305", PREFIX));
        assert!(abandoned("coldset-play-4194305-files", PREFIX));
        for other in ["coldset-play-", "coldset-play-x", "user.slice", ""] {
            assert!(!abandoned(other, PREFIX), "{other}");
        }
    }
}
