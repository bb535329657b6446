//! The engine: all state of reclaim, and the life of a folio from allocation to its end.

use crate::batch::CpuBatches;
use crate::config::Config;
use crate::counters::{Counter, CounterSet};
use crate::folio::table::NewFolio;
use crate::folio::{Flags, Folio, FolioTable};
use crate::ids::{FolioId, LruvecId, MemcgId, Nanos, NodeId};
use crate::lruvec::{Lruvec, Lruvecs};
use crate::memcg::heat::HeatConfig;
use crate::memcg::{MemcgConfig, MemcgError, MemcgTree};
use crate::meter::Meter;
use crate::mglru::mms::MmRegistry;
use crate::mglru::{EvictableTypes, MultiGen};
use crate::node::Node;
use crate::reclaim::scan_control::ScanControl;
use crate::rules::Rules;
use crate::switches::Switches;
use crate::zone::{Mark, Zone, ZoneClass};

/// Everything reclaim knows. Plain data: no I/O, no clock, no threads.
///
/// A host creates folios as it fills its page cache and its anonymous memory, tells the engine of
/// accesses, mappings and dirtying, and runs [`crate::reclaim::ReclaimTask`]s when memory is short.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Engine {
    /// Sizes and scale.
    pub(crate) cfg: Config,
    /// What this kernel does.
    pub(crate) rules: Rules,
    /// How heat of memcgs is reckoned.
    pub(crate) heat: HeatConfig,
    /// Records of all folios, by id.
    pub(crate) folios: FolioTable,
    /// The lists of each memcg on each node.
    pub(crate) lruvecs: Lruvecs,
    /// The memcg tree and its statistics.
    pub memcgs: MemcgTree,
    /// Flags, sleepers and the memcg LRU of each node.
    pub nodes: Vec<Node>,
    /// Zones of all nodes, `nr_zones` a node in ascending class; empty: memory is limited by memcgs
    /// only.
    pub zones: Vec<Zone>,
    /// Global events (vmstat).
    pub(crate) vm: CounterSet,
    /// Per-CPU folio batches.
    pub(crate) cpus: Vec<CpuBatches>,
    /// Address spaces, for page-table walks.
    pub(crate) mms: MmRegistry,
    /// Time as last told by the host.
    pub(crate) now: Nanos,
    /// Work done since the host last looked.
    pub meter: Meter,
    /// Swap pages that can still be handed out (told by the host's swap areas).
    pub(crate) swap_free: u64,
    /// Swap pages in all areas.
    pub(crate) swap_total: u64,
    /// Newly dirty files since the host last looked: the host queues them for writeback.
    pub(crate) newly_dirty: Vec<FolioId>,
    /// Folios that could not be swapped as a whole, by order.
    pub(crate) swpout_fallback: Vec<u64>,
}

impl Engine {
    /// An empty machine.
    ///
    /// # Errors
    /// Sizes out of range (no node, no CPU, more than 64 nodes), or heat levels out of order.
    pub fn new(cfg: Config, sw: Switches) -> Result<Self, MemcgError> {
        let memcgs = MemcgTree::new(MemcgConfig {
            nr_nodes: cfg.nr_nodes,
            nr_cpus: cfg.nr_cpus,
            recursive_protection: cfg.recursive_protection,
            fold_interval: cfg.fold_interval,
            fold_phase: cfg.fold_phase,
            css_id_overflow: cfg.css_id_overflow,
            ..MemcgConfig::default()
        })?;
        let heat = HeatConfig::of(&cfg, &sw)?;
        let mut engine = Self {
            folios: FolioTable::with_capacity(0),
            lruvecs: Lruvecs::new(cfg.nr_nodes),
            memcgs,
            nodes: (0..cfg.nr_nodes)
                .map(|n| Node::new(NodeId(n), cfg.seed.wrapping_add(u64::from(n))))
                .collect(),
            zones: Vec::new(),
            vm: CounterSet::default(),
            cpus: (0..cfg.nr_cpus).map(|_| CpuBatches::default()).collect(),
            mms: MmRegistry::default(),
            now: 0,
            meter: Meter::default(),
            swap_free: 0,
            swap_total: 0,
            newly_dirty: Vec::new(),
            swpout_fallback: Vec::new(),
            heat,
            cfg,
            rules: Rules::new(sw),
        };
        engine.add_lruvecs(MemcgId::ROOT);
        Ok(engine)
    }

