//! Where a host meets a policy outside of the engine: pages by number, calls in order, mistakes noticed.
//!
//! The engine knows nothing of it. A host that runs policies written elsewhere ([`super::outside`]) keeps a
//! [`Desk`] beside the engine, hands it the engine now and then ([`Desk::tell`]) and answers
//! [`Work::Victim`](crate::reclaim::Work::Victim) by [`Desk::victim`].

use super::outside::{Event, OutsideKind, Told};
use crate::engine::Engine;
use crate::ids::{FolioId, LruType, LruvecId, ObjectId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Why a policy cannot go on.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is said of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Say {
    /// It comes into memory.
    Insert,
    /// It is in memory, and used.
    Hit,
    /// It has been evicted, but stays.
    PutBack,
    /// The same, and it was found in use.
    PutBackUsed,
    /// It has been evicted or removed, and waits to be the next victim.
    Due,
    /// It leaves without having been evicted.
    Remove,
}

/// A policy that decides for the pages of one type of an lruvec. It is told of what happens some time later, but in
/// order, and before it is asked for a victim.
pub trait Decides: Send {
    /// Pages, by their numbers, and what has happened to them. `at` is the time of the host.
    ///
    /// # Errors
    /// The policy cannot go on.
    fn tell(&mut self, at: u64, said: &[(Say, u64)]) -> Result<(), Failure>;

    /// The page that goes. It is gone when this returns.
    ///
    /// # Errors
    /// The policy cannot go on.
    fn evict(&mut self, at: u64) -> Result<u64, Failure>;

    /// It has evicted a page that is not in memory.
    fn refuse(&mut self, at: u64, page: u64) -> Failure;
}

/// Makes a policy for each type of each lruvec.
pub trait Makes: fmt::Debug + Send + Sync {
    /// Its name, for tables and errors.
    fn name(&self) -> &str;

    /// What the engine has to know.
    fn kind(&self) -> OutsideKind;

    /// Takes [`Say::Remove`]. A policy that does not is not told that a page has left. To it the page is in
    /// memory until it evicts it, which evicts nothing, and one that comes back before is used again.
    fn is_told_of_removals(&self) -> bool;

    /// Takes [`Say::Due`]. For a policy that does not, pages that wait to go are kept here, and go first.
    fn takes_due(&self) -> bool;

    /// A policy for a memory of so many pages.
    ///
    /// # Errors
    /// It cannot be made.
    fn make(&self, frames: u64) -> Result<Box<dyn Decides>, Failure>;
}

/// Numbers of pages.
pub trait Numbers: Send {
    /// The number of a page, given the time of the host, its object and its index there.
    fn number(&mut self, at: u64, object: ObjectId, index: u32) -> u64;

    /// One that no page has.
    fn spare(&mut self) -> u64;
}

/// All instances of a policy.
pub struct Desk {
    makes: Arc<dyn Makes>,
    frames: u64,
    numbers: Box<dyn Numbers>,
    at: u64,
    instances: BTreeMap<(LruvecId, u8), Instance>,
    /// By record: the page that was last told of, and its number.
    known: HashMap<FolioId, (ObjectId, u32, u64)>,
    failure: Option<(u64, Failure)>,
    failed: bool,
}

/// The policy of one type of an lruvec, and the pages that it has.
struct Instance {
    policy: Box<dyn Decides>,
    takes_due: bool,
    told_of_removals: bool,
    resident: HashMap<u64, FolioId>,
    /// Written, and next to go, the last one first. The policy does not have them.
    due: Vec<(u64, FolioId)>,
    /// The policy takes them for resident.
    stale: HashSet<u64>,
    said: Vec<(Say, u64)>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.makes.name();
        f.debug_struct("Desk").field("policy", &name).finish()
    }
}

impl Desk {
    /// No instance yet. Each is made for a memory of `frames` pages.
    pub fn new(makes: Arc<dyn Makes>, frames: u64, numbers: Box<dyn Numbers>) -> Self {
        Self {
            makes,
            frames,
            numbers,
            at: 0,
            instances: BTreeMap::new(),
            known: HashMap::new(),
            failure: None,
            failed: false,
        }
    }

    /// The host's time, for numbers and errors.
    pub fn set_at(&mut self, at: u64) {
        self.at = at;
    }

    /// Why the policy has failed, once, and when. It is not asked any more then: the oldest pages go.
    pub fn take_failure(&mut self) -> Option<(u64, Failure)> {
        self.failure.take()
    }

