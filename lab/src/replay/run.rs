//! One replay: a trace, a variant, a limit.

use super::inspect::{self, LruvecDump};
use super::ReplayOptions;
use crate::traces::{ObjectInfo, OpKind, Trace};
use coldset_engine::memcg::{CounterKind, MemcgError};
use coldset_engine::switches::SwitchError;
use coldset_engine::{presets, Counter, MemcgId, MmId, ObjectId};
use coldset_machine::samples::Row;
use coldset_machine::{
    Ctx, InlineClock, Machine, MachineConfig, MachineError, MachineRun, MappingFlags,
    MappingId, OpError, OpenFile, SwapConfig, World,
};

/// Why a replay cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Unknown variant or switch.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// Settings of the machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Settings of memcgs.
    #[error(transparent)]
    Memcg(#[from] MemcgError),
    /// A debug command that is refused.
    #[error("debug command: {0}")]
    Debug(#[from] coldset_engine::reclaim::DebugError),
    /// The limit is too small.
    #[error("a limit of {0} pages is too small; give at least {min} pages ({kib} KiB)", min = super::MEMORY_MIN, kib = super::MEMORY_MIN * 4)]
    Limit(u64),
    /// The trace does not fit the limit.
    #[error(
        "access {access}: {error} under a limit of {memory} pages; raise --memory or give --swap"
    )]
    Op {
        /// Which access.
        access: usize,
        /// What failed.
        error: OpError,
        /// The limit.
        memory: u64,
    },
    /// A task is named that the trace does not have.
    #[error("--low names task {0}, but the trace has {1} tasks")]
    Task(u16, u32),
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

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Counters of the limited memcg with everything below it, and global ones, by name.
    pub counters: Vec<(&'static str, i64)>,
    /// Counters of each task's memcg, if every task has its own and there are no more than
    /// [`TASKS_COUNTED`].
    pub tasks: Vec<Vec<(&'static str, i64)>>,
    /// Points on the way.
    pub series: Vec<SeriesPoint>,
    /// Samples over the whole machine, if asked for: accesses done, values of
    /// [`coldset_machine::samples::SAMPLED`].
    pub samples: Vec<(u64, Row)>,
    /// Generations at the end (multi-gen only).
    pub generations: Vec<[u64; 3]>,
    /// Virtual time at the end, ns.
    pub time: u64,
    /// What the lists hold in the end, if asked for.
    pub lruvecs: Vec<LruvecDump>,
}

impl Replay {
    /// One counter; 0 for a name that does not exist.
    pub fn get(&self, name: &str) -> i64 {
        self.counters
            .iter()
            .find(|(n, _)| *n == name)
            .map_or(0, |&(_, v)| v)
    }
}

/// The simulated process of one task of the trace.
struct Player {
    ctx: Ctx,
    mm: MmId,
    /// By object, as far as it has used any.
    places: Vec<Option<Box<Place>>>,
}

/// An object as a task sees it.
struct Place {
    file: OpenFile,
    mapping: Option<MappingId>,
}

impl Player {
    #[inline]
    fn place(&mut self, object: u8, objects: &[ObjectId]) -> &mut Place {
        let at = usize::from(object);
        if self.places.len() <= at {
            self.places.resize_with(at + 1, || None);
        }
        self.places[at].get_or_insert_with(|| {
            Box::new(Place {
                file: OpenFile::new(objects[at]),
                mapping: None,
            })
        })
    }
}

/// Most pages of an object that is kept as arrays, for each page of it that the trace uses. Of
/// others, and of page tables that would take more than so much for each access, only what is used is
/// kept: page numbers of a file are no reason to take memory.
const WHOLE: u64 = 16;
/// Pages that are an array in any case.
const WHOLE_MIN: u64 = 1024;

fn is_whole(info: &ObjectInfo) -> bool {
    u64::from(info.pages) <= WHOLE * u64::from(info.used) + WHOLE_MIN
}

/// Mappings of a replay, made when they are first used.
struct Mappings<'a> {
    objects: &'a [ObjectInfo],
    /// What they are called in the machine.
    ids: &'a [ObjectId],
    /// Entries that may be arrays yet.
    whole: u64,
}

impl<'a> Mappings<'a> {
    fn new(trace: &'a Trace, ids: &'a [ObjectId]) -> Self {
        Self {
            objects: &trace.objects,
            ids,
            whole: WHOLE * trace.ops.len() as u64 + (1 << 20),
        }
    }

