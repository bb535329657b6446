//! Random lives of folios under every preset: whatever happens, [`crate::Engine::check`] holds and
//! every page in memory is charged exactly once.

use super::{Host, Spec, Undecided, WriteAs};
use crate::config::Config;
use crate::folio::Flags;
use crate::ids::FolioId;
use crate::reclaim::{ReclaimKind, ReclaimTask, ScanControl, Work};
use crate::switches::presets::{self, PRESETS};
use crate::NodeId;
use proptest::prelude::*;

/// One thing that happens to the world. Folios are named by position among the living.
#[derive(Clone, Debug)]
enum Op {
    Add {
        kind: u8,
        order: u8,
        zone: u8,
        in_fault: bool,
        times: u8,
    },
    Read(usize),
    Touch(usize),
    Map(usize),
    Unmap(usize),
    Dirty(usize),
    StartWrite(usize),
    FinishWrites,
    Mlock(usize),
    Munlock(usize),
    Batch(u8, usize),
    Drain,
    Truncate(usize),
    Script {
        at: usize,
        write: u8,
        pte_dirty: bool,
        keeps: bool,
        exec: bool,
    },
    Swap(u16, u64),
    Present(usize, usize),
    Poison(usize),
    Limit {
        nr: u64,
        priority: u8,
        io: bool,
        zone: u8,
        swappiness: Option<u16>,
    },
    Proactive(u64),
    Root(u64),
    /// Limit reclaim that the given other things interrupt at its resting points.
    Interrupted(u64, Vec<Op>),
}

fn verb() -> impl Strategy<Value = Op> {
    let at = 0usize..64;
    prop_oneof![
        6 => (0u8..7, prop_oneof![4 => Just(0u8), 1 => 0u8..4], 0u8..2, any::<bool>(), 1u8..48).prop_map(
            |(kind, order, zone, in_fault, times)| Op::Add { kind, order, zone, in_fault, times }),
        4 => at.clone().prop_map(Op::Read),
        4 => at.clone().prop_map(Op::Touch),
        1 => at.clone().prop_map(Op::Map),
        1 => at.clone().prop_map(Op::Unmap),
        2 => at.clone().prop_map(Op::Dirty),
        2 => at.clone().prop_map(Op::StartWrite),
        1 => Just(Op::FinishWrites),
        1 => at.clone().prop_map(Op::Mlock),
        1 => at.clone().prop_map(Op::Munlock),
        3 => (0u8..5, at.clone()).prop_map(|(op, at)| Op::Batch(op, at)),
        1 => Just(Op::Drain),
        2 => at.clone().prop_map(Op::Truncate),
        2 => (at, 0u8..5, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(at, write, pte_dirty, keeps, exec)| Op::Script { at, write, pte_dirty, keeps, exec }),
        1 => (0u16..200, prop_oneof![Just(1u64), Just(2), Just(u64::MAX)])
            .prop_map(|(free, run)| Op::Swap(free, run)),
        1 => (0usize..64, 1usize..8).prop_map(|(at, n)| Op::Present(at, n)),
        1 => (0usize..64).prop_map(Op::Poison),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let swappiness = prop_oneof![3 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(200)), 1 => Just(Some(201))];
    prop_oneof![
        12 => verb(),
        3 => (1u64..100, 0u8..13, any::<bool>(), 0u8..2, swappiness).prop_map(
            |(nr, priority, io, zone, swappiness)| Op::Limit { nr, priority, io, zone, swappiness }),
        1 => (1u64..100).prop_map(Op::Proactive),
        1 => (1u64..100).prop_map(Op::Root),
        1 => (1u64..100, prop::collection::vec(verb(), 1..8)).prop_map(|(nr, v)| Op::Interrupted(nr, v)),
    ]
}

fn spec(kind: u8) -> Spec {
    match kind {
        0 => Spec::file(),
        1 => Spec::file().dirty(),
        2 => Spec::mapped(1),
        3 => Spec::mapped(2).with(Flags::EXEC),
        4 => Spec::anon(),
        5 => Spec::shmem(),
        _ => Spec::lazyfree(),
    }
}

fn nth(h: &Host, at: usize) -> Option<FolioId> {
    let all = h.folios();
    (!all.is_empty()).then(|| all[at % all.len()])
}

fn apply(h: &mut Host, op: &Op) {
    match *op {
        Op::Add {
            kind,
            order,
            zone,
            in_fault,
            times,
        } => {
            for _ in 0..times {
                let id = h.alloc(spec(kind).order(order).zone(zone));
                h.queue(id, in_fault);
            }
        }
        Op::FinishWrites => h.finish_writes(),
        Op::Drain => h.eng.lru_add_drain_all(),
        Op::Swap(free, run) => {
            h.eng.set_swap(u64::from(free), 200);
            h.swap_run = run;
        }
        Op::Limit {
            nr,
            priority,
            io,
            zone,
            swappiness,
        } => {
            let mut sc = h.request(nr);
            sc.priority = priority;
            (sc.io, sc.fs) = (io, io);
            sc.reclaim_idx = zone;
            sc.swappiness = swappiness;
            h.reclaim(sc);
        }
        Op::Proactive(nr) => {
            let mut sc = h.request(nr);
            sc.kind = ReclaimKind::Proactive;
            h.reclaim(sc);
        }
        Op::Root(nr) => {
            h.reclaim(ScanControl::new(nr, None));
        }
        Op::Interrupted(nr, ref others) => {
            let mut task = ReclaimTask::limit(h.memcg, nr, 0, NodeId(0));
            let mut others = others.iter();
            let mut open = Undecided::default();
            loop {
                let work = task.step(&mut h.eng);
                open.follow(&h.eng, &task, work);
                h.eng.check();
                match work {
                    Work::Done => break,
                    Work::Yield | Work::Spin | Work::Throttle { .. } | Work::FlushTlb { .. } => {
                        h.serve(work, task.freed(), task.pieces());
                        if let Some(op) = others.next() {
                            apply(h, op);
                        }
                    }
                    _ => {
                        if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
                            task.answer(answer);
                        }
                    }
                }
            }
        }
        Op::Read(at)
        | Op::Touch(at)
        | Op::Map(at)
        | Op::Unmap(at)
        | Op::Dirty(at)
        | Op::StartWrite(at)
        | Op::Mlock(at)
        | Op::Munlock(at)
        | Op::Batch(_, at)
        | Op::Truncate(at)
        | Op::Present(at, _)
        | Op::Poison(at)
        | Op::Script { at, .. } => {
            if let Some(id) = nth(h, at) {
                apply_to(h, op, id);
            }
        }
    }
}