    /// Whether the policy has failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn fail(&mut self, failure: Failure) {
        self.failed = true;
        self.failure.get_or_insert((self.at, failure));
    }

    /// Tells the policy what has happened since.
    pub fn tell(&mut self, engine: &mut Engine) {
        let events = engine.take_events();
        self.tell_events(events);
    }

    /// The same of what has been taken from the engine ([`Engine::take_events`]), in the order in which it was taken.
    pub fn tell_events(&mut self, all: Vec<(LruvecId, LruType, Vec<Event>)>) {
        for (lruvec, t, events) in all {
            if self.failed {
                return;
            }
            if let Err(failure) = self.tell_one((lruvec, t.idx() as u8), &events) {
                self.fail(failure);
            }
        }
    }

    fn tell_one(&mut self, key: (LruvecId, u8), events: &[Event]) -> Result<(), Failure> {
        let instance = match self.instances.entry(key) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(Instance {
                policy: self.makes.make(self.frames)?,
                takes_due: self.makes.takes_due(),
                told_of_removals: self.makes.is_told_of_removals(),
                resident: HashMap::new(),
                due: Vec::new(),
                stale: HashSet::new(),
                said: Vec::new(),
            }),
        };
        for e in events {
            let known = self.known.get(&e.folio);
            let same =
                known.filter(|k| (k.0, k.1) == (e.object, e.index) && e.told != Told::Insert);
            let page = match same {
                Some(known) => known.2,
                None => {
                    let page = self.numbers.number(self.at, e.object, e.index);
                    self.known.insert(e.folio, (e.object, e.index, page));
                    page
                }
            };
            let mut page = page;
            if instance.is_another(e.told, page, e.folio) {
                // The page has been cut off its file and is there again while somebody still holds what it was.
                page = self.numbers.spare();
                self.known.insert(e.folio, (e.object, e.index, page));
            }
            instance.note(e.told, page, e.folio);
        }
        let said = std::mem::take(&mut instance.said);
        match said.is_empty() {
            true => Ok(()),
            false => instance.policy.tell(self.at, &said),
        }
    }

    /// The next victim of a type of an lruvec, or none: the policy has failed. The policy is told what has happened
    /// first.
    pub fn victim(&mut self, engine: &mut Engine, lruvec: LruvecId, t: LruType) -> Option<FolioId> {
        self.tell(engine);
        loop {
            let id = self.next(lruvec, t)?;
            // Another could only have left after the policy was told.
            if engine.can_be_victim(lruvec, t, id) {
                return Some(id);
            }
        }
    }

    /// There is a page that the policy of a type of an lruvec could name.
    pub fn has_pages(&self, lruvec: LruvecId, t: LruType) -> bool {
        let instance = self.instances.get(&(lruvec, t.idx() as u8));
        instance.is_some_and(|i| !i.resident.is_empty() || !i.due.is_empty())
    }

    /// As [`Self::victim`], of what the policy has been told. For a host whose folios may leave meanwhile: the engine
    /// may no longer take this one.
    pub fn next(&mut self, lruvec: LruvecId, t: LruType) -> Option<FolioId> {
        if self.failed {
            return None;
        }
        let instance = self.instances.get_mut(&(lruvec, t.idx() as u8))?;
        match instance.evict(self.at) {
            Ok(id) => Some(id),
            Err(failure) => {
                self.fail(failure);
                None
            }
        }
    }
}

impl Instance {
    /// A folio comes onto a list, and another one with its number is there.
    fn is_another(&self, told: Told, page: u64, id: FolioId) -> bool {
        let there = self.resident.get(&page).copied();
        let there = there.or(self.due.iter().find(|d| d.0 == page).map(|d| d.1));
        let comes = !matches!(told, Told::Hit | Told::Remove);
        comes && there.is_some_and(|other| other != id)
    }

    /// Says what has happened to a page, as far as the policy has to know.
    fn note(&mut self, told: Told, page: u64, id: FolioId) {
        let say = match told {
            Told::Remove => {
                if self.leave_due(page) || self.resident.remove(&page).is_none() {
                    return;
                }
                if !self.told_of_removals {
                    self.stale.insert(page);
                    return;
                }
                Say::Remove
            }
            Told::Due if !self.takes_due => {
                self.due.push((page, id));
                return;
            }
            Told::Hit => match self.leave_due(page) {
                true => self.comes(page, id, Say::PutBackUsed),
                false => Say::Hit,
            },
            Told::Insert => self.comes(page, id, Say::Insert),
            Told::PutBack { used: false } => self.comes(page, id, Say::PutBack),
            Told::PutBack { used: true } => self.comes(page, id, Say::PutBackUsed),
            Told::Due => self.comes(page, id, Say::Due),
        };
        self.said.push((say, page));
    }

    /// A page is in memory. What to say of it: a policy that takes it for resident sees a use.
    fn comes(&mut self, page: u64, id: FolioId, say: Say) -> Say {
        self.resident.insert(page, id);
        match self.stale.remove(&page) && say != Say::Due {
            true => Say::Hit,
            false => say,
        }
    }

    fn leave_due(&mut self, page: u64) -> bool {
        let place = self.due.iter().position(|d| d.0 == page);
        place.map(|at| self.due.remove(at)).is_some()
    }

    fn evict(&mut self, at: u64) -> Result<FolioId, Failure> {
        if let Some((_, id)) = self.due.pop() {
            return Ok(id);
        }
        loop {
            let page = self.policy.evict(at)?;
            if let Some(id) = self.resident.remove(&page) {
                return Ok(id);
            }
            if !self.stale.remove(&page) {
                return Err(self.policy.refuse(at, page));
            }
        }
    }
}