    /// The construction parameters.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// The behaviour switches.
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

    /// The lruvec of a memcg on a node.
    #[inline]
    pub fn lruvec_id(&self, memcg: MemcgId, node: NodeId) -> LruvecId {
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

    /// The flag word's bits of any record, in use or not; 0 if there is no such record. For hosts
    /// that bring records into the cache ahead of use.
    #[inline]
    pub fn peek(&self, id: FolioId) -> u32 {
        self.folios.peek(id)
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

    /// Swap pages: free and in all.
    pub fn set_swap(&mut self, free: u64, total: u64) {
        self.swap_free = free;
        self.swap_total = total;
    }

    /// Zones of a node.
    pub fn node_zones(&self, node: NodeId) -> &[Zone] {
        let n = self.cfg.nr_zones as usize;
        self.zones
            .get(node.idx() * n..(node.idx() + 1) * n)
            .unwrap_or(&[])
    }

    /// Zones of a node.
    pub fn node_zones_mut(&mut self, node: NodeId) -> &mut [Zone] {
        let n = self.cfg.nr_zones as usize;
        self.zones
            .get_mut(node.idx() * n..(node.idx() + 1) * n)
            .unwrap_or(&mut [])
    }

    /// Class of the zone at a position of a node.
    pub(crate) fn zone_class(&self, node: NodeId, zone: u8) -> ZoneClass {
        let zones = self.node_zones(node);
        zones
            .get(usize::from(zone).min(zones.len().saturating_sub(1)))
            .map_or(ZoneClass::Normal, |z| z.class)
    }

    /// Every managed zone up to `zone` is above its high mark by two small batches
    /// (`docs/rules/reclaim-loop.md#before-the-series`, should_abort).
    pub(crate) fn well_above_high(&self, node: NodeId, zone: u8) -> bool {
        let class = self.zone_class(node, zone);
        self.node_zones(node)
            .iter()
            .filter(|z| z.class <= class && z.managed > 0)
            .all(|z| z.free > z.mark(Mark::High) + crate::mglru::MIN_LRU_BATCH)
    }

    /// No memcg of the node has evictable pages older than the time that protects working sets
    /// (`docs/rules/aging.md`). False while the protection is off.
    pub(crate) fn working_set_in_danger(&mut self, sc: &ScanControl, node: NodeId) -> bool {
        let min_ttl = self.switches().min_ttl_ms * 1_000_000;
        if min_ttl == 0 {
            return false;
        }
        let mut pos = None;
        while let Some(memcg) = self.memcgs.preorder_next(MemcgId::ROOT, pos) {
            pos = Some(memcg);
            self.memcgs.calculate_protection(MemcgId::ROOT, memcg);
            if self.memcgs.below_min(MemcgId::ROOT, memcg) {
                continue;
            }
            let swappiness = self.swappiness(sc, memcg);
            let m = self.lruvecs[self.lruvec_id(memcg, node)].gens();
            let types = EvictableTypes::of(swappiness);
            let pages = m.evictable_pages(types);
            let oldest = (self.rules.kernel.ttl_seq)(m, types);
            let born = m.timestamps[MultiGen::slot(oldest)];
            if self.cfg.scale.scan_share(pages, sc.priority) > 0 && born + min_ttl < self.now {
                return false;
            }
        }
        true
    }

    /// Adds to a global event and to the event of the lruvec's memcg.
    #[inline]
    pub(crate) fn count_event(&mut self, lruvec: LruvecId, c: Counter, n: i64) {
        self.vm.add(c, n);
        self.memcgs.count(self.lruvecs[lruvec].memcg, c, n);
    }

    /// Counts an event the host has seen (faults, device I/O), globally and for a memcg.
    #[inline]
    pub fn count_host(&mut self, memcg: MemcgId, c: Counter, n: i64) {
        self.vm.add(c, n);
        self.memcgs.count(memcg, c, n);
    }

    // ---------------------------------------------------------------- life of a folio

    /// A new folio that has been charged already: one reference for the caller, on no list.
    #[inline]
    pub fn folio_alloc(&mut self, new: NewFolio) -> FolioId {
        let n = 1i64 << new.order;
        let memcg = self.lruvecs[new.lruvec].memcg;
        let kind = if new.flags.contains(Flags::ANON) {
            Counter::AnonPages
        } else {
            Counter::FilePages
        };
        self.memcgs.count(memcg, kind, n);
        self.folios.alloc(new)
    }

    /// Takes references.
    #[inline]
    pub fn folio_get(&mut self, id: FolioId, n: u32) {
        debug_assert!(self.folios[id].refcount > 0, "reference to a dead folio");
        self.folios[id].refcount += n;
    }

    /// Drops references; the last one frees the folio. Returns true if it was freed.
    #[inline]
    pub fn folio_put(&mut self, id: FolioId, n: u32) -> bool {
        let f = &mut self.folios[id];
        assert!(f.refcount >= n, "folio {id:?} has fewer references: {f:?}");
        f.refcount -= n;
        if f.refcount == 0 {
            self.folio_free(id);
            true
        } else {
            false
        }
    }

    /// Sets host-visible flags (`LOCKED`, `UPTODATE`, `EXEC`, `PINNED`, ...).
    #[inline]
    pub fn folio_set(&mut self, id: FolioId, flags: Flags) {
        self.folios[id].word.set(flags);
    }

    /// Clears host-visible flags.
    #[inline]
    pub fn folio_clear(&mut self, id: FolioId, flags: Flags) {
        self.folios[id].word.clear(flags);
    }

    /// A page-table entry maps the folio: one map count, one reference.
    #[inline]
    pub fn folio_map(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        f.mapcount += 1;
        f.refcount += 1;
    }

    /// A page-table entry is gone. May free the folio (returns true then).
    #[inline]
    pub fn folio_unmap(&mut self, id: FolioId) -> bool {
        let f = &mut self.folios[id];
        debug_assert!(f.mapcount > 0);
        f.mapcount -= 1;
        self.folio_put(id, 1)
    }

    /// Removes the last traces of a folio without references: list, charge, record.
    pub(crate) fn folio_free(&mut self, id: FolioId) {
        if self.folios[id].has(Flags::LRU) {
            self.meter.lock(self.folios[id].lruvec);
            self.lruvec_del(id, false);
            self.folios[id]
                .word
                .clear(Flags::LRU | Flags::ACTIVE | Flags::UNEVICTABLE);
        }
        self.folio_release(id);
    }

    /// Uncharges and recycles a folio that is on no list.
    pub(crate) fn folio_release(&mut self, id: FolioId) {
        let f = &self.folios[id];
        debug_assert!(!f.has(Flags::WRITEBACK), "freed under writeback: {f:?}");
        let n = f.nr_pages();
        let lruvec = f.lruvec;
        let memcg = self.lruvecs[lruvec].memcg;
        let kind = if f.has(Flags::ANON) {
            Counter::AnonPages
        } else {
            Counter::FilePages
        };
        let (dirty, poisoned) = (f.has(Flags::DIRTY), f.has(Flags::POISONED));
        let (node, zone) = (self.lruvecs[lruvec].node, f.zone);
        self.memcgs.count(memcg, kind, -(n as i64));
        if dirty {
            self.clear_dirty(id);
        }
        if memcg != MemcgId::ROOT {
            self.memcgs.uncharge(memcg, n);
        }
        let at = node.idx() * self.cfg.nr_zones as usize + zone as usize;
        if let Some(z) = self.zones.get_mut(at).filter(|_| !poisoned) {
            z.give(n);
        }
        self.meter.freed += 1;
        self.folios[id].refcount = 0;
        self.folios.release(id);
    }

    // ---------------------------------------------------------------- dirty and writeback

    /// Marks a folio dirty. True if it was clean. File folios are counted, and remembered in the
    /// list the host takes with [`Self::take_newly_dirty`] (`docs/rules/writeback.md#accounting`).
    pub fn set_dirty(&mut self, id: FolioId) -> bool {
        let f = &mut self.folios[id];
        if f.has(Flags::DIRTY) {
            return false;
        }
        f.word.set(Flags::DIRTY);
        if f.counts_as_dirty_file() {
            let (lruvec, n) = (f.lruvec, f.nr_pages() as i64);
            self.memcgs
                .count(self.lruvecs[lruvec].memcg, Counter::FileDirty, n);
            self.count_event(lruvec, Counter::Dirtied, n);
            self.nodes[self.lruvecs[lruvec].node.idx()].write_pending += n as u64;
            self.newly_dirty.push(id);
        }
        true
    }

    /// File folios that became dirty since the last call; the vector given is swapped in, empty.
    pub fn take_newly_dirty(&mut self, buffer: &mut Vec<FolioId>) {
        buffer.clear();
        std::mem::swap(buffer, &mut self.newly_dirty);
    }

    /// True if [`Self::take_newly_dirty`] would return something.
    #[inline]
    pub fn has_newly_dirty(&self) -> bool {
        !self.newly_dirty.is_empty()
    }

    /// Clears the dirty mark (for I/O, or because the contents are dropped). True if it was dirty.
    pub fn clear_dirty(&mut self, id: FolioId) -> bool {
        let f = &mut self.folios[id];
        if !f.word.test_clear(Flags::DIRTY) {
            return false;
        }
        if f.counts_as_dirty_file() {
            let (lruvec, n) = (f.lruvec, f.nr_pages() as i64);
            self.memcgs
                .count(self.lruvecs[lruvec].memcg, Counter::FileDirty, -n);
            let node = self.lruvecs[lruvec].node.idx();
            self.nodes[node].write_pending -= n as u64;
        }
        true
    }

    /// I/O to the backing store begins.
    pub fn writeback_start(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        assert!(!f.has(Flags::WRITEBACK));
        f.word.set(Flags::WRITEBACK);
        f.refcount += 1;
        let (lruvec, n) = (f.lruvec, f.nr_pages() as i64);
        self.memcgs
            .count(self.lruvecs[lruvec].memcg, Counter::Writeback, n);
        let node = self.lruvecs[lruvec].node.idx();
        self.nodes[node].write_pending += n as u64;
    }

    /// I/O to the backing store has ended (`docs/rules/writeback.md#completion`). A folio marked for it rotates to the
    /// cold end. Returns the nodes whose sleepers for writeback must be woken: all of them at once.
    /// The folio may be freed by this.
    pub fn writeback_end(&mut self, cpu: u16, id: FolioId) -> Option<NodeId> {
        let f = &mut self.folios[id];
        assert!(f.has(Flags::WRITEBACK));
        let rotate = f.word.test_clear(Flags::RECLAIM);
        if rotate && !f.any(Flags::LOCKED | Flags::DIRTY) && f.evictable() && f.has(Flags::LRU) {
            self.rotate(cpu, id);
        }
        let f = &mut self.folios[id];
        f.word.clear(Flags::WRITEBACK);
        let (lruvec, n) = (f.lruvec, f.nr_pages() as i64);
        self.memcgs
            .count(self.lruvecs[lruvec].memcg, Counter::Writeback, -n);
        self.count_event(lruvec, Counter::Written, n);
        let node = self.lruvecs[lruvec].node;
        self.nodes[node.idx()].write_pending -= n as u64;
        let wake = self.nodes[node.idx()].writeback_ended(n as u64);
        if wake.1 {
            self.vm.add(Counter::ThrottledWritten, n);
        }
        self.folio_put(id, 1);
        wake.0.then_some(node)
    }

    // ---------------------------------------------------------------- swap cache

    /// The folio gets a swap slot: the swap cache holds it with one reference a page.
    pub fn enter_swap_cache(&mut self, id: FolioId, slot: u32) {
        let f = &mut self.folios[id];
        debug_assert!(!f.has(Flags::SWAPCACHE));
        f.word.set(Flags::SWAPCACHE);
        f.swap = slot + 1;
        let n = f.nr_pages();
        f.refcount += n as u32;
        let memcg = self.lruvecs[f.lruvec].memcg;
        self.memcgs.count(memcg, Counter::SwapCached, n as i64);
    }

    /// The folio leaves the swap cache. The caller frees the slot, or keeps it with the contents.
    pub fn leave_swap_cache(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        debug_assert!(f.has(Flags::SWAPCACHE));
        f.word.clear(Flags::SWAPCACHE);
        f.swap = 0;
        let n = f.nr_pages();
        f.refcount -= n as u32;
        let memcg = self.lruvecs[f.lruvec].memcg;
        self.memcgs.count(memcg, Counter::SwapCached, -(n as i64));
    }
}
