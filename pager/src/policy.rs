//! All that decides, and nothing that touches memory: the engine, the swap slots, and the books that
//! say which folio, slot or shadow a page has.
//!
//! Whatever changes the engine goes through the methods of [`Policy`], and each of them writes one
//! line of the journal, if one is kept. The engine has no clock, no threads and no randomness of its
//! own, so the same lines in the same order lead to the same decisions: `journal/replay.rs` calls
//! these very methods.

use crate::error::Result;
use crate::journal::{Op, Recorder};
use crate::store::Swap;
use crate::sys::memory::Table;
use coldset_engine::memcg::{
    ChargeFlags, ChargeStep, ChargeTask, CounterKind, HighStep, HighTask, HighWrite, MaxWrite,
    MemcgError, TaskMemcg, WriteStep,
};
use coldset_engine::mglru::{look_around::LookAround, walk::Walk};
use coldset_engine::reclaim::{
    Answer, Freed, Outcome, ReclaimKind, ReclaimTask, ScanControl, Work, Written,
};
use coldset_engine::swap::slots::{SwapSlot, SwapSlots};
use coldset_engine::workingset::{refault::RefaultSite, Shadow};
use coldset_engine::{
    Config, Counter, Engine, Flags, FolioId, LruvecId, MemcgId, MmId, NewFolio, NodeId, ObjectId,
    Switches,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// The engine has one set of folio batches: everything happens under one lock.
pub(crate) const CPU: u16 = 0;

/// What a policy is made from. The journal's header has the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PolicyConfig {
    pub(crate) switches: Switches,
    /// Pages.
    pub(crate) budget: u64,
    /// Swap slots.
    pub(crate) slots: u32,
}

/// What is known of the pages of a region. Changed under the lock; the owner of a page may read its
/// slot and shadow without.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) object: ObjectId,
    pub(crate) memcg: MemcgId,
    pub(crate) lruvec: LruvecId,
    pub(crate) mm: MmId,
    pub(crate) anon: bool,
    pages: usize,
    /// Engine's folio + 1 of pages in memory.
    folio: Table<AtomicU32>,
    /// Swap slot + 1 of evicted pages.
    slot: Table<AtomicU32>,
    /// Shadow << 1 | 1 of evicted pages.
    shadow: Table<AtomicU64>,
}

impl Book {
    /// The folio of a page.
    pub(crate) fn folio(&self, page: usize) -> Option<FolioId> {
        let f = self.folio[page].load(Relaxed);
        f.checked_sub(1).map(FolioId)
    }

    fn set_folio(&self, page: usize, id: Option<FolioId>) {
        self.folio[page].store(id.map_or(0, |id| id.0 + 1), Relaxed);
    }

    /// The swap slot of an evicted page.
    pub(crate) fn slot(&self, page: usize) -> Option<u32> {
        self.slot[page].load(Relaxed).checked_sub(1)
    }

    fn set_slot(&self, page: usize, slot: Option<u32>) {
        self.slot[page].store(slot.map_or(0, |s| s + 1), Relaxed);
    }

    fn take_shadow(&self, page: usize) -> Option<u64> {
        if self.shadow[page].load(Relaxed) == 0 {
            return None;
        }
        let s = self.shadow[page].swap(0, Relaxed);
        (s & 1 == 1).then_some(s >> 1)
    }

    fn set_shadow(&self, page: usize, shadow: Option<u64>) {
        self.shadow[page].store(shadow.map_or(0, |s| s << 1 | 1), Relaxed);
    }

    /// Pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }
}

/// How a page comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The fault was for this very page.
    pub(crate) wanted: bool,
    /// It will be stored to at once.
    pub(crate) write: bool,
    /// It comes back because it could not be stored: no refault.
    pub(crate) returned: bool,
}

/// What became of a page that was taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Contents are in its slot or file.
    Stored,
    /// It was all zeroes: the slot is not needed.
    Zero,
    /// It could not be stored and stays.
    Back,
}

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

