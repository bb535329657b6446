use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn config(cpus: u16) -> SimConfig {
    SimConfig {
        cpus,
        nodes: 1,
        hz: 1000,
        slice_ns: 4 * MS,
        timed_slices: true,
        switch_ns: 2_500,
        wake_latency_ns: 0,
        quantum_ns: 20_000,
    }
}

type Lines = Vec<(u64, String)>;

/// A log of (time, what), shared by the tasks of a test.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Lines>>);

impl Log {
    fn note(&self, sim: &Sim, what: impl Into<String>) {
        self.0.borrow_mut().push((sim.now(), what.into()));
    }

    fn lines(&self) -> Lines {
        self.0.borrow().clone()
    }
}

fn line(time: u64, what: &str) -> (u64, String) {
    (time, what.to_owned())
}

#[test]
fn sleeps_end_in_order_of_time_and_then_of_start() {
    let mut ex = Executor::new(config(8));
    let log = Log::default();
    for (name, ns) in [("a", 50), ("b", 30), ("c", 50)] {
        let (sim, log) = (ex.handle(), log.clone());
        ex.spawn(name, Affinity::Any, async move {
            sim.sleep(ns).await;
            log.note(&sim, name);
        });
    }
    assert_eq!(ex.run(), RunEnd::Drained { waiting: 0 });
    assert_eq!(log.lines(), [line(30, "b"), line(50, "a"), line(50, "c")]);
}

#[test]
fn two_tasks_share_a_cpu_in_slices() {
    let mut ex = Executor::new(config(1));
    let log = Log::default();
    for name in ["a", "b"] {
        let (sim, log) = (ex.handle(), log.clone());
        ex.spawn(name, Affinity::Any, async move {
            sim.cpu(6 * MS).await;
            log.note(&sim, name);
        });
    }
    ex.run();
    // a 4 ms, switch, b 4 ms, switch, a 2 ms, switch, b 2 ms.
    let expected = [
        line(10 * MS + 2 * 2_500, "a"),
        line(12 * MS + 3 * 2_500, "b"),
    ];
    assert_eq!(log.lines(), expected);
    let stats = ex.cpu_stats(0);
    assert_eq!((stats.preemptions, stats.switches), (2, 3));
}

#[test]
fn a_newcomer_preempts_a_task_that_has_used_its_slice() {
    let mut ex = Executor::new(config(1));
    let log = Log::default();
    let (sim, inner_log) = (ex.handle(), log.clone());
    ex.spawn("long", Affinity::Any, async move {
        sim.cpu(100 * MS).await;
        inner_log.note(&sim, "long");
    });
    let (sim, inner_log) = (ex.handle(), log.clone());
    ex.spawn("late", Affinity::Any, async move {
        sim.sleep(50 * MS).await;
        sim.cpu(MS).await;
        inner_log.note(&sim, "late");
    });
    ex.run();
    // Starts when the first slice of the other is over, sleeps 50 ms, preempts it at once.
    let late = 4 * MS + 2_500 + 50 * MS + 2_500 + MS;
    let long = 100 * MS + MS + 4 * 2_500;
    assert_eq!(log.lines(), [line(late, "late"), line(long, "long")]);
}

#[test]
fn a_task_that_holds_its_cpu_is_not_preempted() {
    let mut ex = Executor::new(config(1));
    let log = Log::default();
    for name in ["holds", "waits"] {
        let (sim, log) = (ex.handle(), log.clone());
        ex.spawn(name, Affinity::Any, async move {
            sim.current().hold_cpu(name == "holds");
            sim.cpu(6 * MS).await;
            log.note(&sim, name);
        });
    }
    ex.run();
    let expected = [line(6 * MS, "holds"), line(12 * MS + 2_500, "waits")];
    assert_eq!(log.lines(), expected);
    assert_eq!(ex.cpu_stats(0).preemptions, 0);
}

#[test]
fn a_woken_task_prefers_its_last_cpu_and_respects_its_mask() {
    let mut ex = Executor::new(config(4));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (sim, cpus) = (ex.handle(), seen.clone());
    let mask = [2u16, 3].into_iter().collect();
    ex.spawn("pinned", Affinity::Mask(mask), async move {
        let task = sim.current();
        cpus.borrow_mut().push(task.cpu());
        sim.sleep(100).await;
        cpus.borrow_mut().push(task.cpu());
        task.set_affinity(CpuMask::single(1));
        sim.sleep(100).await;
        cpus.borrow_mut().push(task.cpu());
    });
    ex.run();
    assert_eq!(*seen.borrow(), [2, 2, 1]);
}

