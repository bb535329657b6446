//! Telling the engine everything again, without any memory.

use super::error::{JournalError, Replayed, Victim};
use super::read::{Header, Reader};
use super::stream::Stream;
use super::wait::Wait;
use crate::policy::{Book, LimitWrite, Policy, Stepped, Task, WalkOf};
use crate::record::arguments::digest;
use crate::record::ops::Op;
use crate::sys::quiet::quietly;
use coldset_engine::memcg::{ChargeTask, HighTask, TaskMemcg};
use coldset_engine::reclaim::{Answer, Freed, Work};
use coldset_engine::{FolioId, MemcgId, ObjectId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// Replays a journal over the policy it was recorded with, and compares every request of reclaim and
/// every page given up with what was recorded.
///
/// # Errors
/// An unreadable, foreign or damaged file; the first decision that differs.
pub fn replay(path: impl AsRef<Path>) -> Result<Replayed, JournalError> {
    run(path.as_ref(), None).map(|r| r.out)
}

/// Replays, and gives the policy's state in the end.
#[cfg(test)]
pub(crate) fn final_state(path: &Path) -> Result<(Replayed, Vec<u8>), JournalError> {
    let r = run(path, None)?;
    Ok((r.out, r.policy.save()))
}

/// Replays, and gathers what is seen of accesses on the way.
pub(super) fn run(path: &Path, stream: Option<Stream>) -> Result<Replay, JournalError> {
    let (mut from, header) = Reader::open(path)?;
    let made = quietly(|| Replay::new(header, stream));
    let mut r = made.unwrap_or_else(|e| Err(JournalError::Damaged(format!("its state: {e}"))))?;
    while let Some(op) = from.next()? {
        if op == (Op::End()) {
            continue;
        }
        let damaged = |at, what| JournalError::DamagedAt { at, what };
        let at = r.out.operations;
        let fits = r.fits(op);
        fits.map_err(|e| damaged(at, format!("{op:?}: {e}")))?;
        // Whatever else the engine asserts of what it is told.
        let done = quietly(|| r.one(op));
        let asserted = |e| damaged(at, format!("the engine cannot do {op:?}: {e}"));
        done.map_err(asserted)??;
        r.out.operations += 1;
    }
    r.out.truncated = from.truncated;
    if !from.truncated {
        r.nothing_left()?;
    }
    Ok(r)
}

/// A replay under way.
pub(super) struct Replay {
    pub(super) policy: Policy,
    pub(super) header: Header,
    pub(super) now: u64,
    /// Names of tasks are given in order.
    next_task: u64,
    pub(super) out: Replayed,
    pub(super) reclaims: BTreeMap<u64, Task>,
    /// What each of them waits for.
    pub(super) waits: BTreeMap<u64, Wait>,
    /// What each of them has asked to test.
    tested: BTreeMap<u64, FolioId>,
    pub(super) charges: BTreeMap<u64, (Stepped<ChargeTask>, Wait)>,
    pub(super) highs: BTreeMap<u64, (Stepped<HighTask>, Wait)>,
    pub(super) limits: BTreeMap<u64, (Stepped<LimitWrite>, Wait)>,
    /// What the last step asked for.
    asked: Option<u64>,
    /// Pages given up that have not been compared yet.
    gone: VecDeque<Freed>,
    pub(super) stream: Option<Stream>,
}

impl Replay {
    fn new(mut header: Header, mut stream: Option<Stream>) -> Result<Self, JournalError> {
        let from_state = header.state.is_some();
        let policy = match header.state.take() {
            None => Policy::new(&header.config, None).map_err(|e| {
                // Sizes that no pool can have.
                JournalError::Format(e.to_string())
            })?,
            Some(state) => *state,
        };
        let (now, next_task) = policy.clock_and_task();
        let out = Replayed {
            from_state,
            ..Replayed::default()
        };
        if let Some(s) = &mut stream {
            s.begin(&policy, now);
        }
        Ok(Self {
            policy,
            header,
            now,
            next_task,
            out,
            reclaims: BTreeMap::new(),
            waits: BTreeMap::new(),
            tested: BTreeMap::new(),
            charges: BTreeMap::new(),
            highs: BTreeMap::new(),
            limits: BTreeMap::new(),
            asked: None,
            gone: VecDeque::new(),
            stream,
        })
    }

    fn diverged(&self, what: String) -> JournalError {
        JournalError::Diverged {
            at: self.out.operations,
            what,
            written_by: self.header.written_by.clone(),
        }
    }

    /// All that was given up has been compared.
    fn nothing_left(&self) -> Result<(), JournalError> {
        if self.gone.is_empty() {
            return Ok(());
        }
        Err(self.diverged(format!("{} pages more were given up", self.gone.len())))
    }

    fn book(&self, region: ObjectId, page: u64) -> Result<Arc<Book>, JournalError> {
        self.known_book(region, page).ok_or_else(|| {
            self.diverged(format!("page {page} of region {} does not exist", region.0))
        })
    }

    fn folio(&self, id: FolioId) -> Result<FolioId, JournalError> {
        self.known_folio(id)
            .ok_or_else(|| self.diverged(format!("there is no folio {}", id.0)))
    }

    fn group(&self, id: MemcgId) -> Result<MemcgId, JournalError> {
        self.known_group(id)
            .ok_or_else(|| self.diverged(format!("there is no group {}", id.0)))
    }

    fn no_task(&self, id: u64) -> JournalError {
        self.diverged(format!("there is no task {id}"))
    }

    fn task(&mut self, id: u64) -> Result<(), JournalError> {
        if id != self.next_task {
            let what = format!("task {id} is named out of order");
            return Err(self.diverged(what));
        }
        self.next_task += 1;
        Ok(())
    }

    /// A page is known to have been used.
    fn young(&mut self, id: FolioId) {
        if let Some(s) = &mut self.stream {
            s.young(&self.policy, id, self.now);
        }
    }

    /// An answer of the policy that was another one when it was recorded.
    fn refused(&self, e: impl Display) -> JournalError {
        self.diverged(e.to_string())
    }

    /// Tells the policy one operation again.
    fn one(&mut self, op: Op) -> Result<(), JournalError> {
        if !matches!(op, Op::Victim(..)) {
            self.nothing_left()?;
        }
        match op {
            Op::Now(ns) => {
                self.now += ns;
                self.policy.set_now(self.now);
            }
            Op::Group(parent) => {
                let parent = self.group(parent)?;
                let made = self.policy.group(parent);
                made.map_err(|e| self.refused(e))?;
            }
            Op::Protect(group, min, low) => {
                let group = self.group(group)?;
                let set = self.policy.protect(group, min, low);
                set.map_err(|e| self.refused(e))?;
            }
            Op::Room(pages) => self.policy.set_room(pages),
            Op::Limit(task, group, max, pages) => {
                self.task(task)?;
                let group = self.group(group)?;
                let w = self.policy.limit(group, max, pages);
                let w = w.map_err(|e| self.refused(e))?;
                self.limits.insert(task, (w, Wait::Nothing));
            }
            Op::LimitStep(task, fed) => {
                let known = self.limits.remove(&task);
                let (mut w, _) = known.ok_or_else(|| self.no_task(task))?;
                w.feed_all(fed);
                let step = self.policy.limit_step(&mut w);
                if let Some(wait) = Wait::of_limit(&step) {
                    self.limits.insert(task, (w, wait));
                }
            }
            Op::Drain() => self.policy.drain(),
            Op::Charge(group, pages) => {
                // Refused or not: the journal says how it continues.
                let group = self.group(group)?;
                let _ = self.policy.charge(group, pages, &mut TaskMemcg::default());
            }
            Op::ChargeOn(task, group, pages, over) => {
                self.task(task)?;
                let (group, over) = (self.group(group)?, self.group(over)?);
                let c = self.policy.charge_on(group, pages, over);
                self.charges.insert(task, (c, Wait::Nothing));
            }
            Op::ChargeStep(task, fed) => {
                let known = self.charges.remove(&task);
                let (mut c, _) = known.ok_or_else(|| self.no_task(task))?;
                c.feed_all(fed);
                let step = self.policy.charge_step(&mut c, &mut TaskMemcg::default());
                if let Some(wait) = Wait::of_charge(&step) {
                    self.charges.insert(task, (c, wait));
                }
            }
            Op::High(task, group, pages) => {
                self.task(task)?;
                let group = self.group(group)?;
                let h = self.policy.high(group, pages);
                self.highs.insert(task, (h, Wait::Nothing));
            }
            Op::HighStep(task, fed) => {
                let known = self.highs.remove(&task);
                let (mut h, _) = known.ok_or_else(|| self.no_task(task))?;
                h.feed_all(fed);
                let step = self.policy.high_step(&mut h);
                if let Some(wait) = Wait::of_high(&step) {
                    self.highs.insert(task, (h, wait));
                }
            }
            Op::Uncharge(group, pages) => {
                let group = self.group(group)?;
                self.policy.uncharge(group, pages);
            }
            Op::Open(group, pages, anon) => {
                let group = self.group(group)?;
                let open = self.policy.open(group, pages as usize, anon);
                let book = open.map_err(|e| self.refused(e))?;
                if let Some(s) = &mut self.stream {
                    s.opened(&book);
                }
            }
            Op::Close(region) => {
                let book = self.book(region, 0)?;
                self.policy.close(&book);
            }
            Op::Insert(region, page, how) => {
                let book = self.book(region, page)?;
                if let Some(s) = &mut self.stream {
                    s.arrived(&book, page as usize, how, self.now);
                }
                self.policy.insert(&book, None, page as usize, how);
            }
            Op::Forget(region, page) => {
                let book = self.book(region, page)?;
                self.policy.forget(&book, None, page as usize);
            }
            Op::Left(region, page, what, slot, shadow) => {
                let book = self.book(region, page)?;
                self.policy
                    .left(&book, None, page as usize, what, slot, shadow);
            }
            Op::Reclaim(task, group, pages, asked) => {
                self.task(task)?;
                let group = self.group(group)?;
                let t = self.policy.reclaim(group, pages, asked);
                self.reclaims.insert(task, t);
            }
            Op::Step(task, answer) => self.step(task, answer)?,
            Op::Did(digest) => {
                let asked = self.asked.take();
                if asked != Some(digest) {
                    let what = format!("reclaim asked for {asked:?}, not for {digest}");
                    return Err(self.diverged(what));
                }
                self.out.requests += 1;
            }
            Op::Collect(task) => {
                let t = self.reclaims.get(&task);
                let t = t.ok_or_else(|| self.no_task(task))?;
                self.gone = self.policy.collect(t).into();
            }
            Op::Victim(region, page, _, _) => {
                let f = self.gone.pop_front();
                if f.as_ref().map(Op::victim) != Some(op) {
                    let what = format!("{f:?} was given up, not {op:?}");
                    return Err(self.diverged(what));
                }
                self.out.victims.push(Victim {
                    region: region.0,
                    page,
                });
            }
            Op::Map(folio, mapped) => {
                let id = self.folio(folio)?;
                self.policy.map(id, mapped);
            }
            Op::Neighbour(task, folio) => {
                let id = self.folio(folio)?;
                self.young(id);
                let t = self.reclaims.get(&task);
                let t = t.ok_or_else(|| self.no_task(task))?;
                self.policy.neighbour(t, id);
            }
            Op::NeighboursDone(task, block, pages, young) => {
                let t = self.reclaims.get(&task);
                let t = t.ok_or_else(|| self.no_task(task))?;
                self.policy.neighbours_done(t, block, pages, young);
            }
            Op::WalkYoung(task, folio) => {
                let w = self.walk(task)?;
                let id = self.folio(folio)?;
                self.young(id);
                self.policy.walk_young(&w, id);
            }
            Op::WalkBlock(task, block, pages, young) => {
                let w = self.walk(task)?;
                self.policy.walk_block(&w, block, pages, young);
            }
            Op::Dirty(folio) => {
                let id = self.folio(folio)?;
                if let Some(s) = &mut self.stream {
                    s.stored(&self.policy, id, self.now);
                }
                self.policy.set_dirty(id);
            }
            Op::WritebackStart(folio) => {
                let id = self.folio(folio)?;
                self.policy.writeback_start(id);
            }
            Op::WritebackEnd(folio, failed) => {
                let id = self.folio(folio)?;
                self.policy.writeback_end(id, failed);
            }
            Op::AllocSlot(folio) => {
                let id = self.folio(folio)?;
                self.policy.alloc_slot(id);
            }
            Op::FreeSlot(slot) => self.policy.free_slot(None, slot),
            Op::End() => unreachable!("the reader ends there"),
        }
        Ok(())
    }

    /// A step of reclaim.
    fn step(&mut self, task: u64, answer: Option<Answer>) -> Result<(), JournalError> {
        let tested = self.tested.remove(&task);
        if let (Some(Answer::References(r)), Some(id)) = (&answer, tested) {
            if r.accessed > 0 {
                self.young(id);
            }
        }
        let Some(t) = self.reclaims.get_mut(&task) else {
            return Err(self.no_task(task));
        };
        if let Some(answer) = answer {
            t.answer(answer);
        }
        let work = self.policy.step(t);
        self.waits.insert(task, Wait::of_work(&work));
        match work {
            Work::Done => {
                self.reclaims.remove(&task);
                self.waits.remove(&task);
            }
            Work::Test { folio, .. } => drop(self.tested.insert(task, folio)),
            _ => {}
        }
        self.asked = Some(digest(&work));
        Ok(())
    }

    /// The walk that a task has asked for.
    fn walk(&self, task: u64) -> Result<WalkOf, JournalError> {
        let t = self.reclaims.get(&task);
        let t = t.ok_or_else(|| self.no_task(task))?;
        t.walk()
            .ok_or_else(|| self.diverged("no walk was asked for".into()))
    }
}
