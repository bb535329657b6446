//! Plays the accesses of a trace, one after the other.
//!
//! Most of them hit: [`Player::hits`] serves those in one loop over the machine's state. Any other
//! is one operation of the machine ([`Player::miss`]), which may charge, reclaim, read and wait.
//! Between accesses [`Player::tick`] takes samples and statistics that are due.

use super::counters::of_replay;
use super::folds::Folds;
use super::inspect::{self, Command, LruvecDump};
use super::pace::Pace;
use super::stage::{Memcgs, Places};
use super::steps::run_of;
use super::ReplayOptions;
use crate::traces::{About, Op, OpKind, Playable, TraceError, Window};
use coldset_engine::policies::desk::{Desk, Failure};
use coldset_engine::reclaim::DebugError;
use coldset_engine::{MemcgId, MmId, ObjectId};
use coldset_machine::samples::Row;
use coldset_machine::{
    Ctx, InlineClock, Machine, MachineRun, MappingFlags, MappingId, OpError, OpenFile, SwapConfig,
    World,
};

/// The simulated process of one task of the trace.
pub(super) struct Process {
    pub ctx: Ctx,
    pub mm: MmId,
    /// By object, as far as it has used any.
    pub views: Vec<Option<Box<View>>>,
}

/// An object as a process sees it.
pub(super) struct View {
    pub file: OpenFile,
    pub mapping: Option<MappingId>,
}

impl Process {
    pub fn new(machine: &Machine, memcg: MemcgId, clock: InlineClock) -> Self {
        let mm = machine.create_mm(memcg);
        Self {
            ctx: Ctx::inline(mm, memcg, clock),
            mm,
            views: Vec::new(),
        }
    }

    #[inline]
    pub fn view(&mut self, object: u8, objects: &[ObjectId]) -> &mut View {
        let at = usize::from(object);
        if self.views.len() <= at {
            self.views.resize_with(at + 1, || None);
        }
        self.views[at].get_or_insert_with(|| {
            Box::new(View {
                file: OpenFile::new(objects[at]),
                mapping: None,
            })
        })
    }
}

/// Pages of the program itself: in use all the time.
struct OwnPages {
    ctx: Ctx,
    mapping: MappingId,
    pages: u32,
}

impl OwnPages {
    fn new(machine: &Machine, process: Process, pages: u32) -> Self {
        let region = machine.create_anon(pages);
        Self {
            mapping: machine.mmap(process.mm, region, 0, pages, MappingFlags::empty()),
            ctx: process.ctx,
            pages,
        }
    }

    /// Stores to all of them for the first time.
    fn fill(&self, run: &mut MachineRun) -> Result<(), OpError> {
        (0..self.pages).try_for_each(|page| self.access(run, page, true))
    }

    /// Loads from all of them. Takes time from the process, for it is the same program.
    fn touch(&self, run: &mut MachineRun, process: &Ctx) -> Result<(), OpError> {
        self.ctx.set_clock(process.now());
        for page in 0..self.pages {
            let hit = run.machine.world_mut().touch(self.mapping, page, false);
            if !hit {
                self.access(run, page, false)?;
            }
        }
        process.set_clock(self.ctx.now());
        Ok(())
    }

    fn access(&self, run: &mut MachineRun, page: u32, write: bool) -> Result<(), OpError> {
        let machine = run.machine.clone();
        run.run_inline(
            &self.ctx,
            machine.access(&self.ctx, self.mapping, page, write),
        )
    }
}

