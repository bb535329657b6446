//! The memcg tree: an arena of memcgs linked by index, children in creation order (`docs/rules/memcg.md`).

use super::counter::PageCounter;
use super::css_id::{CssIds, CSS_ID_NONE};
use super::error::MemcgError;
use super::node_stat::NodeStats;
use super::record::{LocalStat, SharedIter, Stocks};
use crate::counters::CounterSet;
use crate::ids::{MemcgId, Nanos};

/// Most nodes a tree can serve: on which of them an address space ran is one bit a node.
pub const MAX_NODES: u32 = 64;

/// What a tree is made for. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct MemcgConfig {
    /// NUMA nodes, 1 to [`MAX_NODES`].
    pub nr_nodes: u32,
    /// CPUs, each with a stock of its own. At least 1.
    pub nr_cpus: u32,
    /// Mount option memory_recursiveprot.
    pub recursive_protection: bool,
    /// Memcgs for which a CPU keeps a stock at a time, at least 1.
    pub stocks_per_cpu: u32,
    /// Time between two folds of the statistics (`docs/rules/memcg.md#statistics-that-lag`). At least 1.
    pub fold_interval: Nanos,
    /// Time of the first fold, modulo the interval: the natural spread between runs.
    pub fold_phase: Nanos,
}

impl Default for MemcgConfig {
    fn default() -> Self {
        Self {
            nr_nodes: 1,
            nr_cpus: 1,
            recursive_protection: true,
            stocks_per_cpu: 1,
            fold_interval: 2_000_000_000,
            fold_phase: 0,
        }
    }
}

/// One memory cgroup. Statistics are kept beside it in the tree ([`MemcgTree::local`],
/// [`MemcgTree::folded`]), so that charging walks small records.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Memcg {
    pub(super) memory: PageCounter,
    pub(super) swap: PageCounter,
    pub(super) parent: MemcgId,
    pub(super) first_child: MemcgId,
    pub(super) last_child: MemcgId,
    pub(super) next_sibling: MemcgId,
    pub(super) prev_sibling: MemcgId,
    pub(super) online: bool,
    /// The slot is in use.
    live: bool,
    /// Waiting in the release queue.
    queued: bool,
    pub(super) oom_group: bool,
    swappiness: Option<u8>,
    pub(super) css_id: u16,
    /// References of swap slots to `css_id`.
    pub(super) css_pins: u32,
    /// References of walks that stand here and of tasks.
    pub(super) pins: u32,
}

impl Memcg {
    fn new(parent: MemcgId, css_id: u16) -> Self {
        Self {
            memory: PageCounter::default(),
            swap: PageCounter::default(),
            parent,
            first_child: MemcgId::NONE,
            last_child: MemcgId::NONE,
            next_sibling: MemcgId::NONE,
            prev_sibling: MemcgId::NONE,
            online: true,
            live: true,
            queued: false,
            oom_group: false,
            swappiness: None,
            css_id,
            css_pins: 0,
            pins: 0,
        }
    }

    /// Counter behind memory.current.
    #[inline]
    pub fn memory(&self) -> &PageCounter {
        &self.memory
    }

    /// Counter behind memory.swap.current.
    #[inline]
    pub fn swap(&self) -> &PageCounter {
        &self.swap
    }

    /// The parent; `None` for the root.
    #[inline]
    pub fn parent(&self) -> Option<MemcgId> {
        self.parent.is_some().then_some(self.parent)
    }

    /// False from offlining on; an offline memcg with pages is a zombie.
    #[inline]
    pub fn online(&self) -> bool {
        self.online
    }

    /// memory.oom.group.
    pub fn oom_group(&self) -> bool {
        self.oom_group
    }

    /// Own swappiness, or `None` for the global one.
    pub fn swappiness(&self) -> Option<u8> {
        self.swappiness
    }

    /// The 16-bit id for shadows and swap slots; [`CSS_ID_NONE`] once given back.
    #[inline]
    pub fn css_id(&self) -> u16 {
        self.css_id
    }

    /// References of swap slots to the id.
    pub fn css_pins(&self) -> u32 {
        self.css_pins
    }
}

/// All memcgs, their limits and statistics. Slot 0 is the root, which always exists.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct MemcgTree {
    pub(super) cfg: MemcgConfig,
    pub(super) nodes: Vec<Memcg>,
    pub(super) local: Vec<LocalStat>,
    pub(super) folded: Vec<CounterSet>,
    pub(super) by_node: NodeStats,
    pub(super) next_fold: Nanos,
    pub(super) stocks: Vec<Stocks>,
    /// Shared walk positions, `memcg * nr_nodes + node`.
    pub(super) iters: Vec<SharedIter>,
    pub(super) css_ids: CssIds,
    free: Vec<MemcgId>,
    release_queue: Vec<MemcgId>,
    nr_live: usize,
    /// Limits and protection set so far, by anybody.
    pub(super) limit_changes: u64,
}

