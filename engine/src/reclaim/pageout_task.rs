//! Reclaim of folios that the host names, in use or not, as `madvise(MADV_PAGEOUT)` asks for: one
//! list, without the loops that choose its victims.

use super::scan_control::ScanControl;
use super::shrink_list::ShrinkList;
use super::work::{Answer, Freed, Work};
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruvecId};
use std::hash::Hasher;

/// One list of folios on its way through. Step it until [`Work::Done`].
#[derive(Clone, Debug)]
pub struct PageoutTask {
    sc: ScanControl,
    list: ShrinkList,
    answer: Option<Answer>,
    lruvec: LruvecId,
    cpu: u16,
}

impl PageoutTask {
    /// Isolates those of `folios` that are on a list of `lruvec`, after the batches of `cpu` have been
    /// drained. What the request `sc` may do decides what becomes of them; whether they have been
    /// used does not.
    pub fn new(
        eng: &mut Engine,
        sc: ScanControl,
        lruvec: LruvecId,
        cpu: u16,
        folios: &[FolioId],
    ) -> Self {
        eng.lru_add_drain(cpu);
        let mut list = ShrinkList::default();
        for &id in folios {
            let f = &eng.folios[id];
            if !f.can_isolate() || f.lruvec() != lruvec {
                continue;
            }
            eng.lruvec_del(id, true);
            let f = &mut eng.folios[id];
            f.isolate();
            f.clear(Flags::ACTIVE);
            list.input.push(id);
        }
        list.begin(sc.target, true);
        Self {
            sc,
            list,
            answer: None,
            lruvec,
            cpu,
        }
    }

    /// Does bounded work and says what must happen next.
    pub fn step(&mut self, eng: &mut Engine) -> Work {
        self.list.decided.clear();
        match self.list.step(eng, &mut self.sc, &mut self.answer) {
            Some(work) => work,
            None => {
                let survivors = std::mem::take(&mut self.list.ret);
                eng.put_back(self.cpu, self.lruvec, &survivors);
                Work::Done
            }
        }
    }

    /// Answers the last request.
    pub fn answer(&mut self, answer: Answer) {
        debug_assert!(self.answer.is_none(), "answered twice: {answer:?}");
        self.answer = Some(answer);
    }

    /// What [`Work::Free`] and [`Work::Detach`] are about. Valid until the next step.
    pub fn freed(&self) -> &[Freed] {
        &self.list.freed
    }

    /// The task is killed at a [`Work::Yield`] or [`Work::WaitWriteback`]: what is isolated goes back.
    /// The host has flushed what was deferred.
    pub fn abandon(&mut self, eng: &mut Engine) {
        self.list.abandon(eng, self.cpu);
    }

    /// Hashes all that decides what the task does from here on, for hosts that compare states: tasks
    /// that hash alike behave alike. `name` gives folios their names.
    pub fn key(&self, name: &dyn Fn(FolioId) -> u8, key: &mut impl Hasher) {
        debug_assert!(self.answer.is_none(), "an answer is not part of the key");
        self.list.key(name, key);
    }
}
