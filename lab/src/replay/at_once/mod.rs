//! Plays a trace by tasks that are under way at once, as tasks of the simulated machine: they compete for its CPUs,
//! wait for its devices and reclaim beside each other.

mod lead;
#[cfg(test)]
mod tests;

use super::folds::Folds;
use super::player::{SeriesPoint, WRITE_CALL_PAGES};
use super::stage::{Memcgs, Places};
use super::steps::{advice_of, run_of};
use super::{Clock, ReplayOptions};
use crate::traces::{self, Op, OpKind, Record, Step, StepKind, Trace};
use coldset_engine::{MemcgId, MmId};
use coldset_machine::samples::Row;
use coldset_machine::sim::{Affinity, TimeClass};
use coldset_machine::{Ctx, Machine, MachineRun, MappingId, OpError, OpenFile, SwapConfig};
use lead::Lead;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Why a replay ended before the trace, and how many accesses had been done.
type Failed = (usize, OpError);

/// What all tasks share.
struct Stage {
    machine: Machine,
    places: RefCell<Places>,
    pace: bool,
    clock: Option<Clock>,
    joins_writes: bool,
    lead: Lead,
    folds: RefCell<Folds>,
    /// Accesses from sample to sample; 0: there are none.
    sample_every: u64,
    samples: RefCell<Vec<(u64, Row)>>,
    phases: RefCell<Vec<(u32, SeriesPoint)>>,
    limited: MemcgId,
    swap: SwapConfig,
    /// Tasks that have not ended.
    left: Cell<usize>,
    failed: Cell<Option<Failed>>,
}

/// A process: what its threads have in common.
struct Process {
    mm: MmId,
    /// By object.
    views: RefCell<BTreeMap<u8, View>>,
    /// Threads that have not ended.
    threads: Cell<usize>,
    /// Its mappings go with the last of them.
    exits: Cell<bool>,
}

/// An object as a process sees it.
struct View {
    file: Rc<OpenFile>,
    mapping: Option<MappingId>,
}

/// A task.
struct Task {
    number: usize,
    process: Rc<Process>,
    /// The access before which it begins.
    begins: u64,
    /// What it does. Of an access the number that it has in the trace, of a step that of the next access.
    work: Vec<(u64, Record)>,
}

/// A replay that has come to its end.
pub(super) struct Played {
    pub run: MachineRun,
    pub samples: Vec<(u64, Row)>,
    pub phases: Vec<(u32, SeriesPoint)>,
    /// A task was killed, which ends the replay, or failed.
    pub failed: Option<Failed>,
}

/// Plays the whole trace.
pub(super) fn play(
    mut run: MachineRun,
    memcgs: &Memcgs,
    trace: &Trace,
    options: &ReplayOptions,
) -> Played {
    let machine = run.machine.clone();
    let pace = options.settings.pace;
    let tasks = tasks(&machine, memcgs, trace, pace);
    let mut first = vec![u64::MAX; trace.tasks as usize];
    for task in &tasks {
        first[task.number] = beginning(&task.work, false).expect(BUSY);
    }
    let stage = Rc::new(Stage {
        places: RefCell::new(Places::create(&machine, trace, &options.settings)),
        pace,
        clock: options.settings.clock.clone(),
        joins_writes: options.settings.joins_writes_of(trace),
        lead: Lead::new(options.settings.order.lead(), first, &machine.sim),
        folds: RefCell::new(Folds::new(options)),
        sample_every: match options.sample_points {
            0 => 0,
            points => trace.accesses.div_ceil(points as u64),
        },
        samples: RefCell::default(),
        phases: RefCell::default(),
        limited: memcgs.limited,
        swap: options.swap.clone(),
        left: Cell::new(tasks.len()),
        failed: Cell::new(None),
        machine: machine.clone(),
    });
    for task in tasks {
        let (stage, mm) = (stage.clone(), task.process.mm);
        machine.spawn("task", Affinity::Any, mm, move |_, ctx| {
            task.life(stage, ctx)
        });
    }
    run.executor.run();
    let failed = stage.failed.take();
    assert!(
        failed.is_some() || stage.left.get() == 0,
        "tasks wait for each other"
    );
    Played {
        samples: stage.samples.take(),
        phases: stage.phases.take(),
        failed,
        run,
    }
}

/// Why a task has a beginning.
const BUSY: &str = "it does something";

/// The access before which a task with this work begins, if it does anything.
fn beginning(work: &[(u64, Record)], pace: bool) -> Option<u64> {
    let first = work.iter().find(|(_, record)| traces::begins(record, pace));
    first.map(|&(access, _)| access)
}

