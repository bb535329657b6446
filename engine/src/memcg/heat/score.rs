//! Two scores of a memcg, each compared with the mean of its peers (`docs/rules/heat.md#decay-wheel`): how much of what
//! is scanned comes free, and how many refaults a freed page costs.

use super::visit::VisitStats;

/// 1 in the fixed-point numbers of scores.
pub const ONE: u64 = 1 << 16;
/// Weight of the newest visit: one in this many.
const WEIGHT: i64 = 4;
/// Costs above this many refaults a page count as this many.
const COST_MAX: u64 = 1 << 16;

/// Scores of one memcg, in units of 1/[`ONE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Score {
    /// Moving average of freed / scanned.
    pub yields: u64,
    /// Moving average of refaults / freed.
    pub cost: u64,
    /// There has been a visit.
    pub known: bool,
}

fn towards(old: u64, sample: u64) -> u64 {
    old.saturating_add_signed((sample as i64 - old as i64) / WEIGHT)
}

impl Score {
    /// After a visit that scanned something; `refaults` since the visit before.
    pub fn visited(&self, visit: &VisitStats, refaults: u64) -> Self {
        let yields = (visit.reclaimed * ONE / visit.scanned.max(1)).min(ONE);
        let cost = (refaults.min(1 << 40) * ONE / visit.reclaimed.max(1)).min(COST_MAX * ONE);
        if !self.known {
            return Self {
                yields,
                cost,
                known: true,
            };
        }
        Self {
            yields: towards(self.yields, yields),
            cost: towards(self.cost, cost),
            known: true,
        }
    }
}

/// Sums over the memcgs that have a score.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Means {
    yields: u64,
    cost: u64,
    n: u64,
}

impl Means {
    /// A memcg's score is `new` instead of `old`.
    pub fn replace(&mut self, old: &Score, new: &Score) {
        self.remove(old);
        if new.known {
            self.yields += new.yields;
            self.cost += new.cost;
            self.n += 1;
        }
    }

    /// Takes the score of a memcg that goes out of the sums.
    pub fn remove(&mut self, old: &Score) {
        if old.known {
            self.yields -= old.yields;
            self.cost -= old.cost;
            self.n -= 1;
        }
    }

    /// Change of heat of a memcg with this score, relative to its peers.
    pub fn delta(&self, s: &Score) -> i8 {
        // Compared as sums, so that nothing is lost by rounding means.
        let (y, r) = (s.yields * self.n, s.cost * self.n);
        let d = match () {
            () if y >= 2 * self.yields => -2,
            () if y >= self.yields => -1,
            () => 1,
        };
        match () {
            () if r > 2 * self.cost => d + 1,
            () if 2 * r < self.cost && d > 0 => d - 1,
            () => d,
        }
    }
}
