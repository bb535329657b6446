//! Reclaim: what the engine asks for, and what it is told of references.

use super::{Policy, CPU};
use crate::record::arguments::digest;
use crate::record::ops::Op;
use coldset_engine::mglru::look_around::LookAround;
use coldset_engine::mglru::walk::{Walk, YoungEntry};
use coldset_engine::policies::outside::Event;
use coldset_engine::reclaim::{
    Answer, Decision, Freed, Outcome, ReclaimKind, ReclaimTask, ScanControl, Work,
};
use coldset_engine::{FolioId, LruType, LruvecId, MemcgId, NodeId};

/// A reclaim task, with a name for the journal.
#[derive(Debug)]
pub(crate) struct Task {
    id: u64,
    task: ReclaimTask,
    answer: Option<Answer>,
    look: Option<LookAround>,
    walk: Option<Walk>,
}

impl Task {
    /// Answers the last request.
    pub(crate) fn answer(&mut self, a: Answer) {
        self.answer = Some(a);
    }

    /// What the last step has decided on folios that it had asked to unmap.
    pub(crate) fn decided(&self) -> &[Decision] {
        self.task.decided()
    }

    /// What it has given up since it last asked to free.
    pub(crate) fn freed(&self) -> &[Freed] {
        self.task.freed()
    }

    /// How it ended.
    pub(crate) fn outcome(&self) -> Outcome {
        self.task.outcome()
    }

    /// The walk it has asked for, under its name.
    pub(crate) fn walk(&self) -> Option<WalkOf> {
        self.walk.map(|walk| WalkOf { id: self.id, walk })
    }
}

/// A walk that a task has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkOf {
    id: u64,
    pub(crate) walk: Walk,
}

impl Policy {
    /// Begins reclaim of `nr` pages below `memcg`: at its limit, or because somebody asked.
    pub(crate) fn reclaim(&mut self, memcg: MemcgId, nr: u64, asked: bool) -> Task {
        let id = self.task_id();
        self.note(Op::Reclaim(id, memcg, nr, asked));
        let task = if asked {
            let mut sc = ScanControl::new(nr, Some(memcg));
            sc.kind = ReclaimKind::Proactive;
            ReclaimTask::try_to_free(sc, CPU, NodeId(0))
        } else {
            ReclaimTask::limit(memcg, nr, CPU, NodeId(0))
        };
        // Programs use mapped pages without telling anybody: every region counts as having run.
        for b in self.books.values() {
            self.engine.mm_ran(b.mm);
        }
        Task {
            id,
            task,
            answer: None,
            look: None,
            walk: None,
        }
    }

    pub(crate) fn step(&mut self, t: &mut Task) -> Work {
        let answer = t.answer.take();
        self.note(Op::Step(t.id, answer));
        if let Some(a) = answer {
            t.task.answer(a);
        }
        let work = t.task.step(&mut self.engine);
        match work {
            Work::Test { look_around, .. } => t.look = look_around,
            Work::Walk(w) => t.walk = Some(w),
            _ => {}
        }
        if let Some(r) = &mut self.recorder {
            r.write(Op::Did(digest(&work)));
        }
        work
    }

    /// What a policy outside of the engine has to be told. Such a pool keeps no journal.
    pub(crate) fn take_events(&mut self) -> Vec<(LruvecId, LruType, Vec<Event>)> {
        self.engine.take_events()
    }

    /// The engine has forgotten these: they are the caller's.
    pub(crate) fn collect(&mut self, t: &Task) -> Vec<Freed> {
        self.note(Op::Collect(t.id));
        let owned = t.task.freed().iter().filter(|f| f.owned);
        let known = owned.filter(|f| self.books.contains_key(&f.object));
        let all: Vec<Freed> = known.copied().collect();
        for f in &all {
            self.books[&f.object].set_folio(f.index as usize, None);
            if let Some(r) = &mut self.recorder {
                r.write(Op::victim(f));
            }
        }
        all
    }

    /// The folio's page is not mapped any more (`mapped`: again).
    pub(crate) fn map(&mut self, id: FolioId, mapped: bool) {
        self.note(Op::Map(id, mapped));
        if mapped {
            self.engine.folio_map(id);
        } else {
            self.engine.folio_unmap(id);
        }
    }

    /// A neighbour of the page last tested is young.
    pub(crate) fn neighbour(&mut self, t: &Task, id: FolioId) {
        self.note(Op::Neighbour(t.id, id));
        if let Some(la) = &t.look {
            self.engine.look_around_young(la, CPU, id, false);
        }
    }

    /// Would [`Self::neighbour`] be told of this folio?
    pub(crate) fn wants_neighbour(&self, t: &Task, id: FolioId) -> bool {
        let wants = |la: &LookAround| self.engine.look_around_wants(la, id);
        t.look.as_ref().is_some_and(wants)
    }

    /// The neighbours of a page have been looked at.
    pub(crate) fn neighbours_done(&mut self, t: &Task, key: u64, pages: u64, young: u64) {
        self.note(Op::NeighboursDone(t.id, key, pages, young));
        if let Some(la) = &t.look {
            self.engine.look_around_done(la, key, pages, young);
        }
    }

    /// A walk has met a young page.
    pub(crate) fn walk_young(&mut self, w: &WalkOf, id: FolioId) {
        self.note(Op::WalkYoung(w.id, id));
        self.engine.walk_young(&w.walk, id, YoungEntry::default());
    }

    /// A walk is through with a block.
    pub(crate) fn walk_block(&mut self, w: &WalkOf, key: u64, pages: u64, young: u64) {
        self.note(Op::WalkBlock(w.id, key, pages, young));
        self.engine.walk_table_done(&w.walk, key, pages, young);
    }
}
