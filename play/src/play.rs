//! One run of a trace.

use crate::asleep::Asleep;
use crate::balloon::Balloon;
use crate::cgroup::{Limits, Tree};
use crate::conduct::{conduct, Stop};
use crate::crew::Crew;
use crate::cut;
use crate::disturbed::Disturbance;
use crate::files::Files;
use crate::folds::Folds;
use crate::lists::{self, Lists};
use crate::machine::{Description, NoReadAhead};
use crate::plan::{Cast, Plan};
use crate::scans::Scans;
use crate::snapshot::Snapshot;
use crate::worker::{Answer, Line, Orders, Seats};
use crate::zones::{self, Zone};
use crate::PlayError;
use coldset_traces::{Record, StepKind, Trace};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counters on the way.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Accesses done.
    pub access: u64,
    /// The part of the work that begins here; none: the point is one of those at equal distances.
    pub phase: Option<u32>,
    /// Since the start.
    pub time: Duration,
    /// Of that, how long all tasks were asleep; none: several work at once, or the kernel does not tell.
    pub asleep: Option<Duration>,
    /// As [`Played::counters`], without those of single tasks.
    pub counters: BTreeMap<String, u64>,
    /// Generations; none: the kernel shows none.
    pub lists: Option<Vec<Lists>>,
    /// Zones of the machine.
    pub zones: Vec<Zone>,
    /// What the kernel has scanned for the workers since the point before, if the plan wants to know.
    pub scans: Vec<String>,
}

/// What a worker has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskPlayed {
    /// Its task; none: all tasks.
    pub task: Option<u16>,
    /// Accesses that it has done.
    pub accesses: u64,
    /// Time that they took.
    pub busy: Duration,
}

/// The kernel killed a worker for lack of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Killed {
    /// Its task; none: the worker does all of them.
    pub task: Option<u16>,
    /// All tasks that were killed, where they have groups of their own: until the memory of the first is
    /// free, the kernel may kill another one that asks for some.
    pub tasks: Vec<u16>,
    /// Accesses that all tasks had done until then, without those that they were at.
    pub after: u64,
}

/// What a run came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// What it ran on.
    pub machine: Description,
    /// By the lab's names. Those of tasks that have groups of their own are called `task0.pgfault`.
    pub counters: BTreeMap<String, u64>,
    /// Names among them that are of the whole machine.
    pub machine_wide: Vec<String>,
    /// On the way, the end included.
    pub points: Vec<Point>,
    /// Latencies by kind of access, of all tasks.
    pub latencies: Answer,
    /// By worker.
    pub tasks: Vec<TaskPlayed>,
    /// Time of all accesses.
    pub time: Duration,
    /// Limit of the group, bytes, as the kernel had it.
    pub limit: Option<u64>,
    /// Bytes that the workers had in the group before the first access.
    pub own_bytes: u64,
    /// Zones of the machine before the first access.
    pub zones: Vec<Zone>,
    /// How long after its beginning the kernel folded all statistics first by itself, if it told.
    pub first_fold: Option<Duration>,
    /// It was cut short.
    pub killed: Option<Killed>,
    /// What other programs did to it.
    pub disturbed: Vec<Disturbance>,
}

/// A trace that is ready to be played. Its files go with it.
#[derive(Debug)]
pub struct Stage<'a> {
    trace: &'a Trace,
    plan: &'a Plan,
    cast: Cast,
    machine: Description,
    files: Files,
}

/// Points of a run that is on its way.
struct Watch<'a, P> {
    tree: &'a Tree,
    dir: &'a Path,
    pids: Vec<u32>,
    before: Snapshot,
    started: Instant,
    asleep: Option<Asleep>,
    /// Accesses of the trace, and points.
    course: (u64, u64),
    done: u64,
    now: Snapshot,
    points: Vec<Point>,
    scans: Option<Scans>,
    /// Why scans cannot be read.
    failed: Option<PlayError>,
    progress: P,
}

