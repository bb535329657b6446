//! Reclaim of an lruvec under a list policy: batches of victims, as the policy names them.

use super::cx::Cx;
use super::request::Reclaimed;
use super::scan_control::{ScanControl, SWAP_CLUSTER_MAX};
use super::work::{Answer, Work};
use crate::classic::balance::fractions;
use crate::engine::Engine;
use crate::ids::{FolioId, LruType, LruvecId};
use crate::lruvec::LruList;

/// Victims being isolated.
#[derive(Clone, Copy, Debug)]
struct Batch {
    t: LruType,
    /// Pages wanted.
    n: u64,
    taken: u64,
    capacity: u64,
}

/// One lruvec's reclaim in progress.
#[derive(Debug)]
pub(crate) struct ListLoop {
    lruvec: LruvecId,
    budget: [u64; 2],
    /// The host names its victims, one by one.
    batch: Option<Batch>,
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
            batch: None,
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
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => self.next_batch(eng, cx)?,
            };
            let (t, taken) = match self.isolate(eng, cx, batch) {
                Ok(taken) => (batch.t, taken),
                Err(work) => return Some(work),
            };
            eng.count_reclaim(self.lruvec, cx.sc, Reclaimed::Scan, t, taken);
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

    /// Whose turn it is and how much of it, unless enough has been reclaimed.
    fn next_batch(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Batch> {
        let t = self.next_type()?;
        let round_begins = self.file_first || t == LruType::File || self.budget[1] == 0;
        if round_begins && cx.sc.nr_reclaimed >= cx.sc.nr_to_reclaim {
            return None;
        }
        let n = self.budget[t.idx()].min(SWAP_CLUSTER_MAX);
        self.budget[t.idx()] -= n;
        cx.list.input.clear();
        eng.meter.lock(self.lruvec);
        Some(Batch {
            t,
            n,
            taken: 0,
            capacity: eng.lruvecs[self.lruvec].size_all(LruList::of(t, false)),
        })
    }

    /// Takes the victims of a batch off their lists. Returns their pages, or the question which is the next one.
    fn isolate(
        &mut self,
        eng: &mut Engine,
        cx: &mut Cx<'_>,
        mut batch: Batch,
    ) -> Result<u64, Work> {
        let (lruvec, t) = (self.lruvec, batch.t);
        while batch.taken < batch.n {
            if eng.victim_is_outside(lruvec, t) {
                let Some(Answer::Victim(id)) = cx.answer.take() else {
                    self.batch = Some(batch);
                    return Err(Work::Victim {
                        lruvec,
                        lru_type: t,
                    });
                };
                eng.name_victim(lruvec, t, id);
            } else if matches!(cx.answer, Some(Answer::Victim(_))) {
                // The last one has left while the host was asked.
                *cx.answer = None;
            }
            let Some(id) = eng.list_victim(lruvec, t, batch.capacity) else {
                break;
            };
            eng.lruvec_del(id, true);
            let f = &mut eng.folios[id];
            f.isolate();
            batch.taken += f.nr_pages();
            cx.list.input.push(id);
        }
        eng.meter.scanned += cx.list.input.len() as u64;
        Ok(batch.taken)
    }
}
