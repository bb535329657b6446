//! What a list policy sees of folios, and a list of them.

use crate::folio::{Flags, FolioTable, List};
use crate::ids::FolioId;

/// The folios, and what the engine tells a policy besides.
#[derive(Debug)]
pub struct Pages<'a> {
    pub(super) folios: &'a mut FolioTable,
    pub(super) capacity: u64,
    pub(super) eviction: u64,
    pub(super) limit: u64,
    pub(super) list_ops: u64,
}

impl Pages<'_> {
    /// Number of the list the folio is on, or was on last; 0 for a new one.
    #[inline]
    pub fn list(&self, id: FolioId) -> usize {
        self.folios[id].home().into()
    }

    /// Names the list that the folio goes onto next. Only while it is on none.
    #[inline]
    pub fn set_list(&mut self, id: FolioId, list: usize) {
        self.folios[id].set_home(list as u8);
    }

    /// Whether the folio is on a list; else it waits in a batch or a reclaimer holds it.
    #[inline]
    pub fn listed(&self, id: FolioId) -> bool {
        let f = &self.folios[id];
        f.has(Flags::LRU) && !f.has(Flags::UNEVICTABLE)
    }

    /// Two bits for the policy: 0 to 3, 0 for a new folio.
    #[inline]
    pub fn refs(&self, id: FolioId) -> u32 {
        self.folios[id].word().refs()
    }

    /// Sets the two bits, at most to 3.
    #[inline]
    pub fn set_refs(&mut self, id: FolioId, refs: u32) {
        self.folios[id].word_mut().set_refs(refs.min(3));
    }

    /// Base pages of the folio.
    #[inline]
    pub fn size(&self, id: FolioId) -> u64 {
        self.folios[id].nr_pages()
    }

    /// The neighbour on its list towards the newest end.
    #[inline]
    pub fn newer(&self, id: FolioId) -> Option<FolioId> {
        self.folios[id].newer()
    }

    /// In `victim`: pages the lists hold, which is what fits. Elsewhere 0.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// In `insert`, if the policy wants it ([`super::ListPolicy::wants_limit`]): the lowest hard limit of the
    /// memcg and those above it, [`u64::MAX`] if there is none. Elsewhere 0.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Object and index of the first page: the same when the folio comes back.
    #[inline]
    pub fn name(&self, id: FolioId) -> u64 {
        let (object, index) = self.folios[id].owner();
        u64::from(object.0) << 32 | u64::from(index)
    }

    /// In `evicted` and `refault`: number of the eviction, larger for later ones. Elsewhere 0.
    #[inline]
    pub fn eviction(&self) -> u64 {
        self.eviction
    }
}

/// A list that knows its size. Each change of it counts as work under the lru_lock.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Queue {
    list: List,
    pages: u64,
}

impl Queue {
    /// Base pages on it.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// True if nothing is on it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The oldest folio.
    #[inline]
    pub fn tail(&self) -> Option<FolioId> {
        self.list.tail()
    }

    /// The newest folio.
    #[inline]
    pub fn head(&self) -> Option<FolioId> {
        self.list.head()
    }

    /// The links, in order.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    /// Adds at the newest end.
    #[inline]
    pub fn push_head(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.list.push_head(p.folios, id);
        self.grown(p, id);
    }

    /// Adds at the oldest end.
    #[inline]
    pub fn push_tail(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.list.push_tail(p.folios, id);
        self.grown(p, id);
    }

    /// Adds next to `at`, on its older side.
    #[inline]
    pub fn push_behind(&mut self, p: &mut Pages<'_>, at: FolioId, id: FolioId) {
        self.list.push_behind(p.folios, at, id);
        self.grown(p, id);
    }

    #[inline]
    fn grown(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.pages += p.size(id);
        p.list_ops += 1;
    }

    /// Takes a folio that is on it off.
    #[inline]
    pub fn remove(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.list.remove(p.folios, id);
        self.pages -= p.size(id);
        p.list_ops += 1;
    }

    /// To the newest end.
    #[inline]
    pub fn move_head(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.remove(p, id);
        self.push_head(p, id);
    }
}