impl<P: FnMut()> Watch<'_, P> {
    /// So many accesses have been done, and a part of the work may begin.
    fn reached(&mut self, accesses: u64, phase: Option<u32>) {
        // Another feeder may have been later to count, and sooner here.
        self.done = self.done.max(accesses);
        if phase.is_some() {
            return self.point(self.done, phase);
        }
        let (all, points) = self.course;
        let regular = self.points.iter().filter(|p| p.phase.is_none());
        let next = all * (regular.count() as u64 + 1) / points;
        if self.done >= next.max(1) {
            self.point(self.done, None);
            (self.progress)();
        }
    }

    fn point(&mut self, access: u64, phase: Option<u32>) {
        let time = self.started.elapsed();
        let asleep = self.asleep.as_mut().and_then(Asleep::so_far);
        let scans = self.scans.as_mut().map_or(Ok(Vec::new()), Scans::read);
        let scans = scans.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            Vec::new()
        });
        self.now = Snapshot::read(self.tree, &self.pids, self.dir);
        self.points.push(Point {
            access,
            phase,
            time,
            asleep,
            counters: self.now.since(&self.before).0,
            lists: lists::read(self.tree.whole()),
            zones: zones::read(),
            scans,
        });
    }
}

impl<'a> Stage<'a> {
    /// Makes the files.
    ///
    /// # Errors
    /// A plan that does not fit the trace; a cgroup or files that cannot be made.
    pub fn new(trace: &'a Trace, plan: &'a Plan) -> Result<Self, PlayError> {
        let machine = Description::here(&plan.dir);
        let in_memory = ["tmpfs", "ramfs"].contains(&machine.file_system.as_str());
        if in_memory && trace.objects.iter().any(|o| !o.is_anon) {
            return Err(PlayError::Plan(format!(
                "{}: files on {} are memory themselves; choose a folder on a disk with --dir",
                plan.dir.display(),
                machine.file_system
            )));
        }
        let cast = Cast::of(trace, plan)?;
        // That it can be made is known before anything is written to the disk.
        drop(Tree::make(plan, plan.limits, &cast)?);
        Ok(Self {
            trace,
            plan,
            cast,
            machine,
            files: Files::make(&plan.dir, trace)?,
        })
    }

    /// Plays it under these limits: the plan's, or others. `progress` is called at each point; `go_on` says whether to.
    ///
    /// # Errors
    /// A cgroup or a worker that cannot be made; an access that fails; a page whose contents are not what was
    /// stored.
    pub fn play(
        &self,
        limits: Limits,
        progress: impl FnMut() + Send,
        go_on: impl FnMut() -> bool,
    ) -> Result<Played, PlayError> {
        let tree = Tree::make(self.plan, limits, &self.cast)?;
        if self.cuts_files() {
            self.files.fill(self.trace)?;
        }
        self.files.forget()?;
        // A trace with advice says what programs asked for, and the kernel reads ahead on top, for faults too.
        let quiet = match self.trace.has_advice() {
            true => None,
            false => NoReadAhead::begin(&self.plan.dir),
        };
        let mut machine = Description {
            quiet_faults: quiet.is_some(),
            ..self.machine.clone()
        };
        machine.in_group(tree.whole());
        let mut crew = Crew::start(self.plan, &self.orders(), &self.cast)?;
        drop(quiet);
        crew.enter(&tree)?;
        let pids = crew.pids();
        let scans = self.plan.scans.then(|| Scans::begin(&pids)).transpose()?;
        let balloon = limits.free.map(Balloon::leaving).transpose()?;
        let zones = zones::read();
        let before = Snapshot::read(&tree, &pids, &self.plan.dir);
        let points = self.plan.points.max(1);
        let folds = Folds::begin();
        let one_at_a_time = !self.plan.order.is_at_once();
        let asleep = one_at_a_time.then(|| Asleep::begin(&pids)).flatten();
        let watch = Mutex::new(Watch {
            tree: &tree,
            dir: &self.plan.dir,
            pids,
            before: before.clone(),
            started: Instant::now(),
            asleep,
            course: (self.trace.ops().len() as u64, points as u64),
            done: 0,
            now: before.clone(),
            points: Vec::new(),
            scans,
            failed: None,
            progress,
        });
        let reached = |accesses, phase| {
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            watch.reached(accesses, phase);
        };
        let (lines, end) = crew.parts(&self.cast);
        let work = self.work();
        let what = (work.as_slice(), &self.cast, self.plan.order);
        let done = conduct(what, lines, points, reached, end, go_on);
        let mut watch = watch.into_inner().unwrap_or_else(PoisonError::into_inner);
        let killed = match done {
            Ok(()) => None,
            Err(Stop::Interrupted) => return Err(PlayError::Interrupted),
            Err(Stop::Lost(seat)) => Some(self.killed(seat, &mut crew, &tree, &before)?),
        };
        if let Some(killed) = &killed {
            // The feeder is gone.
            watch.asleep = None;
            watch.point(killed.after, None);
        }
        if let Some(error) = watch.failed.take() {
            return Err(error);
        }
        drop(balloon);
        let (mut counters, machine_wide) = watch.now.since(&before);
        counters.extend(watch.now.of_tasks(&before, &self.cast));
        let time = watch.points.last().map_or(Duration::ZERO, |p| p.time);
        counters.insert("time_ms".into(), time.as_millis() as u64);
        let mut disturbed = watch.now.disturbed_since(&before);
        // That may be what was wanted.
        disturbed.retain(|d| limits.free.is_none() || !d.is_shortage());
        Ok(Played {
            machine,
            counters,
            machine_wide,
            points: watch.points,
            latencies: Answer::of(crew.lines.iter().map(Line::last_report)),
            tasks: self.of_tasks(&crew.lines),
            time,
            limit: tree.whole().max(),
            own_bytes: before.whole.usage,
            zones,
            first_fold: folds.and_then(Folds::first),
            killed,
            disturbed,
        })
    }

