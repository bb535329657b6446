//! The mock world: creating, mapping, using, dirtying and dropping folios.

use super::{Script, Seen, Spec};
use crate::config::Config;
use crate::engine::Engine;
use crate::folio::table::NewFolio;
use crate::folio::{Flags, Folio};
use crate::ids::{FolioId, LruvecId, MemcgId, MmId, NodeId, ObjectId};
use crate::lruvec::LruList;
use crate::memcg::CounterKind;
use crate::switches::{presets, Switches};
use crate::Counter;
use std::collections::BTreeMap;

/// The only object; a folio's index in it is unique for the whole test.
const OBJECT: ObjectId = ObjectId(1);

/// A host with one memcg, one address space and one CPU in use.
pub(crate) struct Host {
    /// The engine under test.
    pub(crate) eng: Engine,
    /// The memcg that new folios belong to.
    pub(crate) memcg: MemcgId,
    /// Its lruvec on node 0.
    pub(crate) lruvec: LruvecId,
    /// What was asked for.
    pub(crate) seen: Seen,
    /// The address space; entry `n` of its page table maps the folio with index `n`.
    pub(crate) mm: MmId,
    pub(super) scripts: BTreeMap<FolioId, Script>,
    /// Folios in memory, by index.
    pub(super) alive: BTreeMap<u32, FolioId>,
    pub(super) next_index: u32,
    pub(super) in_flight: Vec<FolioId>,
    pub(super) next_slot: u32,
    /// Longest run of free swap slots, however many are free.
    pub(crate) swap_run: u64,
    /// Folios out of their slots that have not been freed yet.
    pub(super) detached: usize,
}

impl Host {
    /// A host of a named preset, 1 GiB of free swap.
    pub(crate) fn new(preset: &str) -> Self {
        Self::with(presets::preset(preset).unwrap(), Config::default())
    }

    /// A host of the given switches and sizes.
    pub(crate) fn with(sw: Switches, cfg: Config) -> Self {
        let mut eng = Engine::new(cfg, sw).unwrap();
        let memcg = eng.memcg_create(MemcgId::ROOT).unwrap();
        let lruvec = eng.lruvec_id(memcg, NodeId(0));
        let mm = eng.mm_create(memcg);
        eng.set_swap(1 << 18, 1 << 18);
        Self {
            eng,
            memcg,
            lruvec,
            seen: Seen::default(),
            mm,
            scripts: BTreeMap::new(),
            alive: BTreeMap::new(),
            next_index: 0,
            in_flight: Vec::new(),
            next_slot: 0,
            swap_run: u64::MAX,
            detached: 0,
        }
    }

    /// Creates and charges a folio that is on no list. The caller holds one extra reference, which
    /// [`Self::queue`] or [`Self::place`](Self::place) drops.
    pub(crate) fn alloc(&mut self, spec: Spec) -> FolioId {
        let n = 1u64 << spec.order;
        self.eng
            .memcgs
            .charge_forced(self.memcg, CounterKind::Memory, n);
        let index = self.next_index;
        self.next_index += n as u32;
        let id = self.eng.folio_alloc(NewFolio {
            lruvec: self.lruvec,
            object: OBJECT,
            index,
            order: spec.order,
            zone: spec.zone,
            flags: spec.flags,
        });
        if spec.flags.contains(Flags::OWNED) {
            self.eng.folio_get(id, n as u32);
        }
        for _ in 0..spec.maps {
            self.eng.folio_map(id);
        }
        if spec.flags.contains(Flags::SWAPCACHE) {
            self.eng.folio_clear(id, Flags::SWAPCACHE);
            self.eng.enter_swap_cache(id, self.next_slot);
            self.next_slot += n as u32;
        }
        if spec.dirty {
            self.eng.set_dirty(id);
        }
        self.alive.insert(index, id);
        self.scripts.insert(id, Script::default());
        id
    }

    /// Queues a new folio for its list and lets go of it. It may wait in a batch. The task that
    /// brought it in has run.
    pub(crate) fn queue(&mut self, id: FolioId, in_fault: bool) {
        self.eng.mm_ran(self.mm);
        self.eng.lru_add(0, id, in_fault);
        self.eng.folio_put(id, 1);
    }

