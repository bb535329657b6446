//! Taking the samples of a machine.

use crate::samples::{Row, Sampled, Samples, SAMPLED};
use crate::sim::Sim;
use crate::world::World;
use coldset_engine::lruvec::LruvecView;
use coldset_engine::{Counter, MemcgId};
use std::cell::RefCell;
use std::rc::Rc;

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
            Sampled::Level(c) => self.engine.memcgs.live(MemcgId::ROOT, c).max(0) as u64,
            Sampled::Events(list) => list.iter().map(|&c| count(c).max(0) as u64).sum(),
            Sampled::Free => self.engine.zones.all().iter().map(|z| z.free + z.pcp).sum(),
            Sampled::Generation { age, file } => gens[usize::from(age)][usize::from(file)],
            Sampled::AllocStall => times.get(crate::sim::TimeClass::AllocStall),
            Sampled::Throttled => times.throttled(),
        };
        std::array::from_fn(|i| value(SAMPLED[i].1))
    }
}

/// Has the machine sampled from now on.
pub(crate) fn start(w: &Rc<RefCell<World>>, sim: &Sim, points: usize) {
    if points == 0 {
        return;
    }
    w.borrow_mut().samples = Some(Samples::new(points));
    let me = Rc::downgrade(w);
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