#[test]
fn an_idle_cpu_pulls_a_waiting_task() {
    let mut ex = Executor::new(SimConfig {
        switch_ns: 0,
        ..config(2)
    });
    let log = Log::default();
    for (name, ns) in [("a", 3), ("b", 1), ("c", 3), ("d", 3)] {
        let (sim, log) = (ex.handle(), log.clone());
        ex.spawn(name, Affinity::Any, async move {
            sim.cpu(ns * MS).await;
            log.note(&sim, name);
        });
    }
    ex.run();
    // c queues behind a, d behind b. b ends at 1 and d follows; a ends at 3, c follows.
    let expected = [
        line(MS, "b"),
        line(3 * MS, "a"),
        line(4 * MS, "d"),
        line(6 * MS, "c"),
    ];
    assert_eq!(log.lines(), expected);

    let mut ex = Executor::new(SimConfig {
        switch_ns: 0,
        ..config(2)
    });
    let done = Rc::new(Cell::new(0));
    for ns in [3, 1, 3] {
        let (sim, done) = (ex.handle(), done.clone());
        ex.spawn("t", Affinity::Any, async move {
            sim.cpu(ns * MS).await;
            done.set(sim.now());
        });
    }
    ex.run();
    assert_eq!(done.get(), 4 * MS, "the third runs where it is free first");
}

#[test]
fn a_wake_up_during_the_settle_is_not_lost() {
    let mut ex = Executor::new(config(2));
    let queue = WaitQueue::new(&ex);
    let log = Log::default();
    let (sim, q, l) = (ex.handle(), queue.clone(), log.clone());
    ex.spawn("waiter", Affinity::Any, async move {
        sim.charge(10_000);
        q.wait().await;
        l.note(&sim, "woken");
    });
    let (sim, q) = (ex.handle(), queue.clone());
    ex.spawn("waker", Affinity::Any, async move {
        sim.cpu(5_000).await;
        assert!(q.wake_one());
    });
    assert_eq!(ex.run(), RunEnd::Drained { waiting: 0 });
    assert_eq!(log.lines(), [line(10_000, "woken")]);
}

#[test]
fn wait_queues_are_fifo_with_timeouts_and_latency() {
    let mut ex = Executor::new(config(8));
    let queue = WaitQueue::with_latency(&ex, 700);
    let log = Log::default();
    for (name, timeout) in [("a", 10_000), ("b", 1_000), ("c", 10_000)] {
        let (sim, q, l) = (ex.handle(), queue.clone(), log.clone());
        ex.spawn(name, Affinity::Any, async move {
            let woken = q.wait_timeout(timeout).await;
            l.note(&sim, format!("{name} {woken}"));
        });
    }
    let (sim, q) = (ex.handle(), queue.clone());
    ex.spawn("waker", Affinity::Off, async move {
        sim.sleep(2_000).await;
        assert_eq!(q.len(), 2, "b has left the queue");
        q.wake_one();
        sim.sleep(1_000).await;
        assert_eq!(q.wake_all(), 1);
        assert!(!q.wake_one());
    });
    ex.run();
    let expected = [
        line(1_000, "b false"),
        line(2_700, "a true"),
        line(3_700, "c true"),
    ];
    assert_eq!(log.lines(), expected);
}

#[test]
fn a_place_taken_early_does_not_cut_other_sleeps_short() {
    let mut ex = Executor::new(config(2));
    let queue = WaitQueue::new(&ex);
    let log = Log::default();
    let (sim, q, l) = (ex.handle(), queue.clone(), log.clone());
    ex.spawn("waiter", Affinity::Any, async move {
        let place = q.enter(TimeClass::Idle, None);
        sim.sleep(5_000).await;
        l.note(&sim, "slept");
        assert!(place.await);
        l.note(&sim, "woken");
    });
    let q = queue.clone();
    ex.call_at(1_000, move || {
        q.wake_one();
    });
    ex.run();
    assert_eq!(log.lines(), [line(5_000, "slept"), line(5_000, "woken")]);
}

