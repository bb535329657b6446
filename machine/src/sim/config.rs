//! What the executor needs to know of the machine.

use super::mask::MAX_CPUS;
use crate::params::Params;

/// Shape and costs of the simulated scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// CPUs, 1 to [`MAX_CPUS`].
    pub cpus: u16,
    /// NUMA nodes, each a socket; CPUs are dealt out in equal runs, the first ones to node 0.
    pub nodes: u16,
    /// Timer ticks per second, 1 to 1,000,000,000.
    pub hz: u64,
    /// How long a task keeps its CPU while others queue for it, ns.
    pub slice_ns: u64,
    /// A timer ends slices. Without, a task keeps its CPU until it gives way.
    pub timed_slices: bool,
    /// Cost of a context switch when another task ran last on the CPU, ns.
    pub switch_ns: u64,
    /// From a wake-up until the task is runnable, ns. A wait queue may have its own.
    pub wake_latency_ns: u64,
    /// How far a task may run ahead of the clock, ns.
    pub quantum_ns: u64,
}

impl SimConfig {
    /// The configuration that the cost parameters ask for, with this many CPUs.
    #[must_use]
    pub fn from_params(params: &Params, cpus: u16) -> Self {
        Self {
            cpus: cpus.clamp(1, MAX_CPUS),
            nodes: 1,
            hz: params.timer_hz.clamp(1, 1_000_000_000),
            slice_ns: params.sched_slice_ns,
            timed_slices: params.sched_hrtick_enabled != 0,
            switch_ns: params.context_switch_direct_ns + params.context_switch_refill_ns,
            wake_latency_ns: 0,
            quantum_ns: params.sim_quantum_ns,
        }
    }

    /// The CPUs of a node. With fewer CPUs than nodes, nodes share.
    #[must_use]
    pub fn cpus_of(&self, node: u16) -> std::ops::Range<u16> {
        let (cpus, nodes) = (u32::from(self.cpus), u32::from(self.nodes.max(1)));
        let first = u32::from(node) * cpus / nodes;
        let end = ((u32::from(node) + 1) * cpus / nodes).max(first + 1);
        first as u16..end as u16
    }

    /// The first node a CPU belongs to.
    #[inline]
    #[must_use]
    pub fn node_of(&self, cpu: u16) -> u16 {
        if self.nodes <= 1 {
            return 0;
        }
        let (cpus, nodes) = (u32::from(self.cpus), u32::from(self.nodes));
        // The inverse of the divisions above.
        match cpus < nodes {
            true => (u32::from(cpu) * nodes).div_ceil(cpus) as u16,
            false => (((u32::from(cpu) + 1) * nodes - 1) / cpus) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_in_the_run_of_its_node() {
        for (cpus, nodes) in [
            (1, 1),
            (96, 2),
            (3, 2),
            (128, 4),
            (7, 3),
            (64, 5),
            (1, 2),
            (3, 8),
        ] {
            let config = SimConfig {
                nodes,
                ..SimConfig::from_params(&Params::default(), cpus)
            };
            for cpu in 0..cpus {
                let node = config.node_of(cpu);
                assert!(
                    config.cpus_of(node).contains(&cpu),
                    "{cpu} of {cpus}, {nodes}"
                );
                let first = (0..nodes).find(|n| config.cpus_of(*n).contains(&cpu));
                assert_eq!(Some(node), first, "{cpu} of {cpus}, {nodes}");
            }
        }
    }
}