fn apply_to(h: &mut Host, op: &Op, id: FolioId) {
    let busy = h.folio(id).has(Flags::WRITEBACK);
    let frozen = h.folio(id).refcount() == 0;
    if frozen {
        return;
    }
    let f = *h.folio(id);
    let file = !f.has(Flags::ANON);
    match *op {
        Op::Read(_) => h.eng.mark_accessed(0, id),
        Op::Touch(_) if f.mapped() => h.script(id).accessed = f.mapcount(),
        Op::Map(_) if file || f.mapped() => h.eng.folio_map(id),
        Op::Unmap(_) if f.mapped() && (file || f.mapcount() > 1) => {
            h.eng.folio_unmap(id);
        }
        Op::Dirty(_) => {
            h.eng.set_dirty(id);
        }
        Op::StartWrite(_) if file && f.has(Flags::DIRTY) && !busy => h.start_write(id),
        Op::Mlock(_) if !f.has(Flags::MLOCKED) => h.eng.mlock(0, id),
        Op::Munlock(_) if f.has(Flags::MLOCKED) => h.eng.munlock(0, id),
        Op::Batch(0, _) => h.eng.activate(0, id),
        Op::Batch(1, _) => h.eng.rotate(0, id),
        Op::Batch(2, _) if file => h.eng.deactivate_file(0, id),
        Op::Batch(3, _) => h.eng.deactivate(0, id),
        Op::Batch(_, _) => h.eng.lazyfree(0, id),
        // What loses a part is mapped; a page in the swap cache stays there until it is written.
        Op::Present(_, n)
            if f.nr_pages() > 1 && f.has(Flags::ANON) && f.mapped() && !f.has(Flags::SWAPCACHE) =>
        {
            h.eng.folio_set(id, Flags::PARTIALLY_MAPPED);
            h.script(id).present = Some(n);
        }
        Op::Poison(_) if file => h.eng.folio_set(id, Flags::POISONED),
        Op::Truncate(_) if !busy => h.truncate(id),
        Op::Script {
            write,
            pte_dirty,
            keeps,
            exec,
            ..
        } => {
            let s = h.script(id);
            s.write = WriteAs::ALL[usize::from(write)];
            s.refuses_split = keeps && exec;
            (s.pte_dirty, s.keeps_mapping, s.exec) = (pte_dirty, keeps, exec);
        }
        _ => {}
    }
}

/// Runs a history and checks after each step; in the end everything can be dropped.
fn live(preset: usize, batch_size: usize, filter: bool, dirty: &str, ops: &[Op]) {
    let mut sw = presets::preset(PRESETS[preset].names[0]).unwrap();
    sw.drop_dead_on_drain = filter;
    sw.set("batched_dirty_flush", dirty).unwrap();
    let cfg = Config {
        batch_size,
        nr_zones: 2,
        resched_in_lists: filter,
        ..Config::default()
    };
    let mut h = Host::with(sw, cfg);
    for op in ops {
        apply(&mut h, op);
        h.eng.check();
        let pages: u64 = h.eng.folios.iter().map(|(_, f)| f.nr_pages()).sum();
        assert_eq!(
            h.eng.memcgs[h.memcg].memory().usage(),
            pages,
            "charges after {op:?}"
        );
    }
    h.finish_writes();
    for id in h.folios() {
        h.truncate(id);
    }
    h.eng.lru_add_drain_all();
    h.eng.check();
    assert_eq!(h.eng.nr_folios(), 0, "left over");
    assert_eq!(h.eng.memcgs[h.memcg].memory().usage(), 0);
}

/// Of a folio that was split, pieces leave that no policy has seen.
#[test]
fn pieces_may_be_evicted_before_they_were_inserted() {
    let add = |kind, order, times| Op::Add {
        kind,
        order,
        zone: 0,
        in_fault: false,
        times,
    };
    let script = Op::Script {
        at: 10,
        write: 1,
        pte_dirty: false,
        keeps: false,
        exec: false,
    };
    let ops = [
        add(4, 2, 22),
        Op::Interrupted(1, vec![script]),
        Op::FinishWrites,
        Op::Interrupted(33, vec![add(0, 0, 1), Op::Swap(12, 1)]),
    ];
    for preset in 0..PRESETS.len() {
        live(preset, 1, true, "off", &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn invariants_hold_under_every_preset(
        preset in 0..PRESETS.len(),
        batch_size in prop_oneof![Just(1usize), Just(4), Just(31)],
        filter in any::<bool>(),
        dirty in prop::sample::select(vec!["off", "v1", "v2", "locked", "list", "3"]),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        live(preset, batch_size, filter, dirty, &ops);
    }
}
