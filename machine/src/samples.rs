//! Values over virtual time: what the counters and lists of a machine were on the way.
//!
//! Looking changes nothing. The executor calls before the first event after a sample point; the
//! length of a run is not known in advance, so whenever the room is full every second point is dropped
//! and the interval doubles. Switched off, this costs one comparison per event.

use coldset_engine::Counter;

/// What is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sampled {
    /// Pages: a level of the machine.
    Level(Counter),
    /// Events since the start, all of these added up.
    Events(&'static [Counter]),
    /// Free pages of all zones; nothing where only memcgs limit memory.
    Free,
    /// Pages of a generation of all memcgs, by age (0 = youngest), anonymous or file.
    Generation {
        /// Generations between it and the youngest.
        age: u8,
        /// File pages; otherwise anonymous ones.
        file: bool,
    },
    /// Time of all tasks in reclaim and waiting for memory, ns.
    AllocStall,
    /// Time of all tasks in any throttle, ns.
    Throttled,
}

use Sampled::{Events, Generation, Level};

const fn generation(age: u8, file: bool) -> Sampled {
    Generation { age, file }
}

/// Everything that is sampled, by the name of its series.
pub const SAMPLED: &[(&str, Sampled)] = &[
    ("workingset_refault_file", Events(&[Counter::RefaultFile])),
    ("workingset_refault_anon", Events(&[Counter::RefaultAnon])),
    (
        "pgscan",
        Events(&[
            Counter::PgscanKswapd,
            Counter::PgscanDirect,
            Counter::PgscanProactive,
        ]),
    ),
    (
        "pgsteal",
        Events(&[
            Counter::PgstealKswapd,
            Counter::PgstealDirect,
            Counter::PgstealProactive,
        ]),
    ),
    ("pgmajfault", Events(&[Counter::Pgmajfault])),
    ("aging_runs", Events(&[Counter::AgingRuns])),
    ("pgpgin", Events(&[Counter::Pgpgin])),
    ("pgpgout", Events(&[Counter::Pgpgout])),
    ("pswpin", Events(&[Counter::Pswpin])),
    ("pswpout", Events(&[Counter::Pswpout])),
    ("throttle_waits", Events(&[Counter::ThrottleWaits])),
    (
        "reclaim_entries",
        Events(&[Counter::LimitReclaim, Counter::DirectReclaim]),
    ),
    ("zero_progress", Events(&[Counter::ZeroProgress])),
    ("flusher_wakeups", Events(&[Counter::FlusherWakeups])),
    (
        "dirty_put_back",
        Events(&[Counter::DirtyMovedUp, Counter::DirtyReactivated]),
    ),
    ("throttled_ns", Sampled::Throttled),
    ("alloc_stall_ns", Sampled::AllocStall),
    ("file_dirty", Level(Counter::FileDirty)),
    ("file_writeback", Level(Counter::Writeback)),
    ("anon_pages", Level(Counter::AnonPages)),
    ("file_pages", Level(Counter::FilePages)),
    ("free_pages", Sampled::Free),
    ("active_file", Level(Counter::ActiveFile)),
    ("inactive_file", Level(Counter::InactiveFile)),
    ("active_anon", Level(Counter::ActiveAnon)),
    ("inactive_anon", Level(Counter::InactiveAnon)),
    ("gen0_file", generation(0, true)),
    ("gen1_file", generation(1, true)),
    ("gen2_file", generation(2, true)),
    ("gen3_file", generation(3, true)),
    ("gen0_anon", generation(0, false)),
    ("gen1_anon", generation(1, false)),
    ("gen2_anon", generation(2, false)),
    ("gen3_anon", generation(3, false)),
];

/// One value for each of [`SAMPLED`].
pub type Row = [u64; SAMPLED.len()];

/// First interval between two samples, ns. It doubles whenever the room is full.
const FIRST_INTERVAL: u64 = 100_000;
/// Least room for points: fewer could not be halved sensibly.
const POINTS_MIN: usize = 8;

/// Samples of one machine.
#[derive(Debug, Default)]
pub struct Samples {
    room: usize,
    interval: u64,
    points: Vec<(u64, Row)>,
}

impl Samples {
    /// Room for this many points, at least a few.
    #[must_use]
    pub fn new(points: usize) -> Self {
        Self {
            room: points.max(POINTS_MIN),
            interval: FIRST_INTERVAL,
            points: Vec::new(),
        }
    }

    /// Keeps a row of time `at`, ns, not before the last one. Returns when the next one is due.
    pub fn push(&mut self, at: u64, row: Row) -> u64 {
        while self.points.len() >= self.room {
            self.interval *= 2;
            let interval = self.interval;
            // The first point of each interval stays.
            self.points.dedup_by_key(|(time, _)| *time / interval);
        }
        match self.points.last_mut() {
            Some(last) if last.0 == at => last.1 = row,
            _ => self.points.push((at, row)),
        }
        (at / self.interval + 1).saturating_mul(self.interval)
    }

    /// The series: name and (ns, value). Those that are 0 all the time are left out.
    pub fn series(&self) -> impl Iterator<Item = (&'static str, Vec<(u64, u64)>)> + '_ {
        SAMPLED.iter().enumerate().filter_map(|(i, &(name, _))| {
            let some = self.points.iter().any(|(_, row)| row[i] != 0);
            some.then(|| {
                (
                    name,
                    self.points.iter().map(|(at, row)| (*at, row[i])).collect(),
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = SAMPLED.iter().map(|s| s.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SAMPLED.len());
    }

    #[test]
    fn points_thin_out_and_keep_the_first() {
        let mut samples = Samples::new(16);
        let mut due = 0;
        for n in 0..10_000 {
            let mut row = [0; SAMPLED.len()];
            row[0] = n;
            if n * FIRST_INTERVAL >= due {
                due = samples.push(n * FIRST_INTERVAL, row);
            }
        }
        assert!((8..=16).contains(&samples.points.len()));
        assert_eq!(samples.points[0].0, 0);
        let gaps: Vec<u64> = samples.points.windows(2).map(|w| w[1].0 - w[0].0).collect();
        assert!(gaps.iter().all(|&g| g == samples.interval), "{gaps:?}");
        let names: Vec<_> = samples.series().map(|s| s.0).collect();
        assert_eq!(names, [SAMPLED[0].0]);
    }
}
