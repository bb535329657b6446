//! Memory cgroups: the hierarchy found, a group of our own made, limited, entered and removed.

mod mounts;
mod settings;
mod tree;

pub use mounts::{Hierarchy, Version};
pub(crate) use tree::Tree;

use crate::leftovers::{own_name, sweep};
use crate::PlayError;
use settings::Settings;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of protection and limits; none: as the kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// `memory.max`; version 1: `memory.limit_in_bytes`.
    pub max: Option<u64>,
    /// Not the group's: what is free of the machine's memory before the first access. The rest is taken by memory that
    /// cannot be reclaimed, so everybody runs short.
    pub free: Option<u64>,
    /// `memory.high`; version 2 only.
    pub high: Option<u64>,
    /// `memory.low`; version 2 only.
    pub low: Option<u64>,
    /// `memory.swap.max`; version 1: what `memory.memsw.limit_in_bytes` allows beyond the limit.
    pub swap_max: Option<u64>,
}

/// A group. When it is dropped, one made by us is removed, and one that was there has its settings back.
#[derive(Debug)]
pub struct Cgroup {
    version: Version,
    path: PathBuf,
    ours: bool,
    /// What a group of somebody else's had before we set it.
    before: Settings,
}

impl Cgroup {
    /// A new group below the place where this process may make one.
    ///
    /// # Errors
    /// No memory controller, or no permission to make a group.
    pub fn create() -> Result<Self, PlayError> {
        let hierarchy = Hierarchy::find()?;
        let parent = hierarchy.place()?;
        Self::make(hierarchy.version, &parent, &own_name())
    }

    /// A new group below this one, for a part of what it has. On version 2 no process may be in this one itself.
    ///
    /// # Errors
    /// As [`Cgroup::create`].
    pub fn below(&self, name: &str) -> Result<Self, PlayError> {
        let name = format!("{}-{name}", own_name());
        Self::make(self.version, &self.path, &name)
    }

    fn make(version: Version, parent: &Path, name: &str) -> Result<Self, PlayError> {
        sweep(parent, remove);
        let path = parent.join(name);
        fs::create_dir(&path).map_err(PlayError::denied(&path))?;
        Ok(Self {
            version,
            path,
            ours: true,
            before: Settings::default(),
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
            before: Settings::default(),
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
    pub fn limit(&mut self, limits: Limits) -> Result<(), PlayError> {
        let version = self.version;
        let v1 = version == Version::V1;
        let none = |name: &str| {
            PlayError::Plan(format!(
                "{name}: cgroup {version} has no such setting; leave it out"
            ))
        };
        if let Some(max) = limits.max {
            let both = limits.swap_max.filter(|_| v1).map(|swap| max + swap);
            self.set_max(max, both)?;
        }
        if let (false, Some(swap)) = (v1, limits.swap_max) {
            self.set("memory.swap.max", swap)?;
        }
        for (name, file, value) in [
            ("high", "memory.high", limits.high),
            ("low", "memory.low", limits.low),
        ] {
            match value {
                Some(_) if v1 => return Err(none(name)),
                Some(bytes) => self.set(file, bytes)?,
                None => {}
            }
        }
        Ok(())
    }

    /// The limit, and, on version 1, that of memory and swap together, which may not be below it: what raises both
    /// begins with that.
    fn set_max(&mut self, max: u64, both: Option<u64>) -> Result<(), PlayError> {
        const BOTH: &str = "memory.memsw.limit_in_bytes";
        let file = self.max_file();
        let Some(both) = both else {
            return match self.number(BOTH).filter(|now| *now < max) {
                None => self.set(file, max),
                Some(now) => Err(PlayError::Plan(format!(
                    "{}: {BOTH} is {now}, below --memory; give --swap-max, or raise it",
                    self.path.display()
                ))),
            };
        };
        match self.number(BOTH) {
            Some(now) if now < max => {
                self.set(BOTH, both)?;
                self.set(file, max)
            }
            _ => {
                self.set(file, max)?;
                self.set(BOTH, both)
            }
        }
    }

    /// Writes a setting. What a group of somebody else's had is kept.
    fn set(&mut self, file: &'static str, value: u64) -> Result<(), PlayError> {
        if !self.ours {
            self.before.keep(&self.path, file);
        }
        self.write(file, &value.to_string())
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

    fn max_file(&self) -> &'static str {
        match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }

    /// Its limit, bytes, as the kernel has it; none: it has none, or cannot be read.
    pub fn max(&self) -> Option<u64> {
        self.number(self.max_file())
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    /// Bytes in use.
    pub fn usage(&self) -> Option<u64> {
        let file = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        self.read(file)?.trim().parse().ok()
    }

    /// Tasks that it has killed, with those of the groups below.
    pub fn kills(&self) -> u64 {
        match self.version {
            Version::V1 => {
                let below = folders(&self.path);
                let own = [self.path.clone()].into_iter();
                own.chain(below)
                    .map(|g| kills(&g.join("memory.oom_control")))
                    .sum()
            }
            Version::V2 => kills(&self.path.join("memory.events")),
        }
    }

    fn write(&self, file: &str, value: &str) -> Result<(), PlayError> {
        write(&self.path.join(file), value)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        match self.ours {
            true => remove(&self.path),
            false => self.before.give_back(&self.path),
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

/// As a file says.
fn kills(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// The groups right below.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    folders.map(|e| e.path()).collect()
}

/// Kills what runs in a group and below, and removes it. It can take a moment until the killed are gone.
fn remove(path: &Path) {
    for below in folders(path) {
        remove(&below);
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
