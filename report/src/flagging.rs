//! The rule that flags a bad candidate (`docs/systems/faulty-backport.md`): enough of what users and operators
//! notice is clearly worse than before. It looks at counters only, so that it can be applied to the
//! result of any experiment that has them.

use super::{ReportError, SeedView};

/// A sign of a regression: the ratio candidate / before of a counter at or beyond a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sign {
    /// What it is.
    pub name: &'static str,
    /// The counter.
    pub counter: &'static str,
    /// The bound.
    pub bound: f64,
    /// True: worse is more (the ratio reaches the bound from below). False: worse is less.
    pub more_is_worse: bool,
}

const fn sign(name: &'static str, counter: &'static str, bound: f64, more_is_worse: bool) -> Sign {
    Sign {
        name,
        counter,
        bound,
        more_is_worse,
    }
}

/// The signs, in the order of the rule.
pub const SIGNS: [Sign; 7] = [
    sign("anonymous refaults", "workingset_refault_anon", 2.0, true),
    sign("file refaults", "workingset_refault_file", 2.0, true),
    sign("launch total", "launch_total_ms", 1.08, true),
    sign("camera launch", "camera_ms", 1.20, true),
    sign("reclaim speed", "reclaim_mb_per_ms", 0.6, false),
    sign("direct reclaim calls", "direct_reclaim", 1.4, true),
    sign("pgpgin", "pgpgin", 1.3, true),
];

/// So many signs flag a candidate.
pub const SIGNS_NEEDED: usize = 2;

/// What the rule found under one seed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Flagging {
    /// Signs that are there, each with its ratio.
    pub signs: Vec<(Sign, f64)>,
}

impl Flagging {
    /// The candidate is to be rejected.
    #[must_use]
    pub fn fires(&self) -> bool {
        self.signs.len() >= SIGNS_NEEDED
    }
}

impl Sign {
    /// The ratio, if the counter of the candidate is that much worse. A counter that was 0 and is
    /// not any more counts as infinitely more; one that says nothing on either side (no direct
    /// reclaim, hence no speed of it) is no sign.
    fn seen(&self, before: f64, candidate: f64) -> Option<f64> {
        if self.more_is_worse {
            let ratio = match (before > 0.0, candidate > 0.0) {
                (true, _) => candidate / before,
                (false, true) => f64::INFINITY,
                (false, false) => return None,
            };
            return (ratio >= self.bound).then_some(ratio);
        }
        if before <= 0.0 || candidate <= 0.0 {
            return None;
        }
        let ratio = candidate / before;
        (ratio <= self.bound).then_some(ratio)
    }
}

/// Applies the rule to a candidate under one seed. Signs whose counter the experiment does not have
/// are passed over.
///
/// # Errors
/// A variant that was not run.
pub fn flag(view: &SeedView<'_>, before: &str, candidate: &str) -> Result<Flagging, ReportError> {
    let mut found = Flagging::default();
    for sign in SIGNS {
        let figure = |variant: &str| match view.get(variant, sign.counter) {
            Ok(x) => Ok(Some(x)),
            Err(ReportError::NoCounter { .. }) => Ok(None),
            Err(e) => Err(e),
        };
        if let (Some(b), Some(c)) = (figure(before)?, figure(candidate)?) {
            if let Some(ratio) = sign.seen(b, c) {
                found.signs.push((sign, ratio));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, ExperimentResult, Header, RunResult};

    /// The published figures, before and after.
    const PUBLISHED: [(&str, f64, f64); 7] = [
        ("workingset_refault_anon", 390_967.0, 1_492_964.0),
        ("workingset_refault_file", 79_927.0, 590_505.0),
        ("launch_total_ms", 7702.0, 8872.0),
        ("camera_ms", 684.0, 980.0),
        ("reclaim_mb_per_ms", 0.339, 0.111),
        ("direct_reclaim", 16_117.0, 27_562.0),
        ("pgpgin", 3_701_869.0, 5_752_429.0),
    ];

    /// Judges one pair of runs; the claim's figure is the number of signs.
    fn signs(counters: &[(&str, f64, f64)]) -> Vec<&'static str> {
        let mut before = RunResult::new("old", 1);
        let mut after = RunResult::new("new", 1);
        for (name, b, a) in counters {
            before.set(*name, *b);
            after.set(*name, *a);
        }
        let names = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let out = names.clone();
        let claim = Claim::derived("signs", move |v| {
            let f = flag(v, "old", "new")?;
            assert_eq!(f.fires(), f.signs.len() >= 2);
            *out.lock().unwrap() = f.signs.iter().map(|s| s.0.name).collect();
            Ok(f.signs.len() as f64)
        })
        .within(0.0, 7.0);
        ExperimentResult::collect(Header::default(), &[before, after], &[claim]).unwrap();
        let names = names.lock().unwrap().clone();
        names
    }

    #[test]
    fn the_published_figures_show_all_signs() {
        assert_eq!(signs(&PUBLISHED).len(), 7);
        let back: Vec<_> = PUBLISHED.iter().map(|&(n, b, a)| (n, a, b)).collect();
        assert!(signs(&back).is_empty(), "an improvement has none");
    }

    #[test]
    fn bounds_are_inclusive_and_zeros_are_thought_of() {
        assert_eq!(signs(&[("camera_ms", 100.0, 120.0)]), ["camera launch"]);
        assert!(signs(&[("camera_ms", 100.0, 119.9)]).is_empty());
        assert_eq!(signs(&[("reclaim_mb_per_ms", 1.0, 0.6)]), ["reclaim speed"]);
        assert!(signs(&[("reclaim_mb_per_ms", 1.0, 0.61)]).is_empty());
        assert!(signs(&[("reclaim_mb_per_ms", 1.0, 0.0)]).is_empty());
        assert!(signs(&[("direct_reclaim", 0.0, 0.0)]).is_empty());
        assert_eq!(signs(&[("direct_reclaim", 0.0, 1.0)]).len(), 1);
        assert!(signs(&[("something_else", 1.0, 100.0)]).is_empty());
    }
}
