//! Accesses go to the workers in the order that is wanted.

use crate::lead::{Lead, Runner};
use crate::plan::Cast;
use crate::worker::Line;
use coldset_traces::{begins, Order, Record, StepKind, BEGINNING};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Why a run ended before the trace did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// It was told to.
    Interrupted,
    /// The worker of this seat answers no more.
    Lost(usize),
}

/// How often it is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);

/// Records after which it is told how many accesses have been done, where nobody is bound: others may wait to begin.
const LOOK_ROUND: usize = BEGINNING as usize;

/// Work for some of the seats, one record after the other.
struct Feeder<'a> {
    lines: &'a mut [Line],
    /// The seat of the first of the lines.
    first: usize,
    work: Cow<'a, [Record]>,
    /// Where others may be behind: of each record the number of its access, or of the next one.
    places: Vec<u64>,
    /// The place of the record that it begins with.
    begins: u64,
    runner: Option<Runner<'a>>,
}

fn accesses(work: &[Record]) -> u64 {
    let accesses = work.iter().filter(|r| matches!(r, Record::Access(_)));
    accesses.count() as u64
}

/// Parts of the work with as many accesses as one another, as many parts as there are points; fewer accesses have fewer.
fn stretches(work: &[Record], points: usize) -> Vec<&[Record]> {
    let each = accesses(work).div_ceil(points.max(1) as u64).max(1);
    let (mut parts, mut rest, mut count) = (Vec::new(), work, 0);
    for (at, record) in work.iter().enumerate() {
        count += u64::from(matches!(record, Record::Access(_)));
        if count == each {
            let begun = work.len() - rest.len();
            let (part, after) = rest.split_at(at + 1 - begun);
            parts.push(part);
            (rest, count) = (after, 0);
        }
    }
    match parts.last_mut() {
        // What follows the last access belongs to it.
        Some(last) if count == 0 && !rest.is_empty() => {
            let begun = work.len() - rest.len() - last.len();
            *last = &work[begun..];
        }
        _ if !rest.is_empty() => parts.push(rest),
        _ => {}
    }
    parts
}

impl Feeder<'_> {
    /// How much of the work is done without waiting for anybody: the first of `rest`, which has this place in all of
    /// it, and what follows.
    fn run_at(&self, at: usize, rest: &[Record], cast: &Cast) -> usize {
        let Some(runner) = &self.runner else {
            // The next task's are later ones: they wait until these are done.
            let seat = cast.seat(&rest[0]);
            return rest.iter().take_while(|r| cast.seat(r) == seat).count();
        };
        let places = &self.places[at..at + rest.len()];
        let len = match runner.span() {
            Some(span) => places.partition_point(|&place| place < places[0].saturating_add(span)),
            None => rest.len().min(LOOK_ROUND),
        };
        runner.reach(places[0], places[len - 1]);
        len
    }

    /// Has them done, and counts them in `all`, which other feeders count theirs in. `reached` is told how many that is,
    /// `points` times, and when a part of the work begins.
    ///
    /// # Errors
    /// A seat whose worker answers no more.
    fn feed(
        &mut self,
        cast: &Cast,
        (all, points): (&AtomicU64, usize),
        reached: impl Fn(u64, Option<u32>),
    ) -> Result<(), usize> {
        if let Some(runner) = &self.runner {
            runner.begin(self.begins);
        }
        let mut begun = 0;
        for stretch in stretches(&self.work, points) {
            let mut rest = stretch;
            while let Some(first) = rest.first() {
                if let Some(phase) = phase(first) {
                    reached(all.load(SeqCst), Some(phase));
                }
                let seat = cast.seat(first);
                let most = self.run_at(begun, rest, cast);
                // Up to where another part begins.
                let others = rest[1..most].iter().position(|r| phase(r).is_some());
                let len = others.map_or(most, |at| at + 1);
                let (run, after) = rest.split_at(len);
                self.lines[seat - self.first].run(run).map_err(|_| seat)?;
                let more = accesses(run);
                all.fetch_add(more, SeqCst);
                if let Some(runner) = &self.runner {
                    runner.did(more);
                }
                rest = after;
                begun += len;
            }
            for (seat, line) in (self.first..).zip(self.lines.iter_mut()) {
                line.report().map_err(|_| seat)?;
            }
            reached(all.load(SeqCst), None);
        }
        Ok(())
    }
}