    fn map(&mut self, machine: &Machine, mm: MmId, n: u8) -> MappingId {
        let (info, object) = (&self.objects[usize::from(n)], self.ids[usize::from(n)]);
        let left = self.whole.checked_sub(info.pages.into());
        match left.filter(|_| is_whole(info)) {
            Some(left) => {
                self.whole = left;
                machine.mmap(mm, object, 0, info.pages, MappingFlags::empty())
            }
            None => machine.mmap_scattered(mm, object, MappingFlags::empty()),
        }
    }
}

/// Which tasks get a memcg and an address space: all up to the highest number, but if nearly none of
/// them occur only those that do, or are `named`.
fn present(trace: &Trace, named: impl Iterator<Item = u16>) -> Vec<bool> {
    let tasks = trace.tasks.max(1) as usize;
    let mut present = vec![false; tasks];
    for op in &trace.ops {
        present[usize::from(op.task)] = true;
    }
    for task in named {
        present[usize::from(task)] = true;
    }
    present[0] |= tasks == 1;
    let count = present.iter().filter(|&&p| p).count();
    if tasks <= 4 * count + 64 {
        present.fill(true);
    }
    present
}

/// Most tasks of which counters are kept.
pub const TASKS_COUNTED: usize = 16;

/// Replays `trace` under the variant called `variant`.
///
/// # Errors
/// Unknown names, settings that cannot work, or memory that cannot be reclaimed.
pub fn replay(trace: &Trace, variant: &str, o: &ReplayOptions) -> Result<Replay, ReplayError> {
    let mut switches = presets::preset(variant)?;
    for s in &o.set {
        switches.assign(s)?;
    }
    if o.memory < super::MEMORY_MIN {
        return Err(ReplayError::Limit(o.memory));
    }
    let mut limited_tasks = o.low.iter().chain(&o.max);
    if let Some(&(task, _)) = limited_tasks.find(|(t, _)| u32::from(*t) >= trace.tasks) {
        return Err(ReplayError::Task(task, trace.tasks));
    }
    let mut cfg = MachineConfig::new(switches);
    cfg.swap = o.swap.clone();
    cfg.fault_around = o.fault_around;
    cfg.read_ahead = o.read_ahead;
    cfg.kernel_memory = o.kernel_memory;
    cfg.engine.swappiness = o.swappiness;
    cfg.engine.fold_phase = o.fold_phase;
    cfg.check = o.check;
    let mut run = MachineRun::new(&cfg)?;
    let machine = run.machine.clone();

    // The limited memcg, and one below it for each task if they are to be told apart.
    let limited = machine.world_mut().engine.memcg_create(MemcgId::ROOT)?;
    machine
        .world_mut()
        .engine
        .memcgs
        .set_max(limited, CounterKind::Memory, o.memory)?;
    let present = present(trace, o.low.iter().chain(&o.max).map(|&(task, _)| task));
    let apart = present.len() > 1 || !o.low.is_empty() || !o.max.is_empty();
    let memcgs: Vec<Option<MemcgId>> = present
        .iter()
        .map(|&present| match (present, apart) {
            (false, _) => Ok(None),
            (true, false) => Ok(Some(limited)),
            (true, true) => machine.world_mut().engine.memcg_create(limited).map(Some),
        })
        .collect::<Result<_, _>>()?;
    let of_task = |task: u16| memcgs[usize::from(task)].expect("named");
    for &(task, pages) in &o.low {
        let tree = &mut machine.world_mut().engine.memcgs;
        tree.set_low(of_task(task), pages)?;
    }
    for &(task, pages) in &o.max {
        let tree = &mut machine.world_mut().engine.memcgs;
        tree.set_max(of_task(task), CounterKind::Memory, pages)?;
    }

    let objects: Vec<ObjectId> = trace
        .objects
        .iter()
        .map(|info| match (info.is_anon, is_whole(info)) {
            (true, true) => machine.create_anon(info.pages),
            (true, false) => machine.create_scattered_anon(info.pages),
            (false, true) => machine.create_file(0, info.pages),
            (false, false) => machine.create_scattered_file(0, info.pages),
        })
        .collect();
    let clock_kind = if o.clock.is_some() {
        InlineClock::External
    } else {
        InlineClock::Running
    };
    let mut players: Vec<Option<Player>> = memcgs
        .iter()
        .map(|&memcg| {
            let memcg = memcg?;
            let mm = machine.create_mm(memcg);
            Some(Player {
                ctx: Ctx::inline(mm, memcg, clock_kind),
                mm,
                places: Vec::new(),
            })
        })
        .collect();
    let mut mappings = Mappings::new(trace, &objects);

    // The program's own pages come first and are in use all the time.
    let own_mm = machine.create_mm(limited);
    let own_ctx = Ctx::inline(own_mm, limited, clock_kind);
    let own = (o.own_pages > 0).then(|| {
        let region = machine.create_anon(o.own_pages);
        machine.mmap(own_mm, region, 0, o.own_pages, MappingFlags::empty())
    });

    let mut points: Vec<u64> = o.clock.iter().flat_map(|c| c.accesses()).collect();
    points.reverse();
    let mut series = Vec::new();
    let mut at = 0;
    // Accesses before this one have had their records brought into the cache.
    let mut warmed = 0;
    let disk_swap = matches!(o.swap, SwapConfig::Disk { .. });
    let mut to_fold = o.fold_first;
    let fail = |access: usize, error: OpError| ReplayError::Op {
        access,
        error,
        memory: o.memory,
    };
    if let Some(own) = own {
        for page in 0..o.own_pages {
            run.drive(&own_ctx, machine.access(&own_ctx, own, page, true))
                .map_err(|e| fail(0, e))?;
        }
    }
    let mut samples = Vec::new();
    let step = match o.sample_points {
        0 => usize::MAX,
        n => trace.ops.len().div_ceil(n).max(1),
    };
    let mut sample_at = if o.sample_points > 0 { 0 } else { usize::MAX };
    while at <= trace.ops.len() {
        if at >= sample_at {
            samples.push((at as u64, machine.world().sample()));
            sample_at = at.saturating_add(step);
        }
        // Statistics are read at the listed points.
        while points.last().is_some_and(|&p| p <= at as u64) {
            points.pop();
            let mut w = machine.world_mut();
            w.engine.memcgs.fold();
            if o.series {
                series.push(SeriesPoint {
                    access: at as u64,
                    counters: counters(&w, limited, disk_swap),
                    generations: w.engine.generations(limited),
                });
            }
        }
        let until = points
            .last()
            .map_or(trace.ops.len(), |&p| trace.ops.len().min(p as usize))
            .min(sample_at);
        at = hits(
            &machine,
            &mut players,
            &mut mappings,
            trace,
            at,
            until,
            &mut warmed,
        );
        if at == until {
            if at == trace.ops.len() && points.last().is_none_or(|&p| p > at as u64) {
                break;
            }
            continue;
        }
        // One access that needs more than a look-up.
        if o.clock.is_none() && o.fold_every > 0 {
            if to_fold == 0 {
                machine.world_mut().engine.memcgs.fold();
                to_fold = o.fold_every;
            }
            to_fold -= 1;
        }
        let op = trace.ops[at];
        let player = players[op.task as usize].as_ref().expect(PRESENT);
        let place = player.places[op.object as usize].as_ref();
        let place = place.expect("made by the hit path");
        let (mm, ctx) = (player.mm, &player.ctx);
        if let Some(c) = &o.clock {
            ctx.set_clock(c.at(at as u64));
        }
        ctx.set_clock(run.executor.now().max(machine.world().engine.now()));
        run.catch_up(ctx);
        if let Some(own) = own {
            own_ctx.set_clock(ctx.now());
            for page in 0..o.own_pages {
                if !machine.world_mut().touch(own, page, false) {
                    run.drive(&own_ctx, machine.access(&own_ctx, own, page, false))
                        .map_err(|e| fail(at, e))?;
                }
            }
            // It is one program: what its own pages took is gone for the access, too.
            ctx.set_clock(own_ctx.now());
        }
        let object = objects[op.object as usize];
        let done = match op.kind {
            OpKind::MappedRead | OpKind::AnonRead | OpKind::AnonWrite | OpKind::MappedWrite => {
                let mapping = place.mapping.expect("mapped by the hit path");
                let write = op.kind.is_write();
                run.drive(ctx, machine.access(ctx, mapping, op.page, write))
            }
            OpKind::Pread => run.drive(ctx, machine.read(ctx, &place.file, op.page, 1)),
            OpKind::Pwrite | OpKind::WholeWrite => {
                let whole = op.kind == OpKind::WholeWrite;
                run.drive(ctx, machine.write(ctx, object, op.page, 1, whole))
            }
        };
        done.map_err(|e| fail(at, e))?;
        // It waited for its page, so it was switched out and in again.
        machine.world_mut().engine.mm_ran(mm, 0);
        at += 1;
    }
    let mut lruvecs = Vec::new();
    if o.inspect {
        let ctx = &players.iter().flatten().next().expect(PRESENT).ctx;
        ctx.set_clock(run.executor.now().max(machine.world().engine.now()));
        for &command in &o.commands {
            for &memcg in memcgs.iter().flatten() {
                inspect::command(&mut run, ctx, memcg, command)?;
            }
        }
        lruvecs = inspect::dump(&machine.world());
    }
    let w = machine.world();
    if o.sample_points > 0 {
        let end = trace.ops.len() as u64;
        samples.retain(|s: &(u64, Row)| s.0 < end);
        samples.push((end, w.sample()));
    }
    let time = players
        .iter()
        .flatten()
        .map(|p| p.ctx.now())
        .max()
        .unwrap_or(0);
    Ok(Replay {
        counters: counters(&w, limited, disk_swap),
        tasks: if apart && memcgs.len() <= TASKS_COUNTED {
            let all = memcgs.iter().flatten();
            all.map(|&m| counters(&w, m, disk_swap)).collect()
        } else {
            Vec::new()
        },
        series,
        samples,
        generations: w.engine.generations(limited),
        time,
        lruvecs,
    })
}

