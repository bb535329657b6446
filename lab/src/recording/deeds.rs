//! The deeds of one machine's tasks, as they become records of a trace.

use super::numbers::Numbers;
use super::{ExportError, Part};
use crate::traces::{Advice, Op, OpKind, PageOpsWriter, Step, StepKind, TraceError};
use coldset_engine::{MmId, ObjectId};
use coldset_machine::record::{Deed, Record};
use coldset_machine::sim::TaskId;
use coldset_machine::Machine;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has been exported.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Accesses to pages.
    pub accesses: u64,
    /// Steps between them.
    pub steps: u64,
    /// Tasks.
    pub tasks: u32,
    /// Address spaces.
    pub processes: u32,
    /// Files and anonymous regions.
    pub objects: u32,
    /// Some accesses are to files.
    pub files: bool,
    /// Some accesses read by descriptor, or somebody has advised how files are read: a replay has read-ahead then.
    pub reads: bool,
    /// Limits of its memcgs, pages.
    pub limits: Vec<u64>,
    /// What they allow in all, pages: their sum, but for those below another.
    pub limit_in_all: u64,
    /// It was stopped before the end of the run.
    pub stopped: bool,
}

/// What one machine of a run does, on its way to a file. A run has a handle on it.
pub struct Recording {
    part: Part,
    state: Mutex<State>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({:?})", self.part)
    }
}

/// Time that is worth a record, ns: what a task computes between two accesses adds up to it.
const WORTH: u64 = 10_000;

struct State {
    out: Option<PageOpsWriter>,
    summary: Summary,
    tasks: Numbers<TaskId>,
    processes: Numbers<MmId>,
    objects: Numbers<ObjectId>,
    /// By task: its time that has been written.
    told: HashMap<TaskId, u64>,
    /// By file: the advice of those who read it.
    advice: HashMap<u8, Advice>,
    failure: Option<ExportError>,
}

impl Recording {
    pub(crate) fn new(part: Part, out: PageOpsWriter) -> Self {
        Self {
            part,
            state: Mutex::new(State {
                out: Some(out),
                summary: Summary::default(),
                tasks: Numbers::below(1 << 16),
                processes: Numbers::below(1 << 16),
                objects: Numbers::below(1 << 8),
                told: HashMap::new(),
                advice: HashMap::new(),
                failure: None,
            }),
        }
    }

    pub(crate) fn machine(&self) -> &str {
        &self.part.machine
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No holder fails half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records `machine` if its name is that of the part. Another one is stopped as soon as something happens.
    pub(crate) fn begin(self: &Arc<Self>, name: &str, machine: &Machine) {
        let (me, sim) = (self.clone(), machine.sim.clone());
        if name != self.part.machine {
            machine.record(Box::new(move |_| sim.stop()));
            return;
        }
        let most = self.part.most.unwrap_or(u64::MAX);
        machine.record(Box::new(move |record| {
            let mut state = me.state();
            if state.failure.is_some() || state.summary.stopped {
                return;
            }
            if let Err(error) = state.take(record) {
                state.failure = Some(error);
            }
            state.summary.stopped = state.summary.accesses >= most;
            if state.failure.is_some() || state.summary.stopped {
                sim.stop();
            }
        }));
    }

    /// A memcg of a machine has this limit, pages; `below`: one above it has one, too.
    pub(crate) fn limit(&self, name: &str, pages: u64, below: bool) {
        if name == self.part.machine {
            let summary = &mut self.state().summary;
            summary.limits.push(pages);
            summary.limit_in_all += if below { 0 } else { pages };
        }
    }

    /// Completes the file.
    pub(crate) fn finish(&self) -> Result<Summary, ExportError> {
        let mut state = self.state();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        let out = state.out.take();
        out.map(PageOpsWriter::finish).transpose()?;
        state.summary.tasks = state.tasks.count();
        state.summary.processes = state.processes.count();
        state.summary.objects = state.objects.count();
        Ok(state.summary.clone())
    }
}

/// A trace has no numbers left for what it must name.
fn too_many(what: &'static str, most: u32) -> ExportError {
    ExportError::TooMany { what, most }
}

impl State {
    fn write(&mut self, write: impl FnOnce(&mut PageOpsWriter) -> Result<(), TraceError>) -> Done {
        self.out.as_mut().map_or(Ok(()), write)?;
        Ok(())
    }

    fn step(&mut self, kind: StepKind, object: u8, task: u16, value: u32) -> Done {
        let step = Step {
            kind,
            object,
            task,
            value,
        };
        self.summary.steps += 1;
        self.write(|out| out.push_step(step))
    }

