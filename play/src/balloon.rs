//! Memory of our own that nobody can reclaim, so that only so much of the machine's is free.

use crate::sys::{Map, PAGE};
use crate::zones;
use crate::PlayError;
use rustix::mm::{mlockall, munlockall, MlockAllFlags};
use std::collections::BTreeMap;
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
    /// Takes what is free beyond so many bytes, as much of each node as leaves the same in all.
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
            let all: u64 = free.iter().map(|(_, pages)| pages).sum();
            if all < pages && maps.is_empty() {
                return Err(PlayError::Plan(format!(
                    "{all} pages of the machine are free, and {pages} were to be; give it more memory"
                )));
            }
            let surplus = beyond(&free, pages);
            if surplus.is_empty() {
                break;
            }
            for (node, more) in surplus {
                let tables = more / ENTRIES + 2;
                let more = more.saturating_sub(tables).max(1);
                let locked = Map::locked(more as usize, (free.len() > 1).then_some(node));
                maps.push(
                    locked.map_err(|e| PlayError::Plan(format!("locking {more} pages: {e}")))?,
                );
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

/// Free pages of each node.
fn free() -> Vec<(u32, u64)> {
    let mut nodes = BTreeMap::new();
    for z in zones::read() {
        *nodes.entry(z.node as u32).or_default() += z.free + z.kept;
    }
    nodes.into_iter().collect()
}

/// What each node has beyond its part of so many pages. A node with less than that leaves the rest to the others.
fn beyond(free: &[(u32, u64)], pages: u64) -> Vec<(u32, u64)> {
    let mut nodes = free.to_vec();
    nodes.sort_by_key(|(_, free)| *free);
    let (mut left, mut more) = (pages, nodes.len() as u64);
    let surplus = nodes.into_iter().map(|(node, free)| {
        let stay = free.min(left / more);
        (left, more) = (left - stay, more - 1);
        (node, free - stay)
    });
    surplus.filter(|(_, pages)| *pages > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_keeps_its_part() {
        assert_eq!(beyond(&[(0, 100)], 30), [(0, 70)]);
        assert_eq!(beyond(&[(0, 30)], 30), []);
        assert_eq!(beyond(&[(0, 100), (1, 60)], 40), [(1, 40), (0, 80)]);
        assert_eq!(beyond(&[(0, 100), (1, 5)], 40), [(0, 65)]);
        assert_eq!(
            beyond(&[(0, 9), (1, 9), (2, 9)], 10),
            [(0, 6), (1, 6), (2, 5)]
        );
    }
}
