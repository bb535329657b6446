//! Values over virtual time: what the counters and lists of a machine were on the way.
//!
//! Looking changes nothing. The executor calls before the first event after a sample point; how long a
//! run lasts is not known beforehand, so whenever the room is full every second point goes and the
//! interval doubles. Switched off, this costs one comparison an event.

use crate::sim::Sim;
use crate::world::World;
use coldset_engine::lruvec::LruvecView;
use coldset_engine::{Counter, MemcgId};

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

/// First interval between two samples, ns; it doubles as the run goes on.
const FIRST_INTERVAL: u64 = 100_000;
/// Least room for points: fewer could not be halved sensibly.
const POINTS_MIN: usize = 8;

/// Pages of all generations by age and type: `[age][anonymous, file]`. What is older than the
/// fourth counts as the fourth.
fn generations(w: &World) -> [[u64; 2]; 4] {
    let mut sum = [[0; 2]; 4];
    for memcg in w.engine.memcgs.preorder(MemcgId::ROOT) {
        for node in 0..w.engine.config().nr_nodes {
            let view = w.engine.lruvec_view(memcg, coldset_engine::NodeId(node));
            let Some(LruvecView::MultiGen { gens, .. }) = view else {
                continue;
            };
            for (age, g) in gens.iter().rev().enumerate() {
                let to = &mut sum[age.min(3)];
                to[0] += g.anon.unwrap_or(0);
                to[1] += g.file.unwrap_or(0);
            }
        }
    }
    sum
}

impl World {
    /// The present values of all [`SAMPLED`].
    #[must_use]
    pub fn sample(&self) -> Row {
        let gens = generations(self);
        let times = self.sim.times();
        // Some events are counted for memcgs only, some for the machine only.
        let count = |c: Counter| match self.engine.vmstat().get(c) {
            0 => self.engine.memcgs.live(MemcgId::ROOT, c),
            n => n,
        };
        let value = |what: Sampled| match what {
            Level(c) => self.engine.memcgs.live(MemcgId::ROOT, c).max(0) as u64,
            Events(list) => list.iter().map(|&c| count(c).max(0) as u64).sum(),
            Sampled::Free => self.engine.zones.iter().map(|z| z.free + z.pcp).sum(),
            Generation { age, file } => gens[usize::from(age)][usize::from(file)],
            Sampled::AllocStall => times.get(crate::sim::TimeClass::AllocStall),
            Sampled::Throttled => times.throttled(),
        };
        std::array::from_fn(|i| value(SAMPLED[i].1))
    }
}

/// Samples of one machine.
#[derive(Debug, Default)]
pub struct Samples {
    room: usize,
    interval: u64,
    points: Vec<(u64, Row)>,
}

impl Samples {
    /// Room for so many points, at least a few.
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

/// Has the machine sampled from now on.
pub(crate) fn start(w: &std::rc::Rc<std::cell::RefCell<World>>, sim: &Sim, points: usize) {
    if points == 0 {
        return;
    }
    w.borrow_mut().samples = Some(Samples::new(points));
    let me = std::rc::Rc::downgrade(w);
    sim.set_sampler(move |now| {
        let Some(w) = me.upgrade() else {
            return u64::MAX;
        };
        let mut w = w.borrow_mut();
        let row = w.sample();
        w.samples
            .as_mut()
            .map_or(u64::MAX, |samples| samples.push(now, row))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Affinity;
    use crate::{MachineConfig, MachineRun};
    use coldset_engine::memcg::CounterKind;
    use coldset_engine::presets::preset;

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

    /// Reads twice as many pages as the limit allows, with and without samples.
    fn run(points: usize) -> (Vec<i64>, u64, MachineRun) {
        let mut cfg = MachineConfig::new(preset("v5").unwrap());
        cfg.sample_points = points;
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = {
            let mut w = m.world_mut();
            let memcg = w.engine.memcg_create(MemcgId::ROOT).unwrap();
            let tree = &mut w.engine.memcgs;
            tree.set_max(memcg, CounterKind::Memory, 1024).unwrap();
            memcg
        };
        let file = crate::OpenFile::new(m.create_file(0, 2048));
        let mm = m.create_mm(memcg);
        m.spawn("reader", Affinity::Any, mm, move |m, ctx| async move {
            for page in (0..2048).chain(0..2048) {
                m.read(&ctx, &file, page, 1).await.unwrap();
            }
            m.sim.stop();
        });
        run.executor.run();
        let counters = {
            let w = m.world();
            let all = Counter::ALL.iter();
            all.map(|&c| w.engine.memcgs.live(memcg, c)).collect()
        };
        (counters, run.executor.now(), run)
    }

    #[test]
    fn looking_changes_nothing_and_sees_what_happens() {
        let (plain, end, off) = run(0);
        let (sampled, sampled_end, on) = run(64);
        assert_eq!((&plain, end), (&sampled, sampled_end));
        assert!(off.samples().is_empty());
        let series = on.samples();
        let find = |name: &str| &series.iter().find(|s| s.0 == name).unwrap().1;
        let refaults = find("workingset_refault_file");
        assert!(refaults.len() > 16 && refaults.len() <= 65);
        assert!(refaults
            .windows(2)
            .all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
        let last = refaults.last().unwrap();
        assert_eq!(last.0, end);
        assert_eq!(last.1 as i64, plain[Counter::RefaultFile as usize]);
        let pages: u64 = (0..4)
            .filter_map(|age| {
                let name = format!("gen{age}_file");
                let found = series.iter().find(|s| s.0 == name)?;
                Some(found.1.last().unwrap().1)
            })
            .sum();
        assert!((512..=1024).contains(&pages), "{pages}");
        assert!(find("alloc_stall_ns").last().unwrap().1 > 0);
        assert!(series.iter().all(|s| s.0 != "gen0_anon"));
    }
}