#[test]
fn interrupts_prolong_what_runs() {
    let mut ex = Executor::new(config(2));
    let log = Log::default();
    let (sim, l) = (ex.handle(), log.clone());
    ex.spawn("victim", Affinity::Mask(CpuMask::single(1)), async move {
        let task = sim.current();
        sim.cpu(10_000).await;
        l.note(&sim, "done");
        assert_eq!(task.times().get(TimeClass::Stolen), 1_400);
        assert_eq!(task.times().get(TimeClass::User), 10_000);
    });
    let sim = ex.handle();
    ex.call_at(4_000, move || sim.steal(1, 700));
    let sim = ex.handle();
    ex.call_at(10_300, move || sim.steal(1, 700));
    ex.run();
    assert_eq!(log.lines(), [line(11_400, "done")]);
    assert_eq!(ex.cpu_stats(1).interrupts, 2);
}

#[test]
fn an_interrupted_idle_cpu_delays_who_comes_next() {
    let mut ex = Executor::new(config(1));
    let (sim, end) = (ex.handle(), Rc::new(Cell::new(0)));
    ex.steal(0, 900);
    let out = end.clone();
    ex.spawn("t", Affinity::Any, async move {
        sim.cpu(100).await;
        out.set(sim.now());
    });
    ex.run();
    assert_eq!(end.get(), 1_000);
}

#[test]
fn kill_drops_the_future_and_frees_the_cpu() {
    struct Dropped(Rc<Cell<u64>>, Sim);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.set(self.1.now());
        }
    }
    let mut ex = Executor::new(config(1));
    let (dropped, log) = (Rc::new(Cell::new(0)), Log::default());
    let (sim, guard) = (ex.handle(), Dropped(dropped.clone(), ex.handle()));
    let victim = ex.spawn("victim", Affinity::Any, async move {
        let _guard = guard;
        sim.cpu(1_000 * MS).await;
        unreachable!("killed before");
    });
    let (sim, l) = (ex.handle(), log.clone());
    ex.spawn("joins", Affinity::Off, async move {
        sim.join(victim).await;
        l.note(&sim, "joined");
        sim.join(victim).await;
    });
    let (sim, l) = (ex.handle(), log.clone());
    ex.spawn("next", Affinity::Any, async move {
        sim.cpu(1_000).await;
        l.note(&sim, "next");
    });
    let sim = ex.handle();
    ex.call_at(MS, move || sim.kill(victim));
    assert_eq!(ex.run(), RunEnd::Drained { waiting: 0 });
    assert_eq!(dropped.get(), MS);
    let expected = [line(MS, "joined"), line(MS + 2_500 + 1_000, "next")];
    assert_eq!(log.lines(), expected);
    assert!(ex.task(victim).is_none());
}

#[test]
fn kill_reaches_tasks_in_every_state() {
    let mut ex = Executor::new(config(1));
    let queue = WaitQueue::new(&ex);
    let (sim, q) = (ex.handle(), queue.clone());
    let running = ex.spawn("running", Affinity::Any, async move {
        sim.cpu(100 * MS).await;
    });
    let sim = ex.handle();
    let queued = ex.spawn("queued", Affinity::Any, async move {
        sim.cpu(100 * MS).await;
    });
    let waiting = ex.spawn("waiting", Affinity::Off, async move { q.wait().await });
    let sim = ex.handle();
    let selfish = ex.spawn("selfish", Affinity::Off, async move {
        sim.kill(sim.current().id());
        sim.sleep(1).await;
        unreachable!("killed at the sleep");
    });
    let early = ex.spawn("never polled", Affinity::Any, async { unreachable!() });
    ex.kill(early);
    ex.run_until(1_000);
    assert!(ex.task(selfish).is_none());
    assert_eq!(queue.len(), 1);
    for id in [queued, running, waiting, waiting] {
        ex.kill(id);
    }
    assert_eq!(ex.run(), RunEnd::Drained { waiting: 0 });
    assert!(queue.is_empty());
    assert_eq!(ex.idle_cpus().count(), 1);
    assert_eq!(ex.now(), 1_000, "events of the dead do not move the clock");
}

