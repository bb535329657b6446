//! The state of the machine: the engine and everything around it.

use crate::config::{MachineConfig, MachineError, SwapConfig, Thp};
use crate::ctx::Reach;
use crate::daemon::state::{FlusherState, KswapdState, OomReport, Proc};
use crate::device::{Device, FaultPlan};
use crate::io::file_system::FileSystem;
use crate::io::read_ahead::{ReadAhead, WindowRules};
use crate::mem::folio::MAX_ORDER;
use crate::mem::index_blocks::Buffers;
use crate::mem::{Mapping, MappingId, Object, Slot};
use crate::params::Params;
use crate::record::Recorder;
use crate::sim::{CpuMask, Sim, TicketLock, WaitQueue};
use crate::tlb::Tlb;
use crate::vm::context_switches::ContextSwitches;
use crate::vm::loose::{Loose, ZoneOrders};
use crate::vm::pcp::PageLists;
use crate::vm::swap_area::Swap;
use coldset_engine::node::ThrottleReason;
use coldset_engine::policies::desk::Desk;
use coldset_engine::writeback::{DirtyParams, Writeback};
use coldset_engine::{Engine, Flags, FolioId, MemcgId, MmId, NewFolio, NodeId, ObjectId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Weak;

/// An address space.
#[derive(Debug)]
pub struct Mm {
    /// The memcg it is charged to.
    pub memcg: MemcgId,
    /// Its mappings in address order.
    pub mappings: Vec<MappingId>,
    /// Where mappings were that are gone, by their pages, the last at the end.
    pub(crate) gaps: BTreeMap<u32, Vec<MappingId>>,
    /// The leaf table that the next small mapping begins in, if it is shared: what it is called after, and its entries
    /// that are taken.
    pub(crate) open_table: Option<(MappingId, u32)>,
    /// Present anonymous pages.
    pub anon: u64,
    /// Present file pages.
    pub file: u64,
    /// Pages in swap.
    pub swapped: u64,
    /// Leaf page tables in use.
    pub tables: u64,
    /// It has not ended.
    pub alive: bool,
}

/// The engine and everything around it. Borrowed for one action at a time, never across a wait.
pub struct World {
    /// The reclaim engine.
    pub engine: Engine,
    /// Every cost, by name.
    pub params: Params,
    pub(crate) objects: Vec<Object>,
    /// Pages of all of them that take memory whether they are used or not, and how many there may be.
    pub(crate) pages: (u64, u64),
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) mms: Vec<Mm>,
    /// Small mappings share leaf tables ([`MachineConfig::shared_tables`](crate::MachineConfig::shared_tables)).
    pub(crate) shared_tables: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) swap: Option<Swap>,
    /// Write contexts and dirty limits.
    pub wb: Writeback,
    pub(crate) dirty_balance: bool,
    pub(crate) memcg_writeback: bool,
    pub(crate) fault_around: u32,
    /// By device.
    pub(crate) read_ahead: Vec<ReadAhead>,
    pub(crate) file_system: FileSystem,
    /// Greatest order of a file's folio, by device.
    pub(crate) large_folios: Vec<u8>,
    pub(crate) thp: Thp,
    pub(crate) page_cluster: u32,
    pub(crate) neighbours_are_hits: bool,
    /// What is different about windows from kernel to kernel.
    pub(crate) window_rules: WindowRules,
    pub(crate) swap_cache_always: bool,
    pub(crate) compressed_near_page: bool,
    pub(crate) kernel: Option<KernelMemory>,
    pub(crate) check: bool,
    pub(crate) samples: Option<crate::samples::Samples>,
    /// Is told what tasks do.
    pub(crate) recorder: Option<Recorder>,
    /// The policy outside of the engine, under switches that have one.
    pub desk: Option<Desk>,
    pub(crate) sim: Sim,
    pub(crate) me: Weak<RefCell<World>>,
    /// Who waits for a folio to be unlocked or written.
    pub(crate) folio_waits: BTreeMap<u32, WaitQueue>,
    /// Who waits for the writeback of an object.
    pub(crate) object_waits: BTreeMap<u32, WaitQueue>,
    /// Throttled reclaimers by node and reason.
    pub(crate) throttled: Vec<[WaitQueue; 4]>,
    /// kswapd of each node, asleep.
    pub(crate) kswapd: Vec<KswapdState>,
    /// Flushers by wb.
    pub(crate) flushers: Vec<FlusherState>,
    /// lru_lock of each lruvec.
    pub(crate) locks: Vec<TicketLock>,
    /// Free pages at hand of each CPU, and the zone locks.
    pub(crate) page_lists: PageLists,
    /// Pages that tasks have taken and do not use yet, where there are several zones.
    pub(crate) loose: Option<Loose>,
    /// In which order its tasks try the zones.
    pub(crate) zone_orders: ZoneOrders,
    /// Which CPUs hold translations of what.
    pub(crate) tlb: Tlb,
    pub(crate) buffer: Vec<FolioId>,
    /// When the flushers' timer fires next.
    pub(crate) flusher_timer: Option<u64>,
    pub(crate) procs: Vec<Proc>,
    /// Kills, in order.
    pub(crate) ooms: Vec<OomReport>,
    /// A kill stops the simulation.
    pub(crate) stop_at_oom: bool,
    /// Address spaces that have run, for the engine's walks.
    pub(crate) switches: ContextSwitches,
    /// Next free page of each device, for placing files.
    pub(crate) device_end: Vec<u64>,
    /// The page cache of each device, once a file system has a block there.
    pub(crate) device_caches: Vec<Option<ObjectId>>,
    /// Blocks of file systems that CPUs hold.
    pub(crate) buffers: Buffers,
}

