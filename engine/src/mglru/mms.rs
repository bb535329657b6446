//! Address spaces as the engine knows them, and what it asks of their page tables
//! (`docs/rules/aging.md`).

use super::EvictableTypes;
use crate::ids::{LruvecId, MemcgId, MmId, NodeId};

/// A young entry that a walk has cleared.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct YoungEntry {
    /// The entry is dirty.
    pub dirty: bool,
    /// Its mapping may be executed.
    pub exec: bool,
}

/// A walk of one address space that the host has been asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// Whose page tables.
    pub mm: MmId,
    /// Lruvec whose folios are looked for.
    pub lruvec: LruvecId,
    /// The memcg it is charged to.
    pub memcg: MemcgId,
    /// Generation the walk belongs to: promoted folios go there.
    pub seq: u64,
    /// Types looked for.
    pub types: EvictableTypes,
    /// Walk every table, whatever the filter or an upper accessed bit says.
    pub force: bool,
    /// Where to begin: 0, or what the host gave as the end of the previous stretch.
    pub at: u64,
}

/// Permission to look around a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookAround {
    /// The victim's lruvec; neighbours of other lruvecs are left alone.
    pub lruvec: LruvecId,
    /// The reclaimer has a walk context: neighbours are promoted instead of marked.
    pub walk_context: bool,
}

/// An address space as the engine knows it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct MmInfo {
    memcg: MemcgId,
    /// Nodes whose walks have not taken it since it ran, one bit each.
    ran: u64,
    /// Order of creation, to tell address spaces added after a pass.
    added: usize,
    alive: bool,
}

/// All address spaces, and the list of each memcg in order of creation.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct MmRegistry {
    all: Vec<MmInfo>,
    lists: Vec<Vec<MmId>>,
}

impl MmRegistry {
    /// A new address space, which counts as having run.
    pub(super) fn create(&mut self, memcg: MemcgId) -> MmId {
        let id = MmId(self.all.len() as u32);
        self.all.push(MmInfo {
            memcg,
            ran: u64::MAX,
            added: id.idx(),
            alive: true,
        });
        if self.lists.len() <= memcg.idx() {
            self.lists.resize(memcg.idx() + 1, Vec::new());
        }
        self.lists[memcg.idx()].push(id);
        id
    }

    /// Forgets an address space: its memcg and its position in the memcg's list. `None` if it has been
    /// forgotten already.
    pub(super) fn destroy(&mut self, mm: MmId) -> Option<(MemcgId, usize)> {
        let info = &mut self.all[mm.idx()];
        if !std::mem::replace(&mut info.alive, false) {
            return None;
        }
        let memcg = info.memcg;
        let list = &mut self.lists[memcg.idx()];
        let at = list.iter().position(|&m| m == mm).expect("registered");
        list.remove(at);
        Some((memcg, at))
    }

    /// The address space at a position of its memcg's list.
    pub(super) fn nth_of(&self, memcg: MemcgId, at: usize) -> Option<MmId> {
        self.lists.get(memcg.idx())?.get(at).copied()
    }

    /// How many there have been.
    pub(super) fn known(&self) -> usize {
        self.all.len()
    }

    /// It came when there had been `known` of them, or later.
    pub(super) fn added_since(&self, mm: MmId, known: usize) -> bool {
        self.all[mm.idx()].added >= known
    }

    /// A task of it has run since a walk of this node last picked it.
    pub(super) fn has_run(&self, mm: MmId, node: NodeId) -> bool {
        self.all[mm.idx()].ran >> node.0 & 1 == 1
    }

    /// A task of it runs: the walks of all nodes may find something.
    #[inline]
    pub(super) fn ran(&mut self, mm: MmId) {
        self.all[mm.idx()].ran = u64::MAX;
    }

    /// A walk takes it.
    pub(super) fn picked(&mut self, mm: MmId, node: NodeId) {
        self.all[mm.idx()].ran &= !(1 << node.0);
    }
}
