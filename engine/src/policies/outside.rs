//! A policy outside of the engine: the host names the victims.
//!
//! The engine keeps the folios in the order of insertion, writes down what the policy has to know ([`Told`]),
//! and asks the host for each victim ([`Work::Victim`](crate::reclaim::Work::Victim)). Without an answer the
//! oldest goes. [`super::desk`] is what a host may put between.

use super::{ListPolicy, Pages, Queue};
use crate::ids::{FolioId, ObjectId};

/// What the engine has to know of a policy outside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct OutsideKind {
    /// It is told of uses, and page tables are looked at for it.
    pub uses: bool,
    /// A use moves the folio in its list, under the lru_lock, as with exact LRU. It costs time.
    pub moves: bool,
    /// Files as long as there are any in the budget, swap then; otherwise by swappiness.
    pub file_first: bool,
}

/// What has happened to a folio.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum Told {
    /// It is new, or comes onto a list again after [`Self::Remove`].
    Insert,
    /// It has been used.
    Hit,
    /// It was the victim and has come back, for something stood in the way.
    PutBack {
        /// It was mapped, and has been used since somebody last looked.
        used: bool,
    },
    /// It has been written and waits to go: it should be the next victim. It may have come onto the list
    /// with this.
    Due,
    /// It has left, without being the victim.
    Remove,
}

/// An event of the lists, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Event {
    /// What has happened.
    pub told: Told,
    /// To which record. It may be another folio's by now.
    pub folio: FolioId,
    /// The object that it was of.
    pub object: ObjectId,
    /// Index of its first page in the object.
    pub index: u32,
}

/// In the bits of a folio that is on no list: it was used meanwhile.
const PENDING: u32 = 1;
/// It is mapped and was found in use.
const FOUND: u32 = 2;

/// All folios in the order of insertion, and what the policy has not been told yet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Outside {
    kind: OutsideKind,
    list: [Queue; 1],
    /// The host has said that this one goes next.
    named: Option<FolioId>,
    /// The victim, on its way off the list.
    going: Option<FolioId>,
    events: Vec<Event>,
}

impl Outside {
    /// No folio yet.
    pub fn new(kind: OutsideKind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// As it was made.
    pub fn kind(&self) -> OutsideKind {
        self.kind
    }

    /// What has not been told yet.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The policy has still to be told that this folio came or left.
    pub(super) fn has_news_of(&self, id: FolioId) -> bool {
        let mut news = self.events.iter().filter(|e| e.told != Told::Hit);
        news.any(|e| e.folio == id)
    }

    /// No folio is on the list.
    pub(super) fn is_empty(&self) -> bool {
        self.list[0].is_empty()
    }

    /// The next victim is this one, which is on the list; none: the oldest.
    pub(super) fn name(&mut self, id: Option<FolioId>) {
        self.named = id;
    }

    fn tell(&mut self, p: &Pages<'_>, told: Told, folio: FolioId) {
        let (object, index) = p.folios[folio].owner();
        self.events.push(Event {
            told,
            folio,
            object,
            index,
        });
    }

    fn enter(&mut self, p: &mut Pages<'_>, told: Told, id: FolioId) {
        self.list[0].push_head(p, id);
        self.tell(p, told, id);
        if p.refs(id) & PENDING != 0 {
            self.tell(p, Told::Hit, id);
        }
        p.set_refs(id, 0);
    }
}

impl ListPolicy for Outside {
    fn queues(&self) -> &[Queue] {
        &self.list
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.list
    }

    fn victim(&mut self, _p: &mut Pages<'_>) -> Option<FolioId> {
        self.going = self.named.take().or(self.list[0].tail());
        self.going
    }

    fn insert(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.enter(p, Told::Insert, id);
    }

    fn insert_oldest(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, 0);
        self.list[0].push_tail(p, id);
        self.tell(p, Told::Due, id);
    }

    fn put_back(&mut self, p: &mut Pages<'_>, id: FolioId) {
        let used = p.refs(id) & FOUND != 0;
        self.enter(p, Told::PutBack { used }, id);
    }

    fn remove(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.list[0].remove(p, id);
        if self.going.take() != Some(id) {
            self.tell(p, Told::Remove, id);
        }
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if !p.listed(id) {
            p.set_refs(id, p.refs(id) | PENDING);
            return;
        }
        self.tell(p, Told::Hit, id);
        if self.kind.moves {
            p.list_ops += 2;
        }
    }

    fn referenced(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, p.refs(id) | FOUND);
    }

    fn wants_uses(&self) -> bool {
        self.kind.uses
    }

    fn file_first(&self) -> bool {
        self.kind.file_first
    }
}
