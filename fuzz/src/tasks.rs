//! Several tasks on the executor, and the monitor that checks between the events.

use super::load::{Load, Proc, Shared, HEAL_AFTER, OPERATION_MAX};
use super::ops;
use coldset_engine::NodeId;
use coldset_lab::draw::Stream;
use coldset_machine::sim::{Affinity, TaskId};
use coldset_machine::{Ctx, InlineClock, Machine};
use std::rc::Rc;

struct Running {
    p: Rc<Proc>,
    threads: Vec<TaskId>,
    /// When its last thread was found to have ended, and how long it stays after that, ns.
    ended: Option<(u64, u64)>,
}

async fn worker(sh: Rc<Shared>, machine: Machine, mut ctx: Ctx, p: Rc<Proc>, mut rng: Stream) {
    // Some have memory of any node.
    let node = rng.below(u64::from(sh.nodes) * 2) as u32;
    if node < sh.nodes {
        ctx.bind(NodeId(node));
    }
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
                self.sh
                    .machine
                    .spawn("fuzz", Affinity::Any, mm, move |machine, ctx| {
                        worker(sh, machine, ctx, p, rng)
                    })
            })
            .collect();
        Running {
            p,
            threads,
            ended: None,
        }
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
            if stuck > HEAL_AFTER {
                self.sh.heal();
            }
            assert!(stuck < OPERATION_MAX, "no operation ends any more");
            if did > 200 {
                slice = (slice / 2).max(1000);
            } else if did < 50 {
                slice = (slice * 2).min(1_000_000_000);
            }
            self.reap(&mut running);
            self.maybe_check();
        }
    }

    /// Processes without threads end; new ones take their place while there is something to do.
    fn reap(&mut self, running: &mut Vec<Running>) {
        for i in (0..running.len()).rev() {
            let sim = &self.sh.machine.sim;
            if running[i].threads.iter().any(|&t| sim.task(t).is_some()) {
                continue;
            }
            let now = self.run.executor.now();
            if running[i].ended.is_none() {
                for r in running[i].p.regions.iter().filter(|r| r.anon) {
                    self.sh.model.borrow_mut().released(r.at);
                }
                let stays = if self.rng.chance(1, 2) {
                    0
                } else {
                    self.rng.below(1_000_000_000)
                };
                running[i].ended = Some((now, stays));
            }
            if running[i].ended.is_some_and(|(at, stays)| now < at + stays) {
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
