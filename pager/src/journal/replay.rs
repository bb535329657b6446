//! Telling the engine everything again, without any memory.

use super::accesses::Stream;
use super::fits::Wait;
use super::quiet::quietly;
use super::read::{Header, Reader};
use super::{digest, unpack_answer, victim, Op};
use crate::policy::{Arrival, Book, Fed, Left, LimitWrite, Policy, Stepped, Task};
use coldset_engine::memcg::{ChargeTask, HighTask, TaskMemcg};
use coldset_engine::reclaim::{Answer, Freed, Work};
use coldset_engine::{FolioId, MemcgId};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What is wrong with a journal, or with the engine that replays it.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read.
    #[error("reading the journal: {0}; check the path and its permissions")]
    Io(#[from] io::Error),
    /// It is not a journal, or not even its beginning is there.
    #[error("not a journal: {0}; record one with Pool::record or COLDSET_JOURNAL")]
    Format(String),
    /// It was written in another format.
    #[error(
        "the journal has format {0}, this version reads format 2; replay it with the version of \
         coldset that wrote it"
    )]
    Version(String),
    /// Its bytes are not those that were written.
    #[error("the journal is damaged: {0}; copy it again from where it was recorded")]
    Damaged(String),
    /// An operation that cannot have been recorded.
    #[error("journal damaged at operation {at}: {what}; copy it again from where it was recorded")]
    DamagedAt {
        /// Operations before it.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The engine decided otherwise than when it was recorded.
    #[error(
        "operation {at}: {what}; the journal was written by another engine (version {written_by}), \
         or is not what was written: replay it with that version"
    )]
    Diverged {
        /// Operations before it.
        at: u64,
        /// What differs.
        what: String,
        /// Version of this crate that wrote the journal.
        written_by: String,
    },
}

/// A page that the engine gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Number of the region, in order of creation, from 1.
    pub region: u32,
    /// Page of it.
    pub page: u32,
}

/// What a replay came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Operations told.
    pub operations: u64,
    /// Decisions: requests of reclaim that were the recorded ones.
    pub requests: u64,
    /// Pages given up, in order, each as recorded.
    pub victims: Vec<Victim>,
    /// The journal has no end: the program was killed or the disk was full. All that is there has
    /// been replayed.
    pub truncated: bool,
    /// It begins in the middle of its pool's life.
    pub from_state: bool,
}

/// Replays a journal over the policy it was recorded with, and compares every request of reclaim and
/// every page given up with what was recorded.
///
/// # Errors
/// An unreadable, foreign or damaged file; the first decision that differs.
pub fn replay(path: impl AsRef<Path>) -> Result<Replayed, JournalError> {
    run(path.as_ref(), None).map(|r| r.out)
}

