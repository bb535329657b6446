//! Eviction records and refaults (`docs/rules/workingset.md`). List policies without ghosts use the
//! records of the classic lists.

use super::shadow::{Shadow, Unpacked};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId, MemcgId, NodeId};
use crate::lruvec::LruvecLists;
use crate::switches::RefaultKind;

/// Counters by kind and type.
const COUNTERS: [[Counter; 2]; 3] = [
    [Counter::RefaultAnon, Counter::RefaultFile],
    [Counter::ActivateAnon, Counter::ActivateFile],
    [Counter::RestoreAnon, Counter::RestoreFile],
];

/// Where a refault happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefaultSite {
    /// Inside a page fault (read-ahead done there included).
    Fault,
    /// A read through a descriptor.
    Read,
}

impl Engine {
    /// Ticks the workingset clock of an lruvec and of its ancestors (`docs/rules/workingset.md#clock`).
    pub(crate) fn nonresident_age(&mut self, lruvec: LruvecId, pages: u64) {
        let lv = &self.lruvecs[lruvec];
        let node = lv.node;
        let mut at = Some(lv.memcg);
        while let Some(memcg) = at {
            let id = self.lruvec_id(memcg, node);
            self.lruvecs[id].workingset.tick(pages);
            at = self.memcgs[memcg].parent();
        }
    }

    /// Records an eviction and returns the shadow for the emptied slot. `target`: the memcg whose
    /// limit is reclaimed, none for global reclaim.
    pub(crate) fn workingset_eviction(&mut self, id: FolioId, target: Option<MemcgId>) -> Shadow {
        let f = &self.folios[id];
        let (lruvec, n, t, word) = (f.lruvec(), f.nr_pages(), f.lru_type(), f.word());
        if matches!(self.lruvecs[lruvec].lists, LruvecLists::List(_)) {
            if let Some(shadow) = self.list_evicted(id) {
                return shadow;
            }
        }
        let lv = &mut self.lruvecs[lruvec];
        let (owner, node) = (lv.memcg, lv.node);
        match &mut lv.lists {
            LruvecLists::MultiGen(m) => {
                let standing = (self.rules.kernel.standing)(word);
                m.ctrl[t.idx()].evicted[usize::from(standing.tier)] += n;
                Shadow::pack(Unpacked {
                    value: m.min_seq[t.idx()] << 2 | u64::from(standing.refs.saturating_sub(1)),
                    memcg: self.memcgs[owner].css_id(),
                    node: node.0,
                    workingset: standing.workingset,
                })
            }
            LruvecLists::Classic(_) | LruvecLists::List(_) => {
                let memcg = target.unwrap_or(MemcgId::ROOT);
                let of = self.lruvec_id(memcg, node);
                let value = self.lruvecs[of].workingset.clock();
                self.nonresident_age(of, n);
                Shadow::pack(Unpacked {
                    value,
                    memcg: self.memcgs[memcg].css_id(),
                    node: node.0,
                    workingset: word.has(Flags::WORKINGSET),
                })
            }
        }
    }

    /// A folio is inserted over a shadow. Call it before the folio is queued for its list, and not
    /// for insertions that serve a write. May set `ACTIVE` and `WORKINGSET`, and counts the refault.
    pub fn refault(&mut self, id: FolioId, shadow: Shadow, site: RefaultSite) {
        let lruvec = self.folios[id].lruvec();
        match self.lruvecs[lruvec].lists {
            LruvecLists::MultiGen(_) => self.gen_refault(id, shadow, site),
            LruvecLists::List(_) if self.has_ghosts(id) => self.list_refault(id, shadow),
            _ => self.classic_refault(id, shadow),
        }
    }

