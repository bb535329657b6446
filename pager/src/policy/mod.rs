//! Everything that decides, and nothing that touches memory: the engine, the swap slots, and the books that say which
//! folio, slot or shadow a page has.
//!
//! Every change of the engine goes through the methods of [`Policy`], and each method writes one operation to the
//! journal, if one is kept. The engine has no clock, no threads and no randomness of its own, so the same operations
//! in the same order lead to the same decisions: `replay/run.rs` calls the same methods.
//!
//! | file | what |
//! |---|---|
//! | `book.rs` | what is known of the pages of a region |
//! | `limits.rs` | groups, limits, charges |
//! | `pages.rs` | pages that come, go and become dirty |
//! | `slots.rs` | swap slots |
//! | `state.rs` | all of it as bytes |
//! | `task.rs` | reclaim, and what it learns of references |

mod book;
mod limits;
mod pages;
mod slots;
mod state;
mod task;

pub(crate) use crate::record::arguments::{Arrival, Fed, Left};
pub(crate) use crate::record::header::PolicyConfig;
pub(crate) use book::Book;
pub(crate) use limits::{LimitWrite, Stepped};
pub(crate) use task::{Task, WalkOf};

use crate::error::Result;
use crate::record::ops::Op;
use crate::record::write::Recorder;
use coldset_engine::memcg::CounterKind;
use coldset_engine::swap::slots::SwapSlots;
use coldset_engine::{Config, Engine, FolioId, MemcgId, ObjectId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// The engine has one set of folio batches: everything happens under one lock.
pub(crate) const CPU: u16 = 0;

/// The deciding part of a pool. The pool has it behind its lock.
#[derive(Debug)]
pub(crate) struct Policy {
    engine: Engine,
    /// The memcg whose limit is the budget; parent of all groups.
    pub(crate) top: MemcgId,
    books: BTreeMap<ObjectId, Arc<Book>>,
    /// Bytes of memory that the records of all books take.
    records: Arc<AtomicU64>,
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

/// Of every pool's engine.
fn config() -> Config {
    Config {
        swap_synchronous: true,
        ..Config::default()
    }
}

impl Policy {
    pub(crate) fn new(config: &PolicyConfig, recorder: Option<Recorder>) -> Result<Self> {
        let mut engine = Engine::new(self::config(), config.switches.clone())?;
        let top = engine.memcg_create(MemcgId::ROOT)?;
        engine
            .memcgs
            .set_max(top, CounterKind::Memory, config.budget)?;
        let mut policy = Self {
            engine,
            top,
            books: BTreeMap::new(),
            records: Arc::new(AtomicU64::new(0)),
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
            // Tables of the stores have entries for all slots ever used, which count against the budget.
            policy.slots = Some(s.dense());
        }
        policy.tell_swap();
        Ok(policy)
    }

    /// The engine, to be looked at.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Bytes of memory that the records of all pages take.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// The books of all regions.
    pub(crate) fn books(&self) -> impl Iterator<Item = &Book> {
        self.books.values().map(|b| &**b)
    }

    /// The time told last, nanoseconds, and the name of the next task.
    pub(crate) fn clock_and_task(&self) -> (u64, u64) {
        (self.told, self.next_task)
    }

    /// Writes down all that comes from now on; what was kept before.
    pub(crate) fn record(&mut self, to: Option<Recorder>) -> Option<Recorder> {
        std::mem::replace(&mut self.recorder, to)
    }

    /// Is a journal being kept?
    pub(crate) fn records(&self) -> bool {
        self.recorder.is_some()
    }

    /// The time of what comes next, nanoseconds.
    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Every change begins here: the engine is told the time, and the journal the change.
    pub(super) fn note(&mut self, op: Op) {
        if self.now != self.told {
            self.engine.set_now(self.now);
            if let Some(r) = &mut self.recorder {
                let ns = self.now - self.told;
                r.write(Op::Now(ns));
            }
            self.told = self.now;
        }
        if let Some(r) = &mut self.recorder {
            r.write(op);
        }
    }

    pub(super) fn task_id(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task - 1
    }
}
