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
    begun: Option<f64>,
    first: Option<f64>,
}

impl Folds {
    /// The run begins. None: the kernel does not tell (before 6.14), or not to us.
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
        Ok(Self {
            trace,
            begun: None,
            first: None,
        })
    }

    /// How long after the beginning of the run the first fold was; none: there has been none yet.
    pub fn first(&mut self) -> Option<Duration> {
        for line in self.trace.lines().unwrap_or_default() {
            let Some((seconds, event)) = dated(&line) else {
                continue;
            };
            if event.ends_with(BEGIN) {
                self.begun = Some(seconds);
            } else if self.begun.is_some() && event.starts_with(NAME) {
                self.first.get_or_insert(seconds);
            }
        }
        Duration::try_from_secs_f64(self.first? - self.begun?).ok()
    }
}

/// The time of a line of the trace, in seconds, and what is behind it.
fn dated(line: &str) -> Option<(f64, &str)> {
    let (before, event) = line.split_once(": ")?;
    Some((before.split_whitespace().last()?.parse().ok()?, event))
}

#[cfg(test)]
mod tests {
    use super::dated;

    #[test]
    fn lines_have_a_time() {
        let line = "    kworker/u4:0-12      [000] .....     2.110107: memcg_flush_stats: memcg_id=1 stats_updates=128 force=1 needs_flush=1";
        let event = "memcg_flush_stats: memcg_id=1 stats_updates=128 force=1 needs_flush=1";
        assert_eq!(dated(line), Some((2.110107, event)));
        assert_eq!(dated("CPU:0 [LOST 4711 EVENTS]"), None);
        assert_eq!(dated("# tracer: nop"), None);
    }
}
