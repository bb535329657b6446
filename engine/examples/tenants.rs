//! Tenants with memory of their own, in a tree of memcgs with limits and protection, and swap behind them.
//!
//! `cargo run -p coldset-engine --example tenants -- v5`
//!
//! `docs/how-to/use-the-engine.md` explains.

use coldset_engine::memcg::{
    ChargeFlags, ChargeStep, ChargeTask, CounterKind, HighStep, HighTask, TaskMemcg,
};
use coldset_engine::mglru::{Walk, YoungEntry};
use coldset_engine::reclaim::{Answer, ReclaimTask, References, Work, Written};
use coldset_engine::swap::{SwapSlot, SwapSlots};
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::workingset::Shadow;
use coldset_engine::{
    presets, Config, Counter, Engine, Flags, FolioId, MemcgId, MmId, NewFolio, NodeId, ObjectId,
};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const SWAP: u32 = 8192;
/// Pages of a table, for walks.
const TABLE: u32 = 512;

/// A page of a tenant: (object, index). The value is all that the page holds.
type Name = (u32, u32);

/// A page-table entry.
#[derive(Clone, Copy)]
enum Entry {
    Mapped {
        folio: FolioId,
        accessed: bool,
        value: u64,
    },
    /// Reclaim has taken the mapping away and not freed the folio, or not yet.
    Unmapped {
        folio: FolioId,
        value: u64,
    },
    Swapped {
        slot: u32,
        shadow: Option<Shadow>,
    },
}

#[derive(Clone, Copy)]
struct Tenant {
    memcg: MemcgId,
    object: u32,
    mm: MmId,
}

struct World {
    engine: Engine,
    task: TaskMemcg,
    table: BTreeMap<Name, Entry>,
    slots: SwapSlots,
    /// What each used slot holds, and whose it is.
    swap: BTreeMap<u32, (u64, MemcgId)>,
    faults: BTreeMap<u32, u64>,
    /// Whose memory an address space is.
    objects: BTreeMap<MmId, u32>,
}

impl World {
    fn new(preset: &str) -> Result<Self> {
        let config = Config {
            nr_cpus: 1,
            // A store is at its end when the call returns.
            swap_synchronous: true,
            ..Config::default()
        };
        let mut switches = presets::preset(preset)?;
        // Nobody tells the time here, so the statistics must not lag behind it.
        switches.stale_stats = false;
        let mut engine = Engine::new(config, switches)?;
        let mut slots = SwapSlots::new(512, None)?;
        slots.add_area(SWAP, 0)?;
        engine.set_swap(slots.free(), slots.total());
        Ok(World {
            engine,
            task: TaskMemcg::default(),
            table: BTreeMap::new(),
            slots,
            swap: BTreeMap::new(),
            faults: BTreeMap::new(),
            objects: BTreeMap::new(),
        })
    }

    fn tenant(&mut self, parent: MemcgId) -> Result<Tenant> {
        let memcg = self.engine.memcg_create(parent)?;
        let mm = self.engine.mm_create(memcg);
        let object = memcg.0;
        self.objects.insert(mm, object);
        Ok(Tenant { memcg, object, mm })
    }

    // ------------------------------------------------------------ what tenants do

    /// Loads the page and stores to it. Returns what it held.
    fn replace(&mut self, t: Tenant, index: u32, new: u64) -> Result<u64> {
        let name = (t.object, index);
        self.engine.mm_ran(t.mm);
        if !matches!(self.table.get(&name), Some(Entry::Mapped { .. })) {
            self.fault(t, name)?;
        }
        let Some(Entry::Mapped {
            accessed,
            value,
            folio,
        }) = self.table.get_mut(&name)
        else {
            unreachable!("mapped by the fault");
        };
        // This is all that a hit does. The dirty mark would be in the entry on real hardware.
        *accessed = true;
        self.engine.set_dirty(*folio);
        Ok(std::mem::replace(value, new))
    }

    fn fault(&mut self, t: Tenant, name: Name) -> Result<()> {
        *self.faults.entry(t.object).or_default() += 1;
        if let Some(&Entry::Unmapped { folio, value }) = self.table.get(&name) {
            // Still in memory, in the swap cache.
            self.engine.folio_map(folio);
            let accessed = true;
            self.table.insert(
                name,
                Entry::Mapped {
                    folio,
                    accessed,
                    value,
                },
            );
            return Ok(());
        }
        self.charge(t.memcg)?;
        let lruvec = self.engine.lruvec_id(t.memcg, NodeId(0));
        let flags = Flags::ANON | Flags::SWAPBACKED | Flags::OWNED | Flags::UPTODATE;
        let new = NewFolio::page(lruvec, ObjectId(name.0), name.1, flags);
        let folio = self.engine.folio_alloc(new);
        let mut value = 0;
        if let Some(Entry::Swapped { slot, shadow }) = self.table.remove(&name) {
            value = self.swap[&slot].0;
            if let Some(shadow) = shadow {
                self.engine.refault(folio, shadow, RefaultSite::Fault);
            }
            self.free_slot(slot)?;
        }
        self.engine.folio_map(folio);
        self.engine.lru_add(0, folio, true);
        // Of anonymous memory the mappings hold references, not the slot.
        self.engine.folio_put(folio, 1);
        let accessed = true;
        self.table.insert(
            name,
            Entry::Mapped {
                folio,
                accessed,
                value,
            },
        );
        self.over_high(t.memcg)
    }

