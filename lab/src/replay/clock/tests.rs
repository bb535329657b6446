//! Clocks, and replays that have one.

use super::*;
use crate::replay::{replay, Replay, ReplayOptions, ReplaySettings};
use crate::traces::{Event, Op, OpKind, Step, StepKind, Trace};

#[test]
fn interpolates_between_points() {
    let c = Clock::parse("0:0,100:1.5,200:2").unwrap();
    assert_eq!(
        [c.at(0), c.at(50), c.at(100), c.at(150), c.at(300)],
        [0, 750_000_000, 1_500_000_000, 1_750_000_000, 2_500_000_000]
    );
}

#[test]
fn is_read_as_it_is_shown() {
    let c = Clock::parse("0:0,50:0.2,80:0.230000001,100:45").unwrap();
    assert_eq!(Clock::parse(&c.to_string()), Ok(c));
    let c = Clock::parse("0:0,50:0.2,read:0.000087").unwrap();
    assert_eq!(c.read_ns(), Some(87_000));
    assert_eq!(Clock::parse(&c.to_string()), Ok(c));
    for text in [
        "0:0,50:0.2,fold:1.37",
        "0:0,50:0.2,read:0.1,fold:1.37",
        "0:0:0,50:0.2:7,read:0.1,fold:1.37",
        "0:0:0s,50:0.2:0.05s,read:0.1,fold:1.37",
    ] {
        let c = Clock::parse(text).unwrap();
        assert_eq!(c.first_fold_ns(), Some(1_370_000_000));
        assert_eq!(c.to_string(), text);
    }
}

/// Between two points, accesses take the same time but for their reads.
#[test]
fn reads_are_where_the_replay_has_them() {
    let at =
        |clock: &str, access, waited| Clock::parse(clock).unwrap().part(access).at(access, waited);
    for clock in [
        "0:0:0,100:1:5,200:2:5,read:0.1",
        "0:0:0s,100:1:0.5s,200:2:0.5s",
    ] {
        assert_eq!(at(clock, 10, 0), 50_000_000);
        assert_eq!(at(clock, 10, 300_000_000), 350_000_000);
        assert_eq!(at(clock, 110, 0), 1_100_000_000, "this part has no reads");
    }
    // Not known, or reads of several at once, which took longer than all: linear, whatever has been read.
    for clock in [
        "0:0,100:1,200:2,read:0.1",
        "0:0:0,100:1:10,200:2:20,read:0.1",
        "0:0:0,100:1:5,200:2:5",
    ] {
        assert_eq!(at(clock, 10, 300_000_000), 100_000_000, "{clock}");
    }
}

#[test]
fn bad_points_are_named() {
    assert_eq!(Clock::parse("0:0,5"), Err(ClockError::Form("5".into())));
    assert_eq!(Clock::parse("0:0"), Err(ClockError::Short));
    assert!(matches!(Clock::parse("5:0,4:1"), Err(ClockError::Order(_))));
    for bad in [
        "read:0",
        "read:-1",
        "read:1001",
        "read",
        "read:x",
        "reads:1",
    ] {
        let error = ClockError::Read(bad.into());
        assert_eq!(Clock::parse(&format!("0:0,5:1,{bad}")), Err(error));
    }
    for (bad, named) in [
        ("0:0:0,5:1", "5:1"),
        ("0:0,5:1:3", "0:0"),
        ("0:0:0,5:1:x", "5:1:x"),
        ("0:0:0,5:1:3s", "5:1:3s"),
        ("0:0:0s,5:1:3", "5:1:3"),
        ("0:0:0s,5:1", "5:1"),
        ("0:0:0s,5:1:-3s", "5:1:-3s"),
    ] {
        assert_eq!(Clock::parse(bad), Err(ClockError::Form(named.into())));
    }
    for falls in ["0:0:3,5:1:2", "0:0:0.2s,5:1:0.1s"] {
        assert!(matches!(Clock::parse(falls), Err(ClockError::Order(_))));
    }
    for bad in ["fold:0", "fold", "fold:x", "folds:1", "fold:1001"] {
        let error = ClockError::Fold(bad.into());
        assert_eq!(Clock::parse(&format!("0:0,5:1,{bad}")), Err(error));
    }
    let turned = Clock::parse("0:0,5:1,fold:1,read:1");
    assert_eq!(turned, Err(ClockError::Form("fold:1".into())));
    let inside = Clock::parse("0:0,read:1,5:1");
    assert_eq!(inside, Err(ClockError::Form("read:1".into())));
}

