//! A policy outside: what it is told, and what becomes of its answers.

use crate::memcg::CounterKind;
use crate::policies::desk::{Decides, Desk, Failure, Makes, Numbers, Say};
use crate::policies::outside::OutsideKind;
use crate::policies::ListKind;
use crate::reclaim::{Answer, ReclaimTask, Work};
use crate::switches::PolicyKind;
use crate::{
    presets, Config, Engine, Flags, FolioId, LruType, LruvecId, MemcgId, NewFolio, NodeId, ObjectId,
};
use std::sync::{Arc, Mutex};

/// What has been said, and what is to be evicted.
#[derive(Debug, Default)]
struct Script {
    said: Vec<(Say, u64)>,
    evict: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Scripted {
    script: Arc<Mutex<Script>>,
    removals: bool,
    due: bool,
}

impl Makes for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn kind(&self) -> OutsideKind {
        OutsideKind {
            uses: true,
            ..OutsideKind::default()
        }
    }
    fn is_told_of_removals(&self) -> bool {
        self.removals
    }
    fn takes_due(&self) -> bool {
        self.due
    }
    fn make(&self, frames: u64) -> Result<Box<dyn Decides>, Failure> {
        assert_eq!(frames, 100);
        Ok(Box::new(self.clone()))
    }
}

impl Decides for Scripted {
    fn tell(&mut self, _: u64, said: &[(Say, u64)]) -> Result<(), Failure> {
        self.script.lock().unwrap().said.extend(said);
        Ok(())
    }
    fn evict(&mut self, _: u64) -> Result<u64, Failure> {
        let next = self.script.lock().unwrap().evict.pop();
        next.ok_or_else(|| "nothing left".into())
    }
    fn refuse(&mut self, at: u64, page: u64) -> Failure {
        format!("{page} is not there at {at}").into()
    }
}

struct Indices(u64);

