//! A host of the engine that is nothing but a cache of single pages: one memcg, one lruvec, so many
//! frames, a list policy.

use crate::bounds::Sequence;
use coldset_engine::memcg::CounterKind;
use coldset_engine::policies::ListKind;
use coldset_engine::switches::PolicyKind;
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::workingset::Shadow;
use coldset_engine::{
    Config, Engine, Flags, FolioId, LruType, LruvecId, MemcgId, NewFolio, NodeId, ObjectId,
    Switches,
};

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
}

impl Cache {
    /// An empty cache of `frames` frames, at least 1, for pages below `pages`, under a list policy.
    #[must_use]
    pub fn new(switches: &Switches, frames: u64, pages: u32) -> Self {
        let config = Config {
            // Each reference finds the lists exact.
            batch_size: 1,
            ..Config::default()
        };
        let mut engine = Engine::new(config, switches.clone()).expect("default sizes");
        let memcg = engine.memcg_create(MemcgId::ROOT).expect("the first one");
        let frames = frames.max(1);
        let limit = engine.memcgs.set_max(memcg, CounterKind::Memory, frames);
        limit.expect("it is not the root");
        Self {
            lruvec: engine.lruvec_id(memcg, NodeId(0)),
            engine,
            memcg,
            frames,
            resident: 0,
            slots: vec![EMPTY; pages as usize],
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
        let id = self.bring_in(page, slot);
        self.engine.mark_accessed(0, id);
        false
    }

    /// A page is gone for good: it was unmapped, or cut off its file. Its frame is free, and nothing is remembered of it.
    pub fn forget(&mut self, page: u32) {
        let slot = std::mem::replace(&mut self.slots[page as usize], EMPTY);
        if slot == EMPTY {
            return;
        }
        if slot & FOLIO == 0 {
            let shadow = Shadow(slot);
            return self
                .engine
                .forget_evicted(self.lruvec, LruType::File, shadow);
        }
        self.engine.folio_put(FolioId(slot as u32), 1);
        self.resident -= 1;
    }

    fn bring_in(&mut self, page: u32, slot: u64) -> FolioId {
        let memcgs = &mut self.engine.memcgs;
        memcgs.charge_forced(self.memcg, CounterKind::Memory, 1);
        let id = self.engine.folio_alloc(NewFolio::page(
            self.lruvec,
            ObjectId(0),
            page,
            Flags::OWNED | Flags::UPTODATE,
        ));
        if slot != EMPTY {
            self.engine.refault(id, Shadow(slot), RefaultSite::Read);
        }
        if self.resident == self.frames {
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

    /// The engine, to be looked at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Whether a policy is one of lists of the engine, which gives up a page when one is needed, and no kernel's.
#[must_use]
pub fn is_list(switches: &Switches) -> bool {
    matches!(switches.policy, PolicyKind::List(kind) if !matches!(kind, ListKind::Outside(_)))
}

/// Misses of a sequence under a list policy with a given number of frames.
#[must_use]
pub fn misses(switches: &Switches, sequence: &Sequence, frames: u64) -> u64 {
    let mut cache = Cache::new(switches, frames, sequence.unique());
    let (mut misses, mut leaving) = (0, sequence.leaving());
    for (position, &page) in sequence.keys().iter().enumerate() {
        leaving.before(position).for_each(|gone| cache.forget(gone));
        misses += u64::from(!cache.read(page) && !sequence.is_free(position));
    }
    misses
}