/// Counters at one point of a replay.
#[derive(Clone, Debug)]
pub struct SeriesPoint {
    /// Accesses done.
    pub access: u64,
    /// Counters by name.
    pub counters: Vec<(&'static str, i64)>,
    /// `[seq, anonymous pages, file pages]` for each generation (multi-gen only).
    pub generations: Vec<[u64; 3]>,
}

impl SeriesPoint {
    /// Now, before this access.
    pub(super) fn of(w: &World, limited: MemcgId, swap: &SwapConfig, access: u64) -> Self {
        Self {
            access,
            counters: of_replay(w, limited, swap),
            generations: w.engine.generations(limited),
        }
    }
}

/// What a replay writes down on its way.
#[derive(Default)]
pub(super) struct Records {
    pub series: Vec<SeriesPoint>,
    pub samples: Vec<(u64, Row)>,
    /// Numbers of the parts of the work, where they begin.
    pub phases: Vec<(u32, SeriesPoint)>,
}

/// A trace being played.
pub(super) struct Player<'a> {
    pub run: MachineRun,
    pub(super) machine: Machine,
    pub memcgs: Memcgs,
    pub records: Records,
    pub(super) trace: &'a About,
    pub(super) window: Window<'a>,
    pub(super) options: &'a ReplayOptions,
    pub(super) places: Places,
    /// By task of the trace.
    pub(super) processes: Vec<Option<Process>>,
    /// How the time of its processes goes on.
    pub(super) clock: InlineClock,
    /// Steps of the trace that have been played.
    pub(super) stepped: usize,
    joins_writes: bool,
    own: Option<OwnPages>,
    /// Before this access, what comes after it is next brought into the CPU's cache.
    next_look: usize,
    /// Points of the clock that are still to come, last first.
    points: Vec<u64>,
    /// The next sample comes before this access.
    sample_at: usize,
    folds: Folds,
    pub(super) pace: Pace<'a>,
    /// A policy outside of the engine decides.
    outside: bool,
    /// Up to this access it has been told all.
    told: usize,
}

/// References that are looked ahead at: more than those of one call.
pub(super) const REACH: usize = 1 << 12;

/// Accesses of which a policy outside of the engine is told at a time.
const TOLD: usize = 64;

/// Why a replay does not get to the end of its trace.
#[derive(Debug)]
pub(super) enum Stop {
    /// This access fails.
    Op(usize, OpError),
    /// The file cannot be read.
    Trace(TraceError),
    /// The policy outside of the engine has failed by this access.
    Policy(u64, Failure),
}

impl From<TraceError> for Stop {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// Most pages of one call that writes: 1 MiB, as programs do that copy.
pub(super) const WRITE_CALL_PAGES: usize = 256;
/// Why every access has a process.
pub(super) const PRESENT: &str = "a task of the trace";
/// Why a miss has a view of its object, and a mapping where it needs one.
const LOOKED_UP: &str = "made by the hit path";

impl<'a> Player<'a> {
    pub fn new(
        run: MachineRun,
        memcgs: Memcgs,
        playable: &'a dyn Playable,
        options: &'a ReplayOptions,
    ) -> Result<Self, TraceError> {
        let (trace, window) = (playable.about(), playable.window()?);
        let machine = run.machine.clone();
        let places = Places::create(&machine, trace, &options.settings);
        let clock = match &options.settings.clock {
            Some(clock) => InlineClock::Paced {
                reads: clock.read_ns().is_some(),
            },
            None => InlineClock::Running,
        };
        let process = |&memcg: &Option<_>| Some(Process::new(&machine, memcg?, clock));
        let processes = memcgs.by_task().iter().map(process).collect();
        let own = Process::new(&machine, memcgs.limited, clock);
        let own_pages = options.settings.own_pages;
        let mut points: Vec<u64> = options
            .settings
            .clock
            .iter()
            .flat_map(|c| c.accesses())
            .collect();
        points.reverse();
        Ok(Self {
            own: (own_pages > 0).then(|| OwnPages::new(&machine, own, own_pages)),
            run,
            machine,
            memcgs,
            records: Records::default(),
            trace,
            window,
            options,
            places,
            processes,
            clock,
            stepped: 0,
            joins_writes: options.settings.joins_writes_of(trace),
            next_look: 0,
            points,
            sample_at: match options.sample_points {
                0 => usize::MAX,
                _ => 0,
            },
            folds: Folds::new(options),
            pace: Pace::new(options.settings.clock.as_ref()),
            outside: false,
            told: 0,
        })
    }

    /// Plays the whole trace.
    ///
    /// # Errors
    /// The first access that fails, and why.
    pub fn play(&mut self) -> Result<(), Stop> {
        if let Some(own) = &self.own {
            own.fill(&mut self.run).map_err(|e| Stop::Op(0, e))?;
        }
        let mut at = 0;
        loop {
            self.window.reach(at, REACH)?;
            self.tell_policy(at)?;
            let call = self.steps(at)?;
            let until = self.tick(at);
            if let Some(most) = call {
                self.window.reach(at, most.max(REACH))?;
                at += self.call(at, most).map_err(|e| Stop::Op(at, e))?;
                continue;
            }
            if at as u64 == self.trace.accesses {
                return self.tell_policy(at);
            }
            at = self.hits(at, until);
            self.tell_policy(at)?;
            if at < until {
                self.window.reach(at, REACH)?;
                at += self.miss(at).map_err(|e| Stop::Op(at, e))?;
            }
        }
    }