/// Replays, and gathers what is seen of accesses on the way.
pub(super) fn run(path: &Path, stream: Option<Stream>) -> Result<Replay, JournalError> {
    let (mut from, header) = Reader::open(path)?;
    let made = quietly(|| Replay::new(header, stream));
    let mut r = made.unwrap_or_else(|e| Err(JournalError::Damaged(format!("its state: {e}"))))?;
    let mut args = [0; 5];
    while let Some(op) = from.next(&mut args)? {
        if op == Op::End {
            continue;
        }
        let a = &args[..op.args()];
        let damaged = |at, what| JournalError::DamagedAt { at, what };
        let at = r.out.operations;
        let fits = r.fits(op, a);
        fits.map_err(|e| damaged(at, format!("{op:?} {a:?}: {e}")))?;
        // Whatever else the engine asserts of what it is told.
        let done = quietly(|| r.one(op, a));
        let asserted = |e| damaged(at, format!("the engine cannot do {op:?} {a:?}: {e}"));
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

    fn book(&self, object: u64, page: u64) -> Result<Arc<Book>, JournalError> {
        self.known_book(object, page)
            .ok_or_else(|| self.diverged(format!("page {page} of region {object} does not exist")))
    }

    fn folio(&self, id: u64) -> Result<FolioId, JournalError> {
        self.known_folio(id)
            .ok_or_else(|| self.diverged(format!("there is no folio {id}")))
    }

    fn group(&self, id: u64) -> Result<MemcgId, JournalError> {
        self.known_group(id)
            .ok_or_else(|| self.diverged(format!("there is no group {id}")))
    }

    fn reclaim(&self, id: u64) -> Result<&Task, JournalError> {
        self.reclaims.get(&id).ok_or_else(|| self.no_task(id))
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

    fn one(&mut self, op: Op, a: &[u64]) -> Result<(), JournalError> {
        if op != Op::Victim {
            self.nothing_left()?;
        }
        let (at, written_by) = (self.out.operations, self.header.written_by.clone());
        let refused = move |e: &dyn std::fmt::Display| JournalError::Diverged {
            at,
            what: e.to_string(),
            written_by: written_by.clone(),
        };
        match op {
            Op::Now => {
                self.now += a[0];
                self.policy.set_now(self.now);
            }
            Op::Group => drop(
                self.policy
                    .group(self.group(a[0])?)
                    .map_err(|e| refused(&e))?,
            ),
            Op::Protect => {
                let (min, low) = (a[1].checked_sub(1), a[2].checked_sub(1));
                let set = self.policy.protect(self.group(a[0])?, min, low);
                set.map_err(|e| refused(&e))?;
            }
            Op::Room => self.policy.set_room(a[0]),
            Op::Limit => {
                self.task(a[0])?;
                let w = self.policy.limit(self.group(a[1])?, a[2] == 1, a[3]);
                let w = w.map_err(|e| refused(&e))?;
                self.limits.insert(a[0], (w, Wait::Nothing));
            }
            Op::LimitStep => {
                let Some((mut w, _)) = self.limits.remove(&a[0]) else {
                    return Err(self.no_task(a[0]));
                };
                w.feed_all(Fed::unpack(a[1]));
                let step = self.policy.limit_step(&mut w);
                if let Some(wait) = Wait::of_limit(&step) {
                    self.limits.insert(a[0], (w, wait));
                }
            }
            Op::Drain => self.policy.drain(),
            Op::Charge => {
                // Refused or not: the journal says how it goes on.
                let mut task = TaskMemcg::default();
                let group = self.group(a[0])?;
                let _ = self.policy.charge(group, a[1], &mut task);
            }
            Op::ChargeOn => {
                self.task(a[0])?;
                let c = self
                    .policy
                    .charge_on(self.group(a[1])?, a[2], self.group(a[3])?);
                self.charges.insert(a[0], (c, Wait::Nothing));
            }
            Op::ChargeStep => {
                let Some((mut c, _)) = self.charges.remove(&a[0]) else {
                    return Err(self.no_task(a[0]));
                };
                c.feed_all(Fed::unpack(a[1]));
                let high = &mut TaskMemcg::default();
                let step = self.policy.charge_step(&mut c, high);
                if let Some(wait) = Wait::of_charge(&step) {
                    self.charges.insert(a[0], (c, wait));
                }
            }
            Op::High => {
                self.task(a[0])?;
                let h = self.policy.high(self.group(a[1])?, a[2]);
                self.highs.insert(a[0], (h, Wait::Nothing));
            }
            Op::HighStep => {
                let Some((mut h, _)) = self.highs.remove(&a[0]) else {
                    return Err(self.no_task(a[0]));
                };
                h.feed_all(Fed::unpack(a[1]));
                let step = self.policy.high_step(&mut h);
                if let Some(wait) = Wait::of_high(&step) {
                    self.highs.insert(a[0], (h, wait));
                }
            }
            Op::Uncharge => {
                let group = self.group(a[0])?;
                self.policy.uncharge(group, a[1]);
            }
            Op::Open => {
                let (pages, anon) = (a[1], a[2] == 1);
                let group = self.group(a[0])?;
                let open = self.policy.open(group, pages as usize, anon);
                let book = open.map_err(|e| refused(&e))?;
                if let Some(s) = &mut self.stream {
                    s.opened(&book);
                }
            }
            Op::Close => {
                let book = self.book(a[0], 0)?;
                self.policy.close(&book);
            }
            Op::Insert => {
                let book = self.book(a[0], a[1])?;
                let bit = |n: u32| a[2] >> n & 1 == 1;
                let how = Arrival {
                    wanted: bit(0),
                    write: bit(1),
                    returned: bit(2),
                };
                if let Some(s) = &mut self.stream {
                    s.arrived(&book, a[1] as usize, how, self.now);
                }
                self.policy.insert(&book, None, a[1] as usize, how, bit(3));
            }
            Op::Forget => {
                let book = self.book(a[0], a[1])?;
                self.policy.forget(&book, None, a[1] as usize);
            }
            Op::Left => {
                let book = self.book(a[0], a[1])?;
                let what = [Left::Stored, Left::Zero, Left::Back];
                let what = what.get(a[2] as usize);
                let what = *what.ok_or_else(|| refused(&"an unknown fate of a page"))?;
                let slot = a[3].checked_sub(1).map(|s| s as u32);
                let shadow = a[4].checked_sub(1);
                self.policy
                    .left(&book, None, a[1] as usize, what, slot, shadow);
            }
            Op::Reclaim => {
                self.task(a[0])?;
                let t = self.policy.reclaim(self.group(a[1])?, a[2], a[3] == 1);
                self.reclaims.insert(a[0], t);
            }
            Op::Step => {
                let answer = unpack_answer(a[1], a[2]);
                let answer = answer.ok_or_else(|| refused(&"an unknown answer"))?;
                let tested = self.tested.remove(&a[0]);
                if let (Some(Answer::References(r)), Some(id)) = (&answer, tested) {
                    if r.accessed > 0 {
                        self.young(id);
                    }
                }
                let Some(t) = self.reclaims.get_mut(&a[0]) else {
                    return Err(self.no_task(a[0]));
                };
                if let Some(answer) = answer {
                    t.answer(answer);
                }
                let work = self.policy.step(t);
                self.waits.insert(a[0], Wait::of_work(&work));
                match work {
                    Work::Done => {
                        self.reclaims.remove(&a[0]);
                        self.waits.remove(&a[0]);
                    }
                    Work::Test { folio, .. } => drop(self.tested.insert(a[0], folio)),
                    _ => {}
                }
                self.asked = Some(digest(&work));
            }
            Op::Did => {
                let asked = self.asked.take();
                if asked != Some(a[0]) {
                    let what = format!("reclaim asked for {asked:?}, not for {}", a[0]);
                    return Err(self.diverged(what));
                }
                self.out.requests += 1;
            }
            Op::Collect => {
                let t = self.reclaims.get(&a[0]);
                let t = t.ok_or_else(|| self.no_task(a[0]))?;
                self.gone = self.policy.collect(t).into();
            }
            Op::Victim => {
                let f = self.gone.pop_front();
                if f.as_ref().map(victim).as_ref().map(|v| &v[..]) != Some(a) {
                    let what = format!("{f:?} was given up, not {a:?}");
                    return Err(self.diverged(what));
                }
                self.out.victims.push(Victim {
                    region: a[0] as u32,
                    page: a[1] as u32,
                });
            }
            Op::Map => {
                let id = self.folio(a[0])?;
                self.policy.map(id, a[1] == 1);
            }
            Op::Neighbour => {
                let id = self.folio(a[1])?;
                self.young(id);
                let t = self.reclaims.get(&a[0]);
                let t = t.ok_or_else(|| refused(&"no such task"))?;
                self.policy.neighbour(t, id);
            }
            Op::NeighboursDone => {
                let t = self.reclaims.get(&a[0]);
                let t = t.ok_or_else(|| refused(&"no such task"))?;
                self.policy.neighbours_done(t, a[1], a[2], a[3]);
            }
            Op::WalkYoung | Op::WalkBlock => {
                let walk = self.reclaim(a[0])?.walk();
                let w = walk.ok_or_else(|| refused(&"no walk was asked for"))?;
                if op == Op::WalkYoung {
                    let id = self.folio(a[1])?;
                    self.young(id);
                    self.policy.walk_young(&w, id);
                } else {
                    self.policy.walk_block(&w, a[1], a[2], a[3]);
                }
            }
            Op::Dirty => {
                let id = self.folio(a[0])?;
                if let Some(s) = &mut self.stream {
                    s.stored(&self.policy, id, self.now);
                }
                self.policy.set_dirty(id);
            }
            Op::WritebackStart => {
                let id = self.folio(a[0])?;
                self.policy.writeback_start(id);
            }
            Op::WritebackEnd => {
                let id = self.folio(a[0])?;
                self.policy.writeback_end(id, a[1] == 1);
            }
            Op::AllocSlot => {
                let id = self.folio(a[0])?;
                self.policy.alloc_slot(id);
            }
            Op::FreeSlot => self.policy.free_slot(None, a[0] as u32),
            Op::End => unreachable!("the reader ends there"),
        }
        Ok(())
    }
}
