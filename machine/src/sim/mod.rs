//! A deterministic discrete-event executor: simulated tasks are `async` code in virtual time.
//!
//! Events are ordered by (time, sequence number); there are no threads, no wall clock and no
//! hashing, so the same program gives the same run. Task code uses the [`Sim`] handle and its
//! own [`Task`]; the [`Executor`] owns the tasks and runs the events.
//!
//! Cheap work does not cost an event: a task adds it up with [`Task::charge`], runs ahead of the
//! clock by up to a quantum, and [settles](Task::maybe_settle) then.

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
pub use sched::{Switch, SwitchHook};
pub use task::{Affinity, Task, TaskId};
pub use wait::{Settle, Wait, WaitQueue};
