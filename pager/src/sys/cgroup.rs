//! What memory the process may have: the limit of its memory cgroup (of either version), and the
//! machine's memory; and where pressure on it is told.

use std::io;
use std::path::{Path, PathBuf};

/// The lowest memory limit of the process's cgroup and of those above it, in bytes; none if there is
/// none.
pub fn limit() -> Option<u64> {
    Group::of(Path::new("/"))?.limit()
}

/// Bytes of memory of the machine.
///
/// # Errors
/// `/proc/meminfo` cannot be read.
pub fn machine() -> io::Result<u64> {
    let all = std::fs::read_to_string("/proc/meminfo")?;
    let total = all.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = total.and_then(|t| t.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.map(|k| k * 1024)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo: no MemTotal"))
}

/// Where stalls for want of memory are told: by the process's cgroup, else by the machine.
pub fn pressure() -> PathBuf {
    let own = Group::of(Path::new("/")).filter(|g| g.unified);
    let file = own.map(|g| g.dir.join("memory.pressure"));
    let told = file.filter(|f| std::fs::read(f).is_ok());
    told.unwrap_or_else(|| "/proc/pressure/memory".into())
}

/// A cgroup that can limit memory.
#[derive(Debug)]
struct Group {
    dir: PathBuf,
    /// Where its tree is mounted.
    top: PathBuf,
    /// Version 2.
    unified: bool,
}

impl Group {
    /// That of this process. `root`: what to take for `/`.
    fn of(root: &Path) -> Option<Self> {
        let read = |p: &str| std::fs::read_to_string(root.join(p)).ok();
        let (groups, mounts) = (read("proc/self/cgroup")?, read("proc/self/mountinfo")?);
        let named = |unified: bool| {
            let line = groups.lines().find_map(|l| {
                let mut parts = l.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                let is = match unified {
                    true => controllers.is_empty(),
                    false => controllers.split(',').any(|c| c == "memory"),
                };
                is.then_some(path)
            })?;
            let (inside, top) = mounts.lines().find_map(|l| mount(l, unified))?;
            // In a namespace of its own the path may begin above what is mounted.
            let below = Path::new(line)
                .strip_prefix(inside)
                .unwrap_or(Path::new(""));
            let below = below.strip_prefix("/").unwrap_or(below);
            let top = root.join(top.trim_start_matches('/'));
            let dir = top.join(below);
            Some(Self { dir, top, unified })
        };
        named(false).or_else(|| named(true))
    }

    fn limit(&self) -> Option<u64> {
        let file = match self.unified {
            true => "memory.max",
            false => "memory.limit_in_bytes",
        };
        let up = self
            .dir
            .ancestors()
            .take_while(|d| d.starts_with(&self.top));
        let limits = up.filter_map(|d| {
            let text = std::fs::read_to_string(d.join(file)).ok()?;
            // "max" is no limit, and neither is what version 1 says where none is set.
            text.trim().parse::<u64>().ok().filter(|&n| n < NO_LIMIT)
        });
        limits.min()
    }
}

/// Above any memory.
const NO_LIMIT: u64 = 1 << 60;

/// Of a line of `mountinfo`, the part of the tree that is mounted and where, if it is the tree.
fn mount(line: &str, unified: bool) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let is = match unified {
        true => kind == "cgroup2",
        false => kind == "cgroup" && options.split(',').any(|o| o == "memory"),
    };
    let mut left = left.split(' ').skip(3);
    let (inside, at) = (left.next()?, left.next()?);
    is.then_some((inside, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        fn new(cgroup: &str, mountinfo: &str, limits: &[(&str, &str)]) -> Self {
            use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
            static N: AtomicU32 = AtomicU32::new(0);
            let n = N.fetch_add(1, Relaxed);
            let name = format!("coldset-cgroup-{}-{n}", std::process::id());
            let t = Self(std::env::temp_dir().join(name));
            t.write("proc/self/cgroup", cgroup);
            t.write("proc/self/mountinfo", mountinfo);
            limits.iter().for_each(|(f, v)| t.write(f, v));
            t
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn limit(&self) -> Option<u64> {
            Group::of(&self.0)?.limit()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[cfg_attr(miri, ignore)]
    #[test]
    fn the_lowest_limit_on_the_way_up_counts() {
        let t = Tree::new(
            "0::/a/b\n",
            V2,
            &[
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
                ("memory.max", "5\n"),
            ],
        );
        assert_eq!(t.limit(), Some(1 << 30));
        t.write("sys/fs/cgroup/a/b/memory.max", "4096\n");
        assert_eq!(t.limit(), Some(4096));
        let none = Tree::new("0::/\n", V2, &[("sys/fs/cgroup/memory.max", "max\n")]);
        assert_eq!(none.limit(), None);
    }

    #[cfg_attr(miri, ignore)]
    #[test]
    fn the_first_version_and_a_mount_of_a_part_of_the_tree() {
        let t = Tree::new(
            "9:cpu,memory:/docker/x/y\n0::/\n",
            "40 30 0:31 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            &[
                (
                    "sys/fs/cgroup/memory/y/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"),
            ],
        );
        assert_eq!(t.limit(), Some(64 << 20));
    }

    #[cfg_attr(miri, ignore)]
    #[test]
    fn without_cgroups_there_is_no_limit() {
        assert_eq!(Tree::new("", "", &[]).limit(), None);
        assert!(machine().unwrap() > 1 << 20);
    }
}
