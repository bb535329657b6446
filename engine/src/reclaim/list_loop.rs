//! Reclaim of an lruvec under a list policy: batches of victims, as the policy names them.

use super::cx::Cx;
use super::request::Reclaimed;
use super::scan_control::{ScanControl, SWAP_CLUSTER_MAX};
use super::work::Work;
use crate::classic::balance::fractions;
use crate::engine::Engine;
use crate::ids::{FolioId, LruType, LruvecId};
use crate::lruvec::LruList;

/// One lruvec's reclaim in progress.
#[derive(Debug)]
pub(crate) struct ListLoop {
    lruvec: LruvecId,
    budget: [u64; 2],
    shrinking: Option<LruType>,
    /// The type whose turn is next; both have had theirs before the target is looked at, unless files
    /// go first.
    turn: LruType,
    file_first: bool,
    survivors: Vec<FolioId>,
}

impl ListLoop {
    pub(crate) fn new(eng: &mut Engine, sc: &ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        eng.lru_add_drain(cpu);
        let file_first = eng.lists(lruvec, LruType::File).file_first();
        let lv = &eng.lruvecs[lruvec];
        let memcg = lv.memcg;
        let swap = sc.may_swap && eng.swap_available(memcg) > 0;
        let mut budget = LruType::ALL.map(|t| {
            let size = lv.size_all(LruList::of(t, false));
            eng.config().scale.scan_share(size, sc.priority)
        });
        if !swap {
            budget[LruType::Anon.idx()] = 0;
        } else if !file_first {
            let swappiness = u64::from(eng.swappiness(sc, memcg));
            if swappiness > 200 {
                budget[LruType::File.idx()] = 0;
            } else if sc.priority > 0 || swappiness == 0 {
                let (weight, of) = fractions(swappiness, [0, 0]);
                budget = LruType::ALL.map(|t| budget[t.idx()] * weight[t.idx()] / of);
            }
        }
        Self {
            lruvec,
            budget,
            shrinking: None,
            turn: LruType::File,
            file_first,
            survivors: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        loop {
            if let Some(t) = self.shrinking {
                if let Some(work) = cx.list.step(eng, cx.sc, cx.answer) {
                    return Some(work);
                }
                self.shrinking = None;
                let stat = cx.list.stat;
                cx.sc.nr_reclaimed += stat.reclaimed;
                self.survivors.clear();
                self.survivors.append(&mut cx.list.ret);
                eng.put_back(cx.cpu, self.lruvec, &self.survivors);
                let freed = stat.reclaimed;
                eng.count_reclaim(self.lruvec, cx.sc, Reclaimed::Steal, t, freed);
                if stat.unqueued_dirty > 0 {
                    return Some(Work::WakeFlushers);
                }
            }
            let t = self.next_type()?;
            let round_begins = self.file_first || t == LruType::File || self.budget[1] == 0;
            if round_begins && cx.sc.nr_reclaimed >= cx.sc.nr_to_reclaim {
                return None;
            }
            let n = self.budget[t.idx()].min(SWAP_CLUSTER_MAX);
            self.budget[t.idx()] -= n;
            let taken = self.isolate(eng, t, n, &mut cx.list.input);
            let memcg = eng.memcg_of(self.lruvec);
            let kind = cx.sc.kind.pgscan();
            eng.memcgs.count(memcg, kind, taken as i64);
            if taken == 0 {
                self.budget[t.idx()] = 0;
                continue;
            }
            let ignore_references = !eng.lists(self.lruvec, t).wants_uses();
            cx.list.begin(cx.sc.target, ignore_references);
            self.shrinking = Some(t);
        }
    }

    /// Whose turn it is, among those with budget left.
    fn next_type(&mut self) -> Option<LruType> {
        let mut t = self.turn;
        if self.budget[t.idx()] == 0 {
            t = t.other();
        }
        if !self.file_first {
            self.turn = t.other();
        }
        (self.budget[t.idx()] > 0).then_some(t)
    }

    fn isolate(&self, eng: &mut Engine, t: LruType, n: u64, out: &mut Vec<FolioId>) -> u64 {
        out.clear();
        eng.meter.lock(self.lruvec);
        let capacity = eng.lruvecs[self.lruvec].size_all(LruList::of(t, false));
        let mut taken = 0;
        while taken < n {
            let Some(id) = eng.list_victim(self.lruvec, t, capacity) else {
                break;
            };
            eng.lruvec_del(id, true);
            let f = &mut eng.folios[id];
            f.isolate();
            taken += f.nr_pages();
            out.push(id);
        }
        eng.meter.scanned += out.len() as u64;
        taken
    }
}
