//! Heat as part of the engine: where it is kept, and what it needs to be told.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::memcg::heat::{DecayWheel, HeatLevel, PostedHeat};
use crate::mglru::EvictableTypes;
use crate::reclaim::scan_control::ScanControl;
use crate::switches::MemcgHeat;

impl Engine {
    /// A memcg came into being.
    pub(crate) fn heat_online(&mut self, id: MemcgId) {
        let now = self.now();
        let kept = self.switches().memcg_heat;
        for node in &mut self.nodes {
            match kept {
                MemcgHeat::Off => {}
                MemcgHeat::Posted => {
                    let posted = &mut node.heat.posted;
                    if posted.len() <= id.idx() {
                        posted.resize(id.idx() + 1, PostedHeat::default());
                    }
                    posted[id.idx()] = PostedHeat::new(now);
                }
                MemcgHeat::Wheel => {
                    for (&root, wheel) in &mut node.heat.wheels {
                        if id != root && self.memcgs.is_within(id, root) {
                            wheel.insert(id, now, 0);
                        }
                    }
                }
            }
        }
    }

    /// A wheel with everything below `root`, all cold.
    pub(crate) fn make_wheel(&mut self, root: MemcgId, node: NodeId) {
        let mut wheel = DecayWheel::new(*self.heat_config(), self.now());
        let kind = self.switches().heat_refaults;
        for memcg in self.memcgs.preorder(root).skip(1) {
            let lruvec = self.lruvec_id(memcg, node);
            wheel.insert(
                memcg,
                self.now(),
                self.lruvecs[lruvec].workingset.refaults(kind),
            );
            if !self.memcgs[memcg].online() {
                wheel.offline(memcg);
            }
        }
        self.nodes[node.idx()].heat.wheels.insert(root, wheel);
    }

    /// The wheel of a walk root that has one.
    pub(crate) fn wheel_mut(&mut self, root: MemcgId, node: NodeId) -> &mut DecayWheel {
        let wheels = &mut self.nodes[node.idx()].heat.wheels;
        wheels.get_mut(&root).expect("a wheel, made at first use")
    }

    /// Memcgs of a node by heat at present, the root not included; empty if heat is off.
    pub fn heat_histogram(&self, node: NodeId) -> Vec<u64> {
        let heat = &self.nodes[node.idx()].heat;
        let mut by_heat = vec![0; usize::from(self.heat_config().levels.max()) + 1];
        match self.switches().memcg_heat {
            MemcgHeat::Off => by_heat.clear(),
            MemcgHeat::Posted => {
                for memcg in self.memcgs.preorder(MemcgId::ROOT).skip(1) {
                    by_heat[usize::from(heat.posted[memcg.idx()].heat())] += 1;
                }
            }
            MemcgHeat::Wheel => match heat.wheels.get(&MemcgId::ROOT) {
                Some(wheel) => {
                    let all = wheel.histogram(self.now());
                    by_heat.iter_mut().zip(all).for_each(|(to, n)| *to = n);
                }
                None => by_heat[0] = self.memcgs.nr_memcgs() as u64 - 1,
            },
        }
        by_heat
    }

    /// Counts a visit of a memcg that is not cold.
    pub(super) fn count_heat_visit(&mut self, memcg: MemcgId, level: HeatLevel) {
        match level {
            HeatLevel::Cold => {}
            HeatLevel::Warm => self.count(memcg, Counter::HeatVisitsWarm, 1),
            HeatLevel::Hot => self.count(memcg, Counter::HeatVisitsHot, 1),
        }
    }

    // ------------------------------------------------------- activations, hierarchical and lagging

    /// WORKINGSET_ACTIVATE of a memcg's subtree on a node, as reclaim sees it.
    pub(crate) fn activations(&self, memcg: MemcgId, node: NodeId) -> i64 {
        if self.switches().stale_stats {
            return self.lruvecs[self.lruvec_id(memcg, node)]
                .workingset
                .folded();
        }
        let subtree = self.memcgs.preorder(memcg);
        subtree
            .map(|k| {
                self.lruvecs[self.lruvec_id(k, node)]
                    .workingset
                    .activations()
            })
            .sum()
    }

    /// The periodic fold of what heat as posted reads.
    pub(crate) fn fold_activations(&mut self) {
        if self.switches().memcg_heat != MemcgHeat::Posted {
            return;
        }
        let order: Vec<MemcgId> = self.memcgs.preorder(MemcgId::ROOT).collect();
        for n in 0..self.config().nr_nodes {
            for &memcg in &order {
                let at = self.lruvec_id(memcg, NodeId(n));
                self.lruvecs[at].workingset.fold_own();
            }
            for &memcg in order.iter().rev() {
                let Some(parent) = self.memcgs[memcg].parent() else {
                    continue;
                };
                let from = self.lruvec_id(memcg, NodeId(n));
                let at = self.lruvec_id(parent, NodeId(n));
                let sum = self.lruvecs[from].workingset.folded();
                self.lruvecs[at].workingset.fold_child(sum);
            }
        }
    }

    /// A memcg is about to be released: its counts stay with its parent.
    pub(crate) fn leave_activations(&mut self, memcg: MemcgId) {
        let Some(parent) = self.memcgs[memcg].parent() else {
            return;
        };
        for n in 0..self.config().nr_nodes {
            let child = self.lruvecs[self.lruvec_id(memcg, NodeId(n))].workingset;
            let at = self.lruvec_id(parent, NodeId(n));
            self.lruvecs[at].workingset.inherit(&child);
        }
    }

    /// Enough of a multi-gen memcg is left at this priority; offline: anything.
    pub(crate) fn gen_sizable(&self, sc: &ScanControl, memcg: MemcgId, node: NodeId) -> bool {
        let types = EvictableTypes::of(self.swappiness(sc, memcg));
        let lruvec = self.lruvec_id(memcg, node);
        let size = self.lruvecs[lruvec].gens().evictable_pages(types);
        if self.memcgs[memcg].online() {
            self.config().scale.scan_share(size, sc.priority) != 0
        } else {
            size != 0
        }
    }
}
