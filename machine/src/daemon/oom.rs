//! The OOM killers, of a memcg and of the machine (`docs/rules/zones.md`).

use super::state::{OomReport, Proc};
use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::sim::TaskId;
use crate::vm::swap_area::Swap;
use coldset_engine::memcg::OomStart;
use coldset_engine::oom::{select, OomTask, Selection};
use coldset_engine::{Counter, MemcgId, MmId};
use std::cell::Cell;
use std::rc::Rc;

impl crate::world::World {
    /// The processes of an address space that has ended are no longer candidates.
    pub(crate) fn proc_gone(&mut self, mm: MmId) {
        for p in self.procs.iter_mut().filter(|p| p.mm == mm) {
            p.gone = true;
        }
    }
}

impl Machine {
    /// Enters a thread of an address space into the list of processes.
    pub(crate) fn register_task(&self, mm: MmId, id: TaskId, killed: Rc<Cell<bool>>) {
        let mut w = self.w.borrow_mut();
        if let Some(p) = w.procs.iter_mut().find(|p| p.mm == mm && !p.gone) {
            p.threads.push((id, killed));
            return;
        }
        w.procs.push(Proc {
            mm,
            threads: vec![(id, killed)],
            adj: 0,
            dying: false,
            gone: false,
        });
    }

    /// Kills for the limit of `over`. True if something was killed, is dying, or room appeared.
    pub(crate) fn memcg_oom(&self, ctx: &Ctx, over: MemcgId, order: u32) -> bool {
        let total = {
            let w = self.w.borrow();
            match w.engine.memcgs.oom_start(over, order) {
                OomStart::TooLarge => return false,
                OomStart::Room => return true,
                OomStart::Kill => {}
            }
            w.engine
                .memcgs
                .oom_total_pages(over, w.swap.as_ref().map_or(0, Swap::total))
        };
        self.kill_below(ctx, over, total)
    }

    /// Kills for the machine.
    pub(crate) fn global_oom(&self, ctx: &Ctx) -> bool {
        let total = {
            let w = self.w.borrow();
            let ram: u64 = w.engine.zones.all().iter().map(|z| z.managed).sum();
            ram + w.swap.as_ref().map_or(0, Swap::total)
        };
        self.kill_below(ctx, MemcgId::ROOT, total)
    }

    fn kill_below(&self, ctx: &Ctx, over: MemcgId, total: u64) -> bool {
        if ctx.killed() {
            return true;
        }
        let candidates: Vec<OomTask> = {
            let w = self.w.borrow();
            w.procs
                .iter()
                .enumerate()
                .filter(|(_, p)| {
                    !p.gone && w.engine.memcgs.is_within(w.mms[p.mm.idx()].memcg, over)
                })
                .map(|(i, p)| {
                    let mm = &w.mms[p.mm.idx()];
                    OomTask {
                        id: i as u32,
                        rss: mm.anon + mm.file,
                        swap: mm.swapped,
                        page_tables: mm.tables,
                        adj: p.adj,
                        exempt: false,
                        victim: p.dying,
                        reaped: false,
                    }
                })
                .collect()
        };
        match select(candidates, total) {
            Selection::Victim { id, .. } => {
                self.report_kill(ctx, over, id as usize);
                self.kill_process(ctx, id as usize);
                true
            }
            Selection::InProgress { .. } => true,
            Selection::Nobody => false,
        }
    }

    fn report_kill(&self, ctx: &Ctx, over: MemcgId, index: usize) {
        let mut w = self.w.borrow_mut();
        let stat = |c| w.engine.memcgs.live(over, c).max(0) as u64;
        let m = w.engine.memcgs[over].memory();
        let report = OomReport {
            at: self.sim.now().max(ctx.now()),
            victim: w.procs[index].mm,
            over,
            usage: m.usage(),
            failcnt: m.failcnt(),
            anon: stat(Counter::AnonPages),
            file: stat(Counter::FilePages),
            evictable_file: stat(Counter::InactiveFile) + stat(Counter::ActiveFile),
        };
        w.ooms.push(report);
        if w.stop_at_oom {
            self.sim.stop();
        }
    }

    /// Kills a process; its memory is freed after the exit delay.
    fn kill_process(&self, ctx: &Ctx, index: usize) {
        let (mm, threads, delay) = {
            let mut w = self.w.borrow_mut();
            let delay = w.params.oom_exit_delay_ns;
            let p = &mut w.procs[index];
            p.dying = true;
            let (mm, threads) = (p.mm, p.threads.clone());
            let memcg = w.mms[mm.idx()].memcg;
            w.engine.count(memcg, Counter::OomKill, 1);
            w.engine.memcgs.oom_killed(memcg);
            (mm, threads, delay)
        };
        for (id, killed) in &threads {
            killed.set(true);
            self.sim.kill(*id);
        }
        let machine = self.clone();
        let memcg = self.w.borrow().mms[mm.idx()].memcg;
        let at = self.sim.now().max(ctx.now()) + delay;
        self.sim.call_at(at, move || {
            let ctx = Ctx::inline(mm, memcg, crate::ctx::InlineClock::External);
            ctx.set_clock(machine.sim.now());
            machine.exit_mm(&ctx, mm);
        });
    }
}