/// Has all accesses done. `reached`: so many have been; it is called `points` times in each feeder's course, and when
/// a part of the work begins.
/// `end` ends the workers but that of one seat, which ends by itself; whoever waits for their answers
/// is freed by it.
pub(crate) fn conduct(
    (work, cast, order): (&[Record], &Cast, Order),
    lines: &mut [Line],
    points: usize,
    reached: impl Fn(u64, Option<u32>) + Sync,
    end: impl Fn(Option<usize>),
    mut go_on: impl FnMut() -> bool,
) -> Result<(), Stop> {
    let lead;
    let feeders = match order {
        Order::Strict => {
            lead = Lead::new(None, Vec::new());
            vec![whole(work, lines)]
        }
        Order::PerTask | Order::Within(_) => {
            let mut feeders = apart(work, cast, lines);
            // Who is yet to begin holds nobody up before that, whatever the trace has said of it.
            let first = |f: &Feeder<'_>| match f.work.is_empty() {
                true => u64::MAX,
                false => f.begins,
            };
            lead = Lead::new(order.lead(), feeders.iter().map(first).collect());
            for (number, feeder) in feeders.iter_mut().enumerate() {
                feeder.runner = Some(lead.runner(number));
            }
            feeders
        }
    };
    let (all, reached) = (&AtomicU64::new(0), &reached);
    let mut stop = Ok(());
    thread::scope(|scope| {
        let (tell, ends) = channel();
        for mut feeder in feeders {
            let tell = tell.clone();
            scope.spawn(move || {
                let fed = feeder.feed(cast, (all, points), reached);
                // The other side is there until all have ended.
                let _ = tell.send(fed);
            });
        }
        drop(tell);
        loop {
            match ends.recv_timeout(TICK) {
                Ok(Err(seat)) if stop.is_ok() => {
                    stop = Err(Stop::Lost(seat));
                    end(Some(seat));
                    lead.end();
                }
                Err(RecvTimeoutError::Timeout) if stop.is_ok() && !go_on() => {
                    stop = Err(Stop::Interrupted);
                    end(None);
                    lead.end();
                }
                Err(RecvTimeoutError::Disconnected) => break,
                _ => {}
            }
        }
    });
    stop
}

/// One feeder for all seats.
fn whole<'a>(work: &'a [Record], lines: &'a mut [Line]) -> Feeder<'a> {
    Feeder {
        lines,
        first: 0,
        work: work.into(),
        places: Vec::new(),
        begins: 0,
        runner: None,
    }
}

/// The number of the part of the work that begins with this.
fn phase(record: &Record) -> Option<u32> {
    match record {
        Record::Step(step) if step.kind == StepKind::Phase => Some(step.value),
        _ => None,
    }
}

