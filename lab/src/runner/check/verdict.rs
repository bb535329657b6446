//! What became of a counter, and by which rule.

use super::Judged;
use crate::fidelity::compare::Compared;
use crate::fidelity::{Case, Policy, RecordedKernel};

/// A difference of one reclaim batch is in whatever its share: small counters have a large one.
pub const SLACK_PAGES: f64 = 32.0;
/// Counters that decide.
const JUDGED: [&str; 5] = [
    "workingset_refault_file",
    "workingset_refault_anon",
    "misses",
    "pgscan",
    "pgsteal",
];

/// Counters of a case under a policy that are not judged.
struct Exemption {
    kernel: &'static str,
    case: Case,
    policy: &'static str,
    counters: &'static [&'static str],
    why: &'static str,
}

const EXEMPT: &[Exemption] = &[
    Exemption {
        kernel: "6.12",
        case: Case::AnonZram,
        policy: "mglru-0x7",
        counters: &[
            "pgscan",
            "pgactivate",
            "workingset_restore_anon",
            "pgrefill",
        ],
        why: SWITCHED_OUT,
    },
    Exemption {
        kernel: "6.12",
        case: Case::ReadWriteZipf,
        policy: "mglru-0x7",
        counters: &["pgactivate"],
        why: FLUSHER,
    },
    Exemption {
        kernel: "6.12",
        case: Case::ReadWriteZipf,
        policy: "mglru-0x1",
        counters: &["pgactivate"],
        why: FLUSHER,
    },
];
pub(super) const SWITCHED_OUT: &str =
    "the kernel's repeats took one of two values, depending on whether a task was \
                            switched out between two walks, which was not recorded";
pub(super) const FLUSHER: &str =
    "the kernel's repeats differ with the moment at which the flusher wrote, which was \
                       not recorded";

/// The rule of `fidelity`, for help and tables.
pub const RULE: &str = "\
Judged are refaults, misses, pgscan and pgsteal. A counter is in if it differs from the mean of the kernel's \
repeats by at most the largest of: the tolerance (6.12: 0.5 % multi-gen; 6.18 and 7.2, recorded on a loaded \
host: 3 %; classic, whose results are averaged over the phases of the statistics fold: 2 %); the kernel's own spread, which is the distance from that mean of the \
repeat farthest from it; 32 pages, one batch of reclaim. A classic counter that the kernel has shown only once \
is in as well if the phases of the fold give less and more, and so are all counters of a case that are within \
the tolerance of one and the same run of the kernel, for some cases have more than one outcome. mglru-0x7-nodamon \
is mglru-0x7 without the kernel's own monitor of accesses, which no replay has. The table says which of these a counter needed, \
and why a counter is exempt.";

/// What became of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Close enough, for this reason.
    In(Within),
    /// Not close enough.
    Out,
    /// Not judged, for this reason.
    Exempt(&'static str),
    /// Shown for information; no tolerance applies.
    Shown,
}

/// What a counter needed to be in: the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// The tolerance of its policy.
    Tolerance,
    /// One batch of reclaim: the share of a small counter may be large.
    Pages,
    /// The spread of the kernel's own repeats.
    Spread,
    /// The tolerance of one and the same of the kernel's runs, in every judged counter: the case has more than one
    /// outcome.
    Outcome,
    /// What the phases of the statistics fold give: the kernel ran it once, in a phase that was not recorded.
    Phases,
}

impl Verdict {
    /// The word that tables and JSON use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::In(_) => "in",
            Self::Out => "OUT",
            Self::Exempt(_) => "exempt",
            Self::Shown => "",
        }
    }

    /// The word, and what it rests on unless that is the tolerance.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::In(Within::Pages) => "in (32 pages)",
            Self::In(Within::Spread) => "in (kernel's spread)",
            Self::In(Within::Outcome) => "in (one outcome)",
            Self::In(Within::Phases) => "in (phases)",
            other => other.name(),
        }
    }

    /// What it rests on, for JSON.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::In(Within::Tolerance) => Some("tolerance"),
            Self::In(Within::Pages) => Some("32 pages"),
            Self::In(Within::Spread) => Some("spread of the kernel's repeats"),
            Self::In(Within::Outcome) => Some("one of the kernel's own outcomes"),
            Self::In(Within::Phases) => Some("range over the phases of the statistics fold"),
            Self::Exempt(why) => Some(why),
            Self::Out | Self::Shown => None,
        }
    }
}

/// Some cases have more than one outcome on a kernel, run by run. Counters that are out are in after all if, in one of
/// the repeats, every judged counter is within the tolerance.
pub(super) fn accept_outcome(counters: &mut [Judged], tolerance_permille: u64) {
    let judged = |j: &&Judged| matches!(j.verdict, Verdict::In(_) | Verdict::Out);
    let repeats = counters
        .iter()
        .filter(judged)
        .map(|j| j.counter.repeats.len());
    let repeats = repeats.min().unwrap_or(0);
    let close = |j: &Judged, repeat: usize| {
        let (ours, kernel) = (j.counter.ours, j.counter.repeats[repeat]);
        let off = (ours - kernel).abs();
        off <= SLACK_PAGES || off <= kernel * tolerance_permille as f64 / 1000.0
    };
    let same = |repeat: usize| counters.iter().filter(judged).all(|j| close(j, repeat));
    if repeats > 1 && (0..repeats).any(same) {
        for j in counters.iter_mut().filter(|j| j.verdict == Verdict::Out) {
            j.verdict = Verdict::In(Within::Outcome);
        }
    }
}