    /// The tenant gives a page back.
    fn forget(&mut self, t: Tenant, index: u32) -> Result<()> {
        match self.table.remove(&(t.object, index)) {
            Some(Entry::Mapped { folio, .. }) => {
                self.leave_swap_cache(folio)?;
                self.engine.folio_unmap(folio);
            }
            Some(Entry::Unmapped { folio, .. }) => self.leave_swap_cache(folio)?,
            Some(Entry::Swapped { slot, .. }) => self.free_slot(slot)?,
            None => {}
        }
        Ok(())
    }

    fn leave_swap_cache(&mut self, folio: FolioId) -> Result<()> {
        // Whoever may drop the last reference holds one himself.
        self.engine.folio_get(folio, 1);
        if let Some(slot) = self.engine.folio(folio).swap_slot() {
            self.engine.leave_swap_cache(folio);
            self.free_slot(slot)?;
        }
        self.engine.folio_clear(folio, Flags::OWNED);
        self.engine.folio_put(folio, 1);
        Ok(())
    }

    // ------------------------------------------------------------ memory and swap

    fn charge(&mut self, memcg: MemcgId) -> Result<()> {
        let tree = &mut self.engine.memcgs;
        let Err(over) = tree.try_charge_fast(memcg, 1, 0, &mut self.task) else {
            return Ok(());
        };
        let mut charge = ChargeTask::refused(memcg, 1, ChargeFlags::USER, over);
        loop {
            match charge.step(&mut self.engine.memcgs, 0, &mut self.task) {
                ChargeStep::Reclaim { over, nr } => {
                    let freed = self.reclaim(over, nr)?;
                    charge.reclaim_done(freed);
                }
                ChargeStep::Oom { .. } => charge.oom_done(false),
                ChargeStep::Done(Ok(_)) => return Ok(()),
                ChargeStep::Done(Err(e)) => return Err(format!("no memory: {e:?}").into()),
            }
        }
    }

    /// What a task owes for having gone above `memory.high`, before it goes on.
    fn over_high(&mut self, memcg: MemcgId) -> Result<()> {
        if self.task.over_high == 0 {
            return Ok(());
        }
        let hz = u64::from(self.engine.config().hz);
        let mut high = HighTask::new(memcg, &mut self.task, hz);
        loop {
            match high.step(&mut self.engine.memcgs, false) {
                HighStep::Reclaim { over, nr } => {
                    let freed = self.reclaim(over, nr)?;
                    high.reclaim_done(&self.engine.memcgs, freed);
                }
                // A program with a clock would sleep.
                HighStep::Sleep { .. } => {}
                HighStep::Done => return Ok(()),
            }
        }
    }

    fn take_slot(&mut self, folio: FolioId) -> Option<u32> {
        let lruvec = self.engine.folio(folio).lruvec();
        let memcg = self.engine.lruvec(lruvec).memcg;
        let owner = self.engine.memcgs.charge_swap(memcg, 1).ok()?;
        let Some(slot) = self.slots.allocate(0) else {
            let uncharged = self.engine.memcgs.uncharge_swap(owner, 1);
            uncharged.expect("charged just now");
            return None;
        };
        self.swap.insert(slot.slot.offset, (0, owner));
        self.engine.set_swap(self.slots.free(), self.slots.total());
        Some(slot.slot.offset)
    }

    fn free_slot(&mut self, offset: u32) -> Result<()> {
        let (_, owner) = self.swap.remove(&offset).expect("a used slot");
        self.engine.memcgs.uncharge_swap(owner, 1)?;
        self.slots.release(0, SwapSlot { area: 0, offset });
        self.engine.set_swap(self.slots.free(), self.slots.total());
        Ok(())
    }

    // ------------------------------------------------------------ reclaim

    fn name(&self, folio: FolioId) -> Name {
        let (object, index) = self.engine.folio(folio).owner();
        (object.0, index)
    }