/// Kernel memory that memcgs are charged for (`reference/README.md`): index nodes, whose room stays with the memcg;
/// page tables, as long as their mapping; what goes with written pages.
#[derive(Debug)]
pub(crate) struct KernelMemory {
    /// By memcg: owed in millionths of a page, charged pages.
    pub(crate) owed: Vec<(u64, u64)>,
    /// Pages of each zone that are kernel memory.
    pub(crate) from: Vec<u64>,
}

impl World {
    pub(crate) fn new(cfg: &MachineConfig, sim: &Sim) -> Result<Self, MachineError> {
        let mut engine_cfg = cfg.engine.clone();
        engine_cfg.nr_cpus = u32::from(cfg.cpus);
        // One tick for timers, reclaim and dirty throttling.
        let hz = cfg.params.timer_hz;
        engine_cfg.hz = u32::try_from(hz).unwrap_or(u32::MAX);
        engine_cfg.swap_synchronous = !matches!(cfg.swap, SwapConfig::Disk { .. });
        if !cfg.fault_around.is_power_of_two() || cfg.fault_around > 512 {
            return Err(MachineError::Range {
                what: "fault-around pages",
                value: cfg.fault_around.to_string(),
                range: "a power of two up to 512",
            });
        }
        if cfg.large_folios > MAX_ORDER {
            return Err(MachineError::Range {
                what: "order of large folios",
                value: cfg.large_folios.to_string(),
                range: "0 (single pages) to 9",
            });
        }
        let nodes = engine_cfg.nr_nodes;
        engine_cfg.nr_zones = crate::ram::zones_a_node(&cfg.zones);
        let mut engine = Engine::new(engine_cfg, cfg.switches.clone())?;
        if let Some(ram) = cfg.ram {
            engine.zones.set(crate::ram::zones(cfg, nodes, ram)?);
        }
        let zones = engine.zones.all().len();
        let zone_orders = ZoneOrders::new(&engine.zones, nodes);
        let devices = cfg
            .devices
            .iter()
            .enumerate()
            .map(|(i, k)| {
                let mut spec = k.spec(&cfg.params);
                spec.read_lat_ns = cfg.read_lat_ns.unwrap_or(spec.read_lat_ns);
                Device::new(spec, cfg.seed.wrapping_add(i as u64))
            })
            .collect::<Vec<_>>();
        let swap = Swap::new(&cfg.swap, cfg, zones)?;
        if let Some(s) = &swap {
            engine.set_swap(s.free(), s.total());
        }
        // Its times shrink with the scale of time and keep their number of ticks.
        let time_scale = cfg.engine.time_scale;
        let mut dirty = cfg.dirty.scaled(1, time_scale)?;
        dirty.hz = hz.saturating_mul(time_scale);
        dirty.cpus = u32::from(cfg.cpus);
        Ok(Self {
            engine,
            params: cfg.params.clone(),
            objects: Vec::new(),
            pages: (0, u64::MAX),
            mappings: Vec::new(),
            mms: Vec::new(),
            shared_tables: cfg.shared_tables,
            device_end: vec![0; devices.len()],
            device_caches: vec![None; devices.len()],
            buffers: Buffers::PASSING,
            read_ahead: vec![cfg.read_ahead; devices.len()],
            file_system: cfg.file_system,
            large_folios: vec![cfg.large_folios; devices.len()],
            devices,
            swap,
            wb: Writeback::new(dirty)?,
            dirty_balance: cfg.dirty_balance,
            memcg_writeback: cfg.memcg_writeback && cfg.engine.cgroup_v2,
            fault_around: cfg.fault_around,
            thp: cfg.thp,
            page_cluster: cfg.page_cluster,
            neighbours_are_hits: cfg.neighbours_are_hits,
            window_rules: WindowRules {
                are_cut: cfg.windows_are_cut,
                counts_one_less: cfg.counts_one_less,
            },
            swap_cache_always: cfg.swap_cache_always,
            compressed_near_page: cfg.compressed_near_page,
            kernel: cfg.kernel_memory.then(|| KernelMemory {
                owed: Vec::new(),
                from: vec![0; zones.max(1)],
            }),
            check: cfg.check,
            samples: None,
            recorder: None,
            desk: None,
            sim: sim.clone(),
            me: Weak::new(),
            folio_waits: BTreeMap::new(),
            object_waits: BTreeMap::new(),
            throttled: (0..nodes)
                .map(|_| std::array::from_fn(|_| WaitQueue::new(sim)))
                .collect(),
            kswapd: Vec::new(),
            flushers: Vec::new(),
            locks: Vec::new(),
            page_lists: PageLists::new(nodes as usize, sim.config().cpus, &cfg.params),
            loose: match zones {
                0 | 1 => None,
                zones => Some(Loose::new(zones)),
            },
            zone_orders,
            tlb: Tlb::new(cfg.cpus, cfg.lazy_cpumask),
            buffer: Vec::new(),
            flusher_timer: None,
            procs: Vec::new(),
            ooms: Vec::new(),
            stop_at_oom: cfg.stop_at_oom,
            switches: ContextSwitches::default(),
        })
    }

