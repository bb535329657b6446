//! One swap area: a bitmap of slots in clusters (`docs/rules/swap.md`).

use std::collections::VecDeque;

/// Which slots of an area are in use, and where to look for free ones.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Area {
    pub(super) priority: i32,
    slots: u32,
    cluster: u32,
    /// As far as slots have been used.
    used: Vec<u64>,
    used_in: Vec<u32>,
    /// Wholly free clusters, oldest first. Entries taken by a scan meanwhile are skipped.
    free_clusters: VecDeque<u32>,
    /// Next slot of each CPU in the cluster it fills.
    current: Vec<Option<u32>>,
    scan_at: u32,
    free: u32,
    /// Free slots among those that have been used come first, as long as they are half of those.
    dense: bool,
}

impl Area {
    pub(super) fn new(priority: i32, slots: u32, cluster: u32) -> Self {
        let clusters = slots.div_ceil(cluster);
        Self {
            priority,
            slots,
            cluster,
            used: Vec::new(),
            used_in: vec![0; clusters as usize],
            free_clusters: (0..clusters).collect(),
            current: Vec::new(),
            scan_at: 0,
            free: slots,
            dense: false,
        }
    }

    /// As [`SwapSlots::dense`](super::slots::SwapSlots::dense) says.
    pub(super) fn make_dense(&mut self) {
        self.dense = true;
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn is_used(&self, slot: u32) -> bool {
        let word = self.used.get(slot as usize / 64);
        word.is_some_and(|w| w >> (slot % 64) & 1 == 1)
    }

    /// Takes a slot for a CPU and counts the slots a scan looked at: from the CPU's own cluster, a
    /// free cluster, or partly used ones.
    pub(super) fn take(&mut self, cpu: usize, scanned: &mut u64) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        if self.current.len() <= cpu {
            self.current.resize(cpu + 1, None);
        }
        let slot = self
            .next_of_current(cpu)
            .or_else(|| self.scan_half_free(scanned))
            .or_else(|| self.pop_free_cluster(1).map(|c| c * self.cluster))
            .or_else(|| self.scan(self.used_in.len() as u32, scanned))
            .expect("an area with free slots has one to give");
        self.mark(slot);
        self.current[cpu] = Some(slot + 1);
        Some(slot)
    }

    /// Takes a whole free cluster of exactly `size` slots, aligned.
    pub(super) fn take_cluster(&mut self, size: u32) -> Option<u32> {
        if size != self.cluster {
            return None;
        }
        let first = self.pop_free_cluster(size)? * size;
        (first..first + size).for_each(|s| self.mark(s));
        Some(first)
    }

    pub(super) fn release(&mut self, slot: u32) {
        self.used[slot as usize / 64] &= !(1 << (slot % 64));
        self.free += 1;
        let cluster = slot / self.cluster;
        self.used_in[cluster as usize] -= 1;
        // Where what has been used comes first, a scan finds it, and the list has what has never been used.
        if self.used_in[cluster as usize] == 0 && !self.dense {
            self.free_clusters.push_back(cluster);
        }
    }

    fn mark(&mut self, slot: u32) {
        let word = slot as usize / 64;
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        self.used[word] |= 1 << (slot % 64);
        self.used_in[(slot / self.cluster) as usize] += 1;
        self.free -= 1;
    }

    fn end_of(&self, cluster: u32) -> u32 {
        ((cluster + 1) * self.cluster).min(self.slots)
    }

    /// The next free slot of the cluster the CPU fills; a CPU leaves its cluster at its end.
    fn next_of_current(&mut self, cpu: usize) -> Option<u32> {
        let next = self.current[cpu].take()?;
        let end = self.end_of((next - 1) / self.cluster);
        (next..end).find(|&s| !self.is_used(s))
    }

    /// The oldest wholly free cluster of at least `size` slots.
    fn pop_free_cluster(&mut self, size: u32) -> Option<u32> {
        // A cluster may be listed though a scan has used it since, and listed twice after that.
        self.free_clusters
            .retain(|&c| self.used_in[c as usize] == 0);
        let fits = |&c: &u32| ((c + 1) * self.cluster).min(self.slots) - c * self.cluster >= size;
        let at = self.free_clusters.iter().position(fits)?;
        self.free_clusters.remove(at)
    }

    /// A slot among those that have been used, if that comes first.
    fn scan_half_free(&mut self, scanned: &mut u64) -> Option<u32> {
        let ever = (self.used.len() as u32 * 64).min(self.slots);
        let used = self.slots - self.free;
        if !self.dense || used > ever / 2 {
            return None;
        }
        self.scan(ever.div_ceil(self.cluster), scanned)
    }

    /// Looks through the first so many clusters for free slots, from where the last scan stopped.
    fn scan(&mut self, clusters: u32, scanned: &mut u64) -> Option<u32> {
        if clusters == 0 {
            return None;
        }
        if self.scan_at / self.cluster >= clusters {
            self.scan_at = 0;
        }
        let first = self.scan_at / self.cluster;
        for i in 0..=clusters {
            let cluster = (first + i) % clusters;
            let (start, end) = (cluster * self.cluster, self.end_of(cluster));
            if self.used_in[cluster as usize] == end - start {
                continue;
            }
            let from = if i == 0 { self.scan_at } else { start };
            for slot in from..end {
                *scanned += 1;
                if !self.is_used(slot) {
                    self.scan_at = if slot + 1 < self.slots { slot + 1 } else { 0 };
                    return Some(slot);
                }
            }
        }
        None
    }
}
