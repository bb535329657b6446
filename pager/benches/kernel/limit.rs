//! A memory cgroup of the kernel's, version 1 or 2.

use std::fs;
use std::io;
use std::path::PathBuf;

/// A memory cgroup, removed when dropped.
#[derive(Debug)]
pub struct Limit {
    dir: PathBuf,
    version: u8,
}

/// Where memory cgroups are made.
fn root() -> io::Result<(PathBuf, u8)> {
    let v1 = PathBuf::from("/sys/fs/cgroup/memory");
    if v1.join("memory.limit_in_bytes").exists() {
        return Ok((v1, 1));
    }
    let v2 = PathBuf::from("/sys/fs/cgroup");
    let text = fs::read_to_string(v2.join("cgroup.controllers"))?;
    if !text.split_whitespace().any(|c| c == "memory") {
        return Err(io::Error::other("the cgroup has no memory controller"));
    }
    // Children have it only if it is handed down; a cgroup with processes may refuse.
    fs::write(v2.join("cgroup.subtree_control"), "+memory")?;
    Ok((v2, 2))
}

impl Limit {
    /// A new cgroup; `bytes`: what its processes may use.
    pub fn new(bytes: Option<u64>) -> io::Result<Self> {
        let (root, version) = root()?;
        let dir = root.join(format!("coldset-bench-{}", std::process::id()));
        // Left behind by a run that was killed.
        let _ = fs::remove_dir(&dir);
        fs::create_dir(&dir)?;
        let limit = Self { dir, version };
        if let Some(bytes) = bytes {
            fs::write(limit.file(), bytes.to_string())?;
        }
        Ok(limit)
    }

    /// Version of the interface.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Where it says what its processes may use, bytes.
    pub fn file(&self) -> PathBuf {
        self.dir
            .join(["memory.limit_in_bytes", "memory.max"][usize::from(self.version) - 1])
    }

    /// Where a process joins.
    pub fn procs(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// The most it has held so far, bytes.
    pub fn peak(&self) -> Option<u64> {
        let file = ["memory.max_usage_in_bytes", "memory.peak"][usize::from(self.version) - 1];
        let text = fs::read_to_string(self.dir.join(file)).ok()?;
        text.trim().parse().ok()
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // The last process may not have been reaped by its cgroup yet.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("bench: {} could not be removed", self.dir.display());
    }
}