    fn task(&mut self, record: &Record) -> Result<u16, ExportError> {
        let many = || too_many("tasks", 1 << 16);
        let first = self.tasks.count() == 0;
        let (task, new) = self.tasks.of(record.task).ok_or_else(many)?;
        let task = task as u16;
        if first {
            self.write(|out| out.push_step(Step::version()))?;
        }
        if new {
            let of = self.processes.of(record.mm);
            let (process, _) = of.ok_or_else(|| too_many("processes", 1 << 16))?;
            self.step(StepKind::Process, 0, task, process)?;
        }
        Ok(task)
    }

    fn object(&mut self, id: ObjectId) -> Result<u8, ExportError> {
        let of = self.objects.of(id);
        let (object, _) = of.ok_or_else(|| too_many("files and regions", 1 << 8))?;
        Ok(object as u8)
    }

    /// The time that a task has had for itself since it was last told, if it is worth it.
    fn think(&mut self, task: u16, record: &Record) -> Done {
        let told = self.told.entry(record.task).or_default();
        let mut ns = record.own_ns.saturating_sub(*told);
        if ns < WORTH {
            return Ok(());
        }
        *told = record.own_ns;
        while ns > 0 {
            let part = ns.min(u32::MAX.into());
            self.step(StepKind::Think, 0, task, part as u32)?;
            ns -= part;
        }
        Ok(())
    }

    fn accesses(&mut self, kind: OpKind, object: u8, task: u16, pages: (u32, u32)) -> Done {
        let (first, count) = pages;
        self.summary.accesses += u64::from(count);
        self.summary.files |= !matches!(kind, OpKind::AnonRead | OpKind::AnonWrite);
        self.summary.reads |= kind == OpKind::Pread;
        for page in first..first + count {
            let op = Op {
                kind,
                object,
                task,
                page,
            };
            self.write(|out| out.push(op))?;
        }
        Ok(())
    }

    /// Accesses of one call.
    fn call(&mut self, kind: OpKind, object: u8, task: u16, pages: (u32, u32)) -> Done {
        if pages.1 > 1 {
            self.step(StepKind::Call, object, task, pages.1)?;
        }
        self.accesses(kind, object, task, pages)
    }

    fn take(&mut self, record: Record) -> Done {
        let task = self.task(&record)?;
        self.think(task, &record)?;
        match record.deed {
            Deed::Touch {
                object,
                anon,
                page,
                pages,
                write,
            } => {
                let kind = match (anon, write) {
                    (true, true) => OpKind::AnonWrite,
                    (true, false) => OpKind::AnonRead,
                    (false, true) => OpKind::MappedWrite,
                    (false, false) => OpKind::MappedRead,
                };
                let object = self.object(object)?;
                self.accesses(kind, object, task, (page, pages))
            }
            Deed::Read {
                object,
                advice,
                page,
                pages,
            } => {
                let object = self.object(object)?;
                let advice = advice_of(advice);
                if self.advice.insert(object, advice) != Some(advice) {
                    self.summary.reads = true;
                    self.step(StepKind::Advise, object, task, advice as u32)?;
                }
                self.call(OpKind::Pread, object, task, (page, pages))
            }
            Deed::Write {
                object,
                page,
                pages,
                whole,
            } => {
                let kind = match whole {
                    true => OpKind::WholeWrite,
                    false => OpKind::Pwrite,
                };
                let object = self.object(object)?;
                self.call(kind, object, task, (page, pages))
            }
            Deed::Fsync(object) => {
                let object = self.object(object)?;
                self.step(StepKind::Fsync, object, task, 0)
            }
            Deed::Truncate(object, page) => {
                let object = self.object(object)?;
                self.step(StepKind::Truncate, object, task, page)
            }
            Deed::Unmap(object) => {
                let object = self.object(object)?;
                self.step(StepKind::Unmap, object, task, 0)
            }
            // That it has a number and a process is all there is to say.
            Deed::Begin => Ok(()),
            Deed::Phase(number) => self.step(StepKind::Phase, 0, task, number),
            Deed::Exit => {
                self.processes.forget(&record.mm);
                self.step(StepKind::Exit, 0, task, 0)
            }
        }
    }
}

type Done = Result<(), ExportError>;

fn advice_of(advice: coldset_machine::Advice) -> Advice {
    match advice {
        coldset_machine::Advice::Normal => Advice::Normal,
        coldset_machine::Advice::Random => Advice::Random,
        coldset_machine::Advice::Sequential => Advice::Sequential,
    }
}
