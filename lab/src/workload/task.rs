//! What a task of a workload does.

use super::choice::{Chooser, Tables};
use super::fields::Times;
use super::measure::Meter;
use super::run::Process;
use super::tasks::{Access, Action, Blocks, Cpu, End, Group, Step, WHOLE};
use crate::draw::{DrawError, Stream};
use crate::experiment::RunInput;
use coldset_machine::sim::TimeClass;
use coldset_machine::{Ctx, Machine, MappingId, OpError, OpenFile};
use std::collections::BTreeMap;
use std::rc::Rc;

/// So many operations that take no time, one after the other, are a workload that never ends.
const TIMELESS: u64 = 1_000_000;

/// The long tables of a group.
///
/// # Errors
/// A distribution that cannot be built.
pub(super) fn tables(group: &Group) -> Result<Tables, DrawError> {
    let mut tables = Tables::default();
    for step in group.phases.iter().flat_map(|p| &p.steps) {
        if let Action::Block(_, blocks) = &step.action {
            tables.prepare(blocks)?;
        }
    }
    Ok(tables)
}

/// A task before it starts.
pub(super) struct Body {
    group: Rc<Group>,
    /// Number of the group.
    number: usize,
    process: Rc<Process>,
    meter: Rc<Meter>,
    draw: Stream,
    start: Option<u64>,
    /// One for each step of each phase.
    choosers: Vec<Vec<Option<Chooser>>>,
    /// What each step computes, likewise.
    cpu: Vec<Vec<Option<Times>>>,
}

/// Why a task does not go on.
enum Stop {
    Op(OpError),
    Stuck(String),
}

impl From<OpError> for Stop {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl Body {
    /// Prepares a task: the number of its group, and its own in the group. Its draws: when it starts, then where its own hot blocks are, then the operations.
    ///
    /// # Errors
    /// A distribution that cannot be built.
    pub fn new(
        input: &RunInput,
        group: &Rc<Group>,
        mut tables: Tables,
        (number, index): (usize, u64),
        process: Rc<Process>,
        meter: &Rc<Meter>,
        mut draw: Stream,
    ) -> Result<Self, DrawError> {
        let start = match group.start {
            Times { least: 0, end: 0 } => None,
            times => Some(between(times, &mut draw)),
        };
        let mut choosers = Vec::new();
        for phase in &group.phases {
            let mut one = |step: &Step| match &step.action {
                Action::Block(_, blocks) => {
                    Chooser::new(blocks, &mut tables, index, group.count, &mut draw).map(Some)
                }
                _ => Ok(None),
            };
            let of_phase: Result<Vec<_>, DrawError> = phase.steps.iter().map(&mut one).collect();
            choosers.push(of_phase?);
        }
        let costs = input.costs_on("");
        let cpu = |step: &Step| {
            step.cpu.map(|cpu| match cpu {
                Cpu::Time(times) => times,
                Cpu::Row(row) => {
                    let ns = costs.get(row).unwrap_or_default();
                    Times { least: ns, end: ns }
                }
            })
        };
        let cpus = group
            .phases
            .iter()
            .map(|p| p.steps.iter().map(cpu).collect());
        Ok(Self {
            cpu: cpus.collect(),
            group: Rc::clone(group),
            number,
            process,
            meter: Rc::clone(meter),
            draw,
            start,
            choosers,
        })
    }
}

fn between(times: Times, draw: &mut Stream) -> u64 {
    match times.end - times.least {
        0 => times.least,
        width => times.least + draw.below(width),
    }
}

/// Runs a task to its end.
pub(super) async fn task(m: Machine, ctx: Ctx, mut body: Body) {
    if let Some(start) = body.start {
        ctx.sleep_until(TimeClass::Idle, start).await;
    }
    let meter = Rc::clone(&body.meter);
    let mut leaving = Leaving {
        m: &m,
        ctx: &ctx,
        meter: &meter,
        number: body.number,
        told: false,
    };
    meter.begin(ctx.now());
    let done = work(&m, &ctx, &mut body).await;
    leaving.told = true;
    let own = &meter.groups[body.number];
    match done {
        Ok(()) => own.finished(),
        Err(Stop::Op(error)) => {
            own.failed(error == OpError::NoMemory);
            meter.failure.note(error);
        }
        Err(Stop::Stuck(why)) => {
            own.failed(false);
            meter.stick(why);
            m.sim.stop();
        }
    }
    if let Some(t) = ctx.task() {
        t.settle().await;
    }
}

/// A task leaves: it has come to its end, or the OOM killer has ended it wherever it was. Nobody must wait for it.
struct Leaving<'a> {
    m: &'a Machine,
    ctx: &'a Ctx,
    meter: &'a Meter,
    number: usize,
    /// What became of it has been counted.
    told: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.told {
            if !self.ctx.killed() {
                // The run is over, and this one was not waited for.
                return;
            }
            self.meter.groups[self.number].failed(true);
            self.meter.failure.note(OpError::NoMemory);
        }
        if self.meter.ended(self.number) {
            self.m.sim.stop();
        }
    }
}