    /// A policy outside of the engine decides.
    pub fn decide_by(&mut self, desk: Desk) {
        self.machine.world_mut().desk = Some(desk);
        self.outside = true;
    }

    /// What the objects of the trace are called in the machine.
    pub fn objects(&self) -> &[ObjectId] {
        &self.places.ids
    }

    /// A policy outside of the engine is told what has happened before access `at`, if that is much, or if pages may
    /// get other numbers. It is in any case before it has to name a victim.
    #[inline]
    fn tell_policy(&mut self, at: usize) -> Result<(), Stop> {
        if !self.outside {
            return Ok(());
        }
        let step = self.next_step().is_some_and(|step| step <= at);
        let w = &mut *self.machine.world_mut();
        let Some(desk) = &mut w.desk else {
            return Ok(());
        };
        if step || at >= self.told + TOLD || at as u64 == self.trace.accesses {
            desk.tell(&mut w.engine);
            self.told = at;
        }
        desk.set_at(at as u64);
        match desk.take_failure() {
            Some((access, error)) => Err(Stop::Policy(access, error)),
            None => Ok(()),
        }
    }

    /// Does what is due before access `at`: samples, and statistics at the points of the clock.
    /// Returns the access before which something is due next, or the end.
    fn tick(&mut self, at: usize) -> usize {
        let accesses = self.trace.accesses as usize;
        if at >= self.sample_at {
            let row = self.machine.world().sample();
            self.records.samples.push((at as u64, row));
            let step = accesses.div_ceil(self.options.sample_points).max(1);
            self.sample_at = at.saturating_add(step);
        }
        while self.points.last().is_some_and(|&p| p <= at as u64) {
            self.points.pop();
            self.read_statistics(at);
        }
        let point = self.points.last().map_or(usize::MAX, |&p| p as usize);
        let step = self.next_step().unwrap_or(usize::MAX);
        let end = accesses.min(self.window.end());
        end.min(point).min(self.sample_at).min(step)
    }

    /// The program reads its statistics, which folds them.
    fn read_statistics(&mut self, at: usize) {
        let mut w = self.machine.world_mut();
        w.engine.memcgs.fold();
        if self.options.series {
            let limited = self.memcgs.limited;
            let point = SeriesPoint::of(&w, limited, &self.options.swap, at as u64);
            self.records.series.push(point);
        }
    }

    /// Plays accesses that hit, up to `until`. Returns the first that does not.
    fn hits(&mut self, from: usize, until: usize) -> usize {
        // Locals: the machine's state is written to between any two uses of them.
        let (ops, first) = (self.window.ops(), self.window.first());
        let processes = self.processes.as_mut_slice();
        let (machine, places) = (&self.machine, &mut self.places);
        let mut next_look = self.next_look;
        let mut w = machine.world_mut();
        let mut at = from;
        while at < until {
            if at >= next_look {
                next_look = at + World::AHEAD;
                self.next_look = next_look;
                let after = ops.get(next_look - first..).unwrap_or_default();
                let (next, rest) = after.split_at(after.len().min(World::AHEAD));
                let soon = &rest[..rest.len().min(World::AHEAD)];
                prefetch(&w, next, soon, processes, &places.ids);
            }
            let op = ops[at - first];
            let process = processes[usize::from(op.task)].as_mut();
            let process = process.expect(PRESENT);
            let mm = process.mm;
            let view = process.view(op.object, &places.ids);
            // All that follow of the same task and object, up to the next look ahead.
            let run = ops[at - first..until.min(next_look) - first].iter();
            let pages = run.take_while(|o| o.is_like(op)).map(|o| o.page);
            let hits = match op.kind {
                OpKind::Pread => w.read_hits(0, &view.file, pages),
                OpKind::MappedRead | OpKind::AnonRead | OpKind::AnonWrite | OpKind::MappedWrite => {
                    let Some(mapping) = view.mapping else {
                        drop(w);
                        view.mapping = Some(places.map(machine, mm, op.object, &view.file));
                        w = machine.world_mut();
                        continue;
                    };
                    w.touch_hits(mapping, pages, op.kind.is_write())
                }
                OpKind::Pwrite | OpKind::WholeWrite => 0,
            };
            // The one that ended the run is looked at once more: it misses, unless it is of another kind.
            match hits {
                0 => return at,
                _ => at += hits,
            }
        }
        until
    }

