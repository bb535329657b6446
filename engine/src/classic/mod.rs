//! Active and inactive lists (`docs/rules/classic.md`): state, accesses, cost model. The reclaim loop is
//! `reclaim/classic_loop.rs`.

use crate::folio::List;

pub mod balance;
pub(crate) mod references;
#[cfg(test)]
mod tests;
pub(crate) mod uses;

/// The four evictable lists of an lruvec, indexed by [`LruList::idx`](crate::lruvec::LruList::idx).
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct ClassicLists {
    /// Inactive and active anonymous, inactive and active file.
    pub lists: [List; 4],
}
