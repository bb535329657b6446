//! Memory cgroups as an oracle: what the kernel counts of a process, and what it allows.

use super::child;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A memory cgroup of this test's own, of either version.
pub struct Cgroup(PathBuf, bool);

impl Cgroup {
    /// Why not, if none can be made.
    pub fn new() -> Result<Self, String> {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Relaxed);
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (parent, v1) = match v1.join("memory.max_usage_in_bytes").exists() {
            true => (v1, true),
            false => (Path::new("/sys/fs/cgroup"), false),
        };
        let dir = parent.join(format!("coldset-{}-{n}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let c = Self(dir, v1);
        match c.read_peak() {
            Some(_) => Ok(c),
            None => Err(format!("{} does not tell its peak", c.0.display())),
        }
    }

    /// Sets its limit in bytes.
    pub fn set_limit(&self, bytes: u64) {
        let file = if self.1 {
            "memory.limit_in_bytes"
        } else {
            "memory.max"
        };
        std::fs::write(self.0.join(file), bytes.to_string()).unwrap();
    }

    /// One of its files.
    pub fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(file)).ok()
    }

    /// The most memory it has had, in bytes.
    pub fn read_peak(&self) -> Option<u64> {
        let file = if self.1 {
            "memory.max_usage_in_bytes"
        } else {
            "memory.peak"
        };
        self.read(file)?.trim().parse().ok()
    }

    /// A shell that joins it and becomes this test, to play a role.
    #[track_caller]
    pub fn command(&self, test: &str, role: &str) -> Command {
        let inner = child::command(test, role);
        let mut c = Command::new("/bin/sh");
        c.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]);
        c.arg(&self.0)
            .arg(inner.get_program())
            .args(inner.get_args());
        let set = |(k, v): (_, Option<_>)| v.map(|v: &std::ffi::OsStr| (k, v));
        c.envs(inner.get_envs().filter_map(set));
        c.stdin(Stdio::piped()).stdout(Stdio::piped());
        c.stderr(Stdio::piped());
        c
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
