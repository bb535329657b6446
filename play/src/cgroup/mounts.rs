//! Where the memory controller is mounted, and where a group can be made there.

use super::write;
use crate::PlayError;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the cgroup interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A hierarchy of the memory controller's own.
    V1,
    /// The unified hierarchy.
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// The hierarchy that has the memory controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Where it is mounted.
    pub root: PathBuf,
    /// The group of this process, below the mount point.
    pub own: PathBuf,
}

impl Hierarchy {
    /// The hierarchy of this machine.
    ///
    /// # Errors
    /// None is mounted.
    pub fn find() -> Result<Self, PlayError> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let has_memory = |root: &Path| {
            let controllers = fs::read_to_string(root.join("cgroup.controllers"));
            controllers.is_ok_and(|c| c.split_whitespace().any(|c| c == "memory"))
        };
        let mounts = read("/proc/self/mountinfo");
        Self::parse(&mounts, &read("/proc/self/cgroup"), has_memory).ok_or(PlayError::NoCgroup)
    }

    /// From the texts of `mountinfo` and `cgroup`. `has_memory`: the unified hierarchy mounted there has the
    /// controller.
    fn parse(mounts: &str, groups: &str, has_memory: impl Fn(&Path) -> bool) -> Option<Self> {
        let mounted = mounts.lines().filter_map(Mount::parse);
        for mount in mounted {
            let version = match mount.kind {
                "cgroup2" if has_memory(Path::new(mount.at)) => Version::V2,
                "cgroup" if mount.options.split(',').any(|o| o == "memory") => Version::V1,
                _ => continue,
            };
            // "4:memory:/path", "0::/path"
            let own = groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                let ours = match version {
                    Version::V1 => controllers.split(',').any(|c| c == "memory"),
                    Version::V2 => controllers.is_empty(),
                };
                ours.then_some(path)
            });
            // What is mounted may be a part of the hierarchy.
            let own = own.unwrap_or("/");
            let own = own.strip_prefix(mount.part).unwrap_or(own);
            return Some(Self {
                version,
                root: mount.at.into(),
                own: own.trim_start_matches('/').into(),
            });
        }
        None
    }

    /// A group in which groups can be made. Version 2 allows that only where no process is: beside the
    /// group of this process, or, if only that one is ours to change, in it, once the process has
    /// moved to a group below.
    ///
    /// # Errors
    /// There is none.
    pub fn place(&self) -> Result<PathBuf, PlayError> {
        let own = self.root.join(&self.own);
        let own = if own.is_dir() { own } else { self.root.clone() };
        if self.version == Version::V1 {
            return Ok(own);
        }
        let enable = |dir: &Path| write(&dir.join("cgroup.subtree_control"), "+memory");
        let beside = match own == self.root {
            true => own.as_path(),
            false => own.parent().unwrap_or(&self.root),
        };
        if enable(beside).is_ok()
            && rustix::fs::access(beside, rustix::fs::Access::WRITE_OK).is_ok()
        {
            return Ok(beside.to_owned());
        }
        let leaf = own.join("coldset-play-self");
        if !leaf.is_dir() {
            fs::create_dir(&leaf).map_err(PlayError::denied(&leaf))?;
        }
        write(&leaf.join("cgroup.procs"), &std::process::id().to_string())?;
        enable(&own)?;
        Ok(own)
    }
}

/// A line of `mountinfo`.
struct Mount<'a> {
    /// The part of the file system that is mounted.
    part: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (part, at) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, _source, options) = (after.next()?, after.next()?, after.next()?);
        Some(Self {
            part: part.trim_end_matches('/'),
            at,
            kind,
            options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
30 29 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu
32 30 0:28 /box /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 none rw
";

    #[test]
    fn version_1_is_found_below_what_is_mounted() {
        let groups = "4:memory:/box/work\n1:cpu:/\n0::/\n";
        let found = Hierarchy::parse(V1, groups, |_| false).unwrap();
        let expected = Hierarchy {
            version: Version::V1,
            root: "/sys/fs/cgroup/memory".into(),
            own: "work".into(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn version_2_counts_if_it_has_the_controller() {
        let mounts = "33 30 0:29 / /sys/fs/cgroup rw - cgroup2 none rw\n";
        let groups = "0::/user.slice/a.scope\n";
        assert_eq!(Hierarchy::parse(mounts, groups, |_| false), None);
        let found = Hierarchy::parse(mounts, groups, |_| true).unwrap();
        assert_eq!(found.version, Version::V2);
        assert_eq!(found.own, Path::new("user.slice/a.scope"));
        assert_eq!(Hierarchy::parse("", groups, |_| true), None);
        assert_eq!(Hierarchy::parse("x y\n - \n", groups, |_| true), None);
    }
}
