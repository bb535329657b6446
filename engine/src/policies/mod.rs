//! List policies: caches of the literature as lists of an lruvec, one file each, to compare with.
//!
//! A list policy keeps the folios of one type (anonymous or file) of an lruvec on a few lists and
//! names the next victim; [`ListPolicy`] is all it has to answer. What is common to all is outside of
//! it: batches, isolation, references of mapped folios, swap, writeback, memcgs, statistics
//! (`verbs.rs`, `reclaim/list_loop.rs`). `docs/add-a-policy.md` adds one, step by step.
//!
//! # What they know of the world
//!
//! - **Capacity.** Nobody tells an lruvec how large it may become: limits are those of memcgs, of
//!   their ancestors and of the machine, and they are shared with other lists. A policy that needs a
//!   capacity (2Q, ARC, S3-FIFO, SLRU) is told what its lists hold when reclaim asks for a victim:
//!   memory is short then, so that is what fits. With a fixed budget and one victim at a time, it is
//!   the budget; under a limit, the limit less what else is charged to it. One that divides memory
//!   before it is full (LIRS, CLOCK-Pro, W-TinyLFU, LHD) goes by the limit of the memcg until then
//!   ([`Pages::limit`]).
//! - **Uses.** The first read of a folio is the one that brought it in and is no hit
//!   ([`Engine::mark_accessed`](crate::Engine::mark_accessed) marks it `REFERENCED`), as in the
//!   papers. Folios that are mapped are used without anybody being told: when one becomes a victim its
//!   page-table entries are looked at, and if one was accessed the policy is told
//!   ([`ListPolicy::referenced`]) and the folio goes back.
//! - **Ghosts.** A policy that remembers what it has evicted keeps [`Ghosts`]: exact and bounded. The
//!   shadow in the emptied slot holds the number of the eviction, by which a refault finds its ghost
//!   or learns that it has been dropped. The kernel's order is to make room first and to look at the
//!   shadow then; a host without a world may do it the other way round, as the papers do.
//! - **Types.** Anonymous and file folios have lists of their own, as everywhere in the engine;
//!   swappiness weighs their scans.
//!
//! A policy may also be [`outside`] of the engine, in the host's own language: the engine writes down what it has
//! to know, and asks the host for victims.

pub mod desk;
mod ghosts;
mod pages;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod verbs;

pub mod arc;
pub mod clock;
pub mod clockpro;
pub mod fifo;
pub mod lhd;
pub mod lirs;
pub mod lru;
pub mod outside;
pub mod s3fifo;
pub mod sieve;
pub mod slru;
pub mod twoq;
pub mod wtinylfu;

pub use ghosts::Ghosts;
pub use pages::{Pages, Queue};
pub(crate) use table::list_policies;
pub use table::{ListKind, ListState, Lists};
pub use verbs::Evicted;

use crate::ids::FolioId;

/// The lists of one type of an lruvec, and which folio of them goes next.
///
/// The number of the list a folio is on is kept in the folio ([`Pages::list`]), 0 for a new one, and
/// stays while it is off its list; so do two bits of references ([`Pages::refs`]).
pub trait ListPolicy {
    /// Every list of the policy; folios carry the index.
    fn queues(&self) -> &[Queue];

    /// The same, to change.
    fn queues_mut(&mut self) -> &mut [Queue];

    /// The next victim, which stays where it is until it is removed. Folios that are passed over may
    /// be moved. [`Pages::capacity`] is what the lists hold.
    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId>;

    /// A folio that is on no list goes onto the one it names: to the newest end.
    fn insert(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.queues_mut()[p.list(id)].push_head(p, id);
    }

    /// As [`Self::insert`], but as the next victim of its list: it has been written and waits to go.
    fn insert_oldest(&mut self, p: &mut Pages<'_>, id: FolioId) {
        p.set_refs(id, 0);
        self.queues_mut()[p.list(id)].push_tail(p, id);
    }

    /// A victim that could not be evicted, or was in use, comes back.
    fn put_back(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.insert(p, id);
    }

    /// A folio leaves its list, for whatever reason.
    fn remove(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.queues_mut()[p.list(id)].remove(p, id);
    }

    /// A hit. The folio may be on no list for the moment ([`Pages::listed`]).
    fn accessed(&mut self, _p: &mut Pages<'_>, _id: FolioId) {}

    /// A victim that is mapped has been used since somebody last looked. It is on no list and
    /// comes back by [`Self::put_back`].
    fn referenced(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.accessed(p, id);
    }

    /// A victim is gone for good. A policy with ghosts remembers [`Pages::eviction`].
    fn evicted(&mut self, _p: &mut Pages<'_>, _id: FolioId) {}

    /// A folio that eviction number [`Pages::eviction`] took is back and about to be inserted; the
    /// policy may say where ([`Pages::set_list`]). True if the eviction was remembered.
    fn refault(&mut self, _p: &mut Pages<'_>, _id: FolioId) -> bool {
        false
    }

    /// An evicted page will never come back: what is remembered of that eviction can go.
    fn forget(&mut self, _eviction: u64) {}

    /// What is remembered of evicted folios as [`Ghosts`].
    fn ghosts(&self) -> Vec<&Ghosts> {
        Vec::new()
    }

    /// Whether anything is remembered of evicted folios: shadows carry eviction numbers then.
    fn remembers(&self) -> bool {
        !self.ghosts().is_empty()
    }

    /// Whether [`Pages::limit`] is needed: the policy divides memory before it is full.
    fn wants_limit(&self) -> bool {
        false
    }

    /// Whether uses matter. If not, none are told, and no page table is looked at.
    fn wants_uses(&self) -> bool {
        true
    }

    /// Files as long as there are any in the budget, swap then; otherwise by swappiness.
    fn file_first(&self) -> bool {
        false
    }

    /// Asserts what the policy knows about its own state.
    fn check(&self, _p: &crate::folio::FolioTable) {}
}