#[test]
fn stop_and_time_limit_end_a_run_that_can_go_on() {
    let mut ex = Executor::new(config(1));
    let (sim, beats) = (ex.handle(), Rc::new(Cell::new(0)));
    let count = beats.clone();
    ex.spawn("beat", Affinity::Any, async move {
        loop {
            sim.sleep(1_000).await;
            count.set(count.get() + 1);
            if count.get() == 7 {
                sim.stop();
            }
        }
    });
    assert_eq!(ex.run_until(3_500), RunEnd::TimeReached);
    assert_eq!((ex.now(), beats.get()), (3_500, 3));
    assert_eq!(ex.run(), RunEnd::Stopped);
    assert_eq!((ex.now(), beats.get()), (7_000, 7));
    assert_eq!(ex.run_until(8_000), RunEnd::TimeReached);
    assert_eq!(beats.get(), 8);
}

#[test]
fn a_run_does_not_jump_over_the_time_limit() {
    let mut ex = Executor::new(config(1));
    let (sim, seen) = (ex.handle(), Rc::new(Cell::new(0)));
    let out = seen.clone();
    ex.spawn("t", Affinity::Any, async move {
        loop {
            sim.cpu(1_000).await;
            out.set(sim.now());
        }
    });
    ex.run_until(2_500);
    assert_eq!((seen.get(), ex.now()), (2_000, 2_500));
}

#[test]
fn settling_waits_for_a_quantum() {
    let mut ex = Executor::new(config(1));
    let sim = ex.handle();
    ex.spawn("t", Affinity::Any, async move {
        let task = sim.current();
        for step in 1..=5 {
            task.charge(5_000);
            task.maybe_settle().await;
            let expected = if step < 4 { 0 } else { 20_000 };
            assert_eq!(sim.now(), expected);
            assert_eq!(task.local_now(), step * 5_000);
        }
        assert_eq!(task.pending(), 5_000);
    });
    ex.run();
    assert_eq!(ex.now(), 25_000, "the rest is settled at the end");
}

#[test]
fn jiffy_waits_end_on_tick_boundaries() {
    let ex = Executor::new(SimConfig {
        hz: 250,
        ..config(1)
    });
    assert_eq!(ex.tick_ns(), 4 * MS);
    assert_eq!(ex.tick_end(0), 4 * MS);
    assert_eq!(ex.tick_end(4 * MS - 1), 4 * MS);
    assert_eq!(ex.tick_end(4 * MS), 8 * MS);
    assert_eq!(ex.ticks_end(MS, 0), MS);
    // Linux 7.2: a reclaimer that sleeps a tick, works for less than one, and sleeps again wakes up every 8 ms.
    assert_eq!(ex.ticks_end(MS, 1), 8 * MS);
    assert_eq!(ex.ticks_end(8 * MS + 1, 1), 16 * MS);
    assert_eq!(ex.ticks_end(MS, 3), 16 * MS);
    // 62 ticks end at any, 63 at every eighth: never early, and up to eight late.
    assert_eq!(ex.ticks_end(0, 62), 63 * 4 * MS);
    assert_eq!(ex.ticks_end(0, 63), 64 * 4 * MS);
    assert_eq!(ex.ticks_end(4 * MS, 63), 72 * 4 * MS);
    assert_eq!(ex.ticks_end(0, 504), 512 * 4 * MS);
}

#[test]
fn the_switch_hook_sees_every_change_and_prolongs_it() {
    let mut ex = Executor::new(config(1));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let out = seen.clone();
    ex.set_switch_hook(move |switch| {
        out.borrow_mut().push(switch.next.map(|next| next.1));
        100
    });
    let sim = ex.handle();
    ex.spawn("t", Affinity::Any, async move {
        sim.current().set_tag(7);
        sim.sleep(1_000).await;
        sim.stop();
    });
    ex.run();
    assert_eq!(*seen.borrow(), [Some(0), None, Some(7), None]);
    assert_eq!(ex.now(), 1_200);
}

#[test]
fn yield_lets_the_others_go_first() {
    let mut ex = Executor::new(config(1));
    let log = Log::default();
    for name in ["a", "b"] {
        let (sim, l) = (ex.handle(), log.clone());
        ex.spawn(name, Affinity::Any, async move {
            for _ in 0..2 {
                sim.charge(1_000);
                l.note(&sim, name);
                sim.yield_now().await;
            }
        });
    }
    ex.run();
    let order: String = log.lines().into_iter().map(|l| l.1).collect();
    assert_eq!(order, "abab");
}

