//! A host of the engine that is nothing but a cache of single pages: one memcg, one lruvec, so many
//! frames.

use crate::bounds::Sequence;
use coldset_engine::memcg::CounterKind;
use coldset_engine::reclaim::{Freed, ReclaimTask, Work};
use coldset_engine::switches::PolicyKind;
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::workingset::Shadow;
use coldset_engine::{
    Config, Engine, Flags, FolioId, LruType, LruvecId, MemcgId, NewFolio, NodeId, ObjectId,
    Switches,
};

/// Pages that a kernel's charge asks for when a limit is met (`docs/rules/reclaim-loop.md#passes-and-rounds`).
pub const BATCH: u64 = 32;
/// Least frames of a kernel's policy: some batches.
pub const KERNEL_MIN: u64 = 128;
/// Statistics that classic reclaim reads are folded once for so large a part of the frames that was
/// missed, as in a replay without a clock.
const FOLD_SHARE: u64 = crate::replay::FOLD_SHARE;

/// In a slot: never seen. Otherwise a folio, with the highest bit, or a shadow, without it.
const EMPTY: u64 = u64::MAX;
const FOLIO: u64 = 1 << 63;

/// A cache of a given number of frames.
pub struct Cache {
    engine: Engine,
    memcg: MemcgId,
    lruvec: LruvecId,
    frames: u64,
    resident: u64,
    /// State of each page, by its number.
    slots: Vec<u64>,
    misses: u64,
    /// Kernel's policies: misses before the next fold.
    to_fold: u64,
    one_at_a_time: bool,
}

impl Cache {
    /// An empty cache of `frames` frames, at least 1, for pages below `pages`.
    #[must_use]
    pub fn new(switches: &Switches, frames: u64, pages: u32) -> Self {
        let one_at_a_time = evicts_one_at_a_time(switches);
        let mut config = Config::default();
        if one_at_a_time {
            // Each reference finds the lists exact.
            config.batch_size = 1;
        }
        let mut engine = Engine::new(config, switches.clone()).expect("default sizes");
        let memcg = engine.memcg_create(MemcgId::ROOT).expect("the first one");
        Self {
            lruvec: engine.lruvec_id(memcg, NodeId(0)),
            engine,
            memcg,
            frames: frames.max(1),
            resident: 0,
            slots: vec![EMPTY; pages as usize],
            misses: 0,
            to_fold: 0,
            one_at_a_time,
        }
    }

    /// A reference to a page. True: a hit.
    #[inline]
    pub fn read(&mut self, page: u32) -> bool {
        let slot = self.slots[page as usize];
        if slot != EMPTY && slot & FOLIO != 0 {
            self.engine.mark_accessed(0, FolioId(slot as u32));
            return true;
        }
        self.misses += 1;
        let id = self.bring_in(page, slot);
        self.engine.mark_accessed(0, id);
        false
    }

    fn bring_in(&mut self, page: u32, slot: u64) -> FolioId {
        let charge = |eng: &mut Engine, memcg| {
            eng.memcgs.charge_forced(memcg, CounterKind::Memory, 1);
        };
        if !self.one_at_a_time && self.resident == self.frames {
            self.reclaim();
        }
        charge(&mut self.engine, self.memcg);
        let id = self.engine.folio_alloc(NewFolio::page(
            self.lruvec,
            ObjectId(0),
            page,
            Flags::OWNED | Flags::UPTODATE,
        ));
        if slot != EMPTY {
            self.engine.refault(id, Shadow(slot), RefaultSite::Read);
        }
        if self.one_at_a_time && self.resident == self.frames {
            let gone = self.engine.evict_next(self.lruvec, LruType::File);
            let gone = gone.expect("memory is full of pages");
            self.slots[gone.index as usize] = gone.shadow.0;
            self.resident -= 1;
        }
        self.engine.lru_add(0, id, false);
        self.slots[page as usize] = FOLIO | u64::from(id.0);
        self.resident += 1;
        id
    }

    /// A kernel's policy makes room as a charge at a limit does.
    fn reclaim(&mut self) {
        if self.to_fold == 0 {
            self.engine.memcgs.fold();
            self.to_fold = (self.frames / FOLD_SHARE).max(1);
        }
        self.to_fold = self.to_fold.saturating_sub(BATCH);
        while self.resident == self.frames {
            let mut task = ReclaimTask::limit(self.memcg, BATCH, 0, NodeId(0));
            loop {
                match task.step(&mut self.engine) {
                    Work::Done => break,
                    Work::Free | Work::Detach => {
                        for freed in task.freed() {
                            Self::forget(&mut self.slots, &mut self.resident, freed);
                        }
                    }
                    Work::FlushTlb { .. }
                    | Work::WakeFlushers
                    | Work::WakeThrottled { .. }
                    | Work::Throttle { .. }
                    | Work::Yield
                    | Work::Spin => {}
                    other => unreachable!("clean pages that nobody maps: {other:?}"),
                }
            }
            let progress = task.outcome().reclaimed > 0;
            assert!(progress, "every page can be evicted");
        }
    }

    fn forget(slots: &mut [u64], resident: &mut u64, freed: &Freed) {
        let slot = &mut slots[freed.index as usize];
        if *slot & FOLIO != 0 {
            *slot = freed.shadow.map_or(EMPTY, |s| s.0);
            *resident -= 1;
        }
    }

    /// Misses so far.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// The engine, to be looked at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// The policy gives up one page when one is needed; else a batch.
#[must_use]
pub fn evicts_one_at_a_time(switches: &Switches) -> bool {
    matches!(switches.policy, PolicyKind::List(_))
}

/// Misses of a sequence under a policy with a given number of frames.
#[must_use]
pub fn misses(switches: &Switches, sequence: &Sequence, frames: u64) -> u64 {
    let mut cache = Cache::new(switches, frames, sequence.unique());
    for &page in sequence.keys() {
        cache.read(page);
    }
    cache.misses()
}
