//! Telling the engine everything again, without any memory.

use super::{digest, unpack_answer, victim, Op, MAGIC};
use crate::policy::{Arrival, Book, Fed, Left, LimitWrite, Policy, PolicyConfig, Stepped, Task};
use coldset_engine::memcg::{ChargeTask, HighTask, TaskMemcg};
use coldset_engine::reclaim::Freed;
use coldset_engine::{presets, FolioId, MemcgId, ObjectId};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// What is wrong with a journal, or with the engine that replays it.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read. A journal of a program that was killed ends early.
    #[error("reading the journal: {0}")]
    Io(#[from] io::Error),
    /// It is not a journal, or one of another version.
    #[error("not a journal of this version: {0}")]
    Format(String),
    /// The engine decided otherwise than when it was recorded.
    #[error(
        "operation {at}: {what}; the journal was written by another version of the engine, or is \
         damaged"
    )]
    Diverged {
        /// Operations before it.
        at: u64,
        /// What differs.
        what: String,
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
    /// Requests of reclaim that were the recorded ones.
    pub requests: u64,
    /// Pages given up, in order, each as recorded.
    pub victims: Vec<Victim>,
}

/// Replays a journal over the policy it was recorded with, and compares every request of reclaim and
/// every page given up with what was recorded.
///
/// # Errors
/// An unreadable or foreign file; the first decision that differs.
pub fn replay(path: impl AsRef<Path>) -> Result<Replayed, JournalError> {
    let stream = zstd::Decoder::new(File::open(path)?)?;
    let mut from = BufReader::new(stream);
    let config = header(&mut from)?;
    let bad = |e: crate::Error| JournalError::Format(e.to_string());
    let policy = Policy::new(&config, None).map_err(bad)?;
    let mut r = Replay {
        policy,
        now: 0,
        next_task: 1,
        out: Replayed::default(),
        reclaims: BTreeMap::new(),
        charges: BTreeMap::new(),
        highs: BTreeMap::new(),
        limits: BTreeMap::new(),
        asked: None,
        gone: VecDeque::new(),
    };
    let mut args = [0; 5];
    while let Some(byte) = next_byte(&mut from)? {
        let (op, n) = Op::of(byte)
            .ok_or_else(|| JournalError::Format(format!("there is no operation {byte}")))?;
        for a in &mut args[..n] {
            *a = number(&mut from)?;
        }
        r.one(op, &args[..n])?;
        r.out.operations += 1;
    }
    Ok(r.out)
}

fn header(from: &mut impl BufRead) -> Result<PolicyConfig, JournalError> {
    let format = |what: &str| JournalError::Format(what.to_string());
    let mut line = String::new();
    let mut config = PolicyConfig {
        switches: presets::preset("base").map_err(|e| format(&e.to_string()))?,
        budget: 0,
        slots: 0,
    };
    let mut first = true;
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err(format("the header is not complete"));
        }
        let text = line.trim_end();
        if std::mem::take(&mut first) {
            if text != MAGIC {
                return Err(format(&format!("it does not begin with {MAGIC}")));
            }
            continue;
        }
        let number = |t: &str| t.parse::<u64>().map_err(|_| format(text));
        match text.split_once(' ') {
            None if text.is_empty() => return Ok(config),
            Some(("budget", v)) => config.budget = number(v)?,
            Some(("slots", v)) => config.slots = number(v)? as u32,
            Some(("switch", v)) => {
                let set = config.switches.assign(v);
                set.map_err(|e| format(&e.to_string()))?;
            }
            _ => return Err(format(text)),
        }
    }
}