/// A feeder for each seat.
fn apart<'a>(work: &[Record], cast: &Cast, lines: &'a mut [Line]) -> Vec<Feeder<'a>> {
    let mut parts = vec![(Vec::new(), Vec::new()); lines.len()];
    let mut access = 0;
    for record in work {
        let (work, places) = &mut parts[cast.seat(record)];
        work.push(*record);
        places.push(access);
        access += u64::from(matches!(record, Record::Access(_)));
    }
    // Only who keeps the pace has been given times.
    let pace = work.iter().any(|r| r.is_step(StepKind::Think));
    let each = lines.chunks_mut(1).zip(parts).enumerate();
    each.map(|(first, (lines, (work, places)))| {
        let mut records = work.iter().zip(&places);
        let begins = records.find(|(record, _)| begins(record, pace));
        Feeder {
            begins: begins.map_or(0, |(_, &place)| place),
            lines,
            first,
            work: work.into(),
            places,
            runner: None,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Tasks};
    use crate::sys::Counts;
    use crate::worker::{serve, Answer};
    use coldset_traces::{Event, Op, OpKind, Step, StepKind, Trace};
    use rustix::fd::OwnedFd;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::{Arc, Condvar, Mutex};
    use std::thread::JoinHandle;
    use std::time::Instant;

    /// Who has done which page, in the order of time.
    type Log = Arc<Mutex<Vec<(usize, Op)>>>;

    /// Runs of one to five accesses of four tasks, pages counted.
    fn trace() -> Trace {
        let mut ops = Vec::new();
        for i in 0..900u32 {
            for _ in 0..=i % 5 {
                ops.push(Op {
                    kind: OpKind::ALL[i as usize % 2],
                    object: 0,
                    task: (i * i % 7 % 4) as u16,
                    page: ops.len() as u32,
                });
            }
        }
        Trace::from_ops(ops)
    }

    fn cast(trace: &Trace) -> Cast {
        let plan = Plan::of_tests(Tasks::Processes, Order::Strict);
        Cast::of(trace, &plan).unwrap()
    }

    /// A worker whose accesses are calls of `access`.
    fn worker(
        mut access: impl FnMut(Op) -> io::Result<()> + Send + 'static,
    ) -> (Line, JoinHandle<Result<(), String>>) {
        let (its_input, input) = io::pipe().unwrap();
        let (output, its_output) = io::pipe().unwrap();
        let count = Counts::make(1).unwrap().0.count(0).unwrap();
        let counts = count.clone();
        let act = move |record| match record {
            Record::Access(op) => access(op).map(|()| counts.add()),
            Record::Step(_) => Ok(()),
        };
        let body = move || serve(its_input, its_output, act);
        let thread = thread::spawn(body);
        let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
        let mut line = Line::new(input.into(), output.into(), count);
        line.ready().unwrap();
        (line, thread)
    }

    fn crew(cast: &Cast, log: &Log, slow: impl Fn(usize) -> Duration) -> Vec<Line> {
        let seats = 0..cast.tasks().len();
        seats
            .map(|seat| {
                let (log, pause) = (log.clone(), slow(seat));
                let access = move |op| {
                    thread::sleep(pause);
                    log.lock().unwrap().push((seat, op));
                    Ok(())
                };
                worker(access).0
            })
            .collect()
    }

    #[test]
    fn stretches_have_the_same_number_of_accesses_and_lose_nothing() {
        let access = |page| {
            let (kind, object, task) = (OpKind::Pread, 0, 0);
            Record::Access(Op {
                kind,
                object,
                task,
                page,
            })
        };
        let step = Record::Step(Step {
            kind: StepKind::Fsync,
            object: 0,
            task: 0,
            value: 0,
        });
        for (begin, steps, end) in [(0, 0, 0), (3, 2, 5), (0, 7, 1)] {
            let mut work = vec![step; begin];
            for page in 0..10 {
                work.push(access(page));
                work.extend(vec![step; steps * (page as usize % 3)]);
            }
            work.extend(vec![step; end]);
            for (points, sizes) in [(5, [2; 5].to_vec()), (3, vec![4, 4, 2]), (20, vec![1; 10])] {
                let parts = stretches(&work, points);
                let found: Vec<u64> = parts.iter().map(|p| accesses(p)).collect();
                assert_eq!(found, sizes);
                assert!(parts.concat() == work);
            }
        }
        assert_eq!(stretches(&[step; 4], 3), [[step; 4]]);
        assert!(stretches(&[], 3).is_empty());
    }

    /// Where a part of the work begins, all accesses before it have been done, and none after it.
    #[test]
    fn a_phase_begins_between_accesses() {
        let access = |page: u32| Op {
            kind: OpKind::Pread,
            object: 0,
            task: 0,
            page,
        };
        let phase = |at, value| Event {
            at,
            step: Step {
                kind: StepKind::Phase,
                object: 0,
                task: 0,
                value,
            },
        };
        let phases = vec![phase(0, 7), phase(30, 8), phase(30, 9), phase(100, 10)];
        let trace = Trace::from_ops((0..100).map(access).collect()).with_events(phases);
        for order in [Order::Strict, Order::PerTask, Order::Within(8)] {
            let cast = cast(&trace);
            let log = Log::default();
            let mut lines = crew(&cast, &log, |_| Duration::ZERO);
            let (begun, done) = (Mutex::new(Vec::new()), AtomicU64::new(0));
            let reach = |all, phase: Option<u32>| {
                done.store(all, SeqCst);
                assert_eq!(log.lock().unwrap().len() as u64, all);
                begun.lock().unwrap().extend(phase.map(|n| (n, all)));
            };
            let work: Vec<Record> = trace.records().collect();
            let what = (work.as_slice(), &cast, order);
            let ended = conduct(what, &mut lines, 10, reach, |_| {}, || true);
            assert_eq!((ended, done.into_inner()), (Ok(()), 100));
            let begun = begun.into_inner().unwrap();
            assert_eq!(begun, [(7, 0), (8, 30), (9, 30), (10, 100)], "{order}");
        }
    }

    #[test]
    fn strict_is_the_order_of_the_trace() {
        let trace = trace();
        let cast = cast(&trace);
        let log = Log::default();
        // The first is slow: who did not wait for it would overtake it.
        let slow = |seat| Duration::from_micros(if seat == 0 { 200 } else { 0 });
        let mut lines = crew(&cast, &log, slow);
        let (reached, seen) = (AtomicU64::new(0), log.clone());
        let reach = |all, _| {
            reached.store(all, SeqCst);
            // Nobody is ahead when the counters are read.
            assert_eq!(seen.lock().unwrap().len() as u64, all);
        };
        let work: Vec<Record> = trace.records().collect();
        let what = (work.as_slice(), &cast, Order::Strict);
        let done = conduct(what, &mut lines, 10, reach, |_| {}, || true);
        assert_eq!(done, Ok(()));
        let log = log.lock().unwrap();
        let ops: Vec<Op> = log.iter().map(|l| l.1).collect();
        assert!(ops == trace.ops(), "the order is another");
        assert!(log
            .iter()
            .all(|&(seat, op)| seat == cast.seat(&Record::Access(op))));
        let all = Answer::of(lines.iter().map(Line::last_report));
        assert_eq!(all.done, trace.ops().len() as u64);
        assert_eq!(reached.into_inner(), all.done);
    }

    /// The second says at the beginning whose thread it is, and begins to work long after that.
    #[test]
    fn who_is_yet_to_begin_holds_nobody_up() {
        const FIRST: u64 = 4 * BEGINNING;
        let op = |page| Op {
            kind: OpKind::Pread,
            object: 0,
            task: u16::from(page >= FIRST as u32),
            page,
        };
        let process = Step {
            kind: StepKind::Process,
            object: 0,
            task: 1,
            value: 0,
        };
        let said = vec![Event {
            at: 0,
            step: process,
        }];
        let trace = Trace::from_ops((0..FIRST as u32 + 100).map(op).collect()).with_events(said);
        let cast = cast(&trace);
        let work: Vec<Record> = trace.records().collect();
        for order in [Order::Within(16), Order::PerTask] {
            let log = Log::default();
            let mut lines = crew(&cast, &log, |_| Duration::ZERO);
            let what = (work.as_slice(), &cast, order);
            let begun = Instant::now();
            let patient = || begun.elapsed() < Duration::from_secs(60);
            let done = conduct(what, &mut lines, 1, |_, _| {}, |_| {}, patient);
            assert_eq!(done, Ok(()), "{order}");
            assert_eq!(log.lock().unwrap().len() as u64, FIRST + 100);
        }
    }

    /// Two tasks of which the first waits in its first access until the second has done all of its own.
    #[test]
    fn per_task_nobody_waits_for_another() {
        let op = |page: u32| Op {
            kind: OpKind::Pread,
            object: 0,
            task: (page % 2) as u16,
            page,
        };
        let trace = Trace::from_ops((0..40_000).map(op).collect());
        let cast = cast(&trace);
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let log = Log::default();
        let (waits, writes) = (ended.clone(), log.clone());
        let first = worker(move |op| {
            let guard = waits.0.lock().unwrap();
            let wait = waits
                .1
                .wait_timeout_while(guard, Duration::from_secs(20), |e| !*e);
            if wait.unwrap().1.timed_out() {
                return Err(io::Error::other("the other task waits for this one"));
            }
            writes.lock().unwrap().push((0, op));
            Ok(())
        });
        let writes = log.clone();
        let second = worker(move |op| {
            writes.lock().unwrap().push((1, op));
            if op.page == 39_999 {
                *ended.0.lock().unwrap() = true;
                ended.1.notify_all();
            }
            Ok(())
        });
        let mut lines = [first.0, second.0];
        let work: Vec<Record> = trace.records().collect();
        let what = (work.as_slice(), &cast, Order::PerTask);
        let reached = AtomicU64::new(0);
        let reach = |all, _| {
            reached.fetch_max(all, SeqCst);
        };
        let done = conduct(what, &mut lines, 10, reach, |_| {}, || true);
        assert_eq!((done, reached.into_inner()), (Ok(()), 40_000));
        let log = log.lock().unwrap();
        for task in 0..2 {
            let own = |ops: &mut dyn Iterator<Item = Op>| -> Vec<u32> {
                ops.filter(|op| op.task == task).map(|op| op.page).collect()
            };
            let did = log.iter().filter(|l| l.0 == usize::from(task)).map(|l| l.1);
            let (did, wanted) = (
                own(&mut did.into_iter()),
                own(&mut trace.ops().iter().copied()),
            );
            assert!(did == wanted, "task {task}: the order is another");
        }
    }

    /// A worker that fails is the one that is named, and the others are ended, so that the run is over.
    #[test]
    fn who_is_lost_is_named_and_the_others_are_ended() {
        for order in [Order::Strict, Order::Within(64), Order::PerTask] {
            let op = |page: u32| Op {
                kind: OpKind::Pread,
                object: 0,
                task: (page % 2) as u16,
                page,
            };
            let trace = Trace::from_ops((0..200_000).map(op).collect());
            let cast = cast(&trace);
            let over = Arc::new((Mutex::new(false), Condvar::new()));
            let waits = over.clone();
            // It stands still until it is ended.
            let (still, _) = worker(move |op| {
                let guard = waits.0.lock().unwrap();
                let stands = |over: &mut bool| op.page > 1000 && !*over;
                drop(waits.1.wait_while(guard, stands).unwrap());
                if op.page > 1000 {
                    return Err(io::Error::other("ended"));
                }
                Ok(())
            });
            let (fails, thread) = worker(|op| match op.page {
                501 => Err(io::Error::other("a reason")),
                _ => Ok(()),
            });
            let mut lines = [still, fails];
            let told = Mutex::new(Vec::new());
            let end = |but| {
                told.lock().unwrap().push(but);
                *over.0.lock().unwrap() = true;
                over.1.notify_all();
            };
            let work: Vec<Record> = trace.records().collect();
            let what = (work.as_slice(), &cast, order);
            let done = conduct(what, &mut lines, 10, |_, _| {}, end, || true);
            assert_eq!(done, Err(Stop::Lost(1)), "{order:?}");
            assert_eq!(*told.lock().unwrap(), [Some(1)]);
            assert_eq!(thread.join().unwrap().unwrap_err(), "access 250: a reason");
            assert_eq!(lines[1].done(), 250, "{order:?}");
        }
    }

    #[test]
    fn told_to_stop_it_ends_whoever_it_waits_for() {
        let trace = trace();
        let cast = cast(&trace);
        for order in [Order::Strict, Order::Within(64), Order::PerTask] {
            let over = Arc::new((Mutex::new(false), Condvar::new()));
            let stands = || {
                let waits = over.clone();
                let access = move |_| {
                    let guard = waits.0.lock().unwrap();
                    drop(waits.1.wait_while(guard, |over| !*over).unwrap());
                    Err(io::Error::other("ended"))
                };
                worker(access).0
            };
            let mut lines: Vec<Line> = cast.tasks().iter().map(|_| stands()).collect();
            let end = |but| {
                assert_eq!(but, None);
                *over.0.lock().unwrap() = true;
                over.1.notify_all();
            };
            let work: Vec<Record> = trace.records().collect();
            let what = (work.as_slice(), &cast, order);
            let done = conduct(what, &mut lines, 10, |_, _| {}, end, || false);
            assert_eq!(done, Err(Stop::Interrupted), "{order:?}");
        }
    }
}
