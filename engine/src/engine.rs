//! The engine: all state of reclaim.

mod life;
mod split;

use crate::batch::Batches;
use crate::config::Config;
use crate::counters::{Counter, CounterSet};
use crate::folio::{Folio, FolioTable};
use crate::ids::{FolioId, LruvecId, MemcgId, Nanos, NodeId};
use crate::lruvec::{Lruvec, Lruvecs};
use crate::memcg::heat::HeatConfig;
use crate::memcg::{MemcgConfig, MemcgError, MemcgTree};
use crate::meter::Meter;
use crate::mglru::mms::MmRegistry;
use crate::node::Node;
use crate::rules::Rules;
use crate::scans::ScanLog;
use crate::switches::Switches;
use crate::workingset::ShadowNodes;
use crate::zone::Zones;

/// Everything reclaim knows. Plain data: no I/O, no clock, no threads.
///
/// A host creates folios as it fills its page cache and its anonymous memory, tells the engine of
/// accesses, mappings and dirtying, and runs [`crate::reclaim::ReclaimTask`]s when memory is short.
/// What a host has to do is in the [crate's documentation](crate).
///
/// Ids (folios, memcgs, lruvecs, CPUs, nodes) must be ones that exist: others are a defect of the host, and panic.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Engine {
    /// Sizes and scale.
    cfg: Config,
    /// What this kernel does.
    pub(crate) rules: Rules,
    /// How heat of memcgs is reckoned.
    heat: HeatConfig,
    /// Records of all folios, by id.
    pub(crate) folios: FolioTable,
    /// The lists of each memcg on each node.
    pub(crate) lruvecs: Lruvecs,
    /// The memcg tree and its statistics.
    pub memcgs: MemcgTree,
    /// Flags, sleepers and the memcg LRU of each node.
    pub nodes: Vec<Node>,
    /// Watermarks and free pages, by zone.
    pub zones: Zones,
    /// Global events (vmstat).
    vm: CounterSet,
    /// Per-CPU folio batches.
    pub(crate) batches: Batches,
    /// Address spaces, for page-table walks.
    pub(crate) mms: MmRegistry,
    /// Time as last told by the host.
    now: Nanos,
    /// Work done since the host last looked.
    pub meter: Meter,
    /// Swap pages that can still be handed out (told by the host's swap areas).
    swap_free: u64,
    /// Swap pages in all areas.
    swap_total: u64,
    /// Newly dirty files since the host last looked: the host queues them for writeback.
    newly_dirty: Vec<FolioId>,
    /// Index nodes of the host that hold shadows only.
    pub(crate) shadow_nodes: ShadowNodes,
    /// Scans of tasks, if the host wants to know them.
    #[cfg_attr(feature = "state", serde(skip))]
    pub(crate) scans: ScanLog,
}

impl Engine {
    /// A machine without folios, with the root memcg alone.
    ///
    /// # Errors
    /// A field of `cfg` out of its range, or heat levels out of order.
    pub fn new(cfg: Config, sw: Switches) -> Result<Self, MemcgError> {
        cfg.check()?;
        let memcgs = MemcgTree::new(MemcgConfig {
            nr_nodes: cfg.nr_nodes,
            nr_cpus: cfg.nr_cpus,
            recursive_protection: cfg.recursive_protection,
            stocks_per_cpu: u32::try_from(sw.charge_stocks)
                .unwrap_or(u32::MAX)
                .clamp(1, 64),
            fold_interval: cfg.fold_interval,
            fold_phase: cfg.fold_phase,
        })?;
        let heat = HeatConfig::of(&cfg, &sw)?;
        let mut engine = Self {
            folios: FolioTable::with_capacity(0),
            lruvecs: Lruvecs::new(cfg.nr_nodes),
            memcgs,
            nodes: (0..cfg.nr_nodes)
                .map(|n| Node::new(NodeId(n), cfg.seed.wrapping_add(u64::from(n))))
                .collect(),
            zones: Zones::new(cfg.nr_zones),
            vm: CounterSet::default(),
            batches: Batches::new(cfg.nr_cpus),
            mms: MmRegistry::default(),
            now: 0,
            meter: Meter::default(),
            swap_free: 0,
            swap_total: 0,
            newly_dirty: Vec::new(),
            shadow_nodes: ShadowNodes::default(),
            scans: ScanLog::default(),
            heat,
            cfg,
            rules: Rules::new(sw),
        };
        engine.add_lruvecs(MemcgId::ROOT);
        Ok(engine)
    }

    /// Sizes and settings, which stay as they were given.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// What this kernel does, as it was given.
    pub fn switches(&self) -> &Switches {
        self.rules.switches()
    }

    /// Global event counters.
    pub fn vmstat(&self) -> &CounterSet {
        &self.vm
    }

    /// Tells the time (nanoseconds) and folds memcg statistics when due. Tasks of a host run a
    /// little ahead of one another, so an earlier time than told before is passed over.
    #[inline]
    pub fn set_now(&mut self, now: Nanos) {
        let now = now.max(self.now);
        self.now = now;
        if now >= self.memcgs.next_fold() {
            self.memcgs.maybe_fold(now);
            self.fold_activations();
        }
    }

