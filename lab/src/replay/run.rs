//! One replay: a trace, a variant, a limit.

use super::at_once;
use super::counters::{counters, of_replay};
use super::inspect::{self, LruvecDump};
use super::player::{Player, Records, SeriesPoint, Stop};
use super::stage::Memcgs;
use super::ReplayOptions;
use crate::bounds::TooLong;
use crate::traces::{About, Playable, Trace, TraceError};
use coldset_engine::memcg::MemcgError;
use coldset_engine::policies::desk::Failure;
use coldset_engine::presets;
use coldset_engine::scans::ScanEvent;
use coldset_engine::switches::SwitchError;
use coldset_machine::samples::Row;
use coldset_machine::{MachineError, MachineRun, OpError};
use std::collections::BTreeSet;

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
    #[error("access {access}: {error} under a limit of {memory} pages{remedy}")]
    Op {
        /// Which access.
        access: usize,
        /// What failed.
        error: OpError,
        /// The limit.
        memory: u64,
        /// What may help, after a semicolon; nothing, if it is not the limit's fault.
        remedy: String,
    },
    /// The file of a trace that is not held in memory.
    #[error(transparent)]
    Trace(Box<TraceError>),
    /// Tasks of the simulated machine take a trace that is held.
    #[error("tasks that are at once, a machine that runs short of memory, and policies of your own take all of the trace in memory; replay it with --order strict and under the limit of a cgroup, or without --stream")]
    NotHeld,
    /// A policy outside of the engine takes accesses one after the other.
    #[error("a policy of your own decides about accesses one after the other; replay it with --order strict, under the limit of a cgroup")]
    InOrder,
    /// The trace is too long to number its pages.
    #[error(transparent)]
    TooLong(TooLong),
    /// A policy outside of the engine cannot go on.
    #[error("access {access}: {error}")]
    Policy {
        /// Which access.
        access: u64,
        /// What the policy said.
        error: Failure,
    },
    /// A task is named that the trace does not have, and those that it has.
    #[error("--low names task {0}, which the trace does not have; it has {1}")]
    Task(u16, String),
}

