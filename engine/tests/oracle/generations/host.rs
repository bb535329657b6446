//! A host with files, anonymous memory, page tables and swap, for the engine beside the model.

use super::aging::{around, tables, ANON, TABLE};
use super::rules::{Page, KILL};
use crate::host::{grow, name, Made, Name, CPUS};
use crate::Rng;
use coldset_engine::memcg::CounterKind;
use coldset_engine::mglru::{LookAround, Walk, YoungEntry};
use coldset_engine::reclaim::{Answer, ReclaimTask, References, Work, Written};
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::workingset::Shadow;
use coldset_engine::zone::{Zone, ZoneClass};
use coldset_engine::{
    presets, Config, Engine, Flags, FolioId, LruType, MemcgId, MmId, NewFolio, NodeId, ObjectId,
};
use std::collections::BTreeMap;

/// An entry of a page table that maps a page in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) young: bool,
    pub(super) exec: bool,
}

/// What an engine is made for.
pub(super) struct Machine {
    pub(super) preset: &'static str,
    /// Pages of each type that a memcg has.
    pub(super) span: u32,
    /// Pages.
    pub(super) swap: u64,
    pub(super) nodes: usize,
    pub(super) min_ttl_ms: u64,
}

pub(super) struct Host {
    pub(super) eng: Engine,
    pub(super) ids: Vec<MemcgId>,
    pub(super) folios: BTreeMap<Name, FolioId>,
    pub(super) table: BTreeMap<Name, Entry>,
    shadows: BTreeMap<Name, Option<Shadow>>,
    /// Slots in use by number, and who pays for them.
    slots: BTreeMap<u32, MemcgId>,
    swapped: BTreeMap<Name, u32>,
    swap: u64,
    next_slot: u32,
    /// Writes to swap take time.
    slow_swap: bool,
    pub(super) spaces: BTreeMap<MmId, usize>,
    pub(super) span: u32,
}

impl Host {
    pub(super) fn new(machine: &Machine, r: &mut Rng, slow_swap: bool) -> (Self, Vec<Made>) {
        let config = Config {
            nr_nodes: machine.nodes as u32,
            nr_cpus: CPUS as u32,
            swap_synchronous: !slow_swap,
            ..Config::default()
        };
        let mut switches = presets::preset(machine.preset).unwrap();
        let ttl = machine.min_ttl_ms.to_string();
        switches.set("min_ttl_ms", &ttl).unwrap();
        let mut eng = Engine::new(config, switches).unwrap();
        let swap = machine.swap;
        let (ids, made) = grow(&mut eng, r);
        eng.set_swap(swap, swap);
        let host = Host {
            eng,
            ids,
            folios: BTreeMap::new(),
            table: BTreeMap::new(),
            shadows: BTreeMap::new(),
            slots: BTreeMap::new(),
            swapped: BTreeMap::new(),
            swap,
            next_slot: 0,
            slow_swap,
            spaces: BTreeMap::new(),
            span: machine.span,
        };
        (host, made)
    }

    /// Nodes of so many pages, of which their kswapd keeps some free.
    pub(super) fn set_zones(&mut self, managed: u64, low: u64, high: u64) {
        let zone = |node| {
            let mut zone = Zone::new(NodeId(node), ZoneClass::Normal, managed);
            (zone.min, zone.low, zone.high, zone.promo) = (low / 2, low, high, high);
            zone
        };
        let nodes = self.eng.config().nr_nodes;
        self.eng.zones.set((0..nodes).map(zone).collect());
    }

