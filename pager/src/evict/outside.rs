//! A policy outside of the engine: told of pages, and asked for victims, by the thread that needs room.
//!
//! Its methods may be in another language, wait for a lock of that, and take long. So they are called with nothing
//! of the pager locked but the desk, at which one thread sits at a time:
//!
//! ```text
//!   desk -> core       what has happened is taken, and the core let go before the policy is told
//!   desk -> a method   asked with no page taken: another thread of the program may be closing the region
//! ```
//!
//! Nobody who holds the core, or whom a method could wait for, waits for the desk. While a method runs its thread
//! cannot come back ([`refuse_inside`](crate::budget::deciding::refuse_inside)): it would wait for itself.

use crate::budget::core::Core;
use crate::budget::deciding::Deciding;
use crate::budget::resources::Resources;
use crate::error::{Error, Result};
use crate::sys::PAGE;
use coldset_engine::policies::desk::{Desk, Makes, Numbers};
use coldset_engine::{FolioId, LruType, LruvecId, ObjectId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// Pages that may come in before a policy that is not asked is told.
const UNTOLD: u64 = 4096;

/// The policy of a pool, in all its instances.
#[derive(Debug)]
pub(super) struct Outside {
    desk: Mutex<Desk>,
    /// Pages that have come in since it was told.
    untold: AtomicU64,
}

/// Numbers of pages in the order in which they first came in.
#[derive(Default)]
struct InOrder {
    known: HashMap<(ObjectId, u32), u64>,
    next: u64,
}

impl Numbers for InOrder {
    fn number(&mut self, _at: u64, object: ObjectId, index: u32) -> u64 {
        let next = self.next;
        let number = *self.known.entry((object, index)).or_insert(next);
        self.next += u64::from(number == next);
        number
    }

    fn spare(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

impl Outside {
    pub(super) fn new(makes: Arc<dyn Makes>, budget: u64) -> Self {
        let numbers = Box::<InOrder>::default();
        Self {
            desk: Mutex::new(Desk::new(makes, budget / PAGE as u64, numbers)),
            untold: AtomicU64::new(0),
        }
    }

    /// The desk, as of now.
    fn desk(&self, res: &Resources) -> MutexGuard<'_, Desk> {
        let mut desk = self.desk.lock().expect("a method has panicked");
        desk.set_at(res.counts.misses.load(Relaxed));
        desk
    }

    /// Tells the policy what has happened. Nothing of the core is held meanwhile.
    /// False: nothing has.
    fn tell(&self, res: &Resources, desk: &mut Desk) -> bool {
        let events = res.core().policy.take_events();
        self.untold.store(0, Relaxed);
        let any = !events.is_empty();
        if any {
            let _deciding = Deciding::begin();
            desk.tell_events(events);
        }
        any
    }

    /// Pages are about to come in. A policy that is never asked is told now and then, or what it has to be told
    /// would take more and more memory.
    ///
    /// # Errors
    /// The policy has failed.
    pub(super) fn expect(&self, res: &Resources, pages: u64) -> Result<()> {
        if self.untold.fetch_add(pages, Relaxed) < UNTOLD {
            return Ok(());
        }
        let mut desk = self.desk(res);
        self.tell(res, &mut desk);
        failed(&mut desk)
    }

    /// The next victim, and the core in which it still is one. None: the oldest, for the policy has failed.
    pub(super) fn victim<'a>(
        &self,
        res: &'a Resources,
        lruvec: LruvecId,
        t: LruType,
    ) -> (Result<Option<FolioId>>, MutexGuard<'a, Core>) {
        let mut desk = self.desk(res);
        loop {
            let told = self.tell(res, &mut desk);
            if !desk.has_failed() && !desk.has_pages(lruvec, t) {
                if told {
                    continue;
                }
                // Others have taken all pages meanwhile.
                return (Ok(None), res.core());
            }
            let named = {
                let _deciding = Deciding::begin();
                desk.next(lruvec, t)
            };
            let core = res.core();
            match named {
                None => return (failed(&mut desk).map(|()| None), core),
                Some(id) if core.policy.engine().can_be_victim(lruvec, t, id) => {
                    return (Ok(Some(id)), core);
                }
                // It has left meanwhile: the next.
                Some(_) => drop(core),
            }
        }
    }
}

/// The failure of a policy, once.
fn failed(desk: &mut Desk) -> Result<()> {
    match desk.take_failure() {
        Some((_, failure)) => Err(Error::Policy(failure)),
        None => Ok(()),
    }
}
