//! Plays what a trace has between its accesses.

use super::player::{Player, Process, SeriesPoint, Stop};
use crate::traces::{self, Op, OpKind, Step, StepKind};
use coldset_machine::sim::TimeClass;
use coldset_machine::{Advice, OpError};

impl Player<'_> {
    /// The access before which the next step comes, or none.
    pub(super) fn next_step(&self) -> Option<usize> {
        let event = self.trace.events.get(self.stepped)?;
        Some(event.at as usize)
    }

    /// Plays the steps before access `at`, up to one that announces a call. Returns the most accesses of that call.
    pub(super) fn steps(&mut self, at: usize) -> Result<Option<usize>, Stop> {
        while let Some(event) = self.trace.events.get(self.stepped) {
            if event.at > at as u64 {
                break;
            }
            self.stepped += 1;
            let step = event.step;
            if step.kind == StepKind::Call {
                return Ok(Some(step.value as usize));
            }
            self.step(step, at as u64).map_err(|e| Stop::Op(at, e))?;
        }
        Ok(None)
    }

    fn step(&mut self, step: Step, access: u64) -> Result<(), OpError> {
        let task = usize::from(step.task);
        let Some(process) = self.processes[task].as_mut() else {
            return Ok(());
        };
        let (machine, run) = (&self.machine, &mut self.run);
        let object = || self.places.ids[usize::from(step.object)];
        match step.kind {
            StepKind::Fsync => {
                run.run_inline(&process.ctx, machine.fsync(&process.ctx, object()))?;
            }
            StepKind::Truncate | StepKind::Unlink => {
                let page = match step.kind {
                    StepKind::Truncate => step.value,
                    _ => 0,
                };
                run.run_inline(&process.ctx, machine.truncate(&process.ctx, object(), page));
            }
            StepKind::Advise => {
                if let Some(advice) = traces::Advice::from_u32(step.value) {
                    let view = process.view(step.object, &self.places.ids);
                    view.file.advise(advice_of(advice));
                    if let Some(mapping) = view.mapping {
                        machine.world_mut().follow_advice(mapping, &view.file);
                    }
                }
            }
            StepKind::Unmap => {
                let view = process.views.get_mut(usize::from(step.object));
                let mapping = view.and_then(|v| v.as_mut()?.mapping.take());
                if let Some(mapping) = mapping {
                    run.run_inline(&process.ctx, machine.unmap(&process.ctx, mapping));
                }
            }
            StepKind::Exit => {
                run.catch_up(&process.ctx);
                machine.exit_mm(&process.ctx, process.mm);
                let memcg = process.ctx.memcg;
                *process = Process::new(machine, memcg, self.clock);
            }
            StepKind::Think if self.options.settings.pace => {
                let ctx = &process.ctx;
                run.catch_up(ctx);
                let until = ctx.now() + u64::from(step.value);
                run.run_inline(ctx, ctx.sleep_until(TimeClass::Idle, until));
            }
            StepKind::Phase => {
                let (w, limited) = (machine.world(), self.memcgs.limited);
                let point = SeriesPoint::of(&w, limited, &self.options.swap, access);
                self.records.phases.push((step.value, point));
            }
            // Processes and the version concern the reader.
            StepKind::Think | StepKind::Process | StepKind::Call | StepKind::Version => {}
        }
        Ok(())
    }

    /// The next accesses, `most` at most, as one call: those to pages one after the other. Returns how many.
    pub(super) fn call(&mut self, at: usize, most: usize) -> Result<usize, OpError> {
        let ops = self.window.from(at);
        let Some(&first) = ops.first() else {
            return Ok(0);
        };
        let pages = run_of(ops.iter().copied(), most);
        if !first.kind.is_call() {
            return Ok(0);
        }
        let process = self.processes[usize::from(first.task)].as_mut();
        let process = process.expect(super::player::PRESENT);
        process.view(first.object, &self.places.ids);
        let view = process.views[usize::from(first.object)].as_ref();
        let file = &view.expect("just looked up").file;
        let (ctx, count) = (&process.ctx, pages as u32);
        self.pace.begin(ctx, at as u64);
        let (machine, run) = (&self.machine, &mut self.run);
        if first.kind == OpKind::Pread {
            run.run_inline(ctx, machine.read(ctx, file, first.page, count))?;
        } else {
            let whole = first.kind == OpKind::WholeWrite;
            run.run_inline(
                ctx,
                machine.write(ctx, file.object, first.page, count, whole),
            )?;
        }
        self.pace.end(ctx);
        machine.world_mut().engine.mm_ran(process.mm);
        Ok(pages)
    }
}

/// How many of the first accesses are alike, to pages one after the other.
pub(super) fn run_of(ops: impl Iterator<Item = Op>, most: usize) -> usize {
    let mut ops = ops.peekable();
    let Some(first) = ops.peek().copied() else {
        return 0;
    };
    let next =
        |&(n, op): &(usize, Op)| op.is_like(first) && op.page == first.page.wrapping_add(n as u32);
    ops.take(most).enumerate().take_while(next).count()
}

pub(super) fn advice_of(advice: traces::Advice) -> Advice {
    match advice {
        traces::Advice::Normal => Advice::Normal,
        traces::Advice::Random => Advice::Random,
        traces::Advice::Sequential => Advice::Sequential,
    }
}
