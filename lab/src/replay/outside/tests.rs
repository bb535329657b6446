//! FIFO, LRU and SIEVE in a few plain lines outside of the engine, beside those of the engine: every counter, the time
//! and the lists are the same, whatever the trace and the limit.

use super::OutsidePolicy;
use crate::replay::{replay, Replay, ReplayError, ReplayOptions, ReplaySettings};
use crate::traces::{Event, Op, OpKind, Step, StepKind, Trace};
use coldset_engine::policies::desk::{Decides, Failure, Makes, Say};
use coldset_engine::policies::outside::OutsideKind;
use coldset_machine::device::DeviceKind;
use coldset_machine::{ReadAhead, SwapConfig, Thp};
use std::sync::Arc;

/// A mistake of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plant {
    None,
    /// Takes the last but one in place of the last, now and then.
    OtherVictim,
    /// Loses one put-back in eight.
    ForgetsBack,
    /// Evicts a page that is not there.
    Absent,
    /// Fails.
    Fails,
}

/// Pages from the oldest to the newest.
#[derive(Debug)]
struct Model {
    name: &'static str,
    pages: Vec<(u64, bool)>,
    hand: Option<u64>,
    plant: Plant,
    calls: u64,
}

impl Model {
    fn place(&self, page: u64) -> usize {
        let at = self.pages.iter().position(|p| p.0 == page);
        at.unwrap_or_else(|| panic!("{}: {page} is not there", self.name))
    }

    fn remove(&mut self, page: u64) {
        let at = self.place(page);
        if self.hand == Some(page) {
            self.hand = self.pages.get(at + 1).map(|p| p.0);
        }
        self.pages.remove(at);
    }

    /// Behind the hand of SIEVE; the others have none.
    fn behind_hand(&mut self, page: u64) -> bool {
        let Some(hand) = self.hand else { return false };
        let at = self.place(hand);
        self.pages.insert(at, (page, false));
        true
    }
}

impl Decides for Model {
    fn tell(&mut self, _: u64, said: &[(Say, u64)]) -> Result<(), Failure> {
        for &(say, page) in said {
            self.calls += 1;
            match say {
                Say::Insert => self.pages.push((page, false)),
                Say::Hit if self.name == "lru" => {
                    self.remove(page);
                    self.pages.push((page, false));
                }
                Say::Hit => {
                    let at = self.place(page);
                    self.pages[at].1 = self.name == "sieve";
                }
                Say::PutBack | Say::PutBackUsed => {
                    if self.plant == Plant::ForgetsBack && self.calls.is_multiple_of(8) {
                        self.pages.insert(0, (page, false));
                    } else if !self.behind_hand(page) {
                        self.pages.push((page, false));
                    }
                }
                Say::Due => match self.behind_hand(page) {
                    true => self.hand = Some(page),
                    false => self.pages.insert(0, (page, false)),
                },
                Say::Remove => self.remove(page),
            }
        }
        Ok(())
    }

    fn evict(&mut self, _: u64) -> Result<u64, Failure> {
        self.calls += 1;
        match self.plant {
            Plant::Fails if self.calls > 300 => return Err("it has had enough".into()),
            Plant::Absent if self.calls > 300 => return Ok(1 << 40),
            Plant::OtherVictim if self.calls.is_multiple_of(4) && self.pages.len() > 1 => {
                self.pages.swap(0, 1)
            }
            _ => {}
        }
        let mut at = self.hand.map_or(0, |hand| self.place(hand));
        while self.pages[at].1 {
            self.pages[at].1 = false;
            at = (at + 1) % self.pages.len();
        }
        let victim = self.pages.remove(at).0;
        if self.name == "sieve" {
            self.hand = self.pages.get(at).map(|p| p.0);
        }
        Ok(victim)
    }

    fn refuse(&mut self, _: u64, page: u64) -> Failure {
        format!("{page} is not in memory").into()
    }
}