    pub(super) fn bring_in(&mut self, cpu: usize, name: Name, page: &Page) {
        let (memcg, node) = (self.ids[name.0], NodeId(page.node as u32));
        let (mapped, exec) = (page.mapped, page.exec);
        let memory = CounterKind::Memory;
        self.eng.memcgs.charge_forced(memcg, memory, page.size());
        if let Some(zone) = self.eng.zones.of_mut(node).first_mut() {
            zone.free -= page.size();
        }
        let lruvec = self.eng.lruvec_id(memcg, node);
        let anon = name.1 >= ANON;
        let mut flags = Flags::OWNED | Flags::UPTODATE;
        if anon {
            flags |= Flags::ANON | Flags::SWAPBACKED;
        }
        let object = ObjectId(name.0 as u32);
        let new = NewFolio {
            order: page.order,
            ..NewFolio::page(lruvec, object, name.1, flags)
        };
        let id = self.eng.folio_alloc(new);
        if let Some(Some(shadow)) = self.shadows.remove(&name) {
            let site = match mapped {
                true => RefaultSite::Fault,
                false => RefaultSite::Read,
            };
            self.eng.refault(id, shadow, site);
        }
        if let Some(slot) = self.swapped.remove(&name) {
            self.free_slot(slot);
        }
        if mapped {
            self.eng.folio_map(id);
            let young = true;
            self.table.insert(name, Entry { young, exec });
        }
        self.eng.lru_add(cpu as u16, id, mapped);
        if anon {
            self.eng.folio_put(id, 1);
        } else if page.order > 0 {
            // One for each slot of the page cache.
            self.eng.folio_get(id, page.size() as u32 - 1);
        }
        self.folios.insert(name, id);
    }

    /// What is remembered of a page is found by the reader of another memcg.
    pub(super) fn take_over(&mut self, from: Name, to: Name) {
        let shadow = self.shadows.remove(&from).expect("evicted");
        self.shadows.insert(to, shadow);
    }

    pub(super) fn map(&mut self, name: Name, exec: bool) {
        self.eng.folio_map(self.folios[&name]);
        let young = true;
        self.table.insert(name, Entry { young, exec });
    }

    /// The page is gone for good, and what is remembered of it.
    pub(super) fn drop_page(&mut self, name: Name) {
        self.eng.lru_add_drain_all();
        if let Some(id) = self.folios.remove(&name) {
            self.eng.folio_get(id, 1);
            if let Some(slot) = self.eng.folio(id).swap_slot() {
                self.eng.leave_swap_cache(id);
                self.free_slot(slot);
            }
            if self.table.remove(&name).is_some() {
                self.eng.folio_unmap(id);
            }
            if self.eng.folio(id).has(Flags::MLOCKED) {
                self.eng.munlock(0, id);
                self.eng.lru_add_drain_all();
            }
            self.eng.clear_dirty(id);
            let pages = self.eng.folio(id).nr_pages() as u32;
            let held = if name.1 >= ANON { 1 } else { 1 + pages };
            assert!(self.eng.folio_put(id, held), "{name:?}");
        }
        if let Some(slot) = self.swapped.remove(&name) {
            self.free_slot(slot);
        }
        self.shadows.remove(&name);
    }

    fn take_slot(&mut self, folio: FolioId) -> Option<u32> {
        let memcg = self.ids[name(&self.eng, folio).0];
        let payer = self.eng.memcgs.charge_swap(memcg, 1).ok()?;
        if self.slots.len() as u64 == self.swap {
            self.eng.memcgs.uncharge_swap(payer, 1).unwrap();
            return None;
        }
        self.next_slot += 1;
        self.slots.insert(self.next_slot, payer);
        self.tell();
        Some(self.next_slot)
    }

    fn free_slot(&mut self, slot: u32) {
        let payer = self.slots.remove(&slot).expect("a used slot");
        self.eng.memcgs.uncharge_swap(payer, 1).unwrap();
        self.tell();
    }

    fn tell(&mut self) {
        let free = self.swap - self.slots.len() as u64;
        self.eng.set_swap(free, self.swap);
    }

