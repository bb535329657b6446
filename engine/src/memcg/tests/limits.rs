//! memory.high delays and control file writes.

use super::*;

#[test]
fn m5_high() {
    let delay = |usage, n| high_delay_jiffies(overage(usage, 25600), n, 1000).min(2000);
    assert_eq!(delay(25600, 64), 0);
    assert_eq!(delay(25856, 64), 6);
    assert_eq!(delay(26880, 64), 159);
    assert_eq!(delay(28160, 64), 639);
    assert_eq!(high_delay_jiffies(overage(30208, 25600), 64, 1000), 2073);
    assert_eq!(delay(30208, 64), 2000);
    assert_eq!(delay(28160, 16), 159);
    // Nothing overflows at the extremes.
    assert_eq!(
        high_delay_jiffies(overage(UNLIMITED, 0), u64::MAX, 1000),
        u64::MAX
    );
}

fn high_memcg(t: &mut MemcgTree, usage: u64) -> MemcgId {
    let a = t.create(ROOT).unwrap();
    t.set_high(a, CounterKind::Memory, 25600).unwrap();
    fill(t, a, usage);
    a
}

#[test]
fn high_retries_16_fruitless_rounds_then_sleeps() {
    let mut t = tree();
    let a = high_memcg(&mut t, 28160);
    let mut tm = TaskMemcg { over_high: 64 };
    let mut task = HighTask::new(a, &mut tm, 1000);
    assert_eq!(tm.over_high, 0);
    let mut targets = Vec::new();
    let sleep = loop {
        match task.step(&mut t, false) {
            HighStep::Reclaim { over, nr } => {
                assert_eq!(over, a);
                targets.push(nr);
                task.reclaim_done(&t, 0);
            }
            HighStep::Sleep { jiffies } => break jiffies,
            HighStep::Done => panic!("must sleep"),
        }
    };
    assert_eq!(targets.len(), 17);
    assert_eq!((targets[0], targets[1]), (64, 32));
    assert_eq!(sleep, 639);
    assert_eq!(task.step(&mut t, false), HighStep::Done);
    assert_eq!(t.local(a)[Counter::EventsHigh], 17);
}

#[test]
fn high_needs_no_sleep_once_reclaim_got_close() {
    let mut t = tree();
    let a = high_memcg(&mut t, 26000);
    let mut tm = TaskMemcg { over_high: 64 };
    let mut task = HighTask::new(a, &mut tm, 1000);
    let mut calls = 0;
    loop {
        match task.step(&mut t, false) {
            HighStep::Reclaim { .. } => {
                calls += 1;
                t.uncharge(a, 100);
                task.reclaim_done(&t, 100);
            }
            HighStep::Sleep { .. } => panic!("no sleep within 1 % of a second"),
            HighStep::Done => break,
        }
    }
    // 300 pages over cost 9 jiffies, which is not above HZ/100.
    assert_eq!((calls, usage(&t, a)), (1, 25900));
}

#[test]
fn a_delay_of_exactly_a_hundredth_of_a_second_is_not_slept() {
    for (above, sleeps) in [(330, false), (336, true)] {
        let mut t = tree();
        let a = high_memcg(&mut t, 25600 + above);
        let jiffies = high_delay_jiffies(overage(25600 + above, 25600), 64, 1000);
        assert_eq!(jiffies, if sleeps { 11 } else { 10 });
        let mut task = HighTask::new(a, &mut TaskMemcg { over_high: 64 }, 1000);
        let mut slept = false;
        loop {
            match task.step(&mut t, false) {
                HighStep::Reclaim { .. } => task.reclaim_done(&t, 0),
                HighStep::Sleep { .. } => slept = true,
                HighStep::Done => break,
            }
        }
        assert_eq!(slept, sleeps);
    }
}

#[test]
fn high_does_nothing_for_a_dying_task_or_without_debt() {
    let mut t = tree();
    let a = high_memcg(&mut t, 30000);
    let mut tm = TaskMemcg { over_high: 64 };
    assert_eq!(
        HighTask::new(a, &mut tm, 1000).step(&mut t, true),
        HighStep::Done
    );
    assert_eq!(
        HighTask::new(a, &mut tm, 1000).step(&mut t, false),
        HighStep::Done
    );
    let mut worker = HighTask::worker(a);
    assert_eq!(
        worker.step(&mut t, false),
        HighStep::Reclaim { over: a, nr: 64 }
    );
    worker.reclaim_done(&t, 0);
    assert_eq!(worker.step(&mut t, false), HighStep::Done);
}

#[test]
fn swap_high_delays_and_counts_its_event() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    t.set_high(a, CounterKind::Swap, 25600).unwrap();
    t.charge_forced(a, CounterKind::Swap, 28160);
    let mut tm = TaskMemcg { over_high: 64 };
    let mut task = HighTask::new(a, &mut tm, 1000);
    assert_eq!(task.step(&mut t, false), HighStep::Sleep { jiffies: 639 });
    assert_eq!(t.local(a)[Counter::EventsSwapHigh], 17);
    assert_eq!(t.local(a)[Counter::EventsHigh], 0);
}

