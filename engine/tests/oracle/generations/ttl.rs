//! Working sets that are too young to be taken (`docs/rules/aging.md#minimum-time-to-live`).

use super::model::{At, Model};
use super::request::Request;

impl Model {
    /// No memcg has anything to reclaim that is older than a working set that is to be kept.
    pub(super) fn in_danger(&mut self, q: &Request) -> bool {
        if self.min_ttl == 0 {
            return false;
        }
        let (mut danger, mut just) = (true, false);
        for g in 0..self.groups.len() {
            let v = At { g, node: q.node };
            let [below_min, _] = self.below(q, g);
            let swappiness = self.swappiness(q, g);
            let offers = self.evictable(v, swappiness) >> q.priority > 0;
            let oldest = self.oldest(v, swappiness);
            let age = self.now - self.lruvec(v).born[&oldest];
            danger &= below_min || !offers || age <= self.min_ttl;
            just |= !below_min && offers && age == self.min_ttl;
        }
        if danger && just {
            self.saw("not a moment older");
        }
        danger
    }
}
