//! Isolating victims: which type, which folios, what is put aside (`mglru.md` 7.2 to 7.4).

use super::controller::{tier_idx, type_to_scan};
use super::refs::{lazily_promoted, tier};
use super::{EvictableTypes, MultiGen, MIN_LRU_BATCH};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId};
use crate::lruvec::MAX_ZONES;
use crate::reclaim::scan_control::ScanControl;
use crate::switches::SwapCheck;

/// What one isolation did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Isolation {
    /// Pages the loop should count as progress.
    pub scanned: u64,
    /// Pages isolated.
    pub isolated: u64,
    /// Their type.
    pub lru_type: Option<LruType>,
}

/// Result of scanning one type.
struct TypeScan {
    scanned: u64,
    isolated: u64,
}

impl Engine {
    /// Isolates up to `batch` folios of the oldest generation onto `out`, oldest first.
    pub(crate) fn gen_isolate(
        &mut self,
        lruvec: LruvecId,
        sc: &mut ScanControl,
        swappiness: u16,
        batch: u64,
        out: &mut Vec<FolioId>,
    ) -> Isolation {
        let v612 = self.sw.is_612();
        let types = EvictableTypes::of(swappiness);
        let (mut t, mut limit) =
            type_to_scan(self.lruvecs[lruvec.idx()].gens(), swappiness, v612, sc.io);
        let mut result = Isolation::default();
        for _ in types.list() {
            let m = self.lruvecs[lruvec.idx()].gens();
            let tier_max = limit.unwrap_or_else(|| tier_idx(&m.ctrl[t.idx()], v612));
            let scan = self.gen_scan(lruvec, sc, t, tier_max, batch, out);
            if self.sw.exact_scan_count {
                result.scanned += scan.scanned;
                result.isolated = scan.isolated;
            } else if scan.scanned > 0 {
                result.scanned = scan.scanned;
                result.isolated = scan.isolated;
            }
            result.lru_type = Some(t);
            let stop = if self.sw.strict_type_fallback {
                scan.scanned > 0
            } else if self.sw.exact_scan_count {
                scan.isolated > 0
            } else {
                result.scanned > 0
            };
            if stop {
                break;
            }
            t = t.other();
            limit = None;
        }
        result
    }