#[test]
fn dropping_the_executor_frees_everything() {
    let token = Rc::new(());
    let mut ex = Executor::new(config(1));
    let queue = WaitQueue::new(&ex);
    let ids: Rc<RefCell<Vec<TaskId>>> = Rc::default();
    for i in 0..2usize {
        // Two tasks that join each other, and hold handles on everything.
        let (sim, queue, token, ids) = (ex.handle(), queue.clone(), token.clone(), ids.clone());
        let id = ex.spawn("t", Affinity::Any, {
            let ids = ids.clone();
            async move {
                let _keep = (&queue, &token);
                sim.sleep(1).await;
                let other = ids.borrow()[1 - i];
                sim.join(other).await;
            }
        });
        ids.borrow_mut().push(id);
    }
    let (held, sim) = (token.clone(), ex.handle());
    ex.call_at(1_000_000, move || drop((held, sim)));
    let held = token.clone();
    ex.set_switch_hook(move |_| {
        let _ = &held;
        0
    });
    ex.run_until(10);
    ex.spawn("never installed", Affinity::Any, {
        let held = token.clone();
        async move { drop(held) }
    });
    drop((ex, queue));
    assert_eq!(Rc::strong_count(&token), 1);
}

#[test]
fn timeouts_that_never_fire_do_not_pile_up() {
    let mut ex = Executor::new(config(2));
    let (ping, pong) = (WaitQueue::new(&ex), WaitQueue::new(&ex));
    for (mine, other) in [(ping.clone(), pong.clone()), (pong, ping)] {
        let sim = ex.handle();
        ex.spawn("player", Affinity::Any, async move {
            for _ in 0..20_000 {
                other.wake_one();
                mine.wait_timeout(1_000 * MS).await;
                assert!(sim.inner.events.borrow().len() < 5_000);
            }
        });
    }
    assert_eq!(ex.run_until(MS), RunEnd::TimeReached);
}

/// A random program of a few tasks; returns its log and the totals that must add up.
fn chaos(cpus: u16, programs: &[Vec<(u8, u64)>]) -> (Lines, Vec<(u64, u64)>) {
    let mut ex = Executor::new(SimConfig {
        slice_ns: 30_000,
        ..config(cpus)
    });
    let queue = WaitQueue::with_latency(&ex, 300);
    let log = Log::default();
    let totals: Rc<RefCell<Vec<(u64, u64)>>> = Rc::default();
    for (nr, program) in programs.iter().enumerate() {
        let (sim, q, l) = (ex.handle(), queue.clone(), log.clone());
        let (program, totals) = (program.clone(), totals.clone());
        ex.spawn(&format!("t{nr}"), Affinity::Any, async move {
            let task = sim.current();
            for (op, ns) in program {
                match op {
                    0 => task.run_for(ns).await,
                    1 => task.sleep_as(TimeClass::IoWait, ns).await,
                    2 => drop(q.wait_timeout(ns).await),
                    3 => drop(q.wake_one()),
                    4 => task.yield_now().await,
                    5 => sim.steal((ns % u64::from(cpus)) as u16, ns / 8),
                    6 => task.charge_as(TimeClass::Fault, ns / 4),
                    _ => task.maybe_settle().await,
                }
                l.note(&sim, format!("t{nr} {op} on {}", task.cpu()));
            }
            task.settle().await;
            totals.borrow_mut().push((task.times().total(), sim.now()));
        });
    }
    assert_eq!(ex.run(), RunEnd::Drained { waiting: 0 });
    let totals = totals.borrow().clone();
    (log.lines(), totals)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every nanosecond of a task's life is in exactly one class, and a run repeats exactly.
    #[test]
    fn time_adds_up_and_runs_repeat(
        cpus in 1u16..4,
        programs in prop::collection::vec(prop::collection::vec((0u8..8, 0u64..100_000), 0..30), 1..7),
    ) {
        let (log, totals) = chaos(cpus, &programs);
        prop_assert_eq!(totals.len(), programs.len());
        for (total, life) in totals {
            prop_assert_eq!(total, life);
        }
        prop_assert_eq!(chaos(cpus, &programs).0, log);
    }
}
