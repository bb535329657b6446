//! How a trace is played, and which of its tasks is done by whom.

use crate::cgroup::Limits;
use crate::PlayError;
use coldset_traces::{Order, Record, Trace};
use std::ops::Range;
use std::path::PathBuf;

/// What a task of the trace is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tasks {
    /// A process, or a thread of one where the trace says so; if there are several, each is in a group of its own below
    /// the limited one.
    #[default]
    Processes,
    /// A thread of one process: one address space, one group.
    Threads,
    /// Mappings of its own in one process, which does the accesses of all tasks.
    One,
}

/// How a trace is played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the files are made.
    pub dir: PathBuf,
    /// Limits of the group.
    pub limits: Limits,
    /// A group that is there, in place of one of our own.
    pub cgroup: Option<PathBuf>,
    /// Flush the CPU's translations each so many mapped accesses of a task; 0: never. The kernel sees an accessed
    /// bit only when the CPU walks the page table again.
    pub exact_access: u32,
    /// Points on the way at which counters are read.
    pub points: usize,
    /// The command that starts a worker: its arguments follow.
    pub worker: Vec<String>,
    /// Order across tasks.
    pub order: Order,
    /// What a task is.
    pub tasks: Tasks,
    /// Tasks take the time that the trace has between their accesses.
    pub pace: bool,
    /// `memory.low` of the groups of single processes, bytes; version 2 only.
    pub low: Vec<(u16, u64)>,
    /// What the kernel scans is written down, scan by scan (needs tracefs).
    pub scans: bool,
}

/// Most processes or threads of a run.
pub(crate) const TASKS_MAX: usize = 256;

/// The tasks that occur in a trace, and who does each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cast {
    /// By seat: its task; none: all tasks.
    tasks: Vec<Option<u16>>,
    /// By task of the trace.
    seats: Vec<usize>,
    /// By worker: its process, and its seats. None: all processes.
    workers: Vec<(Option<u16>, Range<usize>)>,
}

impl Cast {
    /// As the plan has it.
    ///
    /// # Errors
    /// More tasks than there may be processes, and options that contradict each other.
    pub fn of(trace: &Trace, plan: &Plan) -> Result<Self, PlayError> {
        let low: Vec<u16> = plan.low.iter().map(|l| l.0).collect();
        Self::with(trace, plan.tasks, plan.order, &low)
    }

    fn with(trace: &Trace, kind: Tasks, order: Order, low: &[u16]) -> Result<Self, PlayError> {
        let mut occurs = vec![false; trace.tasks as usize];
        for record in trace.records() {
            occurs[usize::from(record.task())] = true;
        }
        let numbers = trace.processes();
        let process = |task: &u16| numbers[usize::from(*task)];
        let tasks: Vec<u16> = (0..=u16::MAX).take(occurs.len()).collect();
        let occurring = tasks.into_iter().filter(|&t| occurs[usize::from(t)]);
        let mut occurring: Vec<u16> = occurring.collect();
        let several = occurs.iter().filter(|&&o| o).count();
        let wrong = |text: String| Err(PlayError::Plan(text));
        if kind == Tasks::One && order.is_at_once() && several > 1 {
            return wrong(format!(
                "--order {order}: tasks that run at once are processes or threads; leave out --tasks one"
            ));
        }
        if kind != Tasks::One && several > TASKS_MAX {
            return wrong(format!(
                "the trace has {several} tasks, and at most {TASKS_MAX} can be processes or threads; play it with --tasks one"
            ));
        }
        for &task in low {
            if kind != Tasks::Processes {
                return wrong(format!(
                    "--low {task}=...: only processes have groups of their own; leave out --tasks"
                ));
            }
            if !occurring.iter().any(|t| process(t) == task) {
                return wrong(format!(
                    "--low names task {task}, which is not in the trace"
                ));
            }
        }
        let mut cast = Self {
            tasks: Vec::new(),
            seats: vec![0; occurs.len()],
            workers: Vec::new(),
        };
        if kind == Tasks::One {
            cast.tasks.push(None);
            cast.workers.push((None, 0..1));
            return Ok(cast);
        }
        if kind == Tasks::Processes {
            occurring.sort_by_key(process);
        }
        for task in &occurring {
            cast.seats[usize::from(*task)] = cast.tasks.len();
            cast.tasks.push(Some(*task));
        }
        if kind == Tasks::Threads {
            cast.workers.push((None, 0..cast.tasks.len()));
            return Ok(cast);
        }
        for threads in occurring.chunk_by(|a, b| process(a) == process(b)) {
            let first = cast.workers.last().map_or(0, |(_, seats)| seats.end);
            let seats = first..first + threads.len();
            cast.workers.push((Some(process(&threads[0])), seats));
        }
        Ok(cast)
    }

    /// Tasks by seat; none: all tasks sit there.
    pub fn tasks(&self) -> &[Option<u16>] {
        &self.tasks
    }

    /// Processes by worker, and their seats; none: all processes.
    pub fn workers(&self) -> &[(Option<u16>, Range<usize>)] {
        &self.workers
    }