    /// Pages freed.
    fn reclaim(&mut self, memcg: MemcgId, nr: u64) -> Result<u64> {
        let mut task = ReclaimTask::limit(memcg, nr, 0, NodeId(0));
        loop {
            match task.step(&mut self.engine) {
                Work::Test { folio, .. } => {
                    // With `look_around`, a host of real page tables would look at the neighbours, too.
                    let name = self.name(folio);
                    let used = match self.table.get_mut(&name) {
                        Some(Entry::Mapped { accessed, .. }) => std::mem::take(accessed),
                        _ => false,
                    };
                    task.answer(Answer::References(References {
                        accessed: u32::from(used),
                        ..References::default()
                    }));
                }
                Work::Walk(walk) => {
                    let object = self.objects[&walk.mm];
                    self.walk(&walk, object);
                    task.answer(Answer::Walked);
                }
                Work::AllocSwap { folio } => {
                    let slot = self.take_slot(folio);
                    task.answer(Answer::Slot(slot));
                }
                Work::Unmap { folio } => {
                    let name = self.name(folio);
                    if let Some(&Entry::Mapped { value, .. }) = self.table.get(&name) {
                        self.table.insert(name, Entry::Unmapped { folio, value });
                        self.engine.folio_unmap(folio);
                    }
                    // No other CPU has the old translation.
                    let (deferred, writable) = (false, false);
                    task.answer(Answer::Unmapped { deferred, writable });
                }
                Work::Write { folio } => {
                    let slot = self.engine.folio(folio).swap_slot().expect("it has one");
                    if let Some(&Entry::Unmapped { value, .. }) = self.table.get(&self.name(folio))
                    {
                        self.swap.get_mut(&slot).expect("a used slot").0 = value;
                    }
                    task.answer(Answer::Written(Written::Submitted));
                }
                Work::FreeSwap { slot, .. } => self.free_slot(slot)?,
                Work::Free => {
                    for freed in task.freed().iter().filter(|f| f.owned) {
                        let slot = freed.swap.expect("anonymous memory goes to swap");
                        let shadow = freed.shadow;
                        let name = (freed.object.0, freed.index);
                        self.table.insert(name, Entry::Swapped { slot, shadow });
                    }
                }
                Work::Done => return Ok(task.outcome().reclaimed),
                _ => {}
            }
        }
    }

    /// Reports the entries of a tenant that have been used, a table after the other.
    fn walk(&mut self, walk: &Walk, object: u32) {
        let last = self.table.range(..=(object, u32::MAX)).next_back();
        let Some((&(found, last), _)) = last else {
            return;
        };
        if found != object {
            return;
        }
        for first in (0..=last).step_by(TABLE as usize) {
            let key = u64::from(object) << 32 | u64::from(first);
            if !self.engine.walk_wants_table(walk, key) {
                continue;
            }
            let mut young = 0;
            for (_, entry) in self
                .table
                .range_mut((object, first)..(object, first + TABLE))
            {
                if let Entry::Mapped {
                    folio, accessed, ..
                } = entry
                {
                    if *accessed && self.engine.walk_wants_folio(walk, *folio) {
                        *accessed = false;
                        young += 1;
                        self.engine.walk_young(walk, *folio, YoungEntry::default());
                    }
                }
            }
            self.engine
                .walk_table_done(walk, key, u64::from(TABLE), young);
        }
    }
}

fn main() -> Result<()> {
    for preset in std::env::args().skip(1) {
        let mut w = World::new(&preset)?;
        // root, a pod with a limit, in it a database, of which the buffers are protected, and a batch job.
        let pod = w.engine.memcg_create(MemcgId::ROOT)?;
        let db = w.engine.memcg_create(pod)?;
        let [buffers, temp, batch] = [w.tenant(db)?, w.tenant(db)?, w.tenant(pod)?];
        let tree = &mut w.engine.memcgs;
        tree.set_max(pod, CounterKind::Memory, 1000)?;
        // Protection counts only as far as the parent grants it.
        tree.set_low(db, 600)?;
        tree.set_low(buffers.memcg, 500)?;
        tree.set_min(db, 100)?;
        tree.set_min(buffers.memcg, 100)?;
        tree.set_high(batch.memcg, CounterKind::Memory, 700)?;

        let mut truth = BTreeMap::new();
        let mut random = 1u64;
        for n in 1..60_000u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let work = [
                (buffers, random % 500),
                (temp, (random >> 20) % 200),
                (batch, n % 3000),
            ];
            for (t, index) in work {
                let old = truth.insert((t.object, index), n).unwrap_or(0);
                assert_eq!(
                    w.replace(t, index as u32, n)?,
                    old,
                    "a page has lost a store"
                );
            }
            if n.is_multiple_of(100) {
                let index = (random >> 40) % 200;
                w.forget(temp, index as u32)?;
                truth.remove(&(temp.object, index));
            }
        }
        w.engine.check();
        println!("{preset:8}   usage    swap   faults   low events");
        for (name, t) in [("buffers", buffers), ("temp", temp), ("batch", batch)] {
            let tree = &w.engine.memcgs;
            let memcg = tree.get(t.memcg).expect("made above");
            println!(
                "  {name:8} {:>5} {:>7} {:>8} {:>12}",
                memcg.memory().usage(),
                memcg.swap().usage(),
                w.faults[&t.object],
                tree.event_total(t.memcg, Counter::EventsLow),
            );
        }
    }
    Ok(())
}
