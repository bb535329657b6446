//! Reclaim of one lruvec, whatever its policy.

use super::classic_loop::ClassicLoop;
use super::gen_loop::{Cx, GenLoop};
use super::scan_control::{ScanControl, SWAP_CLUSTER_MAX};
use super::work::Work;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId};
use crate::lruvec::{LruList, Policy};

/// One lruvec's reclaim in progress.
#[derive(Debug)]
pub(crate) enum LruvecLoop {
    Gen(Box<GenLoop>),
    Classic(Box<ClassicLoop>),
    Fifo(FifoLoop),
}

impl LruvecLoop {
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        eng.meter.visits += 1;
        match eng.lruvecs[lruvec.idx()].policy {
            Policy::MultiGen(_) => LruvecLoop::Gen(Box::new(GenLoop::new(eng, sc, lruvec, cpu))),
            Policy::Classic(_) => {
                LruvecLoop::Classic(Box::new(ClassicLoop::new(eng, sc, lruvec, cpu)))
            }
            Policy::Fifo(_) => LruvecLoop::Fifo(FifoLoop::new(eng, sc, lruvec, cpu)),
        }
    }

    /// Goes on; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        match self {
            LruvecLoop::Gen(l) => l.step(eng, cx),
            LruvecLoop::Classic(l) => l.step(eng, cx),
            LruvecLoop::Fifo(l) => l.step(eng, cx),
        }
    }

    /// The task is being killed; its list has gone back.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        match self {
            LruvecLoop::Classic(l) => l.abandon(eng),
            LruvecLoop::Gen(l) => l.abandon(eng),
            _ => {}
        }
    }

    /// The memcg should rotate to the young end of the memcg LRU.
    pub(crate) fn rotate(&self) -> bool {
        matches!(self, LruvecLoop::Gen(l) if l.rotate())
    }

    /// A new generation was opened.
    pub(crate) fn aged(&self) -> bool {
        matches!(self, LruvecLoop::Gen(l) if l.opened_generation())
    }
}

/// The loop of the FIFO policy: batches of 32 from the tail of each list, references ignored.
#[derive(Debug)]
pub(crate) struct FifoLoop {
    lruvec: LruvecId,
    budget: [u64; 2],
    shrinking: Option<LruType>,
    survivors: Vec<FolioId>,
}

impl FifoLoop {
    fn new(eng: &mut Engine, sc: &ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        eng.lru_add_drain(cpu);
        let lv = &eng.lruvecs[lruvec.idx()];
        let swap = sc.may_swap && eng.swap_available(lv.memcg) > 0;
        let share = |t: LruType| {
            let size = lv.size_all(LruList::of(t, false));
            eng.cfg.scale.scan_share(size, sc.priority)
        };
        Self {
            lruvec,
            budget: [
                if swap { share(LruType::Anon) } else { 0 },
                share(LruType::File),
            ],
            shrinking: None,
            survivors: Vec::new(),
        }
    }

    fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
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
                eng.count_steal(self.lruvec, cx.sc, t, stat.reclaimed);
                if stat.unqueued_dirty > 0 {
                    return Some(Work::WakeFlushers);
                }
            }
            let t = *LruType::ALL
                .iter()
                .rev()
                .find(|t| self.budget[t.idx()] > 0)?;
            if cx.sc.nr_reclaimed >= cx.sc.nr_to_reclaim {
                return None;
            }
            let n = self.budget[t.idx()].min(SWAP_CLUSTER_MAX);
            self.budget[t.idx()] -= n;
            let taken = self.isolate(eng, t, n, &mut cx.list.input);
            let memcg = eng.lruvecs[self.lruvec.idx()].memcg;
            let kind = cx.sc.kind.pgscan();
            eng.memcgs.count(memcg, kind, taken as i64);
            if taken == 0 {
                self.budget[t.idx()] = 0;
                continue;
            }
            cx.list.begin(cx.sc.target, true);
            self.shrinking = Some(t);
        }
    }

    fn isolate(&self, eng: &mut Engine, t: LruType, n: u64, out: &mut Vec<FolioId>) -> u64 {
        out.clear();
        eng.meter.lock(self.lruvec);
        let mut taken = 0;
        while taken < n {
            let Policy::Fifo(lists) = &eng.lruvecs[self.lruvec.idx()].policy else {
                unreachable!("FIFO loop on another policy");
            };
            let Some(id) = lists.lists[t.idx()].tail() else {
                break;
            };
            eng.lruvec_del(id, true);
            let f = &mut eng.folios[id];
            f.refcount += 1;
            f.word.clear(Flags::LRU);
            taken += f.nr_pages();
            out.push(id);
        }
        eng.meter.scanned += taken;
        taken
    }
}
