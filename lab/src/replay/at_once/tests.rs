//! Traces whose tasks are under way at once.

use crate::replay::{replay, Clock, Limit, Replay, ReplayOptions, ReplaySettings, SeriesPoint};
use crate::traces::{Event, Op, OpKind, Order, Step, StepKind, Trace};
use coldset_machine::{Marks, ReadAhead, ZoneSpec};

/// Pages of the limit.
const LIMIT: u64 = 400;

/// Two tasks that use a file each by turns, some pages more than others, and two more from the middle on.
fn ops() -> Vec<Op> {
    let mut state = 7u64;
    let op = |i: u32| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let task = (i % if i < 20_000 { 2 } else { 4 }) as u16;
        let kinds = [OpKind::Pread, OpKind::MappedRead, OpKind::Pwrite];
        Op {
            kind: kinds[(state >> 60) as usize % 3],
            object: task as u8,
            task,
            page: ((state >> 33) % 300 * ((state >> 45) % 300) / 300) as u32,
        }
    };
    (0..40_000).map(op).collect()
}

fn step(at: u64, kind: StepKind, task: u16, value: u32) -> Event {
    Event {
        at,
        step: Step {
            kind,
            object: 0,
            task,
            value,
        },
    }
}

fn replayed(trace: &Trace, order: Order, cpus: u64) -> Replay {
    let options = ReplayOptions {
        settings: ReplaySettings {
            order,
            cpus,
            ..ReplaySettings::default()
        },
        check: true,
        ..ReplayOptions::new(LIMIT)
    };
    // Not a kernel whose CPUs keep charged pages for several memcgs: four CPUs that keep 64 for each of four tasks
    // would hold more than so small a limit.
    replay(trace, "merged", &options).unwrap()
}

fn places(replay: &Replay) -> Vec<(u32, u64)> {
    let phases = replay.phases.iter();
    phases.map(|(n, point)| (*n, point.access)).collect()
}

fn stolen(point: &SeriesPoint) -> i64 {
    let counter = point.counters.iter().find(|c| c.0 == "pgsteal");
    counter.expect("counted").1
}

/// All accesses are done whoever waits for whom, and the second time in the same way.
#[test]
fn every_order_does_all_of_it_and_the_same_again() {
    let trace = Trace::from_ops(ops());
    let strict = replayed(&trace, Order::Strict, 1);
    for order in [Order::Within(1), Order::Within(100), Order::PerTask] {
        for cpus in [1, 4] {
            let at_once = replayed(&trace, order, cpus);
            let again = replayed(&trace, order, cpus);
            assert_eq!(at_once.counters, again.counters, "{order}");
            assert_eq!((at_once.killed, at_once.tasks.len()), (None, 4));
            let misses = at_once.get("misses") as f64 / strict.get("misses") as f64;
            // At their own speed, two of the four may be done before the others.
            let least = if order == Order::PerTask { 0.4 } else { 0.8 };
            assert!(
                (least..1.25).contains(&misses),
                "{order}: {misses} of strict"
            );
        }
    }
}

/// With next to nobody ahead, tasks of the machine come to what inline ones come to; with many ahead they wait for the
/// device together.
#[test]
fn one_ahead_is_nearly_strict() {
    let trace = Trace::from_ops(ops());
    let strict = replayed(&trace, Order::Strict, 1);
    let one = replayed(&trace, Order::Within(1), 1);
    for name in ["misses", "workingset_refault_file", "pgsteal"] {
        let ratio = one.get(name) as f64 / strict.get(name) as f64;
        assert!((ratio - 1.0).abs() < 0.03, "{name}: {ratio}");
    }
    let many = replayed(&trace, Order::Within(1000), 4);
    assert!(
        many.time * 3 < one.time * 2,
        "{} of {}",
        many.time,
        one.time
    );
}

/// Threads have a memcg and mappings in common, which go with the last of them.
#[test]
fn threads_share_and_processes_do_not() {
    let threads = |exits: bool| {
        let mut events: Vec<Event> = (0..4).map(|t| step(0, StepKind::Process, t, 0)).collect();
        events.extend(exits.then(|| step(40_000, StepKind::Exit, 3, 0)));
        let trace = Trace::from_ops(ops()).with_events(events);
        let played = replayed(&trace, Order::PerTask, 2);
        assert!(played.tasks.is_empty(), "one memcg");
        played.get("kernel_pages")
    };
    assert!(threads(true) < threads(false), "its page tables are gone");
    let several = replayed(&Trace::from_ops(ops()), Order::PerTask, 2);
    assert_eq!(several.tasks.len(), 4);
}

