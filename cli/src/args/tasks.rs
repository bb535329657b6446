//! How the tasks of a trace are played: `play` and `kernel play`.

use super::PaceArg;
use clap::{Args, ValueEnum};

/// Order of accesses across tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// As in the trace: a task waits until the accesses before its own are done
    Strict,
    /// Every task at its own speed, all at once
    PerTask,
}

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
    /// Order of accesses across tasks
    #[arg(long, value_enum, default_value = "strict")]
    pub order: OrderArg,
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