    /// Plays one access that needs more than a look-up, or the writes of one call. Returns how many accesses
    /// that were.
    fn miss(&mut self, at: usize) -> Result<usize, OpError> {
        let op = self.window.from(at)[0];
        let played = match op.kind {
            OpKind::WholeWrite if self.joins_writes => self.write_call(at),
            _ => 1,
        };
        for _ in 0..played {
            self.folds.missed(&self.machine);
        }
        let process = self.processes[usize::from(op.task)].as_ref();
        let process = process.expect(PRESENT);
        let ctx = &process.ctx;
        self.pace.begin(ctx, at as u64);
        if let Some(own) = &self.own {
            self.run.catch_up(ctx);
            own.touch(&mut self.run, ctx)?;
        }
        let view = process.views[usize::from(op.object)].as_ref();
        let view = view.expect(LOOKED_UP);
        let (machine, run) = (&self.machine, &mut self.run);
        match op.kind {
            OpKind::MappedRead => run.load(ctx, view.mapping.expect(LOOKED_UP), op.page)?,
            OpKind::AnonRead | OpKind::AnonWrite | OpKind::MappedWrite => {
                let mapping = view.mapping.expect(LOOKED_UP);
                let write = op.kind.is_write();
                if write && self.options.loads_first {
                    run.run_inline(ctx, machine.access(ctx, mapping, op.page, false))?;
                }
                run.run_inline(ctx, machine.access(ctx, mapping, op.page, write))?;
            }
            OpKind::Pread => run.read(ctx, &view.file, op.page)?,
            OpKind::Pwrite | OpKind::WholeWrite => {
                let whole = op.kind == OpKind::WholeWrite;
                let object = view.file.object;
                let pages = played as u32;
                run.run_inline(ctx, machine.write(ctx, object, op.page, pages, whole))?;
            }
        }
        self.pace.end(ctx);
        // It waited for its page, so it was switched out and in again.
        machine.world_mut().engine.mm_ran(process.mm);
        Ok(played)
    }

    /// Writes of whole pages from `at` on that are one call.
    fn write_call(&self, at: usize) -> usize {
        run_of(self.window.from(at).iter().copied(), WRITE_CALL_PAGES)
    }

    /// Runs debug commands on the lruvec of every memcg, and returns what all lists hold then.
    ///
    /// # Errors
    /// A command that an lruvec refuses.
    pub fn inspect(&mut self, commands: &[Command]) -> Result<Vec<LruvecDump>, DebugError> {
        let process = self.processes.iter().flatten().next().expect(PRESENT);
        for &command in commands {
            for (_, memcg) in self.memcgs.of_processes() {
                inspect::command(&mut self.run, &process.ctx, memcg, command)?;
            }
        }
        Ok(inspect::dump(&self.machine.world()))
    }

    /// The processes' contexts.
    pub fn contexts(&self) -> impl Iterator<Item = &Ctx> {
        self.processes.iter().flatten().map(|p| &p.ctx)
    }
}

/// Brings what accesses look at into the CPU's cache: what those that come `soon` look at first, and what the `next` ones, for
/// which that has been done, look at then.
#[inline]
fn prefetch(
    w: &World,
    next: &[Op],
    soon: &[Op],
    processes: &[Option<Process>],
    objects: &[ObjectId],
) {
    fn pages(run: &[Op]) -> impl Iterator<Item = u32> + '_ {
        run.iter().map(|op| op.page)
    }
    let runs = |ops| <[Op]>::chunk_by(ops, |a, b| (a.object, a.task) == (b.object, b.task));
    let object = |op: Op| objects[usize::from(op.object)];
    let mapping = |op: Op| {
        let process = processes[usize::from(op.task)].as_ref()?;
        let view = process.views.get(usize::from(op.object))?.as_ref()?;
        view.mapping
    };
    for run in runs(soon) {
        if run[0].kind.is_call() {
            w.prefetch_slots(object(run[0]), pages(run));
        } else if let Some(mapping) = mapping(run[0]) {
            w.prefetch_entries(mapping, pages(run));
        }
    }
    for run in runs(next) {
        if run[0].kind.is_call() {
            w.prefetch_folios(object(run[0]), pages(run));
        } else if let Some(mapping) = mapping(run[0]) {
            w.prefetch_absent(mapping, pages(run));
        }
    }
}