    /// Victims in order.
    pub(super) fn run(&mut self, mut task: ReclaimTask) -> (Vec<Name>, ReclaimTask) {
        let mut victims = Vec::new();
        loop {
            match task.step(&mut self.eng) {
                Work::Done => return (victims, task),
                Work::Test {
                    folio, look_around, ..
                } => {
                    let found = self.test(folio, look_around);
                    task.answer(Answer::References(found));
                }
                Work::Walk(walk) => {
                    self.walk(&walk);
                    task.answer(Answer::Walked);
                }
                Work::Unmap { folio } => {
                    let name = name(&self.eng, folio);
                    self.table.remove(&name).expect("mapped");
                    self.eng.folio_unmap(folio);
                    let (deferred, writable) = (false, false);
                    task.answer(Answer::Unmapped { deferred, writable });
                }
                Work::AllocSwap { folio } => {
                    let slot = self.take_slot(folio);
                    task.answer(Answer::Slot(slot));
                }
                Work::Write { folio } => {
                    if self.slow_swap {
                        self.eng.writeback_start(folio);
                    }
                    task.answer(Answer::Written(Written::Submitted));
                }
                Work::FreeSwap { slot, .. } => self.free_slot(slot),
                Work::Free => {
                    for f in task.freed() {
                        let name = (f.object.0 as usize, f.index);
                        assert!(self.folios.remove(&name).is_some(), "{name:?} twice");
                        self.shadows.insert(name, f.shadow);
                        assert_eq!(f.swap.is_some(), name.1 >= ANON);
                        self.swapped.extend(f.swap.map(|slot| (name, slot)));
                        victims.push(name);
                    }
                }
                Work::OomKill => victims.push(KILL),
                Work::Yield | Work::Spin | Work::WakeFlushers | Work::Balance { .. } => {}
                Work::Throttle { .. } | Work::WakeThrottled { .. } => {}
                work => panic!("{work:?}"),
            }
        }
    }

    // ------------------------------------------------------------ page tables

    fn test(&mut self, folio: FolioId, look_around: Option<LookAround>) -> References {
        let (g, index) = name(&self.eng, folio);
        let entry = self.table.get_mut(&(g, index)).expect("mapped");
        let exec = entry.exec;
        let used = std::mem::take(&mut entry.young);
        let has_space = self.spaces.values().any(|&k| k == g);
        if let (true, true, Some(la)) = (used, has_space, look_around) {
            let window = around(index, self.span);
            let mut young = 1;
            for near in window.clone().filter(|&i| i != index) {
                let Some(entry) = self.table.get_mut(&(g, near)).filter(|e| e.young) else {
                    continue;
                };
                let id = self.folios[&(g, near)];
                if self.eng.look_around_wants(&la, id) {
                    entry.young = false;
                    young += 1;
                    self.eng.look_around_young(&la, 0, id, false);
                }
            }
            let (key, len) = (key(g, index), window.len() as u64);
            self.eng.look_around_done(&la, key, len, young);
        }
        References {
            accessed: u32::from(used),
            exec,
            ..References::default()
        }
    }

    fn walk(&mut self, walk: &Walk) {
        let g = self.spaces[&walk.mm];
        for (kind, lru_type) in [LruType::Anon, LruType::File].into_iter().enumerate() {
            if !self.eng.walk_wants_type(walk, lru_type) {
                continue;
            }
            for table in tables(kind, self.span) {
                let key = key(g, table.start);
                if !self.eng.walk_wants_table(walk, key) {
                    continue;
                }
                let mut young = 0;
                for index in table.clone() {
                    let Some(entry) = self.table.get_mut(&(g, index)).filter(|e| e.young) else {
                        continue;
                    };
                    let id = self.folios[&(g, index)];
                    if self.eng.walk_wants_folio(walk, id) {
                        (entry.young, young) = (false, young + 1);
                        let (dirty, exec) = (false, entry.exec);
                        self.eng.walk_young(walk, id, YoungEntry { dirty, exec });
                    }
                }
                let len = table.len() as u64;
                self.eng.walk_table_done(walk, key, len, young);
            }
        }
    }
}

/// Name of the table of an entry.
fn key(g: usize, index: u32) -> u64 {
    let base = if index >= ANON { ANON } else { 0 };
    let first = base + (index - base) / TABLE * TABLE;
    (g as u64) << 32 | u64::from(first)
}