/// A task whose time runs begins with its first record, and one whose time does not with its first access.
#[test]
fn a_task_begins_when_its_time_begins() {
    const MS: u32 = 1_000_000;
    let late = 10_000;
    let own = |at: usize| Op {
        task: u16::from(at == late),
        ..ops()[at]
    };
    let events = |begun: u64| {
        let mut events = vec![step(begun, StepKind::Process, 1, 1)];
        events.extend((0..100).map(|i| step(i * 100, StepKind::Think, 0, MS)));
        events.extend([
            step(late as u64, StepKind::Phase, 1, 1),
            step(late as u64, StepKind::Think, 1, 90 * MS),
        ]);
        events.sort_by_key(|e| e.at);
        events
    };
    let trace = Trace::from_ops((0..late + 10).map(own).collect());
    let played = |begun, pace| {
        let trace = trace.clone().with_events(events(begun));
        let options = ReplayOptions {
            settings: ReplaySettings {
                order: Order::PerTask,
                pace,
                ..ReplaySettings::default()
            },
            ..ReplayOptions::new(LIMIT)
        };
        let replay = replay(&trace, "merged", &options).unwrap();
        (replay.time, places(&replay)[0].1)
    };
    // From the beginning on it sleeps beside the other, and from its place on after it.
    let [(beside, _), (after, _)] = [0, late as u64].map(|begun| played(begun, true));
    let more = after - beside;
    assert!((50_000_000..90_000_000).contains(&more), "{beside} {after}");
    // Without times only its place says when it begins.
    let [(_, first), (_, second)] = [0, late as u64].map(|begun| played(begun, false));
    assert_eq!(first, second);
    assert!((8_900..=10_100).contains(&first), "{first}");
}

/// A fault reads round its page as far as the advice on the descriptor says, given before the file is mapped or after
/// (oracle: one load in a mapping of Linux 6.18, W pages without advice and with that of random reads, 2W with that of
/// sequential ones).
#[test]
fn faults_read_as_far_as_the_descriptor_is_advised_to() {
    let op = |kind, page| Op {
        kind,
        object: 0,
        task: 0,
        page,
    };
    let ops = vec![
        op(OpKind::WholeWrite, 3999),
        op(OpKind::MappedRead, 3999),
        op(OpKind::MappedRead, 1000),
    ];
    for (advice, pages) in [(0, 32), (1, 32), (2, 64)] {
        for (order, at) in [Order::Strict, Order::PerTask]
            .into_iter()
            .flat_map(|order| [(order, 0), (order, 2)])
        {
            let events = vec![step(at, StepKind::Advise, 0, advice)];
            let trace = Trace::from_ops(ops.clone()).with_events(events);
            let options = ReplayOptions {
                settings: ReplaySettings {
                    order,
                    read_ahead: ReadAhead::Windows { kb: 128 },
                    ..ReplaySettings::default()
                },
                ..ReplayOptions::new(LIMIT)
            };
            let replay = replay(&trace, "v618", &options).unwrap();
            assert_eq!(
                replay.get("disk_read_pages"),
                pages,
                "{advice} {order} {at}"
            );
        }
    }
}

/// A phase has a place, and whoever comes later in the trace begins later.
#[test]
fn phases_and_late_tasks_keep_their_places() {
    let phases = vec![
        step(0, StepKind::Phase, 0, 1),
        step(20_002, StepKind::Phase, 2, 2),
    ];
    let trace = Trace::from_ops(ops()).with_events(phases);
    let exact = replayed(&trace, Order::Strict, 1);
    assert_eq!(places(&exact), [(1, 0), (2, 20_002)]);
    let [(_, first), (_, second)] = &exact.phases[..] else {
        panic!("two phases");
    };
    assert!(stolen(first) == 0 && stolen(second) > 0);
    let free = replayed(&trace, Order::PerTask, 2);
    let [(1, 0), (2, at)] = places(&free)[..] else {
        panic!("{:?}", places(&free));
    };
    assert!((18_900..=20_100).contains(&at), "{at}");
}

fn one_zone(min: u64, low: u64, high: u64) -> Vec<ZoneSpec> {
    let marks = Marks { min, low, high };
    vec![ZoneSpec {
        node: 0,
        pages: 1,
        marks,
        reserve: 0,
        batch: None,
    }]
}

/// Pages of a machine that are free: CPUs keep up to 252 of them.
const FREE: u64 = 900;

fn of_a_machine(trace: &Trace, zones: Vec<ZoneSpec>, seed: u64) -> Replay {
    let options = ReplayOptions {
        settings: ReplaySettings {
            limit: Limit::Machine { zones },
            ..ReplaySettings::default()
        },
        check: true,
        seed,
        ..ReplayOptions::new(FREE)
    };
    replay(trace, "v618", &options).unwrap()
}

