//! How the tasks of a trace are played: `play` and `kernel play`.

use super::PaceArg;
use clap::{Args, ValueEnum};
use coldset_lab::traces::Order;

/// What a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TasksArg {
    /// A process; of several, each in a cgroup of its own below the limited one, as in a replay
    Processes,
    /// A thread of one process: one address space, one cgroup
    Threads,
    /// One process does the accesses of all, with mappings for each
    One,
}

/// Tasks.
#[derive(Args, Clone, Debug)]
pub struct TaskArgs {
    /// Order of accesses across tasks: strict, one at a time, as in the trace; within:N, all at once, nobody more than N
    /// accesses ahead of the last; per-task, all at once. Threads of a process are one task when it is strict
    #[arg(long, value_name = "ORDER", default_value_t = Order::Strict)]
    pub order: Order,
    /// What a task of the trace is
    #[arg(long, value_enum, default_value = "processes")]
    pub tasks: TasksArg,
    /// Time that tasks compute or sleep between accesses, of traces that have it
    #[arg(long, value_enum, default_value = "none")]
    pub pace: PaceArg,
    /// memory.low (cgroup v2) of the cgroup, or, with TASK=, of a task's own below it, where a share is one of the
    /// limit; can be given several times
    #[arg(long, value_name = "[TASK=]SIZE")]
    pub low: Vec<String>,
}
