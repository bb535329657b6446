//! A whole trace in memory.

use std::ops::Deref;
use std::path::Path;

use super::about::{About, Totals};
use super::error::TraceError;
use super::format::Format;
use super::op::Op;
use super::options::TraceOptions;
use super::reader::{open, Reader};
use super::step::{Event, Record, Step, StepKind};

/// A trace that is held in memory: its references, and what is known of it as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// As many as `about` says.
    ops: Vec<Op>,
    about: About,
}

impl Deref for Trace {
    type Target = About;

    fn deref(&self) -> &About {
        &self.about
    }
}

/// References between two calls of a progress hook.
const PROGRESS_INTERVAL: u64 = 1 << 16;

/// Reads a whole trace.
///
/// # Errors
/// Everything that is wrong with the file or the options: see [`TraceError`].
pub fn load(
    path: impl AsRef<Path>,
    format: Option<Format>,
    options: &TraceOptions,
) -> Result<Trace, TraceError> {
    Trace::read(open(path, format, options)?, |_, _| {})
}

/// Reads an opened trace to its end, and keeps at most `hold` references: none, if there are more. `progress` is called
/// now and then, and at the end, with the bytes of the file read so far and, if known, the size of the file.
pub(super) fn read_within(
    mut reader: Reader,
    hold: usize,
    mut progress: impl FnMut(u64, Option<u64>),
) -> Result<(About, Option<Vec<Op>>), TraceError> {
    let count = reader.progress();
    let (mut ops, mut totals, mut held) = (Vec::new(), Totals::default(), true);
    let mut shown = 0;
    loop {
        let before = ops.len();
        reader.many(&mut ops);
        let next = reader.next().transpose()?;
        ops.extend(next);
        totals.add(&ops[before..]);
        held &= ops.len() <= hold;
        if !held {
            ops = Vec::new();
        }
        if totals.accesses() / PROGRESS_INTERVAL > shown || next.is_none() {
            shown = totals.accesses() / PROGRESS_INTERVAL;
            progress(count.consumed(), count.total());
        }
        if next.is_none() {
            let about = totals.about().with_events(reader.steps()?);
            return Ok((about, held.then_some(ops)));
        }
    }
}

impl Trace {
    /// Reads all of an opened trace. `progress` is called now and then, and at the end,
    /// with the bytes of the file read so far and, if known, the size of the file.
    ///
    /// # Errors
    /// The first error of the reader.
    pub fn read(
        reader: Reader,
        progress: impl FnMut(u64, Option<u64>),
    ) -> Result<Trace, TraceError> {
        let (about, ops) = read_within(reader, usize::MAX, progress)?;
        let ops = ops.unwrap_or_default();
        Ok(Trace { ops, about })
    }

    /// Of these references, about which this is known.
    pub(super) fn of(ops: Vec<Op>, about: About) -> Trace {
        Trace { ops, about }
    }

    /// The references in order; at least one in a trace that was read.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The references alone.
    pub fn into_ops(self) -> Vec<Op> {
        self.ops
    }

    /// Its first references, as a program does them that has come so far. What it is going to need is still that of
    /// the whole trace: objects and their sizes, tasks, and the steps at their places.
    #[must_use]
    pub fn up_to(mut self, accesses: usize) -> Trace {
        self.ops.truncate(accesses);
        self.about.accesses = self.ops.len() as u64;
        self
    }

    /// What it has, in order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let mut ops = self.ops.iter().copied().enumerate().peekable();
        let mut events = self.events.iter().peekable();
        std::iter::from_fn(move || {
            let at = ops.peek().map_or(u64::MAX, |&(at, _)| at as u64);
            let event = events.next_if(|e| e.at <= at);
            event
                .map(|e| Record::Step(e.step))
                .or_else(|| ops.next().map(|(_, op)| Record::Access(op)))
        })
    }

    /// As a `pageops` file: of version 1, or 2 if it has steps.
    pub fn file_records(&self) -> impl Iterator<Item = Record> + '_ {
        let version = (!self.events.is_empty()).then(|| Record::Step(Step::version()));
        version.into_iter().chain(self.records())
    }

    /// The same, done by threads of process 0.
    #[must_use]
    pub fn of_one_process(&self) -> Trace {
        let (mut begin, mut at) = (vec![None; self.tasks as usize], 0);
        for record in self.records() {
            begin[usize::from(record.task())].get_or_insert(at);
            at += u64::from(matches!(record, Record::Access(_)));
        }
        let thread = |(task, begin): (u16, Option<u64>)| Event {
            at: begin.unwrap_or(0),
            step: Step {
                kind: StepKind::Process,
                object: 0,
                task,
                value: 0,
            },
        };
        let threads = (0..=u16::MAX).zip(begin).map(thread);
        let others = self.events.iter().copied();
        let others = others.filter(|e| e.step.kind != StepKind::Process);
        let mut events: Vec<Event> = threads.chain(others).collect();
        events.sort_by_key(|event| event.at);
        self.clone().with_events(events)
    }

    /// The same, done by task 0.
    #[must_use]
    pub fn of_one_task(&self) -> Trace {
        let mut joined = self.clone();
        joined.ops.iter_mut().for_each(|op| op.task = 0);
        joined.about.by_one_task();
        joined
    }

    /// With these steps, which are in the order of their places.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> Trace {
        Trace {
            about: self.about.with_events(events),
            ..self
        }
    }

    /// Totals up references that did not come from a file. Pages must be below
    /// [`crate::MAX_PAGES`].
    pub fn from_ops(ops: Vec<Op>) -> Trace {
        let mut totals = Totals::default();
        totals.add(&ops);
        Trace::of(ops, totals.about())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::about::ObjectInfo;
    use crate::op::OpKind;

    #[test]
    fn a_trace_up_to_a_place_ends_there_wherever_it_is_asked() {
        use crate::Playable;
        let op = |page| Op {
            kind: OpKind::Pread,
            object: 0,
            task: 0,
            page,
        };
        for (wanted, left) in [(0, 0), (7, 7), (10, 10), (11, 10)] {
            let part = Trace::from_ops((0..10).map(op).collect()).up_to(wanted);
            let ends = (part.ops().len(), part.window().unwrap().end());
            assert_eq!(ends, (left, left));
            assert_eq!((part.accesses, part.records().count()), (left as u64, left));
            assert_eq!(part.objects[0].pages, 10, "what the whole needs");
        }
    }

    #[test]
    fn totals_cover_objects_tasks_and_writes() {
        let op = |kind, object, task, page| Op {
            kind,
            object,
            task,
            page,
        };
        let trace = Trace::from_ops(vec![
            op(OpKind::Pread, 0, 0, 9),
            op(OpKind::Pwrite, 0, 65535, 9),
            op(OpKind::AnonRead, 2, 1, 0),
            op(OpKind::AnonWrite, 2, 1, 4),
        ]);
        assert_eq!(trace.unique_pages, 3);
        assert_eq!(trace.tasks, 65536);
        assert_eq!(trace.writes, 2);
        let info = |pages, used, is_anon| ObjectInfo {
            pages,
            used,
            is_anon,
        };
        assert_eq!(
            trace.objects,
            [info(10, 1, false), info(0, 0, false), info(5, 2, true)]
        );
    }
}