const ACCESSES: u32 = 5_000;
/// Pages of the limit.
const LIMIT: u64 = 1_024;
/// The kernels of which each has its own way with dirty pages.
const KERNELS: [&str; 5] = ["v612", "v618", "v72", "v73", "classic"];

/// Every page of a file in order.
fn in_order(kind: OpKind) -> Trace {
    let op = |page| Op {
        kind,
        object: 0,
        task: 0,
        page,
    };
    Trace::from_ops((0..ACCESSES).map(op).collect())
}

/// The trace when the access after the last would begin after so many nanoseconds.
fn paced(trace: &Trace, variant: &str, ns: u64) -> Replay {
    by(trace, variant, steady(ns))
}

fn steady(ns: u64) -> Clock {
    Clock::new(vec![(0, 0), (ACCESSES.into(), ns)]).unwrap()
}

fn by(trace: &Trace, variant: &str, clock: Clock) -> Replay {
    let options = ReplayOptions {
        settings: ReplaySettings {
            clock: Some(clock),
            ..ReplaySettings::default()
        },
        check: true,
        ..ReplayOptions::new(LIMIT)
    };
    replay(trace, variant, &options).unwrap()
}

/// The statistics of a recording were read at its points, not where the next access is that is no part of a call.
#[test]
fn statistics_are_read_at_the_points_between_calls() {
    let call = Step {
        kind: StepKind::Call,
        object: 0,
        task: 0,
        value: 4,
    };
    let events = (0..u64::from(ACCESSES) / 4).map(|n| Event {
        at: 4 * n,
        step: call,
    });
    let trace = in_order(OpKind::Pread).with_events(events.collect());
    let options = ReplayOptions {
        settings: ReplaySettings {
            clock: Some(Clock::parse("0:0,1600:1,3202:2,5000:3").unwrap()),
            ..ReplaySettings::default()
        },
        series: true,
        ..ReplayOptions::new(LIMIT)
    };
    let replay = replay(&trace, "classic", &options).unwrap();
    let points: Vec<u64> = replay.series.iter().map(|p| p.access).collect();
    // In the middle of a call nobody reads.
    assert_eq!(points, [0, 1600, 3204, 5000]);
}

/// When its last access begins, if nothing holds it up.
fn last_begins(ns: u64) -> u64 {
    ns * u64::from(ACCESSES - 1) / u64::from(ACCESSES)
}

/// Linux 6.18 and 7.2 kill nobody who writes a file in order as fast as it can (`docs/rules/writeback.md`), so no clock may: a
/// writer that meets dirty pages alone works and sleeps until some are clean, however soon the clock wants it to go on.
#[test]
fn no_clock_kills_a_writer() {
    let trace = in_order(OpKind::WholeWrite);
    for variant in KERNELS {
        for ns in [
            0,
            250_000,
            9_000_000,
            25_000_000,
            180_000_000,
            750_000_000,
            15_000_000_000,
        ] {
            let replay = paced(&trace, variant, ns);
            assert_eq!(replay.killed, None, "{variant}, {ns} ns");
            assert!(
                replay.time > last_begins(ns),
                "{variant}, {ns} ns: {}",
                replay.time
            );
            // All but what fits into memory has been written.
            let written = replay.get("disk_written_pages") as u64;
            assert!(
                written + LIMIT >= ACCESSES.into(),
                "{variant}, {ns} ns: {written}"
            );
        }
    }
}

