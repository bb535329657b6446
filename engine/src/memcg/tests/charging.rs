//! Stock, batch and the reclaim loop.

use super::*;

/// Runs a charge whose reclaim frees `freed` pages a call; returns calls and result.
fn run(
    t: &mut MemcgTree,
    id: MemcgId,
    n: u64,
    flags: ChargeFlags,
    freed: u64,
    kills: bool,
) -> (u32, u32, Result<Charged, ChargeError>) {
    let mut task = ChargeTask::new(id, n, flags);
    let mut tm = TaskMemcg::default();
    let (mut calls, mut ooms) = (0, 0);
    loop {
        match task.step(t, 0, &mut tm) {
            ChargeStep::Reclaim { over, nr } => {
                assert_eq!(nr, n.max(32));
                calls += 1;
                t.uncharge(over, freed);
                task.reclaim_done(freed);
            }
            ChargeStep::Oom { .. } => {
                ooms += 1;
                task.oom_done(kills && ooms < 3);
            }
            ChargeStep::Done(r) => return (calls, ooms, r),
        }
        assert!(calls < 1000, "the loop must end");
    }
}

#[test]
fn m1_charge() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 100);
    fill(&mut t, a, 70);
    let mut tm = TaskMemcg::default();
    t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    assert_eq!(t[a].memory().failcnt(), 1);
    assert_eq!(usage(&t, a), 71);
    assert_eq!(stock(&t), []);

    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 200);
    t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    assert_eq!((usage(&t, a), stock(&t)), (64, vec![(a, 63)]));
    for _ in 0..63 {
        t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
        assert_eq!(usage(&t, a), 64);
    }
    t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    assert_eq!(usage(&t, a), 128);
}

#[test]
fn m2_hierarchy() {
    let mut t = tree();
    let g = t.create(ROOT).unwrap();
    let p = t.create(g).unwrap();
    let c = t.create(p).unwrap();
    set_max(&mut t, p, 100);
    set_max(&mut t, c, 1000);
    fill(&mut t, c, 50);
    fill(&mut t, p, 40);
    assert_eq!(t.try_charge(c, CounterKind::Memory, 20), Err(p));
    assert_eq!((usage(&t, p), t[p].memory().failcnt()), (90, 1));
    assert_eq!((usage(&t, c), t[c].memory().failcnt()), (50, 0));
    assert_eq!(t[c].memory().watermark(), 70);
    assert_eq!(t[p].memory().watermark(), 90);

    let mut task = ChargeTask::new(c, 20, ChargeFlags::USER);
    let mut tm = TaskMemcg::default();
    let step = task.step(&mut t, 0, &mut tm);
    assert_eq!(step, ChargeStep::Reclaim { over: p, nr: 32 });
    assert_eq!(t.local(p)[Counter::EventsMax], 1);
    assert_eq!(t.event_total(p, Counter::EventsMax), 1);
    assert_eq!(t.event_total(g, Counter::EventsMax), 1);
    assert_eq!(t.event_total(ROOT, Counter::EventsMax), 0);
    assert_eq!(t.event_total(c, Counter::EventsMax), 0);
}

#[test]
fn equality_with_the_limit_is_success() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 64);
    assert_eq!(t.try_charge(a, CounterKind::Memory, 64), Ok(()));
    assert_eq!(t.try_charge(a, CounterKind::Memory, 1), Err(a));
    assert_eq!(usage(&t, ROOT), 64);
}

#[test]
fn the_root_is_never_charged_directly() {
    let mut t = tree();
    let mut tm = TaskMemcg::default();
    t.try_charge_fast(ROOT, 5, 0, &mut tm).unwrap();
    t.charge_forced(ROOT, CounterKind::Memory, 5);
    t.uncharge(ROOT, 5);
    assert_eq!(usage(&t, ROOT), 0);
    let (calls, _, r) = run(&mut t, ROOT, 5, ChargeFlags::empty(), 0, false);
    assert_eq!((calls, r), (0, Ok(Charged::default())));
    assert!(t.set_max(ROOT, CounterKind::Memory, 1).is_err());
}

#[test]
fn eighteen_fruitless_calls_before_the_oom_killer() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 100);
    fill(&mut t, a, 100);
    let (calls, ooms, r) = run(&mut t, a, 1, ChargeFlags::USER, 0, false);
    assert_eq!((calls, ooms), (18, 1));
    assert_eq!(r.unwrap_err().over, a);
    assert_eq!(t.local(a)[Counter::EventsMax], 18);
    assert_eq!(t.local(a)[Counter::EventsOom], 1);
    assert_eq!(usage(&t, a), 100);
}

