//! A disk inside the guest, whose requests take a fixed virtual time: two runs agree.

use super::wait_for;
use rustix::fs::{fadvise, Advice};
use rustix::mount::{mount, MountFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

const DEVICE: &str = "/dev/nullb0";

/// Makes one of `mib` MiB with `ns` a request, and the file system of the virtual disk on it.
pub(super) fn make(mib: u64, ns: u64) -> Result<String, String> {
    let config = "/sys/kernel/config";
    mount("configfs", config, "configfs", MountFlags::empty(), None)
        .map_err(|e| format!("mounting {config}: {e}"))?;
    let folder = format!("{config}/nullb/nullb0");
    fs::create_dir(&folder).map_err(|e| format!("{folder}: {e}"))?;
    for (name, value) in [
        ("size", mib),
        ("memory_backed", 1),
        // Completed by a timer.
        ("irqmode", 2),
        ("completion_nsec", ns),
        ("blocksize", 4096),
        // No request waits for another: a delay, not a rate.
        ("hw_queue_depth", 1024),
        ("power", 1),
    ] {
        let path = format!("{folder}/{name}");
        fs::write(&path, value.to_string()).map_err(|e| format!("{path}: {e}"))?;
    }
    wait_for(DEVICE)?;
    copy("/dev/vda", DEVICE).map_err(|e| format!("{DEVICE}: {e}"))?;
    Ok(DEVICE.into())
}

/// How much is copied before the page cache gives it back.
const PART: u64 = 16 << 20;

/// All blocks, zero or not: the disk takes memory for a block when it is written first, and what it takes later would be taken
/// from the machine whose memory is measured.
fn copy(from: &str, to: &str) -> io::Result<()> {
    let mut from = File::open(from)?;
    let to = OpenOptions::new().write(true).open(to)?;
    let mut block = vec![0; 1 << 16];
    let mut at = 0;
    loop {
        let n = from.read(&mut block)?;
        to.write_all_at(&block[..n], at)?;
        at += n as u64;
        if n == 0 || at % PART < block.len() as u64 {
            to.sync_data()?;
            fadvise(&to, 0, None, Advice::DontNeed)?;
        }
        if n == 0 {
            return Ok(());
        }
    }
}
