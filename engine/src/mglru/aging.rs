//! New generations, and dropping old ones (`docs/rules/aging.md`).

use super::{EvictableTypes, MultiGen, MAX_NR_GENS};
use crate::config::MAX_ZONES;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{LruType, LruvecId, MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::reclaim::scan_control::ScanControl;
use crate::rules::ProtectedBy;

impl Engine {
    /// Creates a new youngest generation if `seq` still is the youngest (`docs/rules/aging.md#opening-a-generation`).
    /// Generations that are in the way are forced out first, a bounded number of folios for each hold of the lock.
    /// `locked`: the first hold has been metered.
    pub(crate) fn gen_inc_max_seq(
        &mut self,
        lruvec: LruvecId,
        seq: u64,
        types: EvictableTypes,
        locked: bool,
    ) -> bool {
        let mut locked = locked;
        'restart: loop {
            if !std::mem::take(&mut locked) {
                self.meter.lock(lruvec);
            }
            if seq != self.lruvecs[lruvec].gens().max_seq {
                return false;
            }
            for t in self.rules.kernel.forced_out {
                let full = self.lruvecs[lruvec].gens().nr_gens(t) == MAX_NR_GENS as u64;
                if full && !self.gen_inc_min_seq(lruvec, t, types) {
                    continue 'restart;
                }
            }
            break;
        }
        // The generation that is second youngest now stops counting as active; the coming youngest
        // (whose slot may hold leftovers of a type that was not evictable) starts to.
        let m = self.lruvecs[lruvec].gens();
        let (leaving, coming) = (MultiGen::slot(m.max_seq - 1), MultiGen::slot(m.max_seq + 1));
        for t in LruType::ALL {
            for zone in 0..MAX_ZONES {
                let m = self.lruvecs[lruvec].gens();
                let delta = m.nr_pages[leaving][t.idx()][zone] - m.nr_pages[coming][t.idx()][zone];
                if delta != 0 {
                    self.resize_list(lruvec, zone as u8, LruList::of(t, true), -delta);
                    self.resize_list(lruvec, zone as u8, LruList::of(t, false), delta);
                }
            }
        }
        let now = self.now();
        let lv = &mut self.lruvecs[lruvec];
        let memcg = lv.memcg;
        let m = lv.gens_mut();
        m.timestamps[coming] = now;
        m.max_seq += 1;
        self.memcgs.count(memcg, Counter::AgingRuns, 1);
        true
    }

    /// Forces the oldest generation of a type out. False: the lock hold's budget is used up.
    fn gen_inc_min_seq(&mut self, lruvec: LruvecId, t: LruType, types: EvictableTypes) -> bool {
        let mut budget = self.config().scale.max_lru_batch;
        let old = {
            let m = self.lruvecs[lruvec].gens();
            MultiGen::slot(m.min_seq[t.idx()])
        };
        if types.contains(t) {
            for zone in 0..MAX_ZONES {
                while let Some(id) = self.lruvecs[lruvec].gens().lists[old][t.idx()][zone].tail() {
                    let word = self.folios[id].word();
                    let n = self.folios[id].nr_pages();
                    let new = self.gen_protect(id, false);
                    self.gen_relink(id, new, true);
                    let s = (self.rules.kernel.standing)(word);
                    if (self.rules.kernel.counts_protected)(ProtectedBy::Aging, s.lazily_promoted) {
                        let ctrl = &mut self.lruvecs[lruvec].gens_mut().ctrl[t.idx()];
                        ctrl.protected[usize::from(s.tier)] += n;
                    }
                    budget -= 1;
                    if budget == 0 {
                        return false;
                    }
                }
            }
        }
        let m = self.lruvecs[lruvec].gens_mut();
        m.ctrl[t.idx()].carry_over();
        m.min_seq[t.idx()] += 1;
        true
    }

    /// Drops empty old generations (`docs/rules/aging.md#empty-generations`). True if any was dropped.
    pub(crate) fn gen_try_inc_min_seq(&mut self, lruvec: LruvecId, swappiness: u16) -> bool {
        let types = EvictableTypes::of(swappiness);
        let m = self.lruvecs[lruvec].gens_mut();
        let mut min = m.min_seq;
        for &t in types.list() {
            let i = t.idx();
            while min[i] + super::MIN_NR_GENS <= m.max_seq
                && m.lists[MultiGen::slot(min[i])][i]
                    .iter()
                    .all(|l| l.is_empty())
            {
                min[i] += 1;
            }
        }
        if min == m.min_seq {
            return false;
        }
        (self.rules.kernel.level_min_seq)(m, &mut min, swappiness);
        let mut changed = false;
        for &t in types.list() {
            let i = t.idx();
            if min[i] > m.min_seq[i] {
                m.ctrl[i].carry_over();
                m.min_seq[i] = min[i];
                changed = true;
            }
        }
        changed
    }

    /// No memcg of the node has evictable pages older than the time that protects working sets
    /// (`docs/rules/aging.md`). False while the protection is off.
    pub(crate) fn working_set_in_danger(&mut self, sc: &ScanControl, node: NodeId) -> bool {
        let min_ttl = self.switches().min_ttl_ms.saturating_mul(1_000_000);
        if min_ttl == 0 {
            return false;
        }
        let mut pos = None;
        while let Some(memcg) = self.memcgs.preorder_next(MemcgId::ROOT, pos) {
            pos = Some(memcg);
            self.memcgs.calculate_protection(MemcgId::ROOT, memcg);
            if self.memcgs.below_min(MemcgId::ROOT, memcg) {
                continue;
            }
            let swappiness = self.swappiness(sc, memcg);
            let m = self.lruvecs[self.lruvec_id(memcg, node)].gens();
            let types = EvictableTypes::of(swappiness);
            let pages = m.evictable_pages(types);
            let oldest = (self.rules.kernel.ttl_seq)(m, types);
            let born = m.timestamps[MultiGen::slot(oldest)];
            let sizable = self.config().scale.scan_share(pages, sc.priority) > 0;
            if sizable && born.saturating_add(min_ttl) < self.now() {
                return false;
            }
        }
        true
    }
}