/// Something that a step works with.
struct Hands {
    files: BTreeMap<String, OpenFile>,
}

async fn work(m: &Machine, ctx: &Ctx, body: &mut Body) -> Result<(), Stop> {
    let open = |(name, (object, advice)): (&String, &(_, _))| {
        let file = OpenFile::new(*object);
        file.advise(*advice);
        (name.clone(), file)
    };
    let hands = Hands {
        files: body.process.files.iter().map(open).collect(),
    };
    let (group, meter) = (Rc::clone(&body.group), Rc::clone(&body.meter));
    let own = &meter.groups[body.number];
    // The end of the phase before, where that was a matter of time.
    let mut since = Some(ctx.now());
    for (number, phase) in group.phases.iter().enumerate() {
        if phase.together {
            own.together(number).await;
            since = Some(ctx.now());
        }
        let deadline = match phase.end {
            End::Time(ns) => Some(since.unwrap_or_else(|| ctx.now()) + ns),
            _ => None,
        };
        let most = match phase.end {
            End::Count(n) => n,
            _ => u64::MAX,
        };
        let (mut done, mut timeless) = (0u64, 0u64);
        while done < most {
            let begin = ctx.now();
            if deadline.is_some_and(|end| begin >= end) {
                break;
            }
            if phase.measured {
                meter.measure(m, ctx, number == 0);
            }
            let Some(pages) = operation(m, ctx, body, &hands, number).await? else {
                break;
            };
            done += 1;
            let took = ctx.now() - begin;
            if phase.measured {
                own.operation(took, pages);
            }
            timeless = if took == 0 { timeless + 1 } else { 0 };
            if timeless == TIMELESS && most == u64::MAX {
                return Err(Stop::Stuck(format!(
                    "phase {} of '{}' never ends: its operations take no time; give a step cpu = \"1us\"",
                    number + 1,
                    group.name
                )));
            }
        }
        since = deadline;
    }
    Ok(())
}

/// Once through the steps of a phase; pages used, or none if a region is through.
async fn operation(
    m: &Machine,
    ctx: &Ctx,
    body: &mut Body,
    hands: &Hands,
    phase: usize,
) -> Result<Option<u64>, Stop> {
    if ctx.killed() {
        return Err(OpError::NoMemory.into());
    }
    let group = Rc::clone(&body.group);
    let mut pages = 0;
    for (number, step) in group.phases[phase].steps.iter().enumerate() {
        if step.chance < WHOLE && !body.draw.chance(step.chance, WHOLE) {
            continue;
        }
        for _ in 0..step.times {
            match &step.action {
                Action::Block(access, blocks) => {
                    let Body {
                        choosers,
                        draw,
                        process,
                        ..
                    } = &mut *body;
                    let chooser = choosers[phase][number].as_mut();
                    let Some(block) = chooser.and_then(|c| c.next(draw)) else {
                        return Ok(None);
                    };
                    let page = blocks.first + block * blocks.size;
                    let maps = &process.maps;
                    block_step(m, ctx, *access, blocks, page, maps, hands).await?;
                    pages += u64::from(blocks.size);
                }
                Action::Fsync(name) => m.fsync(ctx, hands.files[name].object).await?,
                Action::Truncate(name) => m.truncate(ctx, hands.files[name].object, 0).await,
                Action::Sleep(times) => {
                    let ns = between(*times, &mut body.draw);
                    if let Some(t) = ctx.task() {
                        t.settle().await;
                    }
                    ctx.sleep_until(TimeClass::Idle, ctx.now() + ns).await;
                }
                Action::Compute => {}
            }
            if let Some(times) = body.cpu[phase][number] {
                ctx.charge(TimeClass::User, between(times, &mut body.draw));
            }
            ctx.maybe_settle().await;
        }
    }
    Ok(Some(pages))
}

async fn block_step(
    m: &Machine,
    ctx: &Ctx,
    access: Access,
    blocks: &Blocks,
    page: u32,
    maps: &BTreeMap<String, MappingId>,
    hands: &Hands,
) -> Result<(), OpError> {
    match access {
        Access::Load | Access::Store => {
            let map = maps[&blocks.region];
            for page in page..page + blocks.size {
                m.access(ctx, map, page, access == Access::Store).await?;
            }
            Ok(())
        }
        Access::Pread => {
            m.read(ctx, &hands.files[&blocks.region], page, blocks.size)
                .await
        }
        Access::Pwrite { partial } => {
            let object = hands.files[&blocks.region].object;
            m.write(ctx, object, page, blocks.size, !partial).await
        }
    }
}