/// Those that do anything.
fn tasks(machine: &Machine, memcgs: &Memcgs, trace: &Trace, pace: bool) -> Vec<Task> {
    let mut work = vec![Vec::new(); trace.tasks as usize];
    let mut access = 0;
    for record in trace.records() {
        work[usize::from(record.task())].push((access, record));
        access += u64::from(matches!(record, Record::Access(_)));
    }
    let mut processes = BTreeMap::new();
    let numbers = trace.processes();
    let busy = work
        .into_iter()
        .enumerate()
        .filter(|(_, work)| beginning(work, false).is_some());
    busy.map(|(number, work)| {
        let process = processes.entry(numbers[number]).or_insert_with(|| {
            let memcg = memcgs.by_task()[number].expect("a task that occurs");
            Rc::new(Process {
                mm: machine.create_mm(memcg),
                views: RefCell::default(),
                threads: Cell::new(0),
                exits: Cell::new(false),
            })
        });
        process.threads.set(process.threads.get() + 1);
        let process = process.clone();
        Task {
            number,
            process,
            begins: beginning(&work, pace).expect(BUSY),
            work,
        }
    })
    .collect()
}

impl Process {
    fn file(&self, stage: &Stage, object: u8) -> Rc<OpenFile> {
        let mut views = self.views.borrow_mut();
        views
            .entry(object)
            .or_insert_with(|| View::new(stage, object))
            .file
            .clone()
    }

    fn mapping(&self, stage: &Stage, object: u8) -> MappingId {
        let mut views = self.views.borrow_mut();
        let view = views
            .entry(object)
            .or_insert_with(|| View::new(stage, object));
        let map = || {
            let mut places = stage.places.borrow_mut();
            places.map(&stage.machine, self.mm, object, &view.file)
        };
        *view.mapping.get_or_insert_with(map)
    }

    /// The mapping, if there is one.
    fn mapped(&self, object: u8) -> Option<MappingId> {
        self.views.borrow().get(&object)?.mapping
    }

    /// The mapping, which it has no longer.
    fn take_mapping(&self, object: u8) -> Option<MappingId> {
        self.views.borrow_mut().get_mut(&object)?.mapping.take()
    }
}

impl View {
    fn new(stage: &Stage, object: u8) -> Self {
        let id = stage.places.borrow().ids[usize::from(object)];
        Self {
            file: Rc::new(OpenFile::new(id)),
            mapping: None,
        }
    }
}

impl Task {
    async fn life(self, stage: Rc<Stage>, ctx: Ctx) {
        if let Err(error) = self.play(&stage, &ctx).await {
            let done = stage.lead.done() as usize;
            // The first is why the others have ended.
            let failed = stage.failed.take().unwrap_or((done, error));
            stage.failed.set(Some(failed));
            return stage.machine.sim.stop();
        }
        stage.lead.leave(self.number);
        let threads = self.process.threads.get() - 1;
        self.process.threads.set(threads);
        if threads == 0 && self.process.exits.get() {
            stage.machine.exit_mm(&ctx, self.process.mm);
        }
        stage.left.set(stage.left.get() - 1);
        if stage.left.get() == 0 {
            stage.machine.sim.stop();
        }
    }

    async fn play(&self, stage: &Stage, ctx: &Ctx) -> Result<(), OpError> {
        stage.lead.begin(self.begins).await;
        let (mut at, mut announced) = (0, 1);
        while let Some(&(number, record)) = self.work.get(at) {
            match record {
                Record::Step(step) => {
                    at += 1;
                    if traces::begins(&record, false) {
                        stage.lead.reach(self.number, number).await;
                    }
                    match step.kind {
                        StepKind::Call => announced = step.value as usize,
                        _ => self.step(stage, ctx, step).await?,
                    }
                }
                Record::Access(op) => {
                    stage.lead.reach(self.number, number).await;
                    let pages = self.call_at(at, stage, std::mem::replace(&mut announced, 1));
                    if pages == 1 && stage.misses(op) {
                        stage.folds.borrow_mut().missed(&stage.machine);
                        stage.wait_for_clock(ctx, number).await;
                    }
                    self.access(stage, ctx, op, pages).await?;
                    at += pages;
                    stage.count(pages as u64);
                    if stage.has_killed() {
                        return Err(OpError::NoMemory);
                    }
                    ctx.maybe_settle().await;
                }
            }
        }
        Ok(())
    }