    /// The worker of a seat.
    pub fn worker(&self, seat: usize) -> usize {
        self.workers.partition_point(|(_, seats)| seats.end <= seat)
    }

    /// Who does it.
    #[inline]
    pub fn seat(&self, record: &Record) -> usize {
        self.seats[usize::from(record.task())]
    }
}

/// Whether the tasks of a trace can be played so, of which those in `low` have protection.
///
/// # Errors
/// As [`crate::Stage::new`] has them for a plan.
pub fn check_tasks(
    trace: &Trace,
    tasks: Tasks,
    order: Order,
    low: &[u16],
) -> Result<(), PlayError> {
    Cast::with(trace, tasks, order, low).map(|_| ())
}

#[cfg(test)]
impl Plan {
    /// Of tests that make no files and no group.
    pub(crate) fn of_tests(tasks: Tasks, order: Order) -> Self {
        Self {
            dir: ".".into(),
            limits: Limits::default(),
            cgroup: None,
            exact_access: 0,
            points: 1,
            worker: Vec::new(),
            order,
            tasks,
            pace: false,
            scans: false,
            low: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_traces::{Event, Op, OpKind, Step, StepKind};

    fn trace(tasks: impl IntoIterator<Item = u16>) -> Trace {
        let op = |task| Op {
            kind: OpKind::Pread,
            object: 0,
            task,
            page: 0,
        };
        Trace::from_ops(tasks.into_iter().map(op).collect())
    }

    fn plan(tasks: Tasks, order: Order, low: &[u16]) -> Plan {
        Plan {
            low: low.iter().map(|&task| (task, 4096)).collect(),
            ..Plan::of_tests(tasks, order)
        }
    }

    #[test]
    fn only_tasks_that_occur_have_a_seat() {
        let trace = trace([7, 2, 7, 65_535]);
        let cast = Cast::of(&trace, &plan(Tasks::Processes, Order::PerTask, &[7])).unwrap();
        assert_eq!(cast.tasks(), [Some(2), Some(7), Some(65_535)]);
        let seats: Vec<usize> = trace.records().map(|r| cast.seat(&r)).collect();
        assert_eq!(seats, [1, 0, 1, 2]);
        let one = Cast::of(&trace, &plan(Tasks::One, Order::Strict, &[])).unwrap();
        assert_eq!(
            (one.tasks(), one.seat(&Record::Access(trace.ops()[3]))),
            (&[None][..], 0)
        );
    }

    /// Threads that the trace tells apart sit in the worker that is their process.
    #[test]
    fn threads_sit_in_their_process() {
        let process = |task, process| Event {
            at: 0,
            step: Step {
                kind: StepKind::Process,
                object: 0,
                task,
                value: process,
            },
        };
        let processes = vec![process(0, 5), process(1, 4), process(2, 5)];
        let trace = trace([0, 1, 2, 3]).with_events(processes);
        let cast = |tasks, order| Cast::of(&trace, &plan(tasks, order, &[])).unwrap();
        let apart = cast(Tasks::Processes, Order::PerTask);
        assert_eq!(apart.tasks(), [Some(3), Some(1), Some(0), Some(2)]);
        let workers = [(Some(3), 0..1), (Some(4), 1..2), (Some(5), 2..4)];
        assert_eq!(apart.workers(), workers);
        let all: Vec<usize> = (0..4).map(|seat| apart.worker(seat)).collect();
        assert_eq!(all, [0, 1, 2, 2]);
        let seats: Vec<usize> = trace
            .ops()
            .iter()
            .map(|&op| apart.seat(&Record::Access(op)))
            .collect();
        assert_eq!(seats, [2, 1, 3, 0]);
        assert_eq!(
            cast(Tasks::Threads, Order::PerTask).workers(),
            [(None, 0..4)]
        );
        assert_eq!(cast(Tasks::One, Order::Strict).workers(), [(None, 0..1)]);
        let low = plan(Tasks::Processes, Order::PerTask, &[4]);
        assert!(Cast::of(&trace, &low).is_ok(), "a process by its number");
    }

    #[test]
    fn contradictions_are_named() {
        let error = |t: &Trace, p: Plan| Cast::of(t, &p).unwrap_err().to_string();
        let (two, many) = (trace([0, 1]), trace(0..257));
        for (text, word) in [
            (
                error(&many, plan(Tasks::Processes, Order::Strict, &[])),
                "257 tasks",
            ),
            (
                error(&many, plan(Tasks::Threads, Order::Strict, &[])),
                "--tasks one",
            ),
            (
                error(&two, plan(Tasks::One, Order::PerTask, &[])),
                "--tasks one",
            ),
            (
                error(&two, plan(Tasks::Threads, Order::Strict, &[1])),
                "--low 1=",
            ),
            (
                error(&two, plan(Tasks::Processes, Order::Strict, &[2])),
                "task 2",
            ),
        ] {
            assert!(text.contains(word), "{text}");
        }
        assert!(Cast::of(&trace(0..256), &plan(Tasks::Threads, Order::PerTask, &[])).is_ok());
        assert!(Cast::of(&many, &plan(Tasks::One, Order::Strict, &[])).is_ok());
    }
}
