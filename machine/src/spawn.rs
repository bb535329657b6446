//! Starting simulated tasks.

use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::sim::{Affinity, CpuMask, TaskId};
use crate::vm::context_switches::ContextSwitches;
use crate::vm::offline::MemcgHold;
use coldset_engine::{MmId, NodeId};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

impl Machine {
    /// Starts a task in an address space. It is handed its context. Its memory comes from the node of its CPU, as long as
    /// that has any.
    pub fn spawn<F, Fut>(&self, name: &str, affinity: Affinity, mm: MmId, body: F) -> TaskId
    where
        F: FnOnce(Machine, Ctx) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.spawn_from(name, affinity, None, mm, body)
    }

    /// Starts a task that is bound to a node, by CPU and by memory.
    pub fn spawn_on<F, Fut>(&self, name: &str, node: NodeId, mm: MmId, body: F) -> TaskId
    where
        F: FnOnce(Machine, Ctx) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let affinity = self.node_affinity(node);
        self.spawn_from(name, affinity, Some(node), mm, body)
    }

    /// The CPUs of a node: they are dealt out in equal runs, the first ones to node 0.
    pub fn node_affinity(&self, node: NodeId) -> Affinity {
        let config = self.sim.config();
        if config.nodes == 1 {
            return Affinity::Any;
        }
        let mut mask = CpuMask::EMPTY;
        let cpus = config.cpus_of(node.0 as u16);
        cpus.for_each(|cpu| mask.insert(cpu));
        Affinity::Mask(mask)
    }

    fn spawn_from<F, Fut>(
        &self,
        name: &str,
        affinity: Affinity,
        node: Option<NodeId>,
        mm: MmId,
        body: F,
    ) -> TaskId
    where
        F: FnOnce(Machine, Ctx) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let machine = self.clone();
        let memcg = self.w.borrow().mms[mm.idx()].memcg;
        let sim = self.sim.clone();
        let killed = Rc::new(Cell::new(false));
        let flag = killed.clone();
        let hold = MemcgHold::new(self, memcg);
        let id = self.sim.spawn(name, affinity, async move {
            let mut ctx = Ctx::of_task(sim.current(), mm, memcg);
            ctx.killed = flag;
            node.into_iter().for_each(|node| ctx.bind(node));
            body(machine, ctx).await;
            drop(hold);
        });
        if let Some(task) = self.sim.task(id) {
            // Context switches tell address spaces apart by it.
            task.set_tag(ContextSwitches::tag(mm));
        }
        self.register_task(mm, id, killed);
        self.w.borrow_mut().record_begin(id, mm);
        id
    }
}