impl std::ops::Index<MemcgId> for MemcgTree {
    type Output = Memcg;
    #[inline]
    fn index(&self, id: MemcgId) -> &Memcg {
        &self.nodes[id.idx()]
    }
}

impl MemcgTree {
    /// A tree with nothing but the root.
    pub fn new(cfg: MemcgConfig) -> Result<Self, MemcgError> {
        let bad = |field, value, allowed| {
            Err(MemcgError::Config {
                field,
                value,
                allowed,
            })
        };
        if cfg.nr_nodes == 0 || cfg.nr_nodes > MAX_NODES {
            return bad("nr_nodes", cfg.nr_nodes.into(), "1 to 64");
        }
        if cfg.nr_cpus == 0 {
            return bad("nr_cpus", 0, "1 or more");
        }
        if cfg.fold_interval == 0 {
            return bad("fold_interval", 0, "1 ns or more");
        }
        let phase = cfg.fold_phase % cfg.fold_interval;
        let mut css_ids = CssIds::new();
        let root_css = css_ids.alloc(MemcgId::ROOT).unwrap_or(CSS_ID_NONE);
        let mut by_node = NodeStats::new(cfg.nr_nodes);
        by_node.create(MemcgId::ROOT);
        Ok(Self {
            nodes: vec![Memcg::new(MemcgId::NONE, root_css)],
            local: vec![LocalStat::default()],
            folded: vec![CounterSet::default()],
            by_node,
            next_fold: if phase == 0 { cfg.fold_interval } else { phase },
            stocks: vec![Stocks::new(cfg.stocks_per_cpu); cfg.nr_cpus as usize],
            iters: vec![SharedIter::default(); cfg.nr_nodes as usize],
            css_ids,
            free: Vec::new(),
            release_queue: Vec::new(),
            nr_live: 1,
            limit_changes: 0,
            cfg,
        })
    }

    /// The configuration the tree was made with.
    pub fn config(&self) -> &MemcgConfig {
        &self.cfg
    }

    /// Memcgs that exist, root and zombies included.
    pub fn nr_memcgs(&self) -> usize {
        self.nr_live
    }

    /// How often a limit or protection has been set: a generation number for what depends on them.
    pub fn limit_changes(&self) -> u64 {
        self.limit_changes
    }

    /// One more than the largest index in use so far: the size for arrays indexed by memcg.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// True if `id` names a memcg, online or zombie.
    #[inline]
    pub fn exists(&self, id: MemcgId) -> bool {
        self.nodes.get(id.idx()).is_some_and(|m| m.live)
    }

    /// The memcg, or `None` if `id` was never created or is released. Indexing (`tree[id]`) is for
    /// ids known to be good.
    #[inline]
    pub fn get(&self, id: MemcgId) -> Option<&Memcg> {
        self.nodes.get(id.idx()).filter(|m| m.live)
    }

    /// Creates a memcg as the last child of `parent`, with no limits and no protection. It inherits
    /// the parent's swappiness. Fails if the parent is gone or offline, or if the 16-bit ids are
    /// used up.
    pub fn create(&mut self, parent: MemcgId) -> Result<MemcgId, MemcgError> {
        let p = self.get(parent).ok_or(MemcgError::Unknown(parent))?;
        if !p.online {
            return Err(MemcgError::Offline(parent));
        }
        let (swappiness, prev) = (p.swappiness, p.last_child);
        let id = self
            .free
            .last()
            .copied()
            .unwrap_or(MemcgId(self.nodes.len() as u32));
        let css = self.css_ids.alloc(id).ok_or(MemcgError::CssIdsExhausted)?;
        let mut memcg = Memcg::new(parent, css);
        memcg.swappiness = swappiness;
        memcg.prev_sibling = prev;
        self.by_node.create(id);
        if self.free.pop().is_some() {
            self.nodes[id.idx()] = memcg;
            self.local[id.idx()] = LocalStat::default();
            self.folded[id.idx()] = CounterSet::default();
        } else {
            self.nodes.push(memcg);
            self.local.push(LocalStat::default());
            self.folded.push(CounterSet::default());
            let n = self.nodes.len() * self.cfg.nr_nodes as usize;
            self.iters.resize(n, SharedIter::default());
        }
        let p = &mut self.nodes[parent.idx()];
        p.last_child = id;
        if prev.is_some() {
            self.nodes[prev.idx()].next_sibling = id;
        } else {
            p.first_child = id;
        }
        self.nr_live += 1;
        Ok(id)
    }

