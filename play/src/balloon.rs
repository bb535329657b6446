//! Memory of our own that nobody can reclaim, so that only so much of the machine's is free.

use crate::sys::{Map, PAGE};
use crate::zones;
use crate::PlayError;
use rustix::mm::{mlockall, munlockall, MlockAllFlags};
use std::fs;

/// Locked memory, and all that this process has itself: what it holds of the trace would be swapped out, and leave that
/// much more to the workers.
#[derive(Debug)]
pub(crate) struct Balloon {
    _maps: Vec<Map>,
}

/// Pages that a page table maps.
const ENTRIES: u64 = 512;
/// Tries to come to the wanted number: a mapping takes page tables as well, and CPUs give pages back meanwhile.
const TRIES: usize = 16;

impl Balloon {
    /// Takes what is free beyond so many bytes.
    ///
    /// # Errors
    /// Less than that is free; memory that may not be locked.
    pub fn leaving(bytes: u64) -> Result<Self, PlayError> {
        let pages = bytes / PAGE as u64;
        let now_and_later = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        mlockall(now_and_later).map_err(|e| PlayError::Plan(format!("locking memory: {e}")))?;
        let mut maps = Vec::new();
        // What could be reclaimed and is nobody's would be taken for free memory.
        let _ = fs::write("/proc/sys/vm/drop_caches", "3");
        for _ in 0..TRIES {
            let free = free();
            if free < pages && maps.is_empty() {
                return Err(PlayError::Plan(format!(
                    "{free} pages of the machine are free, and {pages} were to be; give it more memory"
                )));
            }
            match free.saturating_sub(pages) {
                0 => break,
                more => {
                    let tables = more / ENTRIES + 2;
                    let more = more.saturating_sub(tables).max(1);
                    let locked = Map::locked(more as usize);
                    maps.push(
                        locked
                            .map_err(|e| PlayError::Plan(format!("locking {more} pages: {e}")))?,
                    );
                }
            }
        }
        Ok(Self { _maps: maps })
    }
}

impl Drop for Balloon {
    fn drop(&mut self) {
        // What is not unlocked now is when the process ends.
        let _ = munlockall();
    }
}

/// Free pages of the machine.
fn free() -> u64 {
    zones::read().iter().map(|z| z.free + z.kept).sum()
}