/// The verdict on a counter.
pub(super) fn verdict(
    kernel: RecordedKernel,
    case: Case,
    policy: Policy,
    counter: &Compared,
    tolerance_permille: u64,
) -> Verdict {
    let exempt = EXEMPT.iter().find(|e| {
        e.kernel == kernel.name
            && e.case == case
            && e.policy == policy.recorded
            && e.counters.contains(&counter.name)
    });
    if let Some(e) = exempt {
        return Verdict::Exempt(e.why);
    }
    if !JUDGED.contains(&counter.name) {
        return Verdict::Shown;
    }
    let off = (counter.ours - counter.kernel).abs();
    let share = |relative: f64| off <= counter.kernel * relative;
    if share(tolerance_permille as f64 / 1000.0) {
        Verdict::In(Within::Tolerance)
    } else if off <= SLACK_PAGES {
        Verdict::In(Within::Pages)
    } else if share(counter.kernel_spread) {
        // No closer than the kernel is to itself.
        Verdict::In(Within::Spread)
    } else if counter.repeats.len() == 1
        && (counter.ours_range.0..=counter.ours_range.1).contains(&counter.kernel)
    {
        Verdict::In(Within::Phases)
    } else {
        Verdict::Out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::KERNELS;

    const V612: RecordedKernel = KERNELS[0];
    const MULTI_GEN_PERMILLE: u64 = 5;

    fn judge(case: Case, recorded: &str, name: &'static str, ours: f64, kernel: f64) -> Verdict {
        let counter = Compared {
            name,
            ours,
            kernel,
            error: (kernel > 0.0).then(|| ours / kernel - 1.0),
            kernel_spread: 0.0,
            ours_range: (ours, ours),
            repeats: vec![kernel; 2],
        };
        verdict(
            V612,
            case,
            V612.policy(recorded).unwrap(),
            &counter,
            MULTI_GEN_PERMILLE,
        )
    }

    #[test]
    fn tolerances_and_slack() {
        let d = |ours, kernel| judge(Case::PreadCycle, "mglru-0x7", "pgscan", ours, kernel);
        assert_eq!(d(100_500.0, 100_000.0), Verdict::In(Within::Tolerance));
        assert_eq!(d(100_501.0, 100_000.0), Verdict::Out);
        assert_eq!(d(99_499.0, 100_000.0), Verdict::Out);
        assert_eq!(d(32.0, 0.0), Verdict::In(Within::Pages));
        assert_eq!(d(33.0, 0.0), Verdict::Out);
    }

    #[test]
    fn a_row_outside_the_tolerance_is_in_for_a_stated_reason() {
        let of = |spread: f64, repeats: usize| {
            let counter = Compared {
                name: "pgscan",
                ours: 101_000.0,
                kernel: 100_000.0,
                error: Some(0.01),
                kernel_spread: spread,
                ours_range: (99_000.0, 103_000.0),
                repeats: vec![100_000.0; repeats],
            };
            let policy = V612.policy("mglru-0x7").unwrap();
            verdict(V612, Case::PreadCycle, policy, &counter, MULTI_GEN_PERMILLE)
        };
        assert_eq!(of(0.009, 2), Verdict::Out);
        assert_eq!(of(0.011, 2), Verdict::In(Within::Spread));
        assert_eq!(of(0.011, 2).text(), "in (kernel's spread)");
        assert_eq!(of(0.0, 1), Verdict::In(Within::Phases));
        assert!(of(0.011, 2).reason().is_some_and(|r| r.contains("repeats")));
    }

    #[test]
    fn some_counters_are_not_judged() {
        let v = judge(Case::AnonZram, "mglru-0x7", "pgscan", 38_000.0, 57_000.0);
        assert_eq!(v, Verdict::Exempt(SWITCHED_OUT));
        let v = judge(Case::AnonZram, "mglru-0x7", "pgsteal", 38_000.0, 57_000.0);
        assert_eq!(v, Verdict::Out);
        let v = judge(Case::PreadCycle, "classic", "pgactivate", 1.0, 57_000.0);
        assert_eq!(v, Verdict::Shown);
    }

    #[test]
    fn one_outcome_must_hold_for_every_counter() {
        let of = |name, ours: f64, repeats: [f64; 2]| Judged {
            counter: Compared {
                name,
                ours,
                kernel: (repeats[0] + repeats[1]) / 2.0,
                error: None,
                kernel_spread: 0.0,
                ours_range: (ours, ours),
                repeats: repeats.to_vec(),
            },
            verdict: Verdict::Out,
        };
        let steal = of("pgsteal", 50_000.0, [50_010.0, 60_000.0]);
        let mut same = [of("pgscan", 10_000.0, [10_001.0, 20_000.0]), steal.clone()];
        accept_outcome(&mut same, 5);
        assert!(same
            .iter()
            .all(|j| j.verdict == Verdict::In(Within::Outcome)));
        let mut crossed = [of("pgscan", 10_000.0, [20_000.0, 10_001.0]), steal];
        accept_outcome(&mut crossed, 5);
        assert!(crossed.iter().all(|j| j.verdict == Verdict::Out));
    }
}