    /// Takes a memcg offline (rmdir, `docs/rules/memcg.md#offline-memcgs`): its protection goes, its stocks are drained, its
    /// 16-bit id is given back unless swap slots name it. It stays in the tree and in walks until
    /// [`Self::release`]. The owner of a [`super::MemcgLru`] must tell that one too.
    pub fn offline(&mut self, id: MemcgId) -> Result<(), MemcgError> {
        if id == MemcgId::ROOT {
            return Err(MemcgError::Root("taken offline"));
        }
        let memcg = self.get(id).ok_or(MemcgError::Unknown(id))?;
        if !memcg.online {
            return Err(MemcgError::Offline(id));
        }
        if self.children(id).any(|c| self[c].online) {
            return Err(MemcgError::HasChildren(id));
        }
        self.set_min(id, 0)?;
        self.set_low(id, 0)?;
        self.nodes[id.idx()].online = false;
        self.drain_stocks(id);
        self.drop_css_id_if_unused(id);
        self.queue_release(id);
        Ok(())
    }

    /// What keeps the memcg from being released, if anything.
    fn held_by(&self, id: MemcgId) -> Option<&'static str> {
        let m = &self[id];
        match () {
            () if m.online => Some("it is online; take it offline first"),
            () if m.memory.usage > 0 => Some("pages are still charged to it; reclaim or free them"),
            () if m.swap.usage > 0 || m.css_pins > 0 => {
                Some("swap slots still name it; free them or swap them in")
            }
            () if m.first_child.is_some() => Some("children are not released; release them first"),
            () if m.pins > 0 => Some("a walk or task holds it; end that first"),
            () => None,
        }
    }

    /// Keeps a memcg from being released: for a task that names it from one step to the next. Walks
    /// do so by themselves.
    pub fn hold(&mut self, id: MemcgId) -> Result<(), MemcgError> {
        if !self.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        self.nodes[id.idx()].pins += 1;
        Ok(())
    }

    /// Ends a [`Self::hold`].
    pub fn unhold(&mut self, id: MemcgId) {
        let m = &mut self.nodes[id.idx()];
        assert!(m.pins > 0, "memcg {} is not held", id.0);
        m.pins -= 1;
        if m.pins == 0 && !m.online {
            self.queue_release(id);
        }
    }

    /// Puts an offline memcg on the list of release candidates.
    #[cold]
    pub(super) fn queue_release(&mut self, id: MemcgId) {
        let m = &mut self.nodes[id.idx()];
        if !m.online && !m.queued {
            m.queued = true;
            self.release_queue.push(id);
        }
    }

    /// A zombie that nothing holds any more, if there is one: drop what is kept for it elsewhere,
    /// then call [`Self::release`].
    pub fn next_releasable(&mut self) -> Option<MemcgId> {
        while let Some(id) = self.release_queue.pop() {
            self.nodes[id.idx()].queued = false;
            if self.exists(id) && self.held_by(id).is_none() {
                return Some(id);
            }
        }
        None
    }

    /// Removes an offline, empty memcg. Its counts stay in its ancestors' hierarchical values,
    /// walks that stand on it are reset, and the id may be used again.
    pub fn release(&mut self, id: MemcgId) -> Result<(), MemcgError> {
        if id == MemcgId::ROOT {
            return Err(MemcgError::Root("released"));
        }
        if !self.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        if let Some(what) = self.held_by(id) {
            return Err(MemcgError::Busy { id, what });
        }
        self.reset_iters(id);
        self.inherit_stat(id);
        let (parent, prev, next) = {
            let m = &self[id];
            (m.parent, m.prev_sibling, m.next_sibling)
        };
        if prev.is_some() {
            self.nodes[prev.idx()].next_sibling = next;
        } else {
            self.nodes[parent.idx()].first_child = next;
        }
        if next.is_some() {
            self.nodes[next.idx()].prev_sibling = prev;
        } else {
            self.nodes[parent.idx()].last_child = prev;
        }
        if self.nodes[id.idx()].queued {
            self.release_queue.retain(|&q| q != id);
        }
        self.nodes[id.idx()].live = false;
        self.free.push(id);
        self.nr_live -= 1;
        self.queue_release(parent);
        Ok(())
    }

    /// Sets memory.oom.group.
    pub fn set_oom_group(&mut self, id: MemcgId, on: bool) -> Result<(), MemcgError> {
        if !self.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        self.nodes[id.idx()].oom_group = on;
        Ok(())
    }

    /// Sets the memcg's own swappiness, 0 to 200, or `None` to follow the global one.
    pub fn set_swappiness(&mut self, id: MemcgId, value: Option<u8>) -> Result<(), MemcgError> {
        if !self.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        if let Some(v) = value.filter(|&v| v > 200) {
            return Err(MemcgError::Config {
                field: "swappiness",
                value: v.into(),
                allowed: "0 to 200",
            });
        }
        self.nodes[id.idx()].swappiness = value;
        Ok(())
    }
}