    /// A new folio on its list, read in through a descriptor.
    pub(crate) fn add(&mut self, spec: Spec) -> FolioId {
        let id = self.alloc(spec);
        self.queue(id, false);
        self.eng.lru_add_drain(0);
        id
    }

    /// A new folio on its list, brought in by a fault.
    pub(crate) fn fault(&mut self, spec: Spec) -> FolioId {
        let id = self.alloc(spec);
        self.queue(id, true);
        self.eng.lru_add_drain(0);
        id
    }

    /// `n` new folios, as [`Self::add`].
    pub(crate) fn add_many(&mut self, n: usize, spec: Spec) -> Vec<FolioId> {
        (0..n).map(|_| self.add(spec)).collect()
    }

    /// The scripted answers of a folio.
    pub(crate) fn script(&mut self, id: FolioId) -> &mut Script {
        self.scripts.get_mut(&id).expect("a folio of this host")
    }

    /// The folio.
    pub(crate) fn folio(&self, id: FolioId) -> &Folio {
        self.eng.folio(id)
    }

    /// True if all of the flags are set.
    pub(crate) fn has(&self, id: FolioId, flags: Flags) -> bool {
        self.eng.folio(id).has(flags)
    }

    /// True if any of the flags is set.
    pub(crate) fn any(&self, id: FolioId, flags: Flags) -> bool {
        self.eng.folio(id).any(flags)
    }

    /// True if the folio has been freed. Only while no new folio has taken its record.
    pub(crate) fn gone(&self, id: FolioId) -> bool {
        self.eng.folio(id).has(Flags::DEAD)
    }

    /// Folios in memory, in order of creation.
    pub(crate) fn folios(&self) -> Vec<FolioId> {
        self.alive.values().copied().collect()
    }

    /// Pages of the memcg on a list.
    pub(crate) fn size(&self, list: LruList) -> u64 {
        self.eng.lruvec(self.lruvec).size_all(list)
    }

    /// A counter of the memcg alone.
    pub(crate) fn count(&self, c: Counter) -> i64 {
        self.eng.memcgs.local(self.memcg).get(c)
    }

    /// A counter of the machine, whatever the memcg.
    pub(crate) fn vm(&self, c: Counter) -> i64 {
        self.eng.vmstat().get(c)
    }

    /// The owner lets go: truncation, or exit of the process. The folio is freed unless somebody
    /// else (a batch, a writer) still holds it.
    pub(crate) fn truncate(&mut self, id: FolioId) {
        let index = self.eng.folio(id).owner().1;
        self.alive.remove(&index);
        self.eng.folio_get(id, 1);
        while self.eng.folio(id).mapped() {
            self.eng.folio_unmap(id);
        }
        if let Some(slot) = self.eng.folio(id).swap_slot() {
            self.eng.leave_swap_cache(id);
            self.give_slots(slot, self.eng.folio(id).nr_pages());
        }
        if self.eng.folio(id).has(Flags::OWNED) {
            let n = self.eng.folio(id).nr_pages() as u32;
            self.eng.folio_clear(id, Flags::OWNED);
            self.eng.folio_put(id, n);
        }
        self.eng.clear_dirty(id);
        self.eng.folio_put(id, 1);
    }

    /// Flusher: starts writing a dirty file folio back.
    pub(crate) fn start_write(&mut self, id: FolioId) {
        self.eng.clear_dirty(id);
        self.eng.writeback_start(id);
        self.in_flight.push(id);
    }

    /// All I/O in flight ends; rotations wait in the batch of CPU 0.
    pub(crate) fn finish_writes(&mut self) {
        for id in std::mem::take(&mut self.in_flight) {
            self.eng.writeback_end(0, id);
        }
    }

    pub(super) fn give_slots(&mut self, slot: u32, n: u64) {
        self.seen.slots_freed.push(slot);
        let (free, total) = (self.eng.swap_free(), self.eng.swap_total());
        self.eng.set_swap(free + n, total);
    }
}