/// Why every access has a player.
const PRESENT: &str = "a task of the trace";

/// Plays accesses that hit, up to `until`. Returns the first that does not. Accesses before
/// `warmed` have had their records brought into the cache.
fn hits(
    machine: &Machine,
    players: &mut [Option<Player>],
    mappings: &mut Mappings,
    trace: &Trace,
    from: usize,
    until: usize,
    warmed: &mut usize,
) -> usize {
    let objects = mappings.ids;
    let mut w = machine.world_mut();
    let mut at = from;
    while at < until {
        if at >= *warmed {
            let ahead = &trace.ops[at..trace.ops.len().min(at + World::WARM)];
            *warmed = at + ahead.len();
            w.warm(
                ahead
                    .iter()
                    .map(|op| (objects[op.object as usize], op.page)),
            );
        }
        let op = trace.ops[at];
        let player = players[op.task as usize].as_mut().expect(PRESENT);
        let mm = player.mm;
        let place = player.place(op.object, objects);
        let hit = match op.kind {
            OpKind::Pread => {
                // All that follow of the same file, as far as their records are at hand.
                let run = trace.ops[at..until.min(*warmed)]
                    .iter()
                    .take_while(|o| (o.kind, o.object, o.task) == (op.kind, op.object, op.task));
                let n = w.read_hits(0, &place.file, run.map(|o| o.page));
                at += n;
                // Another look at the one that ended the run: a miss, unless it is of another kind.
                if n > 0 {
                    continue;
                }
                false
            }
            OpKind::MappedRead | OpKind::AnonRead | OpKind::AnonWrite | OpKind::MappedWrite => {
                let Some(mapping) = place.mapping else {
                    drop(w);
                    place.mapping = Some(mappings.map(machine, mm, op.object));
                    w = machine.world_mut();
                    continue;
                };
                w.touch(mapping, op.page, op.kind.is_write())
            }
            OpKind::Pwrite | OpKind::WholeWrite => false,
        };
        if !hit {
            return at;
        }
        at += 1;
    }
    until
}

