//! Reclaim of one lruvec, whatever its policy.

use super::after::LoopAfter;
use super::before::LoopBefore;
use super::classic_loop::ClassicLoop;
use super::cx::Cx;
use super::faulty_loop::FaultyLoop;
use super::list_loop::ListLoop;
use super::scan_control::ScanControl;
use super::work::Work;
use crate::engine::Engine;
use crate::ids::LruvecId;
use crate::lruvec::LruvecLists;

/// One lruvec's reclaim in progress.
#[derive(Debug)]
pub(crate) enum LruvecLoop {
    Before(Box<LoopBefore>),
    After(Box<LoopAfter>),
    Faulty(Box<FaultyLoop>),
    Classic(Box<ClassicLoop>),
    List(ListLoop),
}

impl LruvecLoop {
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        eng.meter.visits += 1;
        match eng.lruvecs[lruvec].lists {
            LruvecLists::MultiGen(_) if !eng.rules.series.takes_one_budget() => {
                LruvecLoop::Before(Box::new(LoopBefore::new(eng, sc, lruvec, cpu)))
            }
            LruvecLists::MultiGen(_) if FaultyLoop::wanted(eng.switches()) => {
                LruvecLoop::Faulty(Box::new(FaultyLoop::new(eng, sc, lruvec, cpu)))
            }
            LruvecLists::MultiGen(_) => {
                LruvecLoop::After(Box::new(LoopAfter::new(eng, sc, lruvec, cpu)))
            }
            LruvecLists::Classic(_) => {
                LruvecLoop::Classic(Box::new(ClassicLoop::new(eng, sc, lruvec)))
            }
            LruvecLists::List(_) => LruvecLoop::List(ListLoop::new(eng, sc, lruvec, cpu)),
        }
    }

    /// The next request to the host; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        match self {
            LruvecLoop::Before(l) => l.step(eng, cx),
            LruvecLoop::After(l) => l.step(eng, cx),
            LruvecLoop::Faulty(l) => l.step(eng, cx),
            LruvecLoop::Classic(l) => l.step(eng, cx),
            LruvecLoop::List(l) => l.step(eng, cx),
        }
    }

    /// The task is being killed; its list has gone back.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        match self {
            LruvecLoop::Classic(l) => l.abandon(eng),
            LruvecLoop::Before(l) => l.abandon(eng),
            LruvecLoop::After(l) => l.abandon(eng),
            LruvecLoop::Faulty(l) => l.abandon(eng),
            LruvecLoop::List(_) => {}
        }
    }

    /// The memcg should rotate to the young end of the memcg LRU.
    pub(crate) fn rotate(&self) -> bool {
        match self {
            LruvecLoop::Before(l) => l.rotate(),
            LruvecLoop::After(l) => l.rotate(),
            LruvecLoop::Faulty(l) => l.rotate(),
            LruvecLoop::Classic(_) | LruvecLoop::List(_) => false,
        }
    }

    /// A new generation was opened.
    pub(crate) fn aged(&self) -> bool {
        match self {
            LruvecLoop::Before(l) => l.opened_generation(),
            LruvecLoop::After(l) => l.opened_generation(),
            LruvecLoop::Faulty(l) => l.opened_generation(),
            LruvecLoop::Classic(_) | LruvecLoop::List(_) => false,
        }
    }
}
