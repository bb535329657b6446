//! The 16-bit memcg ids that shadows and swap slots carry (`docs/rules/swap.md#charging`, `docs/rules/memcg.md#offline-memcgs`; `docs/rules/workingset.md#shadow`).
//!
//! They are scarcer than memcgs: 65535 in all, given back when a memcg goes offline unless swap
//! slots still name it, and then handed out again, lowest first. A shadow may therefore name a memcg
//! other than the one that was meant, or none.

use super::error::MemcgError;
use super::tree::MemcgTree;
use crate::ids::MemcgId;

/// "No id": what a shadow made without memcg carries.
pub const CSS_ID_NONE: u16 = 0;
/// Number of ids, 1 to 65535. The root has id 1.
pub const MAX_CSS_IDS: usize = u16::MAX as usize;

/// The id table: owner by id, and a bitmap of the ids in use.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct CssIds {
    owner: Vec<MemcgId>,
    used: Vec<u64>,
    /// No word below this one has a free bit.
    first_word: usize,
}

impl CssIds {
    pub(super) fn new() -> Self {
        let mut used = vec![0; (MAX_CSS_IDS + 1) / 64];
        used[0] = 1; // id 0 is never given out
        Self {
            owner: Vec::new(),
            used,
            first_word: 0,
        }
    }

    /// The lowest free id, now owned by `id`.
    pub(super) fn alloc(&mut self, id: MemcgId) -> Option<u16> {
        while *self.used.get(self.first_word)? == u64::MAX {
            self.first_word += 1;
        }
        let bit = self.used[self.first_word].trailing_ones();
        self.used[self.first_word] |= 1 << bit;
        let css = self.first_word * 64 + bit as usize;
        if self.owner.len() <= css {
            self.owner.resize(css + 1, MemcgId::NONE);
        }
        self.owner[css] = id;
        Some(css as u16)
    }

    pub(super) fn free(&mut self, css: u16) {
        let i = usize::from(css);
        debug_assert!(self.owner[i].is_some());
        self.owner[i] = MemcgId::NONE;
        self.used[i / 64] &= !(1 << (i % 64));
        self.first_word = self.first_word.min(i / 64);
    }

    pub(super) fn owner(&self, css: u16) -> Option<MemcgId> {
        self.owner
            .get(usize::from(css))
            .copied()
            .filter(|o| o.is_some())
    }
}

impl MemcgTree {
    /// The memcg that a shadow's or swap slot's id names now, online or not; `None` if the id is
    /// not in use.
    #[inline]
    pub fn by_css_id(&self, css: u16) -> Option<MemcgId> {
        self.css_ids.owner(css)
    }

    /// Drops `n` references of swap slots; the last one of an offline memcg frees the id.
    pub fn unpin_id(&mut self, id: MemcgId, n: u32) -> Result<(), MemcgError> {
        if !self.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        let memcg = &mut self.nodes[id.idx()];
        assert!(
            memcg.css_pins >= n,
            "memcg {} id unpinned more often than pinned",
            id.0
        );
        memcg.css_pins -= n;
        self.drop_css_id_if_unused(id);
        Ok(())
    }

    /// Frees the id of an offline memcg that no swap slot names, and queues the memcg for release.
    pub(super) fn drop_css_id_if_unused(&mut self, id: MemcgId) {
        let memcg = &mut self.nodes[id.idx()];
        if memcg.online || memcg.css_pins > 0 {
            return;
        }
        let css = std::mem::replace(&mut memcg.css_id, CSS_ID_NONE);
        if css != CSS_ID_NONE {
            self.css_ids.free(css);
        }
        self.queue_release(id);
    }
}