/// A charge, or a write to a limit, that goes in steps.
#[derive(Debug)]
pub(crate) struct Stepped<T> {
    id: u64,
    task: T,
    fed: Option<Fed>,
}

/// What a step is told first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fed {
    /// So many pages have been reclaimed.
    Reclaimed(u64),
    /// Out of memory: is it worth going on?
    Oom(bool),
}

impl Fed {
    pub(crate) fn pack(fed: Option<Fed>) -> u64 {
        match fed {
            None => 0,
            Some(Fed::Oom(go_on)) => 1 + u64::from(go_on),
            Some(Fed::Reclaimed(n)) => 3 + n,
        }
    }

    pub(crate) fn unpack(v: u64) -> Option<Fed> {
        match v {
            0 => None,
            1 | 2 => Some(Fed::Oom(v == 2)),
            n => Some(Fed::Reclaimed(n - 3)),
        }
    }
}

impl<T> Stepped<T> {
    /// Tells the next step what came of the last.
    pub(crate) fn feed(&mut self, fed: Fed) {
        self.fed = Some(fed);
    }

    /// The same, as recorded.
    pub(crate) fn feed_all(&mut self, fed: Option<Fed>) {
        self.fed = fed;
    }
}

/// A write to a limit.
#[derive(Debug)]
pub(crate) enum LimitWrite {
    High(HighWrite),
    Max(MaxWrite),
}

/// The deciding part of a pool. The pool has it behind its lock.
#[derive(Debug)]
pub(crate) struct Policy {
    engine: Engine,
    /// The memcg whose limit is the budget; parent of all groups.
    pub(crate) top: MemcgId,
    books: BTreeMap<ObjectId, Arc<Book>>,
    slots: Option<SwapSlots>,
    /// Memcg that each used slot is charged to.
    owner: Vec<MemcgId>,
    spare: Vec<FolioId>,
    next_object: u32,
    next_task: u64,
    now: u64,
    /// What the engine has been told of `now`.
    told: u64,
    recorder: Option<Recorder>,
}

impl Policy {
    pub(crate) fn new(config: &PolicyConfig, recorder: Option<Recorder>) -> Result<Self> {
        let mut engine = Engine::new(
            Config {
                swap_synchronous: true,
                ..Config::default()
            },
            config.switches.clone(),
        )?;
        let top = engine.memcg_create(MemcgId::ROOT)?;
        engine
            .memcgs
            .set_max(top, CounterKind::Memory, config.budget)?;
        let mut policy = Self {
            engine,
            top,
            books: BTreeMap::new(),
            slots: None,
            owner: Vec::new(),
            spare: Vec::new(),
            next_object: 1,
            next_task: 1,
            now: 0,
            told: 0,
            recorder,
        };
        if config.slots > 0 {
            let mut s = SwapSlots::new(512, None).expect("a power of two");
            s.add_area(config.slots, 0).expect("not empty");
            policy.slots = Some(s);
        }
        policy.tell_swap();
        Ok(policy)
    }

    /// The engine, to be looked at.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The time of what comes next, nanoseconds.
    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Every change begins here: the engine gets to know the time, and the journal the change.
    fn note(&mut self, op: Op, args: &[u64]) {
        if self.now != self.told {
            self.engine.set_now(self.now);
            if let Some(r) = &mut self.recorder {
                r.write(Op::Now, &[self.now - self.told]);
            }
            self.told = self.now;
        }
        if let Some(r) = &mut self.recorder {
            r.write(op, args);
        }
    }

    fn task_id(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task - 1
    }

    // ------------------------------------------------------------ groups and limits

    pub(crate) fn group(&mut self, parent: MemcgId) -> Result<MemcgId> {
        self.note(Op::Group, &[parent.0.into()]);
        Ok(self.engine.memcg_create(parent)?)
    }

    /// Sets the two protections.
    pub(crate) fn protect(
        &mut self,
        memcg: MemcgId,
        min: Option<u64>,
        low: Option<u64>,
    ) -> Result<()> {
        let pack = |v: Option<u64>| v.map_or(0, |v| v + 1);
        self.note(Op::Protect, &[memcg.0.into(), pack(min), pack(low)]);
        if let Some(v) = min {
            self.engine.memcgs.set_min(memcg, v)?;
        }
        if let Some(v) = low {
            self.engine.memcgs.set_low(memcg, v)?;
        }
        Ok(())
    }

