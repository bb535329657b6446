//! One lruvec: the LRU lists of a (memcg, node) pair behind a few policy-independent verbs.
//!
//! A policy is a variant of [`LruvecLists`] plus one arm in each verb of [`ops`] and one reclaim loop in
//! `reclaim/lruvec_loop.rs`. A few other places (batches, passes, shadows, `check.rs`) ask for one of the
//! policies, with `matches!` or by [`PolicyKind`]. Those that are a few lists and a
//! rule for the next victim share a variant and a loop ([`crate::policies`]).

pub mod ops;
mod table;
mod view;

pub(crate) use table::Lruvecs;
pub use view::{GenView, LruvecView, TierView};

use crate::classic::ClassicLists;
use crate::config::MAX_ZONES;
use crate::ids::{LruType, MemcgId, NodeId};
use crate::mglru::MultiGen;
use crate::policies::ListState;
use crate::switches::PolicyKind;
use crate::workingset::WorkingSet;

/// The five lists that statistics know (`docs/rules/batches.md#kinds`). Multi-gen generations map onto them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LruList {
    /// Anonymous memory used once, or long ago.
    InactiveAnon = 0,
    /// Anonymous memory in use.
    ActiveAnon = 1,
    /// File pages used once, or long ago.
    InactiveFile = 2,
    /// File pages in use.
    ActiveFile = 3,
    /// Unevictable: sized, never scanned.
    Unevictable = 4,
}

impl LruList {
    /// All lists, in the order of their numbers.
    pub const ALL: [LruList; 5] = [
        LruList::InactiveAnon,
        LruList::ActiveAnon,
        LruList::InactiveFile,
        LruList::ActiveFile,
        LruList::Unevictable,
    ];

    /// The four evictable lists in scan order.
    pub const EVICTABLE: [LruList; 4] = [
        LruList::InactiveAnon,
        LruList::ActiveAnon,
        LruList::InactiveFile,
        LruList::ActiveFile,
    ];

    /// As statistics and tracepoints call it.
    pub const fn name(self) -> &'static str {
        match self {
            LruList::InactiveAnon => "inactive_anon",
            LruList::ActiveAnon => "active_anon",
            LruList::InactiveFile => "inactive_file",
            LruList::ActiveFile => "active_file",
            LruList::Unevictable => "unevictable",
        }
    }

    /// The active or inactive list of a type.
    #[inline]
    pub const fn of(lru_type: LruType, active: bool) -> Self {
        match (lru_type, active) {
            (LruType::Anon, false) => LruList::InactiveAnon,
            (LruType::Anon, true) => LruList::ActiveAnon,
            (LruType::File, false) => LruList::InactiveFile,
            (LruType::File, true) => LruList::ActiveFile,
        }
    }

    /// Position in [`Self::EVICTABLE`], 4 for unevictable.
    #[inline]
    pub const fn idx(self) -> usize {
        self as usize
    }

    /// The type whose folios are on it (file for unevictable, where it means nothing).
    #[inline]
    pub const fn lru_type(self) -> LruType {
        match self {
            LruList::InactiveAnon | LruList::ActiveAnon => LruType::Anon,
            _ => LruType::File,
        }
    }

    /// True for the two active lists.
    #[inline]
    pub const fn is_active(self) -> bool {
        matches!(self, LruList::ActiveAnon | LruList::ActiveFile)
    }
}

/// The lists of an lruvec, in the shape its policy gives them.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum LruvecLists {
    /// Active and inactive lists.
    Classic(ClassicLists),
    /// The generations of multi-gen LRU.
    MultiGen(Box<MultiGen>),
    /// Lists of a policy of the literature.
    List(Box<ListState>),
}

/// The LRU state of one (memcg, node) pair.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Lruvec {
    /// The memcg whose folios it holds.
    pub memcg: MemcgId,
    /// The node whose folios it holds.
    pub node: NodeId,
    /// The lists, as the policy keeps them.
    pub lists: LruvecLists,
    /// Exact sizes in pages, `[zone][list]`.
    pub sizes: [[i64; 5]; MAX_ZONES],
    /// What has left it and come back.
    pub workingset: WorkingSet,
    /// Reclaim cost by type (`docs/rules/classic.md#file-or-anonymous`).
    pub cost: [u64; 2],
    /// Reclaim of this memcg met only dirty, congested folios (`docs/rules/reclaim-loop.md#node-visit`).
    pub cgroup_congested: bool,
    /// kswapd met only dirty, congested folios (root's lruvec of the node).
    pub node_congested: bool,
}

impl Lruvec {
    /// Empty lists under the given policy; `now` is the birth time of the first generations.
    pub fn new(memcg: MemcgId, node: NodeId, kind: PolicyKind, now: u64) -> Self {
        Self {
            memcg,
            node,
            lists: match kind {
                PolicyKind::Classic => LruvecLists::Classic(ClassicLists::default()),
                PolicyKind::MultiGen => LruvecLists::MultiGen(Box::new(MultiGen::new(now))),
                PolicyKind::List(kind) => LruvecLists::List(Box::new(ListState::new(kind))),
            },
            sizes: [[0; 5]; MAX_ZONES],
            workingset: WorkingSet::default(),
            cost: [0; 2],
            cgroup_congested: false,
            node_congested: false,
        }
    }

    /// Pages on `list` in zones up to and including `zone_max`.
    pub fn size(&self, list: LruList, zone_max: usize) -> u64 {
        self.sizes[..=zone_max.min(MAX_ZONES - 1)]
            .iter()
            .map(|z| z[list.idx()].max(0) as u64)
            .sum()
    }

    /// Pages on `list` in all zones.
    pub fn size_all(&self, list: LruList) -> u64 {
        self.size(list, MAX_ZONES - 1)
    }

    /// The multi-gen state. Panics under another policy.
    #[inline]
    pub(crate) fn gens(&self) -> &MultiGen {
        match &self.lists {
            LruvecLists::MultiGen(m) => m,
            _ => unreachable!("multi-gen path on a {:?} lruvec", self.memcg),
        }
    }

    /// The multi-gen state. Panics under another policy.
    #[inline]
    pub(crate) fn gens_mut(&mut self) -> &mut MultiGen {
        match &mut self.lists {
            LruvecLists::MultiGen(m) => m,
            _ => unreachable!("multi-gen path on a {:?} lruvec", self.memcg),
        }
    }
}

impl LruList {
    /// The statistics counter of its size.
    #[inline]
    pub const fn counter(self) -> crate::counters::Counter {
        use crate::counters::Counter;
        match self {
            LruList::InactiveAnon => Counter::InactiveAnon,
            LruList::ActiveAnon => Counter::ActiveAnon,
            LruList::InactiveFile => Counter::InactiveFile,
            LruList::ActiveFile => Counter::ActiveFile,
            LruList::Unevictable => Counter::Unevictable,
        }
    }
}
