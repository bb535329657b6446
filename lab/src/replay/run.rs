//! One replay: a trace, a variant, a limit.

use super::inspect::{self, LruvecDump};
use super::ReplayOptions;
use crate::traces::{OpKind, Trace};
use coldset_engine::memcg::{CounterKind, MemcgError};
use coldset_engine::switches::SwitchError;
use coldset_engine::{presets, Counter, MemcgId, MmId, ObjectId};
use coldset_machine::samples::Row;
use coldset_machine::{
    Ctx, Inline, InlineClock, MachineConfig, MachineError, MachineRun, MappingFlags, MappingId,
    OpError, OpenFile, SwapConfig, World,
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
    /// Counters of each task's memcg, if every task has its own.
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
    files: Vec<OpenFile>,
    mappings: Vec<Option<MappingId>>,
}

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
    let tasks = trace.tasks.max(1);
    let memcgs: Vec<MemcgId> = (0..tasks)
        .map(|_| {
            if tasks > 1 || !o.low.is_empty() || !o.max.is_empty() {
                machine.world_mut().engine.memcg_create(limited)
            } else {
                Ok(limited)
            }
        })
        .collect::<Result<_, _>>()?;
    for &(task, pages) in &o.low {
        machine
            .world_mut()
            .engine
            .memcgs
            .set_low(memcgs[task as usize], pages)?;
    }
    for &(task, pages) in &o.max {
        let tree = &mut machine.world_mut().engine.memcgs;
        tree.set_max(memcgs[task as usize], CounterKind::Memory, pages)?;
    }

    let objects: Vec<ObjectId> = trace
        .objects
        .iter()
        .map(|info| {
            if info.is_anon {
                machine.create_anon(info.pages)
            } else {
                machine.create_file(0, info.pages)
            }
        })
        .collect();
    let clock_kind = if o.clock.is_some() {
        InlineClock::External
    } else {
        InlineClock::Running
    };
    let mut players: Vec<Player> = memcgs
        .iter()
        .map(|&memcg| {
            let mm = machine.create_mm(memcg);
            Player {
                ctx: Ctx::inline(mm, memcg, clock_kind),
                mm,
                files: objects.iter().map(|&f| OpenFile::new(f)).collect(),
                mappings: vec![None; objects.len()],
            }
        })
        .collect();

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
            &objects,
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
        let player = &players[op.task as usize];
        let ctx = &player.ctx;
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
                let mapping = player.mappings[op.object as usize].expect("mapped by the hit path");
                let write = op.kind.is_write();
                run.drive(ctx, machine.access(ctx, mapping, op.page, write))
            }
            OpKind::Pread => {
                let file = &player.files[op.object as usize];
                match machine.read_inline(ctx, file, op.page) {
                    Inline::Done(result) => result,
                    Inline::Waits(refused) => {
                        run.drive(ctx, machine.read_refused(ctx, file, op.page, refused))
                    }
                }
            }
            OpKind::Pwrite | OpKind::WholeWrite => {
                let whole = op.kind == OpKind::WholeWrite;
                run.drive(ctx, machine.write(ctx, object, op.page, 1, whole))
            }
        };
        done.map_err(|e| fail(at, e))?;
        let mm = player.mm;
        // It waited for its page, so it was switched out and in again.
        machine.world_mut().engine.mm_ran(mm, 0);
        at += 1;
    }
    let mut lruvecs = Vec::new();
    if o.inspect {
        let ctx = &players[0].ctx;
        ctx.set_clock(run.executor.now().max(machine.world().engine.now()));
        for &command in &o.commands {
            for &memcg in &memcgs {
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
    let time = players.iter().map(|p| p.ctx.now()).max().unwrap_or(0);
    Ok(Replay {
        counters: counters(&w, limited, disk_swap),
        tasks: if memcgs[0] == limited {
            Vec::new()
        } else {
            memcgs.iter().map(|&m| counters(&w, m, disk_swap)).collect()
        },
        series,
        samples,
        generations: w.engine.generations(limited),
        time,
        lruvecs,
    })
}

/// Plays accesses that hit, up to `until`. Returns the first that does not. Accesses before
/// `warmed` have had their records brought into the cache.
fn hits(
    machine: &coldset_machine::Machine,
    players: &mut [Player],
    objects: &[ObjectId],
    trace: &Trace,
    from: usize,
    until: usize,
    warmed: &mut usize,
) -> usize {
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
        let player = &mut players[op.task as usize];
        let hit = match op.kind {
            OpKind::Pread => {
                // All that follow of the same file, as far as their records are at hand.
                let run = trace.ops[at..until.min(*warmed)]
                    .iter()
                    .take_while(|o| (o.kind, o.object, o.task) == (op.kind, op.object, op.task));
                let file = &player.files[op.object as usize];
                let n = w.read_hits(0, file, run.map(|o| o.page));
                at += n;
                // Another look at the one that ended the run: a miss, unless it is of another kind.
                if n > 0 {
                    continue;
                }
                false
            }
            OpKind::MappedRead | OpKind::AnonRead | OpKind::AnonWrite | OpKind::MappedWrite => {
                let Some(mapping) = player.mappings[op.object as usize] else {
                    drop(w);
                    let object = objects[op.object as usize];
                    let pages = trace.objects[op.object as usize].pages;
                    let id = machine.mmap(player.mm, object, 0, pages, MappingFlags::empty());
                    player.mappings[op.object as usize] = Some(id);
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
