//! Several tasks on the executor, and the monitor that checks between the events.

use super::load::{Load, Proc, Shared};
use super::ops;
use crate::draw::Stream;
use coldset_engine::NodeId;
use coldset_machine::sim::{Affinity, TaskId};
use coldset_machine::{Ctx, InlineClock, Machine};
use std::rc::Rc;

/// Virtual time without a single operation after which the run counts as stuck, ns.
const STUCK: u64 = 86_400_000_000_000;

struct Running {
    p: Rc<Proc>,
    threads: Vec<TaskId>,
}

async fn worker(sh: Rc<Shared>, machine: Machine, mut ctx: Ctx, p: Rc<Proc>, mut rng: Stream) {
    ctx.node = NodeId(rng.below(sh.nodes.into()) as u32);
    debug_assert!(!ctx.killed());
    while !sh.over() && !rng.chance(1, 2000) {
        ops::one(&sh, &ctx, &p, &mut rng).await;
    }
    drop(machine);
}

impl Load {
    fn start(&mut self, threads: u64) -> Running {
        let p = self.sh.new_process(&mut self.rng);
        let threads = (0..threads)
            .map(|_| {
                let (sh, p) = (self.sh.clone(), p.clone());
                let rng = Stream::new(self.rng.bits(), "fuzz-thread", 0);
                let mm = p.mm;
                self.sh.machine.spawn("fuzz", Affinity::Any, mm, move |machine, ctx| {
                    worker(sh, machine, ctx, p, rng)
                })
            })
            .collect();
        Running { p, threads }
    }

    /// Runs until the operations are used up and every thread has ended.
    pub fn tasks(&mut self) {
        let (mut slice, mut stuck) = (100_000u64, 0u64);
        let (n, m) = (self.setup.tasks, self.setup.processes);
        let mut running: Vec<Running> = (0..m)
            .map(|i| self.start(n / m + u64::from(i < n % m)))
            .collect();
        while !running.is_empty() {
            let before = self.sh.done.get();
            let until = self.run.executor.now() + slice;
            self.run.run_until(until);
            let did = self.sh.done.get() - before;
            stuck = if did > 0 { 0 } else { stuck + slice };
            assert!(stuck < STUCK, "no operation ends any more");
            if did > 200 {
                slice = (slice / 2).max(1000);
            } else if did < 50 {
                slice = (slice * 2).min(1_000_000_000);
            }
            self.maybe_check();
            self.reap(&mut running);
        }
    }

    /// Processes without threads end; new ones take their place while there is something to do.
    fn reap(&mut self, running: &mut Vec<Running>) {
        for i in (0..running.len()).rev() {
            let sim = &self.sh.machine.sim;
            if running[i].threads.iter().any(|&t| sim.task(t).is_some()) {
                continue;
            }
            let old = running.swap_remove(i);
            let p = old.p;
            let ctx = Ctx::inline(p.mm, p.memcg, InlineClock::External);
            ctx.set_clock(self.run.executor.now());
            self.sh.exit(&ctx, &p);
            if running.iter().all(|r| r.p.memcg != p.memcg) {
                self.sh.offline(p.memcg);
            }
            if !self.sh.over() {
                let new = self.start(old.threads.len() as u64);
                running.push(new);
            }
        }
    }
}
