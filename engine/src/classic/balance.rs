//! How much of which list to scan (`docs/rules/classic.md`).

use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{LruType, LruvecId, MemcgId, NodeId};
use crate::lruvec::LruList;
use crate::reclaim::scan_control::ScanControl;
use crate::zone::Mark;

/// The inactive list is too short for its active list (`docs/rules/classic.md#when-to-deactivate`). Sizes in pages.
pub fn inactive_is_low(inactive: u64, active: u64) -> bool {
    let gb = (inactive + active) >> 18;
    let ratio = if gb > 0 { (10 * gb).isqrt() } else { 1 };
    inactive * ratio < active
}

/// How the scan is divided between anonymous and file pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanBalance {
    /// Both in full.
    Equal,
    /// Both types, in shares by what reclaiming them costs.
    Fract,
    /// No file pages.
    Anon,
    /// No anonymous pages.
    File,
}

/// Shares of anonymous and file pages as (weight of each, denominator).
pub fn fractions(swappiness: u64, cost: [u64; 2]) -> ([u64; 2], u64) {
    let total = cost[0] + cost[1];
    let anon = total + cost[0];
    let file = total + cost[1];
    let sum = anon + file;
    let ap = swappiness * (sum + 1) / (anon + 1);
    let fp = (200 - swappiness) * (sum + 1) / (file + 1);
    ([ap, fp], ap + fp)
}

impl Engine {
    /// The inactive list of a type is low, by the statistics of the lruvec.
    pub(crate) fn memcg_inactive_is_low(&self, memcg: MemcgId, node: NodeId, t: LruType) -> bool {
        let size = |active| {
            self.stat(memcg, node, LruList::of(t, active).counter())
                .max(0) as u64
        };
        inactive_is_low(size(false), size(true))
    }

    /// What is decided once for each node visit (`docs/rules/classic.md#file-or-anonymous`).
    pub(crate) fn prepare_scan_control(&mut self, sc: &mut ScanControl, node: NodeId) {
        let target = sc.target.unwrap_or(MemcgId::ROOT);
        let lruvec = self.lruvec_id(target, node);
        let lv = &self.lruvecs[lruvec];
        sc.cost = lv.cost;
        let activate = [Counter::ActivateAnon, Counter::ActivateFile];
        for t in LruType::ALL {
            sc.may_deactivate[t.idx()] = sc.force_deactivate
                || self.stat(target, node, activate[t.idx()]) != lv.workingset.snapshot(t)
                || self.memcg_inactive_is_low(target, node, t);
        }
        let inactive_file = self.stat(target, node, Counter::InactiveFile).max(0) as u64;
        sc.cache_trim_mode = self.config().scale.scan_share(inactive_file, sc.priority) != 0
            && !sc.may_deactivate[LruType::File.idx()]
            && !sc.no_cache_trim_mode;
        sc.file_is_tiny = false;
        if sc.target.is_none() {
            let n = &self.nodes[node.idx()];
            let file = n.lru_pages(LruList::InactiveFile) + n.lru_pages(LruList::ActiveFile);
            let (mut free, mut high) = (0, 0);
            for z in self.zones.of(node).iter().filter(|z| z.managed > 0) {
                free += z.free;
                high += z.mark(Mark::High);
            }
            let anon = n.lru_pages(LruList::InactiveAnon);
            sc.file_is_tiny = file + free <= high
                && !sc.may_deactivate[LruType::Anon.idx()]
                && self.config().scale.scan_share(anon, sc.priority) != 0;
        }
    }

    /// How the types share what is scanned (`docs/rules/classic.md#file-or-anonymous`).
    fn scan_balance(&self, sc: &ScanControl, memcg: MemcgId, swappiness: u64) -> ScanBalance {
        let memcg_reclaim = sc.target.is_some();
        let no_anon = !sc.may_swap || self.swap_available(memcg) == 0;
        if no_anon || (memcg_reclaim && swappiness == 0) {
            ScanBalance::File
        } else if sc.priority == 0 && swappiness != 0 {
            ScanBalance::Equal
        } else if sc.file_is_tiny {
            ScanBalance::Anon
        } else if sc.cache_trim_mode {
            ScanBalance::File
        } else {
            ScanBalance::Fract
        }
    }

    /// Pages to scan of each list (`docs/rules/classic.md#scan-of-an-lruvec`).
    pub(crate) fn get_scan_count(&mut self, sc: &mut ScanControl, lruvec: LruvecId) -> [u64; 4] {
        let memcg = self.memcg_of(lruvec);
        let swappiness = u64::from(self.swappiness(sc, memcg)).min(200);
        let balance = self.scan_balance(sc, memcg, swappiness);
        let (weight, denominator) = fractions(swappiness, sc.cost);
        let target = sc.target.unwrap_or(MemcgId::ROOT);
        let online = self.memcgs[memcg].online();
        let mut nr = [0; 4];
        for list in LruList::EVICTABLE {
            let size = self.lruvecs[lruvec].size(list, sc.reclaim_idx.into());
            let (size, skipped) = self.memcgs.scan_scaled(size, memcg, target, sc.low_reclaim);
            sc.low_skipped |= skipped;
            let mut scan = self.config().scale.scan_share(size, sc.priority);
            if scan == 0 && !online {
                scan = size.min(32);
            }
            let w = weight[list.lru_type().idx()];
            nr[list.idx()] = match balance {
                ScanBalance::Equal => scan,
                ScanBalance::Fract if online => scan * w / denominator,
                ScanBalance::Fract => (scan * w).div_ceil(denominator),
                ScanBalance::Anon if list.lru_type() == LruType::Anon => scan,
                ScanBalance::File if list.lru_type() == LruType::File => scan,
                ScanBalance::Anon | ScanBalance::File => 0,
            };
        }
        nr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_inactive_is_low() {
        for (inactive, active, low) in [
            (99, 100, true),
            (100, 100, false),
            (65_536, 196_608, false),
            (65_535, 196_609, true),
            (262_144, 2_359_296, false),
            (200_000, 2_421_440, true),
        ] {
            assert_eq!(
                inactive_is_low(inactive, active),
                low,
                "{inactive}/{active}"
            );
        }
    }

    #[test]
    fn c2_fractions_of_1000() {
        for (swappiness, cost, want) in [
            (60, [0, 0], [300, 700]),
            (60, [100, 300], [374, 625]),
            (100, [0, 100], [666, 333]),
            (0, [100, 300], [0, 1000]),
        ] {
            let (w, d) = fractions(swappiness, cost);
            assert_eq!(w.map(|w| 1000 * w / d), want, "{swappiness} {cost:?}");
        }
    }
}
