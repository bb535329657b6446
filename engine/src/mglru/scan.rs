//! Isolating victims: which type, which folios, what is put aside (`docs/rules/eviction.md#isolation`).

use super::controller::tier_idx;
use super::{EvictableTypes, MultiGen, MIN_LRU_BATCH};
use crate::config::MAX_ZONES;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId};
use crate::lruvec::LruList;
use crate::reclaim::request::Reclaimed;
use crate::reclaim::scan_control::ScanControl;
use crate::rules::{AfterType, ProtectedBy};
use crate::scans::ScanEvent;

/// What one isolation did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Isolation {
    /// Pages the loop should count as progress.
    pub scanned: u64,
    /// Pages taken off their generation.
    pub isolated: u64,
    /// The type that was scanned last.
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
        let types = EvictableTypes::of(swappiness);
        let m = self.lruvecs[lruvec].gens();
        let (mut t, mut limit) = (self.rules.kernel.type_to_scan)(m, swappiness, sc.io);
        let mut result = Isolation::default();
        for _ in types.list() {
            let m = self.lruvecs[lruvec].gens();
            let tier_max =
                limit.unwrap_or_else(|| tier_idx(&m.ctrl[t.idx()], self.rules.kernel.tier_gains));
            let scan = self.gen_scan(lruvec, sc, t, tier_max, batch, out);
            result.scanned += scan.scanned;
            result.isolated = scan.isolated;
            result.lru_type = Some(t);
            match self.rules.series.after_type(scan.scanned, scan.isolated) {
                AfterType::Done => break,
                AfterType::Again => {}
                AfterType::Other => t = t.other(),
            }
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
        let m = self.lruvecs[lruvec].gens();
        if m.nr_gens(t) == super::MIN_NR_GENS {
            return TypeScan {
                scanned: 0,
                isolated: 0,
            };
        }
        let oldest = MultiGen::slot(m.min_seq[t.idx()]);
        debug_assert!(batch > 0, "a scan looks at one folio at least");
        let mut remaining = batch;
        let (mut scanned, mut isolated, mut sorted, mut skipped) = (0, 0, 0, 0u64);
        let idx = sc.reclaim_idx as usize;
        'zones: for zone in (0..=idx).rev().chain((idx + 1..MAX_ZONES).rev()) {
            let mut skipped_zone = 0;
            let mut parked: Vec<FolioId> = Vec::new();
            while let Some(id) = self.lruvecs[lruvec].gens().lists[oldest][t.idx()][zone].tail() {
                let n = self.folios[id].nr_pages();
                // The next one is looked at as soon as this one is off the list.
                self.folios.prefetch_newer(id);
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
                self.count_global(Counter::Pgskip, skipped_zone as i64);
            }
            if remaining == 0 || isolated >= MIN_LRU_BATCH {
                break 'zones;
            }
        }
        debug_assert!(self.config().nr_zones > 1 || scanned == sorted + isolated + skipped);
        self.meter.scanned += batch - remaining;
        // Everything isolated counts as taken, so that only a loop that met nothing but unqueued
        // dirty folios wakes the flushers at its end (`docs/reference/experiments.md#mongodb`).
        if t == LruType::File
            && self.rules.series.scan_moves_dirty()
            && self.rules.series.sums_dirty
        {
            sc.nr.file_taken += isolated;
        }
        let event = ScanEvent::Isolated {
            list: LruList::of(t, false),
            asked: batch,
            scanned,
            taken: isolated,
        };
        self.log_scan(sc, event);
        self.count_refill(lruvec, sc, sorted);
        self.count_reclaim(lruvec, sc, Reclaimed::Scan, t, isolated);
        TypeScan {
            scanned: self
                .rules
                .series
                .reported_scan(scanned, isolated, remaining == 0),
            isolated,
        }
    }

    /// Puts aside what must not be isolated (`docs/rules/eviction.md#sorting`). True: handled.
    fn gen_sort(
        &mut self,
        lruvec: LruvecId,
        sc: &mut ScanControl,
        id: FolioId,
        t: LruType,
        tier_max: usize,
    ) -> bool {
        let f = &self.folios[id];
        let (word, n, zone) = (f.word(), f.nr_pages(), f.zone());
        if !f.evictable() {
            if self.rules.series.unevictable_generic() {
                return false;
            }
            self.lruvec_del(id, true);
            self.folios[id].set(Flags::UNEVICTABLE);
            self.lruvec_add(id, false);
            self.count(self.memcg_of(lruvec), Counter::UnevictableCulled, n as i64);
            return true;
        }
        let m = self.lruvecs[lruvec].gens();
        let slot = word.gen().expect("on a generation");
        if slot != MultiGen::slot(m.min_seq[t.idx()]) {
            self.gen_relink(id, slot, false);
            return true;
        }
        let standing = (self.rules.kernel.standing)(word);
        let (tier, promoted) = (usize::from(standing.tier), standing.lazily_promoted);
        if tier > tier_max || promoted {
            let new = self.gen_protect(id, false);
            self.gen_relink(id, new, self.rules.kernel.protected_to_tail);
            if (self.rules.kernel.counts_protected)(ProtectedBy::Tier, promoted) {
                self.lruvecs[lruvec].gens_mut().ctrl[t.idx()].protected[tier] += n;
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
        if self.rules.series.scan_moves_dirty() && (writeback || dirty_file) {
            if dirty_file && self.rules.series.sums_dirty {
                sc.nr.file_taken += n;
                if !writeback {
                    sc.nr.unqueued_dirty += n;
                }
            }
            let memcg = self.memcg_of(lruvec);
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

    /// Takes one folio off its generation for reclaim. False: it is parked.
    fn gen_isolate_folio(&mut self, sc: &ScanControl, id: FolioId) -> bool {
        let f = &mut self.folios[id];
        if !self.rules.series.may_isolate(f.word(), f.lru_type(), sc.io) {
            return false;
        }
        if !f.can_isolate() {
            return false;
        }
        f.isolate();
        if !f.has(Flags::REFERENCED) {
            f.word_mut().set_refs(0);
        }
        if self.rules.series.isolation_clears_reclaim() {
            f.clear(Flags::RECLAIM);
        }
        self.lruvec_del(id, true);
        true
    }
}
