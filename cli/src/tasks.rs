//! Tasks of a trace in `play` and `kernel play`: what the options mean, and what a run says of each.

use crate::args::{PaceArg, TaskArgs, TasksArg};
use crate::error::Failure;
use crate::lab::ReadAs;
use clap::ValueEnum;
use coldset_lab::runner::{Low, Size};
use coldset_play::{Played, Tasks};
use serde_json::{json, Value};

/// Protection: of the whole cgroup, and of tasks.
#[derive(Default, PartialEq, Debug)]
pub struct Protection {
    /// Of the whole; a share is one of the pages of the trace.
    pub whole: Option<Size>,
    /// Of tasks; a share is one of the limit.
    pub tasks: Vec<Low>,
}

fn protected_twice(text: &str) -> Failure {
    Failure::Usage(format!(
        "--low {text}: this cgroup has a protection already; give it once"
    ))
}

/// Adds `--low TASK=SIZE`.
///
/// # Errors
/// No such thing, or the task has one already.
pub fn protect(tasks: &mut Vec<Low>, text: &str) -> Result<(), Failure> {
    let low = Low::parse(text)?;
    if tasks.iter().any(|other| other.task == low.task) {
        return Err(protected_twice(text));
    }
    tasks.push(low);
    Ok(())
}

impl TaskArgs {
    /// How a trace is read that is played so: where one access is done at a time, threads are one task.
    pub fn reading(&self) -> ReadAs {
        ReadAs {
            threads: self.order.is_at_once(),
            ..ReadAs::default()
        }
    }

    /// `--tasks`.
    pub fn tasks(&self) -> Tasks {
        match self.tasks {
            TasksArg::Processes => Tasks::Processes,
            TasksArg::Threads => Tasks::Threads,
            TasksArg::One => Tasks::One,
        }
    }

    /// `--pace`.
    pub fn pace(&self) -> bool {
        self.pace == PaceArg::Trace
    }

    /// `--low`, all of them.
    ///
    /// # Errors
    /// No sizes, or the same cgroup twice.
    pub fn protection(&self) -> Result<Protection, Failure> {
        let mut all = Protection::default();
        for text in &self.low {
            if text.contains('=') {
                protect(&mut all.tasks, text)?;
            } else if all.whole.replace(Size::parse("low", text)?).is_some() {
                return Err(protected_twice(text));
            }
        }
        Ok(all)
    }

    /// The same for the command line of `play` in a guest.
    pub fn arguments(&self) -> Vec<String> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |v| v.get_name().to_owned())
        };
        let mut out = vec![
            format!("--order={}", self.order),
            format!("--tasks={}", name(self.tasks.to_possible_value())),
            format!("--pace={}", name(self.pace.to_possible_value())),
        ];
        out.extend(self.low.iter().map(|low| format!("--low={low}")));
        out
    }
}

/// What each worker of a run has done; "task" is null for one that does all.
pub fn json_of(run: &Played) -> Value {
    let each = run.tasks.iter().map(
        |t| json!({"task": t.task, "accesses": t.accesses, "busy_ms": t.busy.as_millis() as u64}),
    );
    each.collect()
}