fn next_byte(from: &mut impl Read) -> io::Result<Option<u8>> {
    let mut b = [0];
    // The end of a stream that is complete; one that is cut short is an error.
    loop {
        match from.read(&mut b) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(b[0])),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn number(from: &mut impl Read) -> Result<u64, JournalError> {
    let (mut v, mut shift) = (0u64, 0);
    loop {
        let b = next_byte(from)?
            .ok_or_else(|| JournalError::Format("it ends within an operation".into()))?;
        if shift > 63 {
            return Err(JournalError::Format("a number is too large".into()));
        }
        v |= u64::from(b & 0x7F) << shift;
        shift += 7;
        if b & 0x80 == 0 {
            return Ok(v);
        }
    }
}

struct Replay {
    policy: Policy,
    now: u64,
    /// Names of tasks are given in order.
    next_task: u64,
    out: Replayed,
    reclaims: BTreeMap<u64, Task>,
    charges: BTreeMap<u64, Stepped<ChargeTask>>,
    highs: BTreeMap<u64, Stepped<HighTask>>,
    limits: BTreeMap<u64, Stepped<LimitWrite>>,
    /// What the last step asked for.
    asked: Option<u64>,
    /// Pages given up that have not been compared yet.
    gone: VecDeque<Freed>,
}

impl Replay {
    fn diverged(&self, what: String) -> JournalError {
        JournalError::Diverged {
            at: self.out.operations,
            what,
        }
    }

    fn book(&self, object: u64, page: u64) -> Result<Arc<Book>, JournalError> {
        let book = self.policy.book(ObjectId(object as u32));
        book.filter(|b| page < b.pages() as u64)
            .ok_or_else(|| self.diverged(format!("page {page} of region {object} does not exist")))
    }

    fn folio(&self, id: u64) -> FolioId {
        FolioId(id as u32)
    }

    fn task(&mut self, id: u64) -> Result<(), JournalError> {
        if id != self.next_task {
            let what = format!("task {id} is named out of order");
            return Err(self.diverged(what));
        }
        self.next_task += 1;
        Ok(())
    }

    fn one(&mut self, op: Op, a: &[u64]) -> Result<(), JournalError> {
        if op != Op::Victim && !self.gone.is_empty() {
            let what = format!("{} pages more were given up", self.gone.len());
            return Err(self.diverged(what));
        }
        let group = |id: u64| MemcgId(id as u32);
        let at = self.out.operations;
        let no_task = |id: u64| JournalError::Diverged {
            at,
            what: format!("there is no task {id}"),
        };
        let refused = |e: &dyn std::fmt::Display| JournalError::Diverged {
            at,
            what: e.to_string(),
        };
        match op {
            Op::Now => {
                self.now += a[0];
                self.policy.set_now(self.now);
            }
            Op::Group => drop(self.policy.group(group(a[0])).map_err(|e| refused(&e))?),
            Op::Protect => {
                let (min, low) = (a[1].checked_sub(1), a[2].checked_sub(1));
                let set = self.policy.protect(group(a[0]), min, low);
                set.map_err(|e| refused(&e))?;
            }
            Op::Room => self.policy.set_room(a[0]),
            Op::Limit => {
                self.task(a[0])?;
                let w = self.policy.limit(group(a[1]), a[2] == 1, a[3]);
                self.limits.insert(a[0], w.map_err(|e| refused(&e))?);
            }
            Op::LimitStep => {
                let w = self.limits.get_mut(&a[0]).ok_or_else(|| no_task(a[0]))?;
                w.feed_all(Fed::unpack(a[1]));
                self.policy.limit_step(w);
            }
            Op::Drain => self.policy.drain(),
            Op::Charge => {
                // Refused or not: the journal says how it goes on.
                let mut task = TaskMemcg::default();
                let _ = self.policy.charge(group(a[0]), a[1], &mut task);
            }
            Op::ChargeOn => {
                self.task(a[0])?;
                let c = self.policy.charge_on(group(a[1]), a[2], group(a[3]));
                self.charges.insert(a[0], c);
            }
            Op::ChargeStep => {
                let c = self.charges.get_mut(&a[0]).ok_or_else(|| no_task(a[0]))?;
                c.feed_all(Fed::unpack(a[1]));
                self.policy.charge_step(c, &mut TaskMemcg::default());
            }
            Op::High => {
                self.task(a[0])?;
                let h = self.policy.high(group(a[1]), a[2]);
                self.highs.insert(a[0], h);
            }
            Op::HighStep => {
                let h = self.highs.get_mut(&a[0]).ok_or_else(|| no_task(a[0]))?;
                h.feed_all(Fed::unpack(a[1]));
                self.policy.high_step(h);
            }
            Op::Uncharge => self.policy.uncharge(group(a[0]), a[1]),
            Op::Open => {
                let open = self.policy.open(group(a[0]), a[1] as usize, a[2] == 1);
                drop(open.map_err(|e| refused(&e))?);
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
                let t = self.policy.reclaim(group(a[1]), a[2], a[3] == 1);
                self.reclaims.insert(a[0], t);
            }
            Op::Step => {
                let t = self.reclaims.get_mut(&a[0]).ok_or_else(|| no_task(a[0]))?;
                let answer = unpack_answer(a[1], a[2]);
                if let Some(answer) = answer.ok_or_else(|| refused(&"an unknown answer"))? {
                    t.answer(answer);
                }
                let work = self.policy.step(t);
                if work == coldset_engine::reclaim::Work::Done {
                    self.reclaims.remove(&a[0]);
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
                let t = self.reclaims.get(&a[0]).ok_or_else(|| no_task(a[0]))?;
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
            Op::Map => self.policy.map(self.folio(a[0]), a[1] == 1),
            Op::Neighbour => {
                let t = self.reclaims.get(&a[0]).ok_or_else(|| no_task(a[0]))?;
                let id = FolioId(a[1] as u32);
                self.policy.neighbour(t, id);
            }
            Op::NeighboursDone => {
                let t = self.reclaims.get(&a[0]).ok_or_else(|| no_task(a[0]))?;
                self.policy.neighbours_done(t, a[1], a[2], a[3]);
            }
            Op::WalkYoung | Op::WalkBlock => {
                let t = self.reclaims.get(&a[0]).ok_or_else(|| no_task(a[0]))?;
                let w = t.walk().ok_or_else(|| no_task(a[0]))?;
                if op == Op::WalkYoung {
                    self.policy.walk_young(&w, FolioId(a[1] as u32));
                } else {
                    self.policy.walk_block(&w, a[1], a[2], a[3]);
                }
            }
            Op::Dirty => self.policy.set_dirty(self.folio(a[0])),
            Op::WritebackStart => self.policy.writeback_start(self.folio(a[0])),
            Op::WritebackEnd => self.policy.writeback_end(self.folio(a[0]), a[1] == 1),
            Op::AllocSlot => drop(self.policy.alloc_slot(self.folio(a[0]))),
            Op::FreeSlot => self.policy.free_slot(None, a[0] as u32),
        }
        Ok(())
    }
}
