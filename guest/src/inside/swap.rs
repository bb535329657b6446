//! Swap on zram.

#![allow(unsafe_code)]

use super::wait_for;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

const DEVICE: &str = "/dev/zram0";
const PAGE: usize = 4096;

/// Makes `mib` MiB of it, and uses them.
pub(super) fn zram(mib: u64) -> Result<(), String> {
    wait_for(DEVICE)?;
    let size = "/sys/block/zram0/disksize";
    fs::write(size, format!("{mib}M")).map_err(|e| format!("{size}: {e}"))?;
    make(mib << 20).map_err(|e| format!("{DEVICE}: {e}"))?;
    let device = c"/dev/zram0";
    // SAFETY: the name is a C string, and nothing of this process is touched.
    match unsafe { libc::swapon(device.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(format!("swap on {DEVICE}: {}", io::Error::last_os_error())),
    }
}

/// The first page of a swap area: version and last page, and at its end what it is.
fn make(bytes: u64) -> io::Result<()> {
    let mut page = [0u8; PAGE];
    let last = (bytes / PAGE as u64 - 1) as u32;
    page[1024..1028].copy_from_slice(&1u32.to_ne_bytes());
    page[1028..1032].copy_from_slice(&last.to_ne_bytes());
    page[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
    let device = OpenOptions::new().write(true).open(DEVICE)?;
    device.write_all_at(&page, 0)?;
    device.sync_all()
}
