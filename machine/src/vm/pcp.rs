//! Pages on their way between a zone and a CPU (`docs/rules/machine.md`): every CPU has a list of
//! its own, which is refilled and drained in batches under the zone lock of the node.
//!
//! Only time is modelled here. Which pages are free is for the zones to say; what waits in a CPU's list
//! counts as free there, unless the machine is told otherwise (`MachineConfig::cpu_lists`).

use crate::ctx::Ctx;
use crate::params::Params;
use crate::sim::{LockStats, TicketLock, TimeClass};
use coldset_engine::NodeId;

/// A list is drained when it holds more batches than this.
pub(crate) const HIGH_BATCHES: u64 = 4;

/// The lists of all CPUs, and the zone locks.
#[derive(Debug)]
pub(crate) struct PageLists {
    /// Pages, by node and CPU.
    held: Vec<Vec<u64>>,
    /// The zone lock of each node.
    zones: Vec<TicketLock>,
}

impl PageLists {
    pub(crate) fn new(nodes: usize, cpus: u16, params: &Params) -> Self {
        let lock = TicketLock::new(params.lock_handoff_local_ns, params.lock_handoff_remote_ns);
        Self {
            held: vec![vec![0; usize::from(cpus)]; nodes],
            zones: vec![lock; nodes],
        }
    }

    /// A task takes pages. An inline task has no CPU, and so no list.
    #[inline]
    pub(crate) fn take(&mut self, ctx: &Ctx, p: &Params, node: NodeId, n: u64) {
        let Some(cpu) = ctx.task().map(|t| usize::from(t.cpu())) else {
            return;
        };
        let held = &mut self.held[node.idx()][cpu];
        if let Some(left) = held.checked_sub(n) {
            *held = left;
            return;
        }
        let batch = p.pcp_batch_pages;
        let batches = (n - *held).div_ceil(batch);
        *held = *held + batches * batch - n;
        self.lock(ctx, p, node, batches, TimeClass::Fault);
    }

    /// A task gives pages back.
    #[inline]
    pub(crate) fn give(&mut self, ctx: &Ctx, p: &Params, node: NodeId, n: u64) {
        let Some(cpu) = ctx.task().map(|t| usize::from(t.cpu())) else {
            return;
        };
        let held = &mut self.held[node.idx()][cpu];
        *held += n;
        let batch = p.pcp_batch_pages;
        let over = held.saturating_sub(HIGH_BATCHES * batch);
        if over > 0 {
            let batches = over.div_ceil(batch);
            *held -= batches * batch;
            self.lock(ctx, p, node, batches, TimeClass::AllocStall);
        }
    }

    /// One critical section a batch.
    #[cold]
    fn lock(&mut self, ctx: &Ctx, p: &Params, node: NodeId, batches: u64, class: TimeClass) {
        let task = ctx.task().expect("looked at by the callers");
        let zone = &mut self.zones[node.idx()];
        for _ in 0..batches {
            task.lock_as(class, zone, p.pcp_batch_ns);
        }
    }

    /// Totals of the zone locks, by node.
    pub(crate) fn lock_stats(&self) -> Vec<LockStats> {
        self.zones.iter().map(TicketLock::stats).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::sim::{Affinity, TimeClass};
    use crate::{MachineConfig, MachineRun};
    use coldset_engine::presets::preset;
    use coldset_engine::{MemcgId, NodeId};

    #[test]
    fn a_batch_is_one_section_under_the_zone_lock() {
        let mut run = MachineRun::new(&MachineConfig::new(preset("v5").unwrap())).unwrap();
        let m = run.machine.clone();
        let mm = m.create_mm(MemcgId::ROOT);
        m.spawn("taker", Affinity::Any, mm, |m, ctx| async move {
            let node = NodeId(0);
            let p = m.world().params.clone();
            let sections = |m: &crate::Machine| m.world().zone_lock_stats()[0];
            let step = |take: u64, give: u64| {
                let mut w = m.world_mut();
                w.page_lists.take(&ctx, &p, node, take);
                w.page_lists.give(&ctx, &p, node, give);
            };
            (0..63).for_each(|_| step(1, 0));
            assert_eq!(sections(&m).acquisitions, 1);
            step(1, 0);
            assert_eq!(sections(&m).acquisitions, 2);
            // 62 are left; four batches may stay.
            step(0, 4 * 63 - 62);
            assert_eq!(sections(&m).acquisitions, 2);
            step(0, 1);
            assert_eq!(sections(&m).acquisitions, 3);
            assert_eq!(sections(&m).hold_sum, 3 * p.pcp_batch_ns);
            // What one task gives back it can take again without the lock.
            (0..100).for_each(|_| step(1, 1));
            assert_eq!(sections(&m).acquisitions, 3);
            ctx.sleep_until(TimeClass::Idle, ctx.now() + 1).await;
        });
        run.run_until(1_000_000_000);
        assert_eq!(m.world().zone_lock_stats()[0].acquisitions, 3);
    }
}
