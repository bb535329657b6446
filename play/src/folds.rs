//! When the kernel folds the statistics of all groups, which it does every two seconds, whenever a run began: reclaim of
//! the classic lists goes by what the last fold has found.

use crate::trace::Buffer;
use crate::PlayError;
use std::time::Duration;

/// Its folder among the events.
const EVENT: &str = "memcg/memcg_flush_stats";
const NAME: &str = "memcg_flush_stats";
/// What is written where a run begins.
const BEGIN: &str = "coldset: the run begins";

/// Looks for the first fold of a run.
#[derive(Debug)]
pub(crate) struct Folds {
    trace: Buffer,
}

impl Folds {
    /// The run begins. None: the kernel has no such tracepoint, or not for us.
    pub fn begin() -> Option<Self> {
        Self::try_begin().ok()
    }

    fn try_begin() -> Result<Self, PlayError> {
        let trace = Buffer::make(EVENT, "-folds")?;
        // The first ones are wanted, if there are too many.
        trace.set("options/overwrite", "0")?;
        // Those that nobody has asked for.
        trace.set(&format!("events/{EVENT}/filter"), "force == 1")?;
        trace.set(&format!("events/{EVENT}/enable"), "1")?;
        trace.set("trace_marker", BEGIN)?;
        Ok(Self { trace })
    }

    /// How long after the beginning of the run the first fold was; none: there has been none.
    pub fn first(mut self) -> Option<Duration> {
        first_in(&self.trace.lines().ok()?)
    }
}

/// The time from the beginning of the run to the first fold, of the lines of a trace.
fn first_in(lines: &[String]) -> Option<Duration> {
    let mut events = lines.iter().filter_map(|line| dated(line));
    let (begun, _) = events.find(|(_, event)| event.ends_with(BEGIN))?;
    let (first, _) = events.find(|(_, event)| event.starts_with(NAME))?;
    Duration::try_from_secs_f64(first - begun).ok()
}

/// The time of a line of the trace, in seconds, and what is behind it.
fn dated(line: &str) -> Option<(f64, &str)> {
    let (before, event) = line.split_once(": ")?;
    Some((before.split_whitespace().last()?.parse().ok()?, event))
}

#[cfg(test)]
mod tests {
    use super::{dated, first_in, BEGIN};
    use std::time::Duration;

    #[test]
    fn lines_have_a_time() {
        let line = "    kworker/u4:0-12      [000] .....     2.110107: memcg_flush_stats: memcg_id=1 stats_updates=128 force=1 needs_flush=1";
        let event = "memcg_flush_stats: memcg_id=1 stats_updates=128 force=1 needs_flush=1";
        assert_eq!(dated(line), Some((2.110107, event)));
        assert_eq!(dated("CPU:0 [LOST 4711 EVENTS]"), None);
        assert_eq!(dated("# tracer: nop"), None);
    }

    #[test]
    fn a_fold_before_the_run_is_none_of_it() {
        let fold = |at: &str| {
            format!(" kworker/u4:0-12 [000] ..... {at}: memcg_flush_stats: memcg_id=1 stats_updates=128 force=1 needs_flush=1")
        };
        let begin = format!(" coldset-99 [000] ...1. 3.000000: tracing_mark_write: {BEGIN}");
        let lines = [fold("2.500000"), begin, fold("4.516000"), fold("6.532000")];
        assert_eq!(first_in(&lines), Some(Duration::from_millis(1516)));
        assert_eq!(first_in(&lines[..2]), None);
        assert_eq!(first_in(&lines[2..]), None);
    }
}