    /// What the pages of the budget may take.
    pub(crate) fn set_room(&mut self, pages: u64) {
        self.note(Op::Room, &[pages]);
        let top = self.top;
        let set = self.engine.memcgs.set_max(top, CounterKind::Memory, pages);
        debug_assert!(set.is_ok());
    }

    pub(crate) fn limit(
        &mut self,
        memcg: MemcgId,
        max: bool,
        pages: u64,
    ) -> std::result::Result<Stepped<LimitWrite>, MemcgError> {
        let id = self.task_id();
        self.note(Op::Limit, &[id, memcg.0.into(), max.into(), pages]);
        let tree = &mut self.engine.memcgs;
        let task = if max {
            LimitWrite::Max(MaxWrite::new(tree, memcg, pages)?)
        } else {
            LimitWrite::High(HighWrite::new(tree, memcg, pages)?)
        };
        let fed = None;
        Ok(Stepped { id, task, fed })
    }

    pub(crate) fn limit_step(&mut self, w: &mut Stepped<LimitWrite>) -> WriteStep {
        let fed = w.fed.take();
        self.note(Op::LimitStep, &[w.id, Fed::pack(fed)]);
        let tree = &mut self.engine.memcgs;
        match &mut w.task {
            LimitWrite::High(t) => {
                if let Some(Fed::Reclaimed(n)) = fed {
                    t.reclaim_done(n);
                }
                t.step(tree, false)
            }
            LimitWrite::Max(t) => {
                if let Some(Fed::Reclaimed(n)) = fed {
                    t.reclaim_done(n);
                }
                t.step(tree, false)
            }
        }
    }

    pub(crate) fn drain(&mut self) {
        self.note(Op::Drain, &[]);
        self.engine.lru_add_drain_all();
    }

    // ------------------------------------------------------------ charges

    pub(crate) fn charge(
        &mut self,
        memcg: MemcgId,
        pages: u64,
        task: &mut TaskMemcg,
    ) -> std::result::Result<(), MemcgId> {
        self.note(Op::Charge, &[memcg.0.into(), pages]);
        let tree = &mut self.engine.memcgs;
        tree.try_charge_fast(memcg, pages, CPU.into(), task)
    }

    /// Goes on with a refused charge.
    pub(crate) fn charge_on(
        &mut self,
        memcg: MemcgId,
        pages: u64,
        over: MemcgId,
    ) -> Stepped<ChargeTask> {
        let id = self.task_id();
        self.note(Op::ChargeOn, &[id, memcg.0.into(), pages, over.0.into()]);
        let task = ChargeTask::refused(memcg, pages, ChargeFlags::USER, over);
        let fed = None;
        Stepped { id, task, fed }
    }

    pub(crate) fn charge_step(
        &mut self,
        c: &mut Stepped<ChargeTask>,
        high: &mut TaskMemcg,
    ) -> ChargeStep {
        let fed = c.fed.take();
        self.note(Op::ChargeStep, &[c.id, Fed::pack(fed)]);
        match fed {
            None => {}
            Some(Fed::Reclaimed(n)) => c.task.reclaim_done(n),
            Some(Fed::Oom(go_on)) => c.task.oom_done(go_on),
        }
        c.task.step(&mut self.engine.memcgs, CPU.into(), high)
    }

    /// Begins what a charge above memory.high has to do.
    pub(crate) fn high(&mut self, memcg: MemcgId, over_high: u64) -> Stepped<HighTask> {
        let id = self.task_id();
        self.note(Op::High, &[id, memcg.0.into(), over_high]);
        let hz = u64::from(self.engine.config().hz);
        let task = HighTask::new(memcg, &mut TaskMemcg { over_high }, hz);
        let fed = None;
        Stepped { id, task, fed }
    }

