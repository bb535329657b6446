//! A deterministic discrete-event executor: simulated tasks are `async` code in virtual time.
//!
//! Events are ordered by (time, sequence number); there are no threads, no wall clock and no
//! hashing, so the same program gives the same run. Task code uses the [`Sim`] handle and its
//! own [`Task`]; the [`Executor`] owns the tasks and runs the events.
//!
//! Cheap work does not cost an event: a task adds it up with [`Task::charge`], runs ahead of the
//! clock by up to a quantum, and [settles](Task::maybe_settle) then.
//!
//! ```
//! use coldset_machine::device::{Device, DeviceKind, Request};
//! use coldset_machine::params::Params;
//! use coldset_machine::sim::{Affinity, Executor, SimConfig, TimeClass, WaitQueue};
//!
//! let params = Params::default();
//! let mut executor = Executor::new(SimConfig::from_params(&params, 4));
//! let mut disk = Device::new(DeviceKind::Nvme.spec(&params), 1);
//! let filled = WaitQueue::with_latency(&executor, params.kswapd_wake_ns);
//!
//! let (sim, queue) = (executor.handle(), filled.clone());
//! executor.spawn("reader", Affinity::Any, async move {
//!     let task = sim.current();
//!     for page in 0..64 {
//!         task.charge_as(TimeClass::Fault, params.minor_fault_file_ns);
//!         let done = disk.submit(task.local_now(), Request::read(page << 20, 4096));
//!         task.sleep_until_as(TimeClass::IoWait, done.end).await;
//!         task.maybe_settle().await;
//!     }
//!     assert_eq!(task.times().get(TimeClass::IoWait), 64 * 60_585);
//!     queue.wake_all();
//! });
//! executor.spawn("waiter", Affinity::Off, async move {
//!     assert!(filled.wait_timeout_as(TimeClass::Idle, 1_000_000_000).await);
//! });
//! executor.run();
//! assert_eq!(executor.now(), 64 * (500 + 60_585) + 10_000);
//! ```

mod class;
mod config;
mod cpus;
mod event;
mod executor;
mod handle;
mod lock;
mod mask;
mod sched;
mod task;
mod task_ctx;
mod wait;

#[cfg(test)]
mod tests;

pub use class::{TaskTimes, TimeClass, TIME_CLASSES};
pub use config::SimConfig;
pub use cpus::CpuStats;
pub use executor::{Executor, RunEnd};
pub use handle::Sim;
pub use lock::{Grant, LockStats, TicketLock};
pub use mask::{CpuMask, MAX_CPUS};
pub use sched::{ContextSwitch, SwitchHook};
pub use task::{Affinity, Task};
pub use task_ctx::TaskId;
pub use wait::{Settle, Wait, WaitQueue};
