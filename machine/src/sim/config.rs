//! What the executor needs to know of the machine.

use super::mask::MAX_CPUS;
use crate::params::Params;

/// Shape and costs of the simulated scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// CPUs, 1 to [`MAX_CPUS`].
    pub cpus: u16,
    /// Timer ticks per second, 1 to 1,000,000,000.
    pub hz: u64,
    /// How long a task keeps its CPU while others queue for it, ns.
    pub slice_ns: u64,
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
            hz: params.timer_hz.clamp(1, 1_000_000_000),
            slice_ns: params.sched_slice_ns,
            switch_ns: params.context_switch_direct_ns + params.context_switch_refill_ns,
            wake_latency_ns: 0,
            quantum_ns: params.sim_quantum_ns,
        }
    }
}
