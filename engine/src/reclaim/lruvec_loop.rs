//! Reclaim of one lruvec, whatever its policy.

use super::classic_loop::ClassicLoop;
use super::gen_loop::{Cx, GenLoop};
use super::list_loop::ListLoop;
use super::scan_control::ScanControl;
use super::work::Work;
use crate::engine::Engine;
use crate::ids::LruvecId;
use crate::lruvec::Policy;

/// One lruvec's reclaim in progress.
#[derive(Debug)]
pub(crate) enum LruvecLoop {
    Gen(Box<GenLoop>),
    Classic(Box<ClassicLoop>),
    List(ListLoop),
}

impl LruvecLoop {
    pub(crate) fn new(eng: &mut Engine, sc: &mut ScanControl, lruvec: LruvecId, cpu: u16) -> Self {
        eng.meter.visits += 1;
        match eng.lruvecs[lruvec.idx()].policy {
            Policy::MultiGen(_) => LruvecLoop::Gen(Box::new(GenLoop::new(eng, sc, lruvec, cpu))),
            Policy::Classic(_) => {
                LruvecLoop::Classic(Box::new(ClassicLoop::new(eng, sc, lruvec, cpu)))
            }
            Policy::List(_) => LruvecLoop::List(ListLoop::new(eng, sc, lruvec, cpu)),
        }
    }

    /// Goes on; `None` at the end.
    pub(crate) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Option<Work> {
        match self {
            LruvecLoop::Gen(l) => l.step(eng, cx),
            LruvecLoop::Classic(l) => l.step(eng, cx),
            LruvecLoop::List(l) => l.step(eng, cx),
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