    pub(crate) fn high_step(&mut self, h: &mut Stepped<HighTask>) -> HighStep {
        let fed = h.fed.take();
        self.note(Op::HighStep, &[h.id, Fed::pack(fed)]);
        if let Some(Fed::Reclaimed(n)) = fed {
            h.task.reclaim_done(&self.engine.memcgs, n);
        }
        h.task.step(&mut self.engine.memcgs, false)
    }

    pub(crate) fn uncharge(&mut self, memcg: MemcgId, pages: u64) {
        self.note(Op::Uncharge, &[memcg.0.into(), pages]);
        self.engine.memcgs.uncharge(memcg, pages);
    }

    // ------------------------------------------------------------ regions and pages

    /// A new region, with its book.
    pub(crate) fn open(&mut self, memcg: MemcgId, pages: usize, anon: bool) -> Result<Arc<Book>> {
        let sys = crate::error::Error::sys("tables of a region");
        let (folio, slot) = (
            Table::new(pages).map_err(&sys)?,
            Table::new(pages).map_err(&sys)?,
        );
        let shadow = Table::new(pages).map_err(&sys)?;
        self.note(Op::Open, &[memcg.0.into(), pages as u64, anon.into()]);
        let object = ObjectId(self.next_object);
        self.next_object += 1;
        let book = Arc::new(Book {
            object,
            memcg,
            lruvec: self.engine.lruvec_id(memcg, NodeId(0)),
            mm: self.engine.mm_create(memcg),
            anon,
            pages,
            folio,
            slot,
            shadow,
        });
        self.books.insert(object, book.clone());
        Ok(book)
    }

    /// The region is gone; all its pages have been forgotten.
    pub(crate) fn close(&mut self, book: &Book) {
        self.note(Op::Close, &[book.object.0.into()]);
        self.books.remove(&book.object);
        self.engine.mm_destroy(book.mm);
    }

    /// The book of a region.
    pub(crate) fn book(&self, object: ObjectId) -> Option<Arc<Book>> {
        self.books.get(&object).cloned()
    }

    /// A charged page of a region is in memory: the engine gets to know it. It keeps its swap slot,
    /// as a clean copy, while there is plenty of swap; `plenty` is the store's opinion.
    pub(crate) fn insert(
        &mut self,
        book: &Book,
        swap: Option<&Swap>,
        page: usize,
        how: Arrival,
        plenty: bool,
    ) {
        let bits = u64::from(how.wanted)
            | u64::from(how.write) << 1
            | u64::from(how.returned) << 2
            | u64::from(plenty) << 3;
        self.note(Op::Insert, &[book.object.0.into(), page as u64, bits]);
        self.insert_noted(book, swap, page, how, plenty);
    }

    fn insert_noted(
        &mut self,
        book: &Book,
        swap: Option<&Swap>,
        page: usize,
        how: Arrival,
        plenty: bool,
    ) {
        let flags = if book.anon {
            Flags::ANON | Flags::SWAPBACKED | Flags::UPTODATE
        } else {
            Flags::OWNED | Flags::UPTODATE
        };
        let eng = &mut self.engine;
        let id = eng.folio_alloc(NewFolio {
            lruvec: book.lruvec,
            object: book.object,
            index: page as u32,
            order: 0,
            zone: 0,
            flags,
        });
        if !book.anon {
            eng.folio_get(id, 1);
        }
        eng.folio_map(id);
        book.set_folio(page, Some(id));
        let shadow = book.take_shadow(page);
        if let Some(s) = shadow.filter(|_| !how.returned) {
            eng.refault(id, Shadow(s), RefaultSite::Fault);
        }
        if let Some(slot) = book.slot(page) {
            book.set_slot(page, None);
            let (used, total) = self.slots();
            let tree = &self.engine.memcgs;
            let full = tree.swap_full(book.memcg, total - used, total);
            // A copy that is about to grow old is only in the way.
            if !how.write && !how.returned && !full && plenty {
                self.engine.enter_swap_cache(id, slot);
            } else {
                self.give_slot(swap, slot);
            }
        }
        if how.write && !book.anon {
            self.engine.set_dirty(id);
        }
        self.engine.lru_add(CPU, id, how.wanted);
        self.engine.folio_put(id, 1);
        self.forget_newly_dirty();
    }