/// Nobody has a limit: kswapd frees what the tasks take, and they what it cannot.
#[test]
fn a_machine_is_short_of_memory_where_its_cgroup_has_no_limit() {
    let trace = Trace::from_ops(ops());
    let short = of_a_machine(&trace, Vec::new(), 1);
    assert_eq!((short.killed, short.get("events_max")), (None, 0));
    let (all, by_kswapd) = (short.get("pgscan"), short.get("pgscan_kswapd"));
    assert!(
        by_kswapd > all / 2 && short.get("pageoutrun") > 10,
        "{by_kswapd} of {all}"
    );
    assert!(
        short.get("allocstall") > 0,
        "a task at the low mark is faster than kswapd"
    );
    // Marks that are higher leave less.
    let misses = |min| {
        let (low, high) = (min + 20, min + 40);
        of_a_machine(&trace, one_zone(min, low, high), 1).get("misses")
    };
    let (most, least) = (misses(20), misses(220));
    assert!(least > most + most / 4, "{most} {least}");
}

/// Where a memcg is in the memcg LRU is drawn.
#[test]
fn another_seed_takes_from_other_tasks() {
    let trace = Trace::from_ops(ops());
    let stolen = |seed| {
        let replay = of_a_machine(&trace, Vec::new(), seed);
        let of = |(_, counters): &(u16, Vec<(&'static str, i64)>)| {
            counters.iter().find(|c| c.0 == "pgsteal").map(|c| c.1)
        };
        replay.tasks.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(stolen(1), stolen(1));
    assert!((2..6).any(|seed| stolen(seed) != stolen(1)));
}

/// kswapd naps for a tenth of a second, and then makes up what is missing: at a slow pace that is before the low mark.
#[test]
fn a_slow_clock_leaves_more_free() {
    let trace = Trace::from_ops(ops());
    let misses = |clock: &str| {
        let (min, low, high) = (100, 300, 500);
        let options = ReplayOptions {
            settings: ReplaySettings {
                limit: Limit::Machine {
                    zones: one_zone(min, low, high),
                },
                clock: Some(Clock::parse(clock).unwrap()),
                ..ReplaySettings::default()
            },
            ..ReplayOptions::new(FREE)
        };
        replay(&trace, "v618", &options).unwrap().get("misses")
    };
    let (fast, slow) = (misses("0:0,40000:0.1"), misses("0:0,40000:20"));
    assert!(slow > fast + fast / 20, "{slow} {fast}");
}

#[test]
fn marks_above_the_memory_are_refused() {
    let trace = Trace::from_ops(ops());
    let error = |min, low, high| {
        let mut options = ReplayOptions::new(FREE);
        options.settings.limit = Limit::Machine {
            zones: one_zone(min, low, high),
        };
        replay(&trace, "v618", &options).unwrap_err().to_string()
    };
    for (min, low, high) in [(0, 1, 2), (3, 3, 4), (3, 5, 4), (100, 200, 900)] {
        let said = error(min, low, high);
        assert!(
            said.contains(&format!("watermarks: {min},{low},{high}")),
            "{said}"
        );
    }
}

/// With large folios: a trace that says what a call was has no others. Pages that are written one by one are as many folios.
#[test]
fn calls_are_those_that_a_trace_announces() {
    const PAGES: u32 = 320;
    let write = |page| Op {
        kind: OpKind::WholeWrite,
        object: 0,
        task: 0,
        page,
    };
    let written = || Trace::from_ops((0..PAGES).map(write).collect());
    let with_calls = |at: &[u64]| {
        let call = |&at: &u64| step(at, StepKind::Call, 0, 4);
        written().with_events(at.iter().map(call).collect())
    };
    let every_fourth: Vec<u64> = (0..u64::from(PAGES)).step_by(4).collect();
    for (trace, folios) in [
        (written(), 2),
        (with_calls(&every_fourth), PAGES / 4),
        // The last one empties the batch of single pages.
        (with_calls(&[8, u64::from(PAGES) - 4]), PAGES - 6),
    ] {
        for order in [Order::Strict, Order::PerTask] {
            let options = ReplayOptions {
                settings: ReplaySettings {
                    large_folios: 8,
                    order,
                    ..ReplaySettings::default()
                },
                check: true,
                ..ReplayOptions::new(LIMIT)
            };
            let done = replay(&trace, "v618", &options).unwrap();
            let inserted = done.counters.iter().find(|c| c.0 == "lru_add_list_ops");
            assert_eq!(inserted.unwrap().1, i64::from(folios), "{order}");
        }
    }
}