    /// How many of the accesses from there on are one call.
    fn call_at(&self, at: usize, stage: &Stage, announced: usize) -> usize {
        let most = match self.work[at].1 {
            Record::Access(op) if op.kind == OpKind::WholeWrite && stage.joins_writes => {
                announced.max(WRITE_CALL_PAGES)
            }
            Record::Access(op) if op.kind.is_call() => announced,
            _ => 1,
        };
        let accesses = self.work[at..]
            .iter()
            .map_while(|(_, record)| match record {
                Record::Access(op) => Some(*op),
                Record::Step(_) => None,
            });
        run_of(accesses, most).max(1)
    }

    async fn access(&self, stage: &Stage, ctx: &Ctx, op: Op, pages: usize) -> Result<(), OpError> {
        let (machine, process) = (&stage.machine, &self.process);
        let pages = pages as u32;
        match op.kind {
            OpKind::Pread => {
                let file = process.file(stage, op.object);
                machine.read(ctx, &file, op.page, pages).await
            }
            OpKind::Pwrite | OpKind::WholeWrite => {
                let object = process.file(stage, op.object).object;
                let whole = op.kind == OpKind::WholeWrite;
                machine.write(ctx, object, op.page, pages, whole).await
            }
            OpKind::MappedRead | OpKind::MappedWrite | OpKind::AnonRead | OpKind::AnonWrite => {
                loop {
                    let mapping = process.mapping(stage, op.object);
                    let write = op.kind.is_write();
                    match machine.access(ctx, mapping, op.page, write).await {
                        // Another thread has unmapped it meanwhile: in another order it would have come later.
                        Err(OpError::Unmapped) if !ctx.killed() => {}
                        done => return done,
                    }
                }
            }
        }
    }

    async fn step(&self, stage: &Stage, ctx: &Ctx, step: Step) -> Result<(), OpError> {
        let (machine, process) = (&stage.machine, &self.process);
        let object = || stage.places.borrow().ids[usize::from(step.object)];
        match step.kind {
            StepKind::Fsync => machine.fsync(ctx, object()).await?,
            StepKind::Truncate => machine.truncate(ctx, object(), step.value).await,
            StepKind::Unlink => machine.truncate(ctx, object(), 0).await,
            StepKind::Advise => {
                if let Some(advice) = traces::Advice::from_u32(step.value) {
                    let file = process.file(stage, step.object);
                    file.advise(advice_of(advice));
                    if let Some(mapping) = process.mapped(step.object) {
                        machine.world_mut().follow_advice(mapping, &file);
                    }
                }
            }
            StepKind::Unmap => {
                if let Some(mapping) = process.take_mapping(step.object) {
                    machine.unmap(ctx, mapping).await;
                }
            }
            StepKind::Exit => process.exits.set(true),
            StepKind::Think if stage.pace => {
                let until = ctx.now() + u64::from(step.value);
                ctx.sleep_until(TimeClass::Idle, until).await;
            }
            StepKind::Phase => {
                let (w, done) = (machine.world(), stage.lead.done());
                let point = SeriesPoint::of(&w, stage.limited, &stage.swap, done);
                stage.phases.borrow_mut().push((step.value, point));
            }
            StepKind::Think | StepKind::Process | StepKind::Call | StepKind::Version => {}
        }
        Ok(())
    }
}

impl Stage {
    /// A process was killed for lack of memory.
    fn has_killed(&self) -> bool {
        !self.machine.world().ooms().is_empty()
    }

    /// It needs more than a look-up, as where accesses are done one by one.
    fn misses(&self, op: Op) -> bool {
        let id = self.places.borrow().ids[usize::from(op.object)];
        let is_write = matches!(op.kind, OpKind::Pwrite | OpKind::WholeWrite);
        is_write
            || self
                .machine
                .world()
                .object(id)
                .word(op.page)
                .folio()
                .is_none()
    }

    /// What misses begins no earlier than it did.
    async fn wait_for_clock(&self, ctx: &Ctx, access: u64) {
        if let Some(clock) = &self.clock {
            let until = clock.at(access);
            if until > ctx.now() {
                ctx.sleep_until(TimeClass::Idle, until).await;
            }
        }
    }

    /// So many more accesses have been done.
    fn count(&self, accesses: u64) {
        let now = self.lead.did(accesses);
        let before = now - accesses;
        if self.sample_every > 0 && before / self.sample_every != now / self.sample_every {
            let row = self.machine.world().sample();
            self.samples.borrow_mut().push((now, row));
        }
    }
}