    /// Scans the oldest generation of one type.
    fn gen_scan(
        &mut self,
        lruvec: LruvecId,
        sc: &mut ScanControl,
        t: LruType,
        tier_max: usize,
        batch: u64,
        out: &mut Vec<FolioId>,
    ) -> TypeScan {
        let m = self.lruvecs[lruvec.idx()].gens();
        if m.nr_gens(t) == super::MIN_NR_GENS {
            return TypeScan {
                scanned: 0,
                isolated: 0,
            };
        }
        let oldest = MultiGen::slot(m.min_seq[t.idx()]);
        let mut remaining = batch;
        let (mut scanned, mut isolated, mut sorted, mut skipped) = (0, 0, 0, 0u64);
        let idx = sc.reclaim_idx as usize;
        'zones: for zone in (0..=idx).rev().chain((idx + 1..MAX_ZONES).rev()) {
            let mut skipped_zone = 0;
            let mut parked: Vec<FolioId> = Vec::new();
            while let Some(id) =
                self.lruvecs[lruvec.idx()].gens().lists[oldest][t.idx()][zone].tail()
            {
                let n = self.folios[id].nr_pages();
                scanned += n;
                if self.gen_sort(lruvec, sc, id, t, tier_max) {
                    sorted += n;
                } else if self.gen_isolate_folio(sc, id) {
                    out.push(id);
                    isolated += n;
                } else {
                    self.gen_unlink(id);
                    parked.push(id);
                    skipped_zone += n;
                }
                remaining -= 1;
                if remaining == 0 || isolated.max(skipped_zone) >= MIN_LRU_BATCH {
                    break;
                }
            }
            if skipped_zone > 0 {
                for id in parked {
                    self.gen_link(id, oldest, false);
                }
                skipped += skipped_zone;
                self.vm.add(Counter::Pgskip, skipped_zone as i64);
            }
            if remaining == 0 || isolated >= MIN_LRU_BATCH {
                break 'zones;
            }
        }
        debug_assert!(self.cfg.nr_zones > 1 || scanned == sorted + isolated + skipped);
        self.meter.scanned += scanned;
        // Everything isolated counts as taken, so that only a loop that met nothing but unqueued
        // dirty folios wakes the flushers at its end (`workloads.md` 2.1).
        let sums = !self.sw.common_dirty_reactivation && !self.sw.mut_counters_dropped;
        if t == LruType::File && sums {
            sc.nr.file_taken += isolated;
        }
        self.count_scan(lruvec, sc, t, isolated as i64, sorted as i64);
        if !self.sw.exact_scan_count && isolated == 0 && remaining > 0 {
            return TypeScan {
                scanned: 0,
                isolated: 0,
            };
        }
        TypeScan { scanned, isolated }
    }

    /// Pages scanned by reclaim and pages sorted, in every scope they are counted in
    /// (`counters.md` 1).
    fn count_scan(
        &mut self,
        lruvec: LruvecId,
        sc: &ScanControl,
        t: LruType,
        isolated: i64,
        sorted: i64,
    ) {
        let memcg = self.lruvecs[lruvec.idx()].memcg;
        let kind = sc.kind.pgscan();
        self.memcgs.count(memcg, kind, isolated);
        self.memcgs.count(memcg, Counter::Pgrefill, sorted);
        if sc.target.is_none() || self.sw.counters_72 {
            self.vm.add(kind, isolated);
        }
        if sc.target.is_none() {
            self.vm.add(Counter::Pgrefill, sorted);
        }
        let by_type = [Counter::PgscanAnon, Counter::PgscanFile][t.idx()];
        self.vm.add(by_type, isolated);
        self.memcgs.count(memcg, by_type, isolated);
    }

    /// Puts aside what must not be isolated (7.3). True: handled.
    fn gen_sort(
        &mut self,
        lruvec: LruvecId,
        sc: &mut ScanControl,
        id: FolioId,
        t: LruType,
        tier_max: usize,
    ) -> bool {
        let v612 = self.sw.is_612();
        let f = &self.folios[id];
        let (word, n, zone) = (f.word, f.nr_pages(), f.zone);
        if !f.evictable() {
            if self.sw.unevictable_generic {
                return false;
            }
            self.lruvec_del(id, true);
            self.folios[id].word.set(Flags::UNEVICTABLE);
            self.lruvec_add(id, false);
            self.count_event(lruvec, Counter::UnevictableCulled, n as i64);
            return true;
        }
        let m = self.lruvecs[lruvec.idx()].gens();
        let slot = word.gen().expect("on a generation");
        if slot != MultiGen::slot(m.min_seq[t.idx()]) {
            self.gen_relink(id, slot, false);
            return true;
        }
        let tier = tier(word, v612);
        let promoted = lazily_promoted(word, v612);
        if tier > tier_max || promoted {
            let new = self.gen_protect(id, false);
            self.gen_relink(id, new, v612);
            if v612 || !promoted {
                self.lruvecs[lruvec.idx()].gens_mut().ctrl[t.idx()].protected[tier] += n;
            }
            return true;
        }
        if zone > sc.reclaim_idx {
            let new = self.gen_protect(id, false);
            self.gen_relink(id, new, true);
            return true;
        }
        let dirty_file = t == LruType::File && word.has(Flags::DIRTY);
        let writeback = word.has(Flags::WRITEBACK);
        if !self.sw.common_dirty_reactivation && (writeback || dirty_file) {
            if dirty_file && !self.sw.mut_counters_dropped {
                sc.nr.file_taken += n;
                if !writeback {
                    sc.nr.unqueued_dirty += n;
                }
            }
            let memcg = self.lruvecs[lruvec.idx()].memcg;
            self.memcgs.count(memcg, Counter::DirtyMovedUp, n as i64);
            if dirty_file && !writeback {
                self.memcgs.count(memcg, Counter::UnqueuedDirty, n as i64);
            }
            if writeback {
                self.memcgs.count(memcg, Counter::WritebackSeen, n as i64);
            }
            let new = self.gen_protect(id, true);
            self.gen_relink(id, new, false);
            return true;
        }
        false
    }

    /// Takes one folio off its generation for reclaim (7.4). False: it is parked.
    fn gen_isolate_folio(&mut self, sc: &ScanControl, id: FolioId) -> bool {
        let f = &mut self.folios[id];
        if !sc.io {
            let anon = f.lru_type() == LruType::Anon;
            let dirty = f.has(Flags::DIRTY);
            let refuse = match self.sw.isolate_swap_check {
                SwapCheck::Never => false,
                SwapCheck::DirtyAnon => dirty && anon,
                SwapCheck::DirtyOrAnon => dirty || (anon && !f.has(Flags::SWAPCACHE)),
            };
            if refuse {
                return false;
            }
        }
        if f.refcount == 0 || !f.has(Flags::LRU) {
            return false;
        }
        f.refcount += 1;
        f.word.clear(Flags::LRU);
        if !f.has(Flags::REFERENCED) {
            f.word.set_refs(0);
        }
        if self.sw.isolate_clears_reclaim {
            f.word.clear(Flags::RECLAIM);
        }
        self.lruvec_del(id, true);
        true
    }
}