impl From<TraceError> for ReplayError {
    fn from(error: TraceError) -> Self {
        Self::Trace(Box::new(error))
    }
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Counters of the limited memcg with everything below it, and global ones, by name.
    pub counters: Vec<(&'static str, i64)>,
    /// Counters of each task's memcg, if every task has its own and there are no more than
    /// [`TASKS_COUNTED`].
    pub tasks: Vec<(u16, Vec<(&'static str, i64)>)>,
    /// Points on the way.
    pub series: Vec<SeriesPoint>,
    /// Where parts of the work begin, with their numbers.
    pub phases: Vec<(u32, SeriesPoint)>,
    /// Samples over the whole machine, if asked for: accesses done, values of
    /// [`coldset_machine::samples::SAMPLED`].
    pub samples: Vec<(u64, Row)>,
    /// Generations at the end (multi-gen only).
    pub generations: Vec<[u64; 3]>,
    /// Virtual time at the end, ns.
    pub time: u64,
    /// What the tasks have worked, ns; none where tasks are at once. The rest of the time one of them has waited.
    pub worked: Option<u64>,
    /// How long they were stopped at dirty limits, ns; none where tasks are at once.
    pub stopped: Option<u64>,
    /// The task of this access was killed for lack of memory, and the replay ended there.
    pub killed: Option<usize>,
    /// What the lists hold in the end, if asked for.
    pub lruvecs: Vec<LruvecDump>,
    /// What tasks have scanned, if asked for.
    pub scans: Vec<ScanEvent>,
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

/// Most tasks of which counters are kept.
pub const TASKS_COUNTED: usize = 16;

/// Replays `trace` under the variant called `variant`. A task that is killed for lack of memory ends the replay, and is a
/// result.
///
/// # Errors
/// Unknown names, settings that cannot work, a device that fails.
pub fn replay(
    playable: &dyn Playable,
    variant: &str,
    o: &ReplayOptions,
) -> Result<Replay, ReplayError> {
    let trace = playable.about();
    let mut switches = presets::preset(variant)?;
    for s in &o.set {
        switches.assign(s)?;
    }
    if let Some(outside) = &o.outside {
        switches.policy = outside.policy();
        if o.settings.in_machine_time() {
            return Err(ReplayError::InOrder);
        }
    }
    if o.memory < super::MEMORY_MIN {
        return Err(ReplayError::Limit(o.memory));
    }
    let mut limited_tasks = o.low.iter().chain(&o.max);
    let processes = trace.acting_processes();
    if let Some(&(task, _)) = limited_tasks.find(|(t, _)| !processes.contains(t)) {
        return Err(ReplayError::Task(task, listed(&processes)));
    }
    let run = o.rig(variant, switches)?.into_run();
    if o.scans {
        run.machine.world_mut().engine.log_scans();
    }

    let memcgs = Memcgs::create(&run.machine, trace, o)?;
    let end = match o.settings.in_machine_time() {
        true => at_once(run, memcgs, playable.held().ok_or(ReplayError::NotHeld)?, o),
        false => in_order(run, memcgs, playable, o)?,
    };
    let killed = match end.failed {
        None => None,
        Some((access, OpError::NoMemory)) => Some(access),
        Some((access, error)) => {
            return Err(ReplayError::Op {
                access,
                error,
                memory: o.memory,
                remedy: String::new(),
            })
        }
    };
    Ok(Replay {
        killed,
        ..result(end, trace, o)
    })
}

/// A trace that has been played.
struct End {
    run: MachineRun,
    memcgs: Memcgs,
    records: Records,
    /// Accesses done before one that failed, and why it did.
    failed: Option<(usize, OpError)>,
    lruvecs: Vec<LruvecDump>,
    time: u64,
    worked: Option<u64>,
    stopped: Option<u64>,
}

/// One access after the other.
fn in_order(
    run: MachineRun,
    memcgs: Memcgs,
    trace: &dyn Playable,
    o: &ReplayOptions,
) -> Result<End, ReplayError> {
    let mut player = Player::new(run, memcgs, trace, o)?;
    if let Some(outside) = &o.outside {
        let held = trace.held().ok_or(ReplayError::NotHeld)?;
        let desk = outside.desk(held, o.memory, player.objects());
        player.decide_by(desk.map_err(ReplayError::TooLong)?);
    }
    let failed = match player.play() {
        Ok(()) => None,
        Err(Stop::Op(access, error)) => Some((access, error)),
        Err(Stop::Trace(error)) => return Err(error.into()),
        Err(Stop::Policy(access, error)) => return Err(ReplayError::Policy { access, error }),
    };
    let only_memory = matches!(failed, None | Some((_, OpError::NoMemory)));
    let lruvecs = match o.inspect && only_memory {
        true => player.inspect(&o.commands)?,
        false => Vec::new(),
    };
    let time = player.contexts().map(coldset_machine::Ctx::now).max();
    let worked = player.contexts().map(coldset_machine::Ctx::worked).sum();
    let stopped = player.contexts().map(coldset_machine::Ctx::stopped).sum();
    Ok(End {
        time: time.unwrap_or(0),
        worked: Some(worked),
        stopped: Some(stopped),
        run: player.run,
        memcgs: player.memcgs,
        records: player.records,
        failed,
        lruvecs,
    })
}

/// Several tasks at a time.
fn at_once(run: MachineRun, memcgs: Memcgs, trace: &Trace, o: &ReplayOptions) -> End {
    let played = at_once::play(run, &memcgs, trace, o);
    let lruvecs = match o.inspect {
        true => inspect::dump(&played.run.machine.world()),
        false => Vec::new(),
    };
    End {
        time: played.run.executor.now(),
        worked: None,
        stopped: None,
        run: played.run,
        memcgs,
        records: Records {
            samples: played.samples,
            phases: played.phases,
            ..Records::default()
        },
        failed: played.failed,
        lruvecs,
    }
}

/// `task 3`, `tasks 1, 2 and 5`: at most ten of them.
fn listed(tasks: &BTreeSet<u16>) -> String {
    let shown: Vec<String> = tasks.iter().take(10).map(u16::to_string).collect();
    match (shown.as_slice(), tasks.len()) {
        ([one], _) => format!("task {one}"),
        ([first @ .., last], 0..=10) => format!("tasks {} and {last}", first.join(", ")),
        (shown, all) => format!("{all} tasks: {}, ...", shown.join(", ")),
    }
}

/// What a replay that has been played came to.
fn result(end: End, trace: &About, o: &ReplayOptions) -> Replay {
    let scans = end.run.machine.world_mut().engine.take_scans();
    let w = end.run.machine.world();
    let memcgs = &end.memcgs;
    let mut samples = end.records.samples;
    if o.sample_points > 0 {
        let end = trace.accesses;
        samples.retain(|s| s.0 < end);
        samples.push((end, w.sample()));
    }
    let told_apart = memcgs.apart && memcgs.of_processes().count() <= TASKS_COUNTED;
    let tasks = memcgs.of_processes().filter(|_| told_apart);
    Replay {
        counters: of_replay(&w, memcgs.limited, &o.swap),
        tasks: tasks
            .map(|(task, memcg)| (task, counters(&w, memcg, &o.swap)))
            .collect(),
        series: end.records.series,
        phases: end.records.phases,
        samples,
        generations: w.engine.generations(memcgs.limited),
        time: end.time,
        worked: end.worked,
        stopped: end.stopped,
        killed: None,
        lruvecs: end.lruvecs,
        scans,
    }
}