    /// The page's owner (its region is going away, or the fill failed) takes it from the engine.
    pub(crate) fn forget(&mut self, book: &Book, swap: Option<&Swap>, page: usize) {
        self.note(Op::Forget, &[book.object.0.into(), page as u64]);
        if let Some(id) = book.folio(page) {
            book.set_folio(page, None);
            let eng = &mut self.engine;
            eng.folio_get(id, 1);
            while eng.folio(id).mapped() {
                eng.folio_unmap(id);
            }
            if let Some(slot) = eng.folio(id).swap_slot() {
                eng.leave_swap_cache(id);
                self.give_slot(swap, slot);
            }
            let eng = &mut self.engine;
            if eng.folio(id).has(Flags::OWNED) {
                eng.folio_clear(id, Flags::OWNED);
                eng.folio_put(id, 1);
            }
            eng.clear_dirty(id);
            eng.folio_put(id, 1);
        }
        if let Some(slot) = book.slot(page) {
            book.set_slot(page, None);
            self.give_slot(swap, slot);
        }
        book.set_shadow(page, None);
    }

    /// A page that [`Self::collect`] has given away has left memory, or comes back. Its slot, shadow.
    pub(crate) fn left(
        &mut self,
        book: &Book,
        swap: Option<&Swap>,
        page: usize,
        what: Left,
        slot: Option<u32>,
        shadow: Option<u64>,
    ) {
        self.note(
            Op::Left,
            &[
                book.object.0.into(),
                page as u64,
                what as u64,
                slot.map_or(0, |s| u64::from(s) + 1),
                shadow.map_or(0, |s| s + 1),
            ],
        );
        book.set_slot(page, None);
        match what {
            Left::Stored => {
                book.set_slot(page, slot);
                book.set_shadow(page, shadow);
            }
            Left::Zero => {
                if let Some(slot) = slot {
                    self.give_slot(swap, slot);
                }
                book.set_shadow(page, shadow);
            }
            Left::Back => {
                if let Some(slot) = slot {
                    self.give_slot(swap, slot);
                }
                let tree = &mut self.engine.memcgs;
                tree.charge_forced(book.memcg, CounterKind::Memory, 1);
                let how = Arrival {
                    wanted: false,
                    write: !book.anon,
                    returned: true,
                };
                self.insert_noted(book, swap, page, how, false);
            }
        }
    }

    // ------------------------------------------------------------ reclaim

    /// Begins reclaim of `nr` pages below `memcg`: at its limit, or because somebody asked.
    pub(crate) fn reclaim(&mut self, memcg: MemcgId, nr: u64, asked: bool) -> Task {
        let id = self.task_id();
        self.note(Op::Reclaim, &[id, memcg.0.into(), nr, asked.into()]);
        let task = if asked {
            let mut sc = ScanControl::new(nr, Some(memcg));
            sc.kind = ReclaimKind::Proactive;
            ReclaimTask::try_to_free(sc, CPU, NodeId(0))
        } else {
            ReclaimTask::limit(memcg, nr, CPU, NodeId(0))
        };
        // Programs use mapped pages without telling anybody: every region counts as having run.
        for b in self.books.values() {
            self.engine.mm_ran(b.mm, 0);
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
        let (kind, value) = pack_answer(answer.as_ref());
        self.note(Op::Step, &[t.id, kind, value]);
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
            r.write(Op::Did, &[digest(&work)]);
        }
        work
    }

    /// The engine has forgotten these: they are the caller's.
    pub(crate) fn collect(&mut self, t: &Task) -> Vec<Freed> {
        self.note(Op::Collect, &[t.id]);
        let owned = t.task.freed().iter().filter(|f| f.owned);
        let known = owned.filter(|f| self.books.contains_key(&f.object));
        let all: Vec<Freed> = known.copied().collect();
        for f in &all {
            self.books[&f.object].set_folio(f.index as usize, None);
            if let Some(r) = &mut self.recorder {
                r.write(Op::Victim, &victim(f));
            }
        }
        all
    }

