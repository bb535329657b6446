//! A host for models: files of memcgs, one CPU reclaims.

use crate::Rng;
use coldset_engine::memcg::CounterKind;
use coldset_engine::reclaim::{Answer, ReclaimTask, References, Work};
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::workingset::Shadow;
use coldset_engine::{
    presets, Config, Engine, Flags, FolioId, MemcgId, NewFolio, NodeId, ObjectId,
};
use std::collections::BTreeMap;

/// A page of the file of a memcg: (memcg, index).
pub(crate) type Name = (usize, u32);

/// CPUs in use; reclaim runs on the first.
pub(crate) const CPUS: usize = 2;
/// Entries of a batch.
pub(crate) const BATCH: usize = 31;

/// A memcg as it was made.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    pub(crate) parent: Option<usize>,
    pub(crate) min: u64,
    pub(crate) low: u64,
}

pub(crate) struct Host {
    pub(crate) eng: Engine,
    pub(crate) ids: Vec<MemcgId>,
    pub(crate) folios: BTreeMap<Name, FolioId>,
    shadows: BTreeMap<Name, Shadow>,
}

pub(crate) fn name(eng: &Engine, id: FolioId) -> Name {
    let (object, index) = eng.folio(id).owner();
    (object.0 as usize, index)
}

/// root, a pod below it, two memcgs in the pod, two in the second of them, one in the second of these.
pub(crate) fn grow(eng: &mut Engine, r: &mut Rng) -> (Vec<MemcgId>, Vec<Made>) {
    let mut ids = vec![MemcgId::ROOT];
    let mut made = vec![Made {
        parent: None,
        min: 0,
        low: 0,
    }];
    for parent in [0, 1, 1, 3, 3, 5] {
        let id = eng.memcg_create(ids[parent]).unwrap();
        let [min, low] = match r.one_in(2) {
            true => [0, 0],
            false => [r.below(60), r.below(600)],
        };
        eng.memcgs.set_min(id, min).unwrap();
        eng.memcgs.set_low(id, low).unwrap();
        ids.push(id);
        made.push(Made {
            parent: Some(parent),
            min,
            low,
        });
    }
    (ids, made)
}

impl Host {
    pub(crate) fn new(preset: &str, r: &mut Rng) -> (Self, Vec<Made>) {
        let config = Config {
            nr_cpus: CPUS as u32,
            ..Config::default()
        };
        let mut eng = Engine::new(config, presets::preset(preset).unwrap()).unwrap();
        let (ids, made) = grow(&mut eng, r);
        let host = Host {
            eng,
            ids,
            folios: BTreeMap::new(),
            shadows: BTreeMap::new(),
        };
        (host, made)
    }

    pub(crate) fn bring_in(&mut self, cpu: usize, name: Name, mapped: bool) {
        let memcg = self.ids[name.0];
        self.eng.memcgs.charge_forced(memcg, CounterKind::Memory, 1);
        let lruvec = self.eng.lruvec_id(memcg, NodeId(0));
        let flags = Flags::OWNED | Flags::UPTODATE;
        let object = ObjectId(name.0 as u32);
        let new = NewFolio::page(lruvec, object, name.1, flags);
        let id = self.eng.folio_alloc(new);
        if let Some(shadow) = self.shadows.remove(&name) {
            self.eng.refault(id, shadow, RefaultSite::Read);
        }
        if mapped {
            self.eng.folio_map(id);
        }
        self.eng.lru_add(cpu as u16, id, mapped);
        self.folios.insert(name, id);
    }

    /// The page is gone for good, and what is remembered of it.
    pub(crate) fn drop_page(&mut self, name: Name) {
        self.eng.lru_add_drain_all();
        if let Some(id) = self.folios.remove(&name) {
            if self.eng.folio(id).mapped() {
                self.eng.folio_unmap(id);
            }
            self.eng.clear_dirty(id);
            assert!(self.eng.folio_put(id, 1));
        }
        self.shadows.remove(&name);
    }

    /// A page is written, if it is dirty.
    pub(crate) fn write(&mut self, cpu: usize, name: Name) -> bool {
        let id = self.folios.get(&name).copied();
        let Some(id) = id.filter(|&id| self.eng.clear_dirty(id)) else {
            return false;
        };
        self.eng.writeback_start(id);
        self.eng.writeback_end(cpu as u16, id);
        true
    }

    /// Victims in order, and how many the engine says there were. `test`: who uses a mapped page.
    pub(crate) fn reclaim(
        &mut self,
        target: usize,
        want: u64,
        mut test: impl FnMut(Name) -> References,
    ) -> (Vec<Name>, u64) {
        let mut task = ReclaimTask::limit(self.ids[target], want, 0, NodeId(0));
        let mut victims = Vec::new();
        loop {
            match task.step(&mut self.eng) {
                Work::Done => return (victims, task.outcome().reclaimed),
                Work::Test { folio, .. } => {
                    task.answer(Answer::References(test(name(&self.eng, folio))));
                }
                Work::Unmap { folio } => {
                    self.eng.folio_unmap(folio);
                    let (deferred, writable) = (false, false);
                    task.answer(Answer::Unmapped { deferred, writable });
                }
                Work::Free => {
                    for f in task.freed() {
                        let name = (f.object.0 as usize, f.index);
                        assert!(self.folios.remove(&name).is_some(), "{name:?} twice");
                        self.shadows.insert(name, f.shadow.unwrap());
                        victims.push(name);
                    }
                }
                Work::Yield | Work::Spin | Work::WakeFlushers => {}
                Work::Throttle { .. } | Work::WakeThrottled { .. } => {}
                work => panic!("{work:?}"),
            }
        }
    }
}
