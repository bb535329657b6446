//! Swap in compressed memory, for the kernel's anonymous arm.

use rustix::process::getuid;
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A zram device in use as swap; given back when dropped.
#[derive(Debug)]
pub struct Zram {
    number: u32,
    page_cluster: String,
}

const CLUSTER: &str = "/proc/sys/vm/page-cluster";

impl Zram {
    /// A device of `bytes` bytes with lz4, as the only swap of the machine, without read-ahead.
    pub fn new(bytes: u64) -> io::Result<Self> {
        if !getuid().is_root() {
            return Err(io::Error::other("a zram device needs root"));
        }
        if fs::read_to_string("/proc/swaps")?.lines().count() > 1 {
            return Err(io::Error::other("the machine has swap already: swapoff -a"));
        }
        let number = fs::read_to_string("/sys/class/zram-control/hot_add")?;
        let number = number.trim().parse().map_err(io::Error::other)?;
        let page_cluster = fs::read_to_string(CLUSTER)?;
        let zram = Self {
            number,
            page_cluster,
        };
        let sys = |file: &str| format!("/sys/block/zram{number}/{file}");
        fs::write(sys("comp_algorithm"), "lz4")?;
        fs::write(sys("disksize"), bytes.to_string())?;
        let device = zram.device();
        let made = Command::new("mkswap").arg(&device).output()?;
        if !made.status.success() {
            return Err(io::Error::other(format!("mkswap {device} failed")));
        }
        let path = CString::new(device).expect("no NUL");
        // SAFETY: a path that is a C string, and no flags.
        if unsafe { libc::swapon(path.as_ptr(), 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        fs::write(CLUSTER, "0")?;
        Ok(zram)
    }

    /// Where it says what it takes.
    pub fn stat(&self) -> PathBuf {
        format!("/sys/block/zram{}/mm_stat", self.number).into()
    }

    fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let path = CString::new(self.device()).expect("no NUL");
        // SAFETY: a path that is a C string. Fails, without harm, if it never became swap.
        unsafe { libc::swapoff(path.as_ptr()) };
        let n = self.number;
        let _ = fs::write(format!("/sys/block/zram{n}/reset"), "1");
        let _ = fs::write("/sys/class/zram-control/hot_remove", n.to_string());
        let _ = fs::write(CLUSTER, &self.page_cluster);
    }
}

/// Memory that a device takes in all, bytes: the third number of `stat`.
pub fn takes(stat: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(stat)?;
    let third = text.split_whitespace().nth(2).and_then(|n| n.parse().ok());
    third.ok_or_else(|| io::Error::other(format!("{}: no third number", stat.display())))
}