#[derive(Debug)]
struct Maker(&'static str, Plant);

impl Makes for Maker {
    fn name(&self) -> &str {
        self.0
    }

    fn kind(&self) -> OutsideKind {
        OutsideKind {
            uses: self.0 != "fifo",
            moves: self.0 == "lru",
            file_first: self.0 == "fifo",
        }
    }

    fn is_told_of_removals(&self) -> bool {
        true
    }

    fn takes_due(&self) -> bool {
        true
    }

    fn make(&self, _: u64) -> Result<Box<dyn Decides>, Failure> {
        Ok(Box::new(Model {
            name: self.0,
            pages: Vec::new(),
            hand: None,
            plant: self.1,
            calls: 0,
        }))
    }
}

const NAMES: [&str; 3] = ["fifo", "lru", "sieve"];

/// Knuth's generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }
}

/// Two files and two anonymous regions, used in every way, cut, unmapped and given back.
fn trace(r: &mut Random, accesses: u64) -> Trace {
    let kinds = [
        OpKind::Pread,
        OpKind::Pread,
        OpKind::MappedRead,
        OpKind::Pwrite,
        OpKind::WholeWrite,
        OpKind::MappedWrite,
        OpKind::AnonRead,
        OpKind::AnonWrite,
    ];
    let tasks = 1 + r.below(2);
    let few = 1 + r.below(kinds.len() as u64);
    let pages = |r: &mut Random| {
        let most = 100 + r.below(500);
        r.below(most) * r.below(most) / most
    };
    let ops = (0..accesses).map(|_| {
        let kind = kinds[r.below(few) as usize];
        let object = r.below(2) as u8 + if kind.is_anon() { 2 } else { 0 };
        Op {
            kind,
            object,
            task: r.below(tasks) as u16,
            page: pages(r) as u32,
        }
    });
    let ops: Vec<Op> = ops.collect();
    let used = |object: u8| ops.iter().any(|op| op.object == object);
    let mut places: Vec<u64> = (0..r.below(12)).map(|_| r.below(accesses)).collect();
    places.sort_unstable();
    let events = places.into_iter().filter_map(|at| {
        let (kind, object, value) = match r.below(5) {
            0 | 1 => (StepKind::Truncate, r.below(2), r.below(200)),
            2 => (StepKind::Unmap, r.below(4), 0),
            3 => (StepKind::Exit, 0, 0),
            _ => (StepKind::Fsync, r.below(2), 0),
        };
        let step = Step {
            kind,
            object: object as u8,
            task: r.below(tasks) as u16,
            value: value as u32,
        };
        let wanted = kind == StepKind::Exit || used(step.object);
        wanted.then_some(Event { at, step })
    });
    let events = events.collect();
    Trace::from_ops(ops).with_events(events)
}

fn options(r: &mut Random) -> ReplayOptions {
    let swap = match r.below(3) {
        0 => SwapConfig::None,
        1 => SwapConfig::Zram {
            pages: 4000,
            algorithm: "lz4".into(),
        },
        _ => SwapConfig::Disk {
            pages: 4000,
            device: DeviceKind::Nvme,
        },
    };
    ReplayOptions {
        swap,
        settings: ReplaySettings {
            swappiness: [60, 0, 100, 200][r.below(4) as usize],
            kernel_memory: r.below(2) == 0,
            read_ahead: match r.below(2) {
                0 => ReadAhead::default(),
                _ => ReadAhead::Windows { kb: 128 },
            },
            fault_around: [1, 16][r.below(2) as usize],
            own_pages: [0, 8][r.below(2) as usize],
            large_folios: [0, 3][r.below(2) as usize],
            thp: [Thp::Never, Thp::Always][r.below(2) as usize],
            ..ReplaySettings::default()
        },
        check: true,
        inspect: true,
        sample_points: 10,
        ..ReplayOptions::new(160 + r.below(600))
    }
}

fn outside(
    name: &'static str,
    plant: Plant,
    trace: &Trace,
    o: &ReplayOptions,
) -> Result<Replay, ReplayError> {
    let o = ReplayOptions {
        outside: Some(OutsidePolicy(Arc::new(Maker(name, plant)))),
        ..o.clone()
    };
    replay(trace, name, &o)
}