    /// A new folio of one page, in its slot. It has been charged.
    pub(crate) fn insert_folio(
        &mut self,
        owner: MemcgId,
        reach: Reach,
        object: ObjectId,
        page: u32,
        flags: Flags,
    ) -> FolioId {
        let (node, zone) = self.place_of_new(reach, 1);
        let lruvec = self.engine.lruvec_id(owner, node);
        let new = NewFolio {
            zone,
            ..NewFolio::page(lruvec, object, page, flags)
        };
        let id = self.engine.folio_alloc(new);
        self.objects[object.idx()].set_slot(page, Slot::Folio(id));
        self.node_used(object, page);
        id
    }

    /// The object with this id.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.idx()]
    }

    /// The device with this index.
    pub fn device(&self, index: usize) -> &Device {
        &self.devices[index]
    }

    /// Swap, if there is any.
    pub fn swap(&self) -> Option<&Swap> {
        self.swap.as_ref()
    }

    /// Totals of the lru_locks, by lruvec; those never contended for may be missing.
    pub fn lock_stats(&self) -> Vec<crate::sim::LockStats> {
        self.locks.iter().map(TicketLock::stats).collect()
    }

    /// Totals of the zone locks, by node.
    pub fn zone_lock_stats(&self) -> Vec<crate::sim::LockStats> {
        self.page_lists.lock_stats()
    }

    /// Settings of dirty throttling and of the flushers, at the scale of the machine.
    pub fn dirty_params(&self) -> &DirtyParams {
        self.wb.params()
    }

    /// The OOM kills so far.
    pub fn ooms(&self) -> &[OomReport] {
        &self.ooms
    }

    /// An address space.
    pub fn mm(&self, id: MmId) -> &Mm {
        &self.mms[id.idx()]
    }

    /// CPUs that may hold translations of an address space.
    pub fn cpumask(&self, mm: MmId) -> CpuMask {
        self.tlb.mask(mm)
    }

    /// Wakes throttled reclaimers.
    pub(crate) fn wake_throttled(&self, node: NodeId, reason: ThrottleReason) {
        self.throttled[node.idx()][reason as usize].wake_all();
    }

    /// From now on buffered reads of a device read ahead like this.
    pub fn set_read_ahead(&mut self, device: usize, read_ahead: ReadAhead) {
        self.read_ahead[device] = read_ahead;
    }

    /// From now on the file system of a device makes folios up to this order.
    pub fn set_large_folios(&mut self, device: usize, order: u8) {
        self.large_folios[device] = order.min(MAX_ORDER);
    }

    /// True if faults in anonymous memory may get huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.thp != Thp::Never
    }

    /// From now on things go wrong with a device as planned.
    pub fn set_faults(&mut self, device: usize, plan: FaultPlan) {
        self.devices[device].set_faults(plan);
    }

    /// As [`Self::set_faults`] for the swap device, if swap is on one.
    pub fn set_swap_faults(&mut self, plan: FaultPlan) {
        if let Some(s) = &mut self.swap {
            s.set_faults(plan);
        }
    }
}
