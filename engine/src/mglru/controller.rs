//! The refault controller, which the kernel calls PID controller (`docs/rules/eviction.md#tiers-and-types`): which tiers
//! to protect, which type to evict.

use super::{MAX_NR_TIERS, MIN_LRU_BATCH};

/// Feedback of one type. NR_HIST_GENS is 1, so current values have no history index.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Tiers {
    /// Moving average of refaults.
    pub avg_refaulted: [u64; MAX_NR_TIERS],
    /// Moving average of evictions and protections.
    pub avg_total: [u64; MAX_NR_TIERS],
    /// Pages kept by the controller since the last carry-over.
    pub protected: [u64; MAX_NR_TIERS],
    /// Pages evicted since the last carry-over.
    pub evicted: [u64; MAX_NR_TIERS],
    /// Pages refaulted since the last carry-over.
    pub refaulted: [u64; MAX_NR_TIERS],
}

/// One side of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CtrlPos {
    /// Pages of the tier that came back.
    pub refaulted: u64,
    /// Pages at stake.
    pub total: u64,
    /// Weight of the tier in comparisons.
    pub gain: u64,
}

impl Tiers {
    /// Averages move half way, current values are forgotten.
    pub fn carry_over(&mut self) {
        for t in 0..MAX_NR_TIERS {
            self.avg_refaulted[t] = (self.avg_refaulted[t] + self.refaulted[t]) / 2;
            self.avg_total[t] = (self.avg_total[t] + self.evicted[t] + self.protected[t]) / 2;
        }
        self.protected = [0; MAX_NR_TIERS];
        self.evicted = [0; MAX_NR_TIERS];
        self.refaulted = [0; MAX_NR_TIERS];
    }

    /// Reading of one tier.
    pub fn tier(&self, tier: usize, gain: u64) -> CtrlPos {
        CtrlPos {
            refaulted: self.avg_refaulted[tier] + self.refaulted[tier],
            total: self.avg_total[tier] + self.evicted[tier] + self.protected[tier],
            gain,
        }
    }

    /// Reading of all tiers together.
    pub fn all(&self, gain: u64) -> CtrlPos {
        let mut sum = CtrlPos {
            refaulted: 0,
            total: 0,
            gain,
        };
        for t in 0..MAX_NR_TIERS {
            let p = self.tier(t, gain);
            sum.refaulted += p.refaulted;
            sum.total += p.total;
        }
        sum
    }
}

/// True if `pv` refaults no more than `sp`, gains considered.
pub fn refaults_no_more(sp: CtrlPos, pv: CtrlPos) -> bool {
    pv.refaulted < MIN_LRU_BATCH
        || pv.refaulted * (sp.total + MIN_LRU_BATCH) * sp.gain
            <= (sp.refaulted + 1) * pv.total * pv.gain
}

/// Last tier that is *not* protected when `sp` is the reference.
pub(crate) fn tier_limit(pos: &Tiers, sp: CtrlPos, gain: u64) -> usize {
    (1..MAX_NR_TIERS)
        .find(|&t| !refaults_no_more(sp, pos.tier(t, gain)))
        .unwrap_or(MAX_NR_TIERS)
        - 1
}

/// Tiers above the result are protected; `gains` are the weights of tier 0 and of the others.
pub(crate) fn tier_idx(pos: &Tiers, gains: (u64, u64)) -> usize {
    tier_limit(pos, pos.tier(0, gains.0), gains.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers(refaulted: [u64; 4], evicted: [u64; 4]) -> Tiers {
        Tiers {
            refaulted,
            evicted,
            ..Tiers::default()
        }
    }

    #[test]
    fn e3_get_tier_idx() {
        let limit = |pos| tier_idx(&pos, crate::rules::v614::KERNEL.tier_gains);
        assert_eq!(limit(tiers([100, 70, 10, 0], [1000, 400, 300, 100])), 0);
        assert_eq!(limit(tiers([100, 70, 10, 0], [1000, 600, 300, 100])), 3);
        assert_eq!(limit(Tiers::default()), 3);
    }

    #[test]
    fn carry_over_halves() {
        let mut t = tiers([10, 0, 0, 0], [30, 0, 0, 0]);
        t.protected[0] = 10;
        t.carry_over();
        assert_eq!(
            (t.avg_refaulted[0], t.avg_total[0], t.evicted[0]),
            (5, 20, 0)
        );
        assert_eq!(
            t.tier(0, 1),
            CtrlPos {
                refaulted: 5,
                total: 20,
                gain: 1
            }
        );
    }
}