/// All of a result that can be compared.
fn text(done: &Replay) -> String {
    let Replay {
        counters,
        tasks,
        samples,
        time,
        worked,
        killed,
        lruvecs,
        ..
    } = done;
    format!("{counters:?} {tasks:?} {samples:?} {time} {worked:?} {killed:?} {lruvecs:?}")
}

/// Differences of histories that a planted mistake makes.
fn differences(plant: Plant, histories: u64) -> usize {
    let mut found = 0;
    for seed in 0..histories {
        let r = &mut Random(seed);
        let (trace, options) = (trace(r, 6000), options(r));
        for name in NAMES {
            let inside = replay(&trace, name, &options).unwrap();
            let outside = outside(name, plant, &trace, &options);
            let outside = outside.unwrap_or_else(|e| panic!("{name}, seed {seed}: {e}"));
            let same = text(&inside) == text(&outside);
            if plant == Plant::None {
                for (a, b) in inside.counters.iter().zip(&outside.counters) {
                    assert_eq!(a, b, "{name}, seed {seed}");
                }
                assert!(same, "{name}, seed {seed}");
            }
            found += usize::from(!same);
        }
    }
    found
}

#[test]
fn every_counter_is_that_of_the_engines_own() {
    assert_eq!(differences(Plant::None, 60), 0);
}

#[test]
fn a_policy_that_decides_otherwise_is_another() {
    assert!(differences(Plant::OtherVictim, 6) > 6);
    assert!(differences(Plant::ForgetsBack, 12) > 0);
}

#[test]
fn mistakes_end_the_replay_and_say_where() {
    let r = &mut Random(5);
    let trace = trace(r, 6000);
    let o = ReplayOptions::new(160);
    for (plant, text) in [
        (Plant::Fails, "it has had enough"),
        (Plant::Absent, "1099511627776 is not in memory"),
    ] {
        let error = outside("sieve", plant, &trace, &o).unwrap_err();
        let ReplayError::Policy { access, error } = error else {
            panic!("{error}");
        };
        assert_eq!(error.to_string(), text);
        assert!((100..3000).contains(&access), "{access}");
    }
}

/// Pages have the numbers of the curves, also where memory is given back; those of a cut file keep the first one.
#[test]
fn pages_have_the_numbers_of_the_curves() {
    use crate::bounds::{Count, Sequence};
    use coldset_engine::policies::desk::Numbers;
    use coldset_engine::ObjectId;
    use std::collections::HashMap;
    for seed in 0..20 {
        let trace = trace(&mut Random(seed), 3000);
        // Loads that find nothing have no page.
        let stored = |op: &Op| Op {
            kind: match op.kind {
                OpKind::AnonRead => OpKind::AnonWrite,
                kind => kind,
            },
            ..*op
        };
        let ops = trace.ops().iter().map(stored).collect();
        let trace = Trace::from_ops(ops).with_events(trace.events.clone());
        let objects: Vec<ObjectId> = (0..trace.objects.len() as u32)
            .map(|n| ObjectId(7 * n))
            .collect();
        let mut numbers = super::Numbers::of(&trace, &objects).unwrap();
        let sequence = Sequence::of_trace(&trace, Count::Reads, true).unwrap();
        let mut of_files = HashMap::new();
        for (at, (op, &key)) in trace.ops().iter().zip(sequence.keys()).enumerate() {
            let object = objects[usize::from(op.object)];
            let number = numbers.number(at as u64, object, op.page);
            let expected = match op.kind.is_anon() {
                true => key,
                false => *of_files.entry((op.object, op.page)).or_insert(key),
            };
            assert_eq!(number, u64::from(expected), "seed {seed}, access {at}");
        }
        let unique = u64::from(sequence.unique());
        assert_eq!(numbers.number(0, ObjectId(1), 0), unique);
        assert_eq!(numbers.number(9, ObjectId(1), 1), unique + 1);
        assert_eq!(numbers.number(9, ObjectId(1), 0), unique);
    }
}