#[test]
fn memory_max_write_drains_reclaims_16_times_and_kills() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    let mut tm = TaskMemcg::default();
    t.try_charge_fast(a, 1, 0, &mut tm).unwrap();
    fill(&mut t, a, 99); // 64 + 99, of which 63 in the stock
    let mut w = MaxWrite::new(&mut t, a, 50).unwrap();
    assert_eq!(t[a].memory().max(), 50);
    let mut calls = 0;
    let mut kills = 0;
    let end = loop {
        match w.step(&mut t, false) {
            WriteStep::Reclaim {
                memcg,
                nr,
                proactive,
                swappiness,
            } => {
                assert_eq!((memcg, nr, proactive, swappiness), (a, 50, false, None));
                calls += 1;
                w.reclaim_done(0);
            }
            WriteStep::Oom { memcg } => {
                kills += 1;
                t.uncharge(memcg, 50);
                w.oom_done(true);
            }
            WriteStep::DrainLruBatches => panic!("not for a limit"),
            WriteStep::Done(end) => break end,
        }
    };
    assert_eq!((calls, kills, end), (16, 1, WriteEnd::Satisfied));
    assert_eq!((usage(&t, a), t.local(a)[Counter::EventsOom]), (50, 1));
}

#[test]
fn memory_max_write_ends_on_a_signal_and_when_nothing_can_be_killed() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    fill(&mut t, a, 100);
    let mut w = MaxWrite::new(&mut t, a, 10).unwrap();
    assert_eq!(w.step(&mut t, true), WriteStep::Done(WriteEnd::Interrupted));
    let mut w = MaxWrite::new(&mut t, a, 10).unwrap();
    for _ in 0..16 {
        assert!(matches!(
            w.step(&mut t, false),
            WriteStep::Reclaim { nr: 90, .. }
        ));
        w.reclaim_done(0);
    }
    assert_eq!(w.step(&mut t, false), WriteStep::Oom { memcg: a });
    w.oom_done(false);
    assert_eq!(w.step(&mut t, false), WriteStep::Done(WriteEnd::Exhausted));
    assert_eq!(t[a].memory().max(), 10);
}

#[test]
fn memory_high_write_stops_at_the_17th_fruitless_call() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    fill(&mut t, a, 100);
    let mut w = HighWrite::new(&mut t, a, 60).unwrap();
    let mut calls = 0;
    while let WriteStep::Reclaim { nr, .. } = w.step(&mut t, false) {
        assert_eq!(nr, 40);
        calls += 1;
        w.reclaim_done(0);
    }
    assert_eq!(calls, 17);
    assert_eq!(w.step(&mut t, false), WriteStep::Done(WriteEnd::Exhausted));
    assert_eq!(t.local(a)[Counter::EventsOom], 0);
}

#[test]
fn memory_reclaim_takes_quarters_and_drains_before_the_last_attempt() {
    let t = tree();
    let request = ReclaimRequest::parse("4M swappiness=150").unwrap();
    assert_eq!(
        request,
        ReclaimRequest {
            pages: 1024,
            swappiness: Some(150)
        }
    );
    let mut w = ReclaimWrite::new(&t, ROOT, request).unwrap();
    let WriteStep::Reclaim {
        nr,
        proactive,
        swappiness,
        ..
    } = w.step(false)
    else {
        panic!("reclaim first");
    };
    assert_eq!((nr, proactive, swappiness), (256, true, Some(150)));
    w.reclaim_done(1000);
    assert!(matches!(w.step(false), WriteStep::Reclaim { nr: 32, .. })); // 24/4 = 6, raised
    w.reclaim_done(0);
    let mut calls = 1;
    let mut drained_before = None;
    let end = loop {
        match w.step(false) {
            WriteStep::Reclaim { .. } => {
                calls += 1;
                w.reclaim_done(0);
            }
            WriteStep::DrainLruBatches => drained_before = Some(calls + 1),
            WriteStep::Done(end) => break end,
            WriteStep::Oom { .. } => panic!("memory.reclaim never kills"),
        }
    };
    assert_eq!(
        (calls, drained_before, end),
        (17, Some(17), WriteEnd::Exhausted)
    );
    assert_eq!(w.reclaimed(), 1000);
}

#[test]
fn memory_reclaim_is_done_at_the_amount_and_ends_on_a_signal() {
    let t = tree();
    let request = ReclaimRequest::parse("40960").unwrap();
    let mut w = ReclaimWrite::new(&t, ROOT, request).unwrap();
    assert!(matches!(w.step(false), WriteStep::Reclaim { .. }));
    w.reclaim_done(10);
    assert_eq!(w.step(true), WriteStep::Done(WriteEnd::Satisfied));
    let mut w = ReclaimWrite::new(&t, ROOT, request).unwrap();
    assert_eq!(w.step(true), WriteStep::Done(WriteEnd::Interrupted));
}

#[test]
fn control_text_is_checked() {
    assert_eq!(parse_pages("max"), Some(UNLIMITED));
    assert_eq!(parse_pages("8191"), Some(1));
    assert_eq!(parse_pages("1G"), Some(262_144));
    assert_eq!(parse_pages("99999999999T"), Some(UNLIMITED));
    for bad in ["", "K", "-1", "+1", "1.5G", "1GB", "x", "é"] {
        assert_eq!(parse_pages(bad), None, "{bad:?}");
    }
    for bad in ["", "1M swappiness=201", "1M swap=1", "1M swappiness=", "1X"] {
        let e = ReclaimRequest::parse(bad).unwrap_err().to_string();
        assert!(
            e.contains("memory.reclaim") && e.contains("write SIZE"),
            "{e}"
        );
    }
}