    /// The folio's page is not mapped any more (`mapped`: again).
    pub(crate) fn map(&mut self, id: FolioId, mapped: bool) {
        self.note(Op::Map, &[id.0.into(), mapped.into()]);
        if mapped {
            self.engine.folio_map(id);
        } else {
            self.engine.folio_unmap(id);
        }
    }

    /// A neighbour of the page last tested is young.
    pub(crate) fn neighbour(&mut self, t: &Task, id: FolioId) {
        self.note(Op::Neighbour, &[t.id, id.0.into()]);
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
        self.note(Op::NeighboursDone, &[t.id, key, pages, young]);
        if let Some(la) = &t.look {
            self.engine.look_around_done(la, key, pages, young);
        }
    }

    /// A walk has met a young page.
    pub(crate) fn walk_young(&mut self, w: &WalkOf, id: FolioId) {
        self.note(Op::WalkYoung, &[w.id, id.0.into()]);
        self.engine.walk_young(&w.walk, id, false);
    }

    /// A walk is through with a block.
    pub(crate) fn walk_block(&mut self, w: &WalkOf, key: u64, pages: u64, young: u64) {
        self.note(Op::WalkBlock, &[w.id, key, pages, young]);
        self.engine.walk_table_done(&w.walk, key, pages, young);
    }

    // ------------------------------------------------------------ dirty pages

    pub(crate) fn set_dirty(&mut self, id: FolioId) {
        self.note(Op::Dirty, &[id.0.into()]);
        self.engine.set_dirty(id);
        self.forget_newly_dirty();
    }

    /// Stores that nobody has seen yet count as dirtied now, and the page is on its way.
    pub(crate) fn writeback_start(&mut self, id: FolioId) {
        self.note(Op::WritebackStart, &[id.0.into()]);
        self.engine.set_dirty(id);
        self.engine.clear_dirty(id);
        self.engine.writeback_start(id);
        self.forget_newly_dirty();
    }

    pub(crate) fn writeback_end(&mut self, id: FolioId, failed: bool) {
        self.note(Op::WritebackEnd, &[id.0.into(), failed.into()]);
        if failed {
            self.engine.set_dirty(id);
        }
        self.engine.writeback_end(CPU, id);
        self.forget_newly_dirty();
    }

    /// The engine remembers newly dirty folios for a flusher that queues them; ours finds them by
    /// block.
    fn forget_newly_dirty(&mut self) {
        if self.engine.has_newly_dirty() {
            self.engine.take_newly_dirty(&mut self.spare);
        }
    }

    // ------------------------------------------------------------ slots

    fn tell_swap(&mut self) {
        if let Some(s) = &self.slots {
            let (free, total) = (s.free(), s.total());
            self.engine.set_swap(free, total);
        }
    }

    /// Slots: used and all.
    pub(crate) fn slots(&self) -> (u64, u64) {
        let s = self.slots.as_ref();
        s.map_or((0, 0), |s| (s.total() - s.free(), s.total()))
    }

    /// A slot for a folio, charged to its memcg.
    pub(crate) fn alloc_slot(&mut self, folio: FolioId) -> Option<u32> {
        self.note(Op::AllocSlot, &[folio.0.into()]);
        let memcg = self.engine.lruvec(self.engine.folio(folio).lruvec()).memcg;
        let slots = self.slots.as_mut()?;
        let Some(got) = slots.allocate(CPU.into()) else {
            self.engine.memcgs.event(memcg, Counter::EventsSwapFail);
            return None;
        };
        let slot = got.slot.offset;
        match self.engine.memcgs.charge_swap(memcg, 1) {
            Ok(owner) => {
                if self.owner.len() <= slot as usize {
                    self.owner.resize(slot as usize + 1, MemcgId::ROOT);
                }
                self.owner[slot as usize] = owner;
            }
            Err(_) => {
                slots.release(CPU.into(), got.slot);
                return None;
            }
        }
        self.tell_swap();
        Some(slot)
    }