    fn orders(&self) -> Orders {
        let objects = self.trace.objects.iter();
        Orders {
            folder: self.files.folder().to_owned(),
            objects: objects.map(|o| (o.pages, o.is_anon)).collect(),
            exact_access: self.plan.exact_access,
            seats: Seats::Task,
            counts: (-1, 0),
            largest_call: self.steps(StepKind::Call).max().unwrap_or(1),
            holes: self.cuts_files(),
            locked: self.plan.limits.free.is_some(),
            read_ahead: self.trace.has_advice(),
        }
    }

    /// Values of the steps of a kind.
    fn steps(&self, kind: StepKind) -> impl Iterator<Item = u32> + '_ {
        let steps = self.trace.events.iter().map(|e| e.step);
        steps.filter(move |s| s.kind == kind).map(|s| s.value)
    }

    fn cuts_files(&self) -> bool {
        let mut cuts = self
            .steps(StepKind::Truncate)
            .chain(self.steps(StepKind::Unlink));
        cuts.next().is_some()
    }

    /// What is to be done, in order.
    fn work(&self) -> Vec<Record> {
        let records = self.trace.records();
        let thinks = |r: &Record| r.is_step(StepKind::Think);
        records.filter(|r| self.plan.pace || !thinks(r)).collect()
    }

    /// The worker of a seat answers no more: that the kernel has killed it is a result, anything else an error.
    fn killed(
        &self,
        seat: usize,
        crew: &mut Crew,
        tree: &Tree,
        before: &Snapshot,
    ) -> Result<Killed, PlayError> {
        let alone = self.cast.tasks().len() == 1;
        let worker = self.cast.worker(seat);
        let task = self.cast.workers()[worker].0;
        let by_memory = tree.whole().kills() > before.whole.group["events_oom_kill"];
        if by_memory && crew.process(worker).was_ended_by(Signal::KILL) {
            let groups = self.cast.workers().iter().zip(tree.workers());
            let killed = groups.filter(|(_, group)| group.kills() > 0);
            return Ok(Killed {
                task,
                tasks: killed.filter_map(|((task, _), _)| *task).collect(),
                after: crew.lines.iter().map(Line::done).sum(),
            });
        }
        let cuts = self.cuts_files() && self.plan.order.is_at_once();
        if cuts && crew.process(worker).was_ended_by(Signal::BUS) {
            let done: Vec<u64> = crew.lines.iter().map(Line::done).collect();
            let said = cut::of_worker(&self.work(), &self.cast, worker, &done);
            return Err(PlayError::Worker(said));
        }
        let words = crew.process(worker).last_words();
        Err(PlayError::Worker(match task {
            // It may be a thread's, which has another number.
            Some(task) if !alone && !words.contains(": task ") => format!("task {task}: {words}"),
            _ => words,
        }))
    }

    fn of_tasks(&self, lines: &[Line]) -> Vec<TaskPlayed> {
        let each = self.cast.tasks().iter().zip(lines);
        each.map(|(&task, line)| TaskPlayed {
            task,
            accesses: line.done(),
            busy: line.last_report().busy(),
        })
        .collect()
    }
}