    /// Time as last told.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Creates a memcg with its lruvecs and enters it into the memcg LRU of each node.
    ///
    /// # Errors
    /// As [`MemcgTree::create`].
    pub fn memcg_create(&mut self, parent: MemcgId) -> Result<MemcgId, MemcgError> {
        let id = self.memcgs.create(parent)?;
        self.add_lruvecs(id);
        Ok(id)
    }

    /// Takes a memcg offline: it protects nothing any more and is reclaimed as a whole.
    ///
    /// # Errors
    /// As [`MemcgTree::offline`].
    pub fn memcg_offline(&mut self, id: MemcgId) -> Result<(), MemcgError> {
        self.memcgs.offline(id)?;
        for node in &mut self.nodes {
            node.memcg_lru.offline(id);
            node.heat.offline(id);
        }
        Ok(())
    }

    /// Releases every offline memcg that has no page, child, swap slot or visitor left; its id may be
    /// used again. Returns how many. To be called now and then, between steps of tasks.
    pub fn memcg_release_dead(&mut self) -> usize {
        let mut released = 0;
        while let Some(id) = self.memcgs.next_releasable() {
            self.leave_activations(id);
            for node in &mut self.nodes {
                node.memcg_lru.release(id);
                node.heat.release(id);
            }
            self.memcgs.release(id).expect("nothing holds it");
            released += 1;
        }
        released
    }

    fn add_lruvecs(&mut self, id: MemcgId) {
        let policy = self.switches().policy;
        for node in &mut self.nodes {
            self.lruvecs.put(Lruvec::new(id, node.id, policy, self.now));
            node.memcg_lru.online(id);
        }
        self.heat_online(id);
    }

    /// The lruvec of a memcg on a node, which must both exist. (In release builds a wrong node may name the lruvec of
    /// another memcg.)
    #[inline]
    pub fn lruvec_id(&self, memcg: MemcgId, node: NodeId) -> LruvecId {
        debug_assert!(node.0 < self.cfg.nr_nodes, "no {node:?}");
        self.lruvecs.id(memcg, node)
    }

    /// The lists of an lruvec.
    pub fn lruvec(&self, id: LruvecId) -> &Lruvec {
        &self.lruvecs[id]
    }

    /// `[seq, anonymous pages, file pages]` for each generation of a memcg on node 0, oldest first;
    /// empty under another policy.
    pub fn generations(&self, memcg: MemcgId) -> Vec<[u64; 3]> {
        match &self.lruvecs[self.lruvec_id(memcg, NodeId(0))].lists {
            crate::lruvec::LruvecLists::MultiGen(m) => m.dump(),
            _ => Vec::new(),
        }
    }

    /// What the lists of a memcg on a node hold, for dumps. `None` if there is no such lruvec.
    pub fn lruvec_view(&self, memcg: MemcgId, node: NodeId) -> Option<crate::lruvec::LruvecView> {
        (self.memcgs.exists(memcg) && node.0 < self.cfg.nr_nodes).then(|| {
            let lruvec = &self.lruvecs[self.lruvec_id(memcg, node)];
            crate::lruvec::LruvecView::of(lruvec, self.now)
        })
    }

    /// The record of a live folio.
    #[inline]
    pub fn folio(&self, id: FolioId) -> &Folio {
        &self.folios[id]
    }

    /// Brings the record of a folio into the CPU's cache, for hosts that know which they will ask about.
    #[inline]
    pub fn prefetch(&self, id: FolioId) {
        self.folios.prefetch(id);
    }

    /// All folios in memory, in the order of their records.
    pub fn folios(&self) -> impl Iterator<Item = (FolioId, &Folio)> {
        self.folios.iter()
    }

    /// One more than the largest folio index in use so far.
    pub fn folio_records(&self) -> usize {
        self.folios.records()
    }

    /// Number of folios in memory.
    pub fn nr_folios(&self) -> usize {
        self.folios.live()
    }

    /// How heat of memcgs is reckoned.
    pub(crate) fn heat_config(&self) -> &HeatConfig {
        &self.heat
    }

    /// Swap pages that can still be handed out.
    #[inline]
    pub(crate) fn swap_free(&self) -> u64 {
        self.swap_free
    }

    /// Swap pages in all areas.
    #[inline]
    pub(crate) fn swap_total(&self) -> u64 {
        self.swap_total
    }

    /// The host tells what its swap areas have, in pages: free, and in all.
    pub fn set_swap(&mut self, free: u64, total: u64) {
        self.swap_free = free;
        self.swap_total = total;
    }

    /// The memcg of an lruvec.
    #[inline]
    pub(crate) fn memcg_of(&self, lruvec: LruvecId) -> MemcgId {
        self.lruvecs[lruvec].memcg
    }

    /// Counts an event for a memcg and for the machine. What only one of them counts goes to
    /// [`MemcgTree::count`] or `count_global`.
    #[inline]
    pub fn count(&mut self, memcg: MemcgId, c: Counter, n: i64) {
        self.vm.add(c, n);
        self.memcgs.count(memcg, c, n);
    }

    /// The same on a node of the memcg.
    #[inline]
    pub(crate) fn count_on(&mut self, memcg: MemcgId, node: NodeId, c: Counter, n: i64) {
        self.vm.add(c, n);
        self.memcgs.count_on(memcg, node, c, n);
    }

    /// Counts an event for the machine only.
    #[inline]
    pub(crate) fn count_global(&mut self, c: Counter, n: i64) {
        self.vm.add(c, n);
    }
}