#[test]
fn a_kill_restarts_the_retries_and_a_dying_task_gives_up_after_one() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 100);
    fill(&mut t, a, 100);
    // Drained only once: 18, then 17, 17 calls.
    let (calls, ooms, r) = run(&mut t, a, 1, ChargeFlags::USER, 0, true);
    assert_eq!((calls, ooms, r.is_err()), (18 + 17 + 17, 3, true));
    let dying = ChargeFlags::USER | ChargeFlags::DYING;
    let (calls, ooms, r) = run(&mut t, a, 1, dying, 0, true);
    assert_eq!((calls, ooms, r.is_err()), (18 + 17, 1, true));
}

#[test]
fn flags_decide_how_a_charge_fails() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 100);
    fill(&mut t, a, 100);
    let block = ChargeFlags::CAN_BLOCK;
    for (flags, calls, ooms) in [
        (ChargeFlags::empty(), 0, 0),
        (block | ChargeFlags::NORETRY, 2, 0),
        (block | ChargeFlags::RETRY_MAYFAIL, 18, 0),
        (block | ChargeFlags::REAPED, 0, 0),
        (block | ChargeFlags::V1_OOM_WAIT, 0, 0),
    ] {
        let (c, o, r) = run(&mut t, a, 1, flags, 0, false);
        assert_eq!((c, o, r.is_err()), (calls, ooms, true), "{flags:?}");
        assert_eq!(usage(&t, a), 100, "{flags:?}");
    }
    // More than order 3: never worth a kill, and progress does not count either.
    let (calls, ooms, r) = run(&mut t, a, 9, block, 0, true);
    assert_eq!((calls, ooms, r.is_err()), (18, 0, true));
}

#[test]
fn forced_charges_exceed_the_limit_and_count_one_max_event() {
    for (flags, events) in [
        (ChargeFlags::CAN_BLOCK | ChargeFlags::RECLAIMER, 1),
        (ChargeFlags::HIGH, 1),
        (ChargeFlags::USER | ChargeFlags::NOFAIL, 18),
    ] {
        let mut t = tree();
        let a = t.create(ROOT).unwrap();
        set_max(&mut t, a, 100);
        fill(&mut t, a, 100);
        let (_, _, r) = run(&mut t, a, 3, flags, 0, false);
        assert!(r.unwrap().forced, "{flags:?}");
        assert_eq!(usage(&t, a), 103, "{flags:?}");
        assert_eq!(t.local(a)[Counter::EventsMax], events, "{flags:?}");
    }
}

#[test]
fn small_charges_retry_without_end_while_reclaim_makes_progress() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let a = t.create(p).unwrap();
    set_max(&mut t, p, 100);
    fill(&mut t, a, 100);
    // Another task takes the freed pages at once, 50 times.
    let mut task = ChargeTask::new(a, 1, ChargeFlags::USER);
    let mut tm = TaskMemcg::default();
    for _ in 0..50 {
        let step = task.step(&mut t, 0, &mut tm);
        assert_eq!(step, ChargeStep::Reclaim { over: p, nr: 32 });
        task.reclaim_done(32);
    }
    t.uncharge(a, 32);
    let done = task.step(&mut t, 0, &mut tm);
    assert_eq!(done, ChargeStep::Done(Ok(Charged::default())));
    assert_eq!(usage(&t, p), 69);
}

#[test]
fn at_the_limit_pages_go_one_by_one_between_max_minus_63_and_max() {
    // MGLRU with clean folios frees exactly 64 a call (`docs/rules/memcg.md#charging`).
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 1000);
    let (mut seen_min, mut calls) = (u64::MAX, 0);
    let mut tm = TaskMemcg::default();
    for i in 0..5000 {
        if let Err(over) = t.try_charge_fast(a, 1, 0, &mut tm) {
            let mut task = ChargeTask::refused(a, 1, ChargeFlags::USER, over);
            loop {
                match task.step(&mut t, 0, &mut tm) {
                    ChargeStep::Reclaim { over, .. } => {
                        calls += 1;
                        t.uncharge(over, 64);
                        task.reclaim_done(64);
                    }
                    ChargeStep::Done(r) => break assert!(!r.unwrap().forced),
                    other => panic!("{other:?}"),
                }
            }
        }
        if i >= 1000 {
            seen_min = seen_min.min(usage(&t, a));
        }
        assert!(usage(&t, a) <= 1000);
    }
    assert_eq!(seen_min, 1000 - 63);
    assert_eq!(calls, t.local(a)[Counter::EventsMax]);
    assert_eq!(calls, 63);
}

