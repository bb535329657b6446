//! What is behind the pool's one lock.
//!
//! The lock is held for bookkeeping only, never over I/O, a copy or a system call.

use super::moved::Moved;
use crate::policy::Policy;
use crate::region::area::Area;
use crate::store::Swap;
use crate::sys::PAGE;
use coldset_engine::{MemcgId, MmId, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots that kept copies leave free: evictions of several threads at a time need new ones.
fn spare(total: u64) -> u64 {
    (total / 8).min(1024)
}

/// The locked part of a pool.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) policy: Policy,
    regions: BTreeMap<ObjectId, Arc<Area>>,
    /// The object of each address space: one region each.
    objects: BTreeMap<MmId, ObjectId>,
    /// Anonymous bytes promised to regions.
    promised: u64,
    /// Paths of the groups, without the root's.
    pub(crate) group_names: BTreeMap<MemcgId, String>,
    /// What the pager has moved for each group and those below it.
    pub(super) moved: BTreeMap<MemcgId, Moved>,
}

/// Which copies stay in the swap when their pages come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keeps {
    in_memory: bool,
    in_file: bool,
}

impl Keeps {
    /// The copy in a slot stays, with `resident` pages in memory as they are. One in the file does not if compressed memory
    /// would have been [the better place](Swap::came_back_soon): it goes there the next time.
    pub(crate) fn copy(self, swap: &Swap, slot: u32, resident: u64) -> bool {
        match swap.is_in_file(slot) {
            true => self.in_file && !swap.came_back_soon(slot, resident),
            false => self.in_memory,
        }
    }
}

impl Core {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            regions: BTreeMap::new(),
            objects: BTreeMap::new(),
            promised: 0,
            group_names: BTreeMap::new(),
            moved: BTreeMap::new(),
        }
    }

    /// Which pages that come back may keep their copies in the swap, so that they need not be stored again.
    /// A kernel stops that when half of the slots are used, because others may need them. Here it is
    /// known what others may need at most: all of it may be kept if there is room for that, too.
    /// `counts`: copies in compressed memory take memory that pages could have, so none stay there.
    pub(crate) fn keeps_copies(&self, swap: &Swap, counts: bool, memcg: MemcgId) -> Keeps {
        let (used, total) = self.policy.slots();
        let missing = self.promised.saturating_sub(used * PAGE as u64);
        let room = swap.limit().saturating_sub(swap.bytes());
        // The engine takes no anonymous page once no slot is free, not even one whose copy is good.
        let slots_suffice = total * PAGE as u64 >= self.promised && total - used >= spare(total);
        let plenty = missing <= room;
        let in_file = slots_suffice || !self.policy.swap_full(memcg);
        Keeps {
            in_memory: in_file && plenty && !counts,
            in_file,
        }
    }

    /// All regions, oldest first.
    pub(crate) fn regions(&self) -> impl Iterator<Item = &Arc<Area>> {
        self.regions.values()
    }

    /// A region by its name.
    pub(crate) fn region(&self, object: ObjectId) -> Option<&Arc<Area>> {
        self.regions.get(&object)
    }

    /// Anonymous bytes promised to regions.
    pub(crate) fn promised(&self) -> u64 {
        self.promised
    }

    /// Promises so many bytes more.
    pub(crate) fn promise(&mut self, bytes: u64) {
        self.promised += bytes;
    }

    /// A promise ends.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.promised -= bytes;
    }

    /// The region of an address space.
    pub(crate) fn region_of(&self, mm: MmId) -> Option<Arc<Area>> {
        self.regions.get(self.objects.get(&mm)?).cloned()
    }

    /// A region exists.
    pub(crate) fn add(&mut self, region: Arc<Area>) {
        self.objects.insert(region.book().mm, region.book().object);
        self.regions.insert(region.book().object, region);
    }

    /// A region goes away.
    pub(crate) fn remove(&mut self, region: &Area) {
        self.objects.remove(&region.book().mm);
        self.regions.remove(&region.book().object);
    }
}
