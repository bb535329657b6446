//! A whole trace in memory, with what it needs of a machine.

use std::collections::HashMap;
use std::path::Path;

use super::error::TraceError;
use super::format::Format;
use super::op::{Op, MAX_PAGES};
use super::options::TraceOptions;
use super::reader::{open, Reader};
use super::step::{Event, Record, Step, StepKind};

/// A file or an anonymous region of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectInfo {
    /// Size in pages: one more than the highest page referenced. 0 for an object number
    /// that the trace passes over.
    pub pages: u32,
    /// Different pages referenced.
    pub used: u32,
    /// Anonymous region (otherwise a file).
    pub is_anon: bool,
}

/// A trace and its totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The references in order; at least one.
    pub ops: Vec<Op>,
    /// Steps between them, in order.
    pub events: Vec<Event>,
    /// Different pages referenced, of all objects.
    pub unique_pages: u64,
    /// Objects by number.
    pub objects: Vec<ObjectInfo>,
    /// Number of tasks: one more than the highest task number.
    pub tasks: u32,
    /// References that make their page dirty.
    pub writes: u64,
}

/// References between two calls of a progress hook.
const PROGRESS_INTERVAL: usize = 1 << 16;

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

impl Trace {
    /// Reads all of an opened trace. `progress` is called now and then, and at the end,
    /// with the bytes of the file read so far and, if known, the size of the file.
    ///
    /// # Errors
    /// The first error of the reader.
    pub fn read(
        mut reader: Reader,
        mut progress: impl FnMut(u64, Option<u64>),
    ) -> Result<Trace, TraceError> {
        let count = reader.progress();
        let (mut ops, mut totals) = (Vec::new(), Totals::default());
        let mut shown = 0;
        loop {
            let before = ops.len();
            reader.many(&mut ops);
            let next = reader.next().transpose()?;
            ops.extend(next);
            totals.add(&ops[before..]);
            if ops.len() / PROGRESS_INTERVAL > shown || next.is_none() {
                shown = ops.len() / PROGRESS_INTERVAL;
                progress(count.consumed(), count.total());
            }
            if next.is_none() {
                return Ok(totals.of(ops).with_events(reader.steps()?));
            }
        }
    }

    /// It advises how its files are read: it says what programs asked for, and the kernel's read-ahead comes on top.
    pub fn has_advice(&self) -> bool {
        let mut steps = self.events.iter().map(|e| e.step.kind);
        steps.any(|kind| kind == StepKind::Advise)
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

    /// By task: the number of its process, which is the task's own unless a step says otherwise. Threads are told apart
    /// only where they were asked for ([`TraceOptions::threads`]).
    pub fn processes(&self) -> Vec<u16> {
        let mut processes: Vec<u16> = (0..=u16::MAX).take(self.tasks as usize).collect();
        for Event { step, .. } in &self.events {
            if step.kind == StepKind::Process {
                processes[usize::from(step.task)] = step.value as u16;
            }
        }
        processes
    }

    /// The same, done by threads of process 0.
    #[must_use]
    pub fn of_one_process(&self) -> Trace {
        let thread = |task| Event {
            at: 0,
            step: Step {
                kind: StepKind::Process,
                object: 0,
                task,
                value: 0,
            },
        };
        let others = self.events.iter().copied();
        let others = others.filter(|e| e.step.kind != StepKind::Process);
        let tasks = (0..=u16::MAX).take(self.tasks as usize);
        Trace {
            events: tasks.map(thread).chain(others).collect(),
            ..self.clone()
        }
    }

    /// The same, done by task 0.
    #[must_use]
    pub fn of_one_task(&self) -> Trace {
        let mut joined = self.clone();
        joined.tasks = 1;
        joined.ops.iter_mut().for_each(|op| op.task = 0);
        joined.events.iter_mut().for_each(|e| e.step.task = 0);
        joined
    }

    /// With these steps, which are in the order of their places.
    fn with_events(mut self, events: Vec<Event>) -> Trace {
        for Event { step, .. } in &events {
            self.tasks = self.tasks.max(u32::from(step.task) + 1);
            let objects = usize::from(step.object) + 1;
            if step.kind.is_of_file() && self.objects.len() < objects {
                self.objects.resize_with(objects, Default::default);
            }
        }
        Trace { events, ..self }
    }

    /// Totals up references that did not come from a file. Pages must be below
    /// [`MAX_PAGES`].
    pub fn from_ops(ops: Vec<Op>) -> Trace {
        let mut totals = Totals::default();
        totals.add(&ops);
        totals.of(ops)
    }
}

/// What is totalled up of references while they come.
#[derive(Default)]
struct Totals {
    objects: Vec<(ObjectInfo, PageSet)>,
    tasks: u32,
    writes: u64,
}

impl Totals {
    fn add(&mut self, ops: &[Op]) {
        for op in ops {
            let object = usize::from(op.object);
            if self.objects.len() <= object {
                self.objects.resize_with(object + 1, Default::default);
            }
            let (info, seen) = &mut self.objects[object];
            info.pages = info.pages.max(op.page + 1);
            info.is_anon = op.kind.is_anon();
            info.used += u32::from(seen.insert(op.page));
            self.tasks = self.tasks.max(u32::from(op.task) + 1);
            self.writes += u64::from(op.kind.is_write());
        }
    }

    /// The trace of all references that were added.
    fn of(self, ops: Vec<Op>) -> Trace {
        let objects: Vec<ObjectInfo> = self.objects.into_iter().map(|(info, _)| info).collect();
        Trace {
            ops,
            events: Vec::new(),
            unique_pages: objects.iter().map(|o| u64::from(o.used)).sum(),
            objects,
            tasks: self.tasks,
            writes: self.writes,
        }
    }
}

/// Pages of one object; memory follows the pages present, not their highest number.
#[derive(Default)]
struct PageSet {
    /// One bit a page, of the first pages in chunks.
    near: Vec<Option<Box<[u64; PageSet::WORDS]>>>,
    /// Of the others in words, by number.
    far: HashMap<usize, u64>,
}

impl PageSet {
    const WORDS: usize = 64;
    const PAGES: usize = Self::WORDS * 64;
    /// Chunks found by index: 16 GiB of 4 KiB pages.
    const NEAR: usize = 1024;

    /// Adds a page; true if it is new.
    fn insert(&mut self, page: u32) -> bool {
        debug_assert!(u64::from(page) < MAX_PAGES);
        let page = page as usize;
        let chunk = page / Self::PAGES;
        let word = if chunk < Self::NEAR {
            if self.near.len() <= chunk {
                self.near.resize_with(chunk + 1, || None);
            }
            let words = self.near[chunk].get_or_insert_with(|| Box::new([0; Self::WORDS]));
            &mut words[page / 64 % Self::WORDS]
        } else {
            self.far.entry(page / 64).or_default()
        };
        let bit = 1 << (page % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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

    proptest! {
        #[test]
        fn page_set_is_a_set(pages in prop::collection::vec(prop_oneof![0u32..200, any::<u32>().prop_map(|p| p >> 1)], 0..200)) {
            let mut set = PageSet::default();
            let mut model = BTreeSet::new();
            for page in pages {
                prop_assert_eq!(set.insert(page), model.insert(page));
            }
        }
    }
}
