//! What is behind the pool's one lock.
//!
//! The lock is held for bookkeeping only, never over I/O, a copy or a system call.

use crate::policy::Policy;
use crate::region::RegionInner;
use coldset_engine::{MemcgId, MmId, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The locked part of a pool.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) policy: Policy,
    pub(crate) regions: BTreeMap<ObjectId, Arc<RegionInner>>,
    /// Anonymous bytes promised to regions.
    pub(crate) promised: u64,
    /// Paths of the groups, without the root's.
    pub(crate) group_names: BTreeMap<MemcgId, String>,
}

impl Core {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            regions: BTreeMap::new(),
            promised: 0,
            group_names: BTreeMap::new(),
        }
    }

    /// The region of an address space.
    pub(crate) fn region_of(&self, mm: MmId) -> Option<Arc<RegionInner>> {
        let mut all = self.regions.values();
        all.find(|r| r.book.mm == mm).cloned()
    }
}