impl Numbers for Indices {
    fn number(&mut self, _: u64, _: ObjectId, index: u32) -> u64 {
        index.into()
    }
    fn spare(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

struct World {
    engine: Engine,
    memcg: MemcgId,
    lruvec: LruvecId,
    policy: Scripted,
    desk: Desk,
}

impl World {
    fn new(removals: bool, due: bool) -> Self {
        let policy = Scripted {
            removals,
            due,
            ..Scripted::default()
        };
        let mut switches = presets::preset("fifo").unwrap();
        switches.policy = PolicyKind::List(ListKind::Outside(policy.kind()));
        let config = Config {
            batch_size: 1,
            ..Config::default()
        };
        let mut engine = Engine::new(config, switches).unwrap();
        let memcg = engine.memcg_create(MemcgId::ROOT).unwrap();
        let desk = Desk::new(Arc::new(policy.clone()), 100, Box::new(Indices(1000)));
        Self {
            lruvec: engine.lruvec_id(memcg, NodeId(0)),
            engine,
            memcg,
            policy,
            desk,
        }
    }

    /// A new page of a file, read once.
    fn page(&mut self, index: u32) -> FolioId {
        let memcgs = &mut self.engine.memcgs;
        memcgs.charge_forced(self.memcg, CounterKind::Memory, 1);
        let flags = Flags::OWNED | Flags::UPTODATE;
        let new = NewFolio::page(self.lruvec, ObjectId(7), index, flags);
        let id = self.engine.folio_alloc(new);
        self.engine.lru_add(0, id, false);
        self.engine.mark_accessed(0, id);
        id
    }

    /// The page leaves its file, and with it memory.
    fn drop_page(&mut self, id: FolioId) {
        self.engine.folio_clear(id, Flags::OWNED);
        self.engine.folio_put(id, 1);
    }

    fn said(&mut self) -> Vec<(Say, u64)> {
        self.desk.tell(&mut self.engine);
        std::mem::take(&mut self.policy.script.lock().unwrap().said)
    }

    /// Evicts so many pages, as the policy names them, the last one first. Returns what was freed.
    fn evict(&mut self, nr: u64, pages: &[u64]) -> Vec<u32> {
        self.policy.script.lock().unwrap().evict = pages.to_vec();
        let mut task = ReclaimTask::limit(self.memcg, nr, 0, NodeId(0));
        let mut freed = Vec::new();
        loop {
            match task.step(&mut self.engine) {
                Work::Victim { lruvec, lru_type } => {
                    let named = self.desk.victim(&mut self.engine, lruvec, lru_type);
                    task.answer(Answer::Victim(named));
                }
                Work::Test { .. } => {
                    task.answer(Answer::References(crate::reclaim::References::default()))
                }
                Work::Free | Work::Detach => freed.extend(task.freed().iter().map(|f| f.index)),
                Work::Done => break,
                _ => {}
            }
            self.engine.check();
        }
        freed
    }
}

#[test]
fn it_is_told_in_order_and_names_the_victims() {
    let mut w = World::new(true, true);
    let ids: Vec<FolioId> = (0..4).map(|n| w.page(n)).collect();
    w.engine.mark_accessed(0, ids[2]);
    let inserted = [0, 1, 2, 3].map(|n| (Say::Insert, n));
    assert_eq!(w.said(), [&inserted[..], &[(Say::Hit, 2)]].concat());
    assert_eq!(w.evict(4, &[0, 3, 1, 2]), [2, 1, 3, 0]);
    assert!(w.desk.take_failure().is_none() && w.said().is_empty());
}

#[test]
fn pages_that_leave_otherwise_are_told_or_passed_over() {
    for removals in [true, false] {
        let mut w = World::new(removals, true);
        let ids: Vec<FolioId> = (0..3).map(|n| w.page(n)).collect();
        w.said();
        w.drop_page(ids[1]);
        w.drop_page(ids[2]);
        let told: &[(Say, u64)] = match removals {
            true => &[(Say::Remove, 1), (Say::Remove, 2)],
            false => &[],
        };
        assert_eq!(w.said(), told);
        // One of them comes back before the policy has evicted it.
        w.page(2);
        let back = if removals { Say::Insert } else { Say::Hit };
        assert_eq!(w.said(), [(back, 2)]);
        let evicts: &[u64] = if removals { &[2, 0] } else { &[2, 1, 0] };
        assert_eq!(w.evict(2, evicts), [0, 2], "removals: {removals}");
        assert!(w.desk.take_failure().is_none());
    }
}

#[test]
fn a_wrong_answer_is_noticed_and_the_oldest_goes() {
    let mut w = World::new(true, true);
    for n in 0..3 {
        w.page(n);
    }
    w.desk.set_at(11);
    // 1 twice: it has gone already.
    assert_eq!(w.evict(3, &[1, 1]), [1, 0, 2]);
    let (at, failure) = w.desk.take_failure().unwrap();
    assert_eq!(
        (at, failure.to_string().as_str()),
        (11, "1 is not there at 11")
    );
    assert!(w.desk.has_failed() && w.desk.take_failure().is_none());
    // It is neither told nor asked any more.
    w.said();
    w.page(5);
    assert!(w.said().is_empty());
    assert_eq!(w.evict(1, &[]), [5]);
}

#[test]
fn a_folio_that_is_not_there_is_no_answer() {
    let mut w = World::new(true, true);
    for id in [FolioId(77), FolioId::NONE] {
        w.page(3);
        w.page(4);
        assert!(!w.engine.can_be_victim(w.lruvec, LruType::File, id));
        let mut task = ReclaimTask::limit(w.memcg, 2, 0, NodeId(0));
        let mut freed = Vec::new();
        loop {
            match task.step(&mut w.engine) {
                Work::Victim { .. } => task.answer(Answer::Victim(Some(id))),
                Work::Free => freed.extend(task.freed().iter().map(|f| f.index)),
                Work::Done => break,
                _ => {}
            }
        }
        assert_eq!(freed, [3, 4]);
    }
}

#[test]
fn two_folios_of_one_page_are_told_apart() {
    let mut w = World::new(true, true);
    let old = w.page(1);
    w.said();
    // Somebody holds the old one while the page is cut off and read again.
    w.engine.folio_get(old, 1);
    w.drop_page(old);
    w.page(1);
    assert_eq!(w.said(), [(Say::Insert, 1001)]);
    w.engine.folio_put(old, 1);
    assert_eq!(w.said(), [(Say::Remove, 1)]);
    assert_eq!(w.evict(1, &[1001]), [1]);
}