    /// Gives a slot back. Its contents go too.
    pub(crate) fn free_slot(&mut self, swap: Option<&Swap>, slot: u32) {
        self.note(Op::FreeSlot, &[slot.into()]);
        self.give_slot(swap, slot);
    }

    fn give_slot(&mut self, swap: Option<&Swap>, slot: u32) {
        if let Some(swap) = swap {
            swap.remove(slot);
        }
        let slots = self.slots.as_mut().expect("slot of a swap");
        slots.release(
            CPU.into(),
            SwapSlot {
                area: 0,
                offset: slot,
            },
        );
        let owner = self.owner[slot as usize];
        let uncharged = self.engine.memcgs.uncharge_swap(owner, 1);
        debug_assert!(uncharged.is_ok(), "swap charge of {owner:?}");
        self.tell_swap();
    }
}

/// What the journal says of a page given up.
pub(crate) fn victim(f: &Freed) -> [u64; 4] {
    [
        f.object.0.into(),
        f.index.into(),
        f.swap.map_or(0, |s| u64::from(s) + 1),
        f.shadow.map_or(0, |s| s.0 + 1),
    ]
}

/// A request in one number: enough to notice that two differ.
pub(crate) fn digest(w: &Work) -> u64 {
    let of = |kind: u64, id: u32| kind | u64::from(id) << 4;
    match w {
        Work::Test { folio, .. } => of(1, folio.0),
        Work::Walk(w) => of(2, w.mm.0),
        Work::Unmap { folio } => of(3, folio.0),
        Work::Write { folio } => of(4, folio.0),
        Work::AllocSwap { folio } => of(5, folio.0),
        Work::FreeSwap { slot, .. } => of(6, *slot),
        Work::WaitWriteback { folio } => of(7, folio.0),
        Work::Free | Work::Detach => 8,
        Work::Done => 9,
        _ => 10,
    }
}

/// An answer as a kind and a value.
fn pack_answer(a: Option<&Answer>) -> (u64, u64) {
    match a {
        None => (0, 0),
        Some(Answer::References(r)) => {
            let bits = u64::from(r.locked) | u64::from(r.unknown) << 1 | u64::from(r.exec) << 2;
            (1, bits | u64::from(r.accessed) << 3)
        }
        Some(Answer::Walked { slots }) => (2, *slots),
        Some(Answer::Unmapped { deferred, writable }) => {
            (3, u64::from(*deferred) | u64::from(*writable) << 1)
        }
        Some(Answer::Written(w)) => (
            4,
            match w {
                Written::Submitted => 0,
                Written::Activate => 1,
                Written::Failed => 2,
                Written::NoRoom => unreachable!("the pager's folios are single pages"),
            },
        ),
        Some(Answer::Slot(s)) => (5, s.map_or(0, |s| u64::from(s) + 1)),
        Some(Answer::Slab(n)) => (6, *n),
        Some(Answer::Stretch { .. }) => unreachable!("the pager walks in one go"),
        Some(Answer::Split(_)) => unreachable!("the pager's folios are single pages"),
    }
}

/// The opposite. None: no such kind.
pub(crate) fn unpack_answer(kind: u64, value: u64) -> Option<Option<Answer>> {
    use coldset_engine::reclaim::References;
    let bit = |n: u32| value >> n & 1 == 1;
    Some(match kind {
        0 => None,
        1 => Some(Answer::References(References {
            locked: bit(0),
            unknown: bit(1),
            exec: bit(2),
            accessed: (value >> 3) as u32,
        })),
        2 => Some(Answer::Walked { slots: value }),
        3 => Some(Answer::Unmapped {
            deferred: bit(0),
            writable: bit(1),
        }),
        4 => Some(Answer::Written(match value {
            0 => Written::Submitted,
            1 => Written::Activate,
            _ => Written::Failed,
        })),
        5 => Some(Answer::Slot((value as u32).checked_sub(1))),
        6 => Some(Answer::Slab(value)),
        _ => return None,
    })
}