/// Counters of a memcg with everything below it; events that have no memcg form are global.
fn counters(
    w: &coldset_machine::World,
    memcg: MemcgId,
    disk_swap: bool,
) -> Vec<(&'static str, i64)> {
    let t = &w.engine.memcgs;
    let mut out: Vec<(&'static str, i64)> = Counter::ALL
        .iter()
        .map(|&c| (c.name(), t.live(memcg, c)))
        .collect();
    let sum = |names: &[Counter]| names.iter().map(|&c| t.live(memcg, c)).sum();
    use Counter as C;
    out.push((
        "pgscan",
        sum(&[C::PgscanKswapd, C::PgscanDirect, C::PgscanProactive]),
    ));
    out.push((
        "pgsteal",
        sum(&[C::PgstealKswapd, C::PgstealDirect, C::PgstealProactive]),
    ));
    let read = t.live(memcg, C::Pgpgin) / 4;
    out.push(("disk_read_pages", read));
    out.push(("disk_written_pages", t.live(memcg, C::Pgpgout) / 4));
    // What comes from a swap area on a device is among the pages read from devices.
    let swapped = if disk_swap {
        0
    } else {
        t.live(memcg, C::Pswpin)
    };
    out.push(("misses", read + swapped));
    out.push(("current_pages", t[memcg].memory().usage() as i64));
    out
}