    fn gen_refault(&mut self, id: FolioId, shadow: Shadow, site: RefaultSite) {
        let u = shadow.unpack();
        let evicted_by = self.memcgs.by_css_id(u.memcg).unwrap_or(MemcgId::ROOT);
        let f = &self.folios[id];
        let (lruvec, t, n) = (f.lruvec(), f.lru_type(), f.nr_pages());
        // A shadow may come from a file of somebody else's: the node need not exist.
        if self.lruvecs.id(evicted_by, NodeId(u.node)) != lruvec {
            return;
        }
        self.count_refault(lruvec, RefaultKind::Refault, t, n);
        let m = self.lruvecs[lruvec].gens_mut();
        if !(self.rules.recent)(m, t, u.value >> 2) {
            return;
        }
        let word = self.folios[id].word_mut();
        let in_fault = site == RefaultSite::Fault;
        let low = (u.value & 3) as u32;
        let counts = (self.rules.kernel.refaulted)(word, low, u.workingset, in_fault);
        m.ctrl[t.idx()].refaulted[usize::from(counts.tier)] += n;
        if counts.activate {
            self.count_refault(lruvec, RefaultKind::Activate, t, n);
        }
        if counts.restore {
            self.count_refault(lruvec, RefaultKind::Restore, t, n);
        }
    }

    fn classic_refault(&mut self, id: FolioId, shadow: Shadow) {
        let f = &self.folios[id];
        let (lruvec, t, n) = (f.lruvec(), f.lru_type(), f.nr_pages());
        self.count_refault(lruvec, RefaultKind::Refault, t, n);
        let Some(workingset) = self.classic_recent(shadow, t) else {
            return;
        };
        self.folios[id].set(Flags::ACTIVE);
        self.nonresident_age(lruvec, n);
        self.count_refault(lruvec, RefaultKind::Activate, t, n);
        if workingset {
            self.folios[id].set(Flags::WORKINGSET);
            self.note_cost(lruvec, t, n, 0);
            self.count_refault(lruvec, RefaultKind::Restore, t, n);
        }
    }

    /// Counts a refault in every scope that has it.
    pub(crate) fn count_refault(
        &mut self,
        lruvec: LruvecId,
        kind: RefaultKind,
        t: LruType,
        n: u64,
    ) {
        let c = COUNTERS[kind as usize][t.idx()];
        let lv = &mut self.lruvecs[lruvec];
        lv.workingset.count(kind, n);
        let (memcg, node) = (lv.memcg, lv.node);
        self.count_on(memcg, node, c, n as i64);
    }

    /// `Some(workingset bit)` if the evicted folio could have stayed (`docs/rules/workingset.md#recent-classic`).
    fn classic_recent(&self, shadow: Shadow, t: LruType) -> Option<bool> {
        let u = shadow.unpack();
        let memcg = self.memcgs.by_css_id(u.memcg)?;
        let node = NodeId(u.node);
        let lv = self.lruvec_id(memcg, node);
        let distance = self.lruvecs[lv].workingset.distance(u.value);
        let size = |c: Counter| self.stat(memcg, node, c);
        let mut competing = size(Counter::ActiveFile);
        if t == LruType::Anon {
            competing += size(Counter::InactiveFile);
        }
        if self.swap_available(memcg) > 0 {
            competing += size(Counter::ActiveAnon);
            if t == LruType::File {
                competing += size(Counter::InactiveAnon);
            }
        }
        (distance <= competing.max(0) as u64).then_some(u.workingset)
    }

    /// A hierarchical statistic of a memcg on a node as reclaim sees it: as of the last fold
    /// (`docs/rules/memcg.md#statistics-that-lag`).
    pub(crate) fn stat(&self, memcg: MemcgId, node: NodeId, c: Counter) -> i64 {
        if self.switches().stale_stats {
            self.memcgs.folded_on(memcg, node, c)
        } else {
            self.memcgs.live_on(memcg, node, c)
        }
    }

    /// Swap pages a memcg may still use.
    pub fn swap_available(&self, memcg: MemcgId) -> u64 {
        self.swap_free().min(self.memcgs.swap_margin(memcg))
    }
}