/// Whoever is late all the time gains nothing by a clock that is twice as fast: it does the same at the same times.
#[test]
fn who_is_late_by_a_clock_is_by_a_faster_one() {
    for kind in [OpKind::WholeWrite, OpKind::Pread] {
        let trace = in_order(kind);
        for variant in KERNELS {
            let [fast, faster] = [2_000, 1_000].map(|ns| paced(&trace, variant, ns));
            assert_eq!(fast.counters, faster.counters, "{variant}");
            assert_eq!(fast.time, faster.time, "{variant}");
            let least = u64::from(ACCESSES) * 100;
            assert!(
                fast.time > least,
                "{variant}: work takes time, {}",
                fast.time
            );
        }
    }
}

/// The times of a recording contain what its device took for reads; that of the lab takes nothing on top of it.
#[test]
fn reads_keep_to_the_clock() {
    let trace = in_order(OpKind::Pread);
    let ns = 100_000_000;
    for variant in KERNELS {
        let late = paced(&trace, variant, ns).time - last_begins(ns);
        assert!(late < 20_000, "{variant}: {late} ns");
    }
}

/// A replay that does other reads than the recording takes less time, or more, between two points.
#[test]
fn a_replay_that_reads_nothing_has_only_the_rest_of_the_time() {
    let second = 1_000_000_000;
    let clock = || steady(second).with_reads_of(200_000);
    let half_reads = || clock().with_reads_at(vec![0, 2_500]).unwrap();
    for variant in KERNELS {
        let time = |kind, clock| by(&in_order(kind), variant, clock).time;
        let writes = time(OpKind::WholeWrite, half_reads());
        assert!(
            (499_000_000..700_000_000).contains(&writes),
            "{variant}: {writes}"
        );
        assert!(time(OpKind::WholeWrite, clock()) > 999_000_000, "{variant}");
        // All 5,000 accesses read, not 2,500.
        let reads = time(OpKind::Pread, half_reads());
        assert!(
            (1_490_000_000..1_550_000_000).contains(&reads),
            "{variant}: {reads}"
        );
    }
}

/// What the recording had slept besides its reads, a writer at its limit does in its own way: its work is not spread over it.
#[test]
fn a_writer_that_was_stopped_works_as_fast_as_it_did() {
    let second = 1_000_000_000;
    let trace = in_order(OpKind::WholeWrite);
    for variant in KERNELS {
        let clock = || steady(second);
        let slept = clock().with_asleep_at(vec![0, 990_000_000]).unwrap();
        let of = |clock| by(&trace, variant, clock).time;
        let (fast, slept, spread) = (of(steady(10_000_000)), of(slept), of(clock()));
        assert!(
            slept.abs_diff(fast) < fast / 50,
            "{variant}: {slept} {fast}"
        );
        assert!(spread > 999_000_000, "{variant}: {spread}");
    }
}

/// Of a recording whose reads are known they take their time: within its times while there is enough, and beyond them
/// where an access is late.
#[test]
fn known_reads_take_their_time() {
    let trace = in_order(OpKind::Pread);
    let read = 80_000;
    for variant in KERNELS {
        let slow = 1_000_000_000;
        let after = by(&trace, variant, steady(slow).with_reads_of(read)).time - last_begins(slow);
        assert!(
            (read..3 * read).contains(&after),
            "{variant}: the last one, {after} ns"
        );
        let fast = by(&trace, variant, steady(1_000).with_reads_of(read)).time;
        let least = u64::from(ACCESSES) * read * 9 / 10;
        assert!(fast > least, "{variant}: {fast} ns");
        let twice = by(&trace, variant, steady(1_000).with_reads_of(2 * read)).time;
        assert!(
            twice > fast + least,
            "{variant}: the device is that of the recording"
        );
    }
}