/// The stocks of the first CPU.
fn stock(t: &MemcgTree) -> Vec<(MemcgId, crate::Pages)> {
    t.stock(0).collect()
}

/// Since 6.16: what was charged ahead for the parent of two busy memcgs stays charged, and is missing from its limit.
#[test]
fn several_memcgs_have_stocks_on_a_cpu() {
    let mut t = MemcgTree::new(MemcgConfig {
        stocks_per_cpu: 3,
        ..MemcgConfig::default()
    })
    .unwrap();
    let parent = t.create(ROOT).unwrap();
    let (a, b) = (t.create(parent).unwrap(), t.create(parent).unwrap());
    let mut tm = TaskMemcg::default();
    t.try_charge_fast(parent, 5, 0, &mut tm).unwrap();
    for _ in 0..100 {
        t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
        t.try_charge_fast(b, 1, 0, &mut tm).unwrap();
    }
    assert_eq!(stock(&t), [(parent, 59), (a, 28), (b, 28)]);
    assert_eq!(usage(&t, parent), 5 + 59 + 2 * 128);
    // A fourth takes the place of one of them, whose pages go back.
    let c = t.create(ROOT).unwrap();
    t.try_charge_fast(c, 1, 0, &mut tm).unwrap();
    assert_eq!(stock(&t), [(c, 63), (a, 28), (b, 28)]);
    assert_eq!(usage(&t, parent), 5 + 2 * 128);
    t.drain_stocks(parent);
    assert_eq!((stock(&t), usage(&t, parent)), (vec![(c, 63)], 5 + 200));
}

#[test]
fn the_stock_of_another_memcg_is_flushed() {
    let mut t = tree();
    let (a, b) = (t.create(ROOT).unwrap(), t.create(ROOT).unwrap());
    let mut tm = TaskMemcg::default();
    t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    t.try_charge_fast(a, 1, 1, &mut tm).unwrap();
    t.try_charge_fast(b, 1, 0, &mut tm).unwrap();
    assert_eq!((usage(&t, a), usage(&t, b)), (65, 64));
    // A charge of a whole batch leaves nothing for the stock.
    t.try_charge_fast(b, 64, 0, &mut tm).unwrap();
    assert_eq!((usage(&t, b), stock(&t)), (128, vec![(b, 63)]));
    t.try_charge_fast(b, 60, 0, &mut tm).unwrap();
    t.try_charge_fast(b, 10, 0, &mut tm).unwrap();
    assert_eq!(stock(&t), [(b, 57)]);
    t.drain_stocks(ROOT);
    assert_eq!((usage(&t, a), usage(&t, b)), (2, 1 + 64 + 60 + 10));
    assert_eq!(usage(&t, ROOT), 137);
}

#[test]
fn high_is_noticed_on_restock_only_and_accounts_the_batch() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let a = t.create(p).unwrap();
    t.set_high(p, CounterKind::Memory, 64).unwrap();
    let mut tm = TaskMemcg::default();
    for _ in 0..64 {
        t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    }
    assert_eq!(tm.over_high, 0);
    t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    assert_eq!(tm.over_high, 64);
    for _ in 0..63 {
        t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    }
    assert_eq!(tm.over_high, 64);
    let mut task = ChargeTask::new(a, 1, ChargeFlags::USER);
    let ChargeStep::Done(Ok(c)) = task.step(&mut t, 0, &mut tm) else {
        panic!("no limit here");
    };
    assert!(c.handle_high);
    assert_eq!(tm.over_high, 128);
    t.drain_stocks(ROOT);
    let mut task = ChargeTask::new(a, 1, ChargeFlags::INTERRUPT);
    let ChargeStep::Done(Ok(c)) = task.step(&mut t, 0, &mut tm) else {
        panic!("no limit here");
    };
    assert_eq!((c.high_work, c.handle_high), (Some(p), false));
    assert_eq!(tm.over_high, 128);
}
