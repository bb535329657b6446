//! Recorded cases of a real kernel, replayed and judged.

use super::RunnerError;
use crate::fidelity::compare::{compare, trace_of, CaseResult, Compared, Policy};
use crate::fidelity::{Case, Reference};
use crate::runner::Progress;
use coldset_report::{human, Align, Number, Style, Table};
use rayon::prelude::*;
use serde_json::{json, Value};
use std::fmt::Write;

/// Tolerance of multi-gen counters, thousandths.
pub const MULTI_GEN_PERMILLE: u64 = 5;
/// Tolerance of classic counters, thousandths.
pub const CLASSIC_PERMILLE: u64 = 20;
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
    case: Case,
    policy: &'static str,
    counters: &'static [&'static str],
    why: &'static str,
}

const EXEMPT: &[Exemption] = &[
    Exemption {
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
        case: Case::ReadWriteZipf,
        policy: "mglru-0x7",
        counters: &["pgactivate"],
        why: FLUSHER,
    },
    Exemption {
        case: Case::ReadWriteZipf,
        policy: "mglru-0x1",
        counters: &["pgactivate"],
        why: FLUSHER,
    },
];
const SWITCHED_OUT: &str =
    "the kernel's repeats took one of two values, depending on whether a task was \
                            switched out between two walks, which was not recorded";
const FLUSHER: &str =
    "the kernel's repeats differ with the moment at which the flusher wrote, which was \
                       not recorded";

/// The rule of `fidelity`, for help and tables.
pub const RULE: &str = "\
Judged are refaults, misses, pgscan and pgsteal. A counter is in if it differs from the mean of the kernel's \
repeats by at most the largest of: the tolerance (0.5 % multi-gen; 2 % classic, whose results are averaged \
over the phases of the statistics fold); the kernel's own spread, which is the distance from that mean of the \
repeat farthest from it; 32 pages, one batch of reclaim. The table says which of the three a counter needed, \
and why a counter is exempt. One switch, walk_resched_slots, was tuned on these very recordings.";

/// What to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Cases to run; all recorded ones by default.
    pub cases: Vec<Case>,
    /// Policies to run each case under.
    pub policies: Vec<Policy>,
    /// Phases of the statistics fold over which classic results are averaged.
    pub phases: u64,
    /// Tolerance of every counter, thousandths; none: by policy.
    pub tolerance_permille: Option<u64>,
}

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
    fn text(self) -> &'static str {
        match self {
            Self::In(Within::Pages) => "in (32 pages)",
            Self::In(Within::Spread) => "in (kernel's spread)",
            other => other.name(),
        }
    }

    /// What it rests on, for JSON.
    fn reason(self) -> Option<&'static str> {
        match self {
            Self::In(Within::Tolerance) => Some("tolerance"),
            Self::In(Within::Pages) => Some("32 pages"),
            Self::In(Within::Spread) => Some("spread of the kernel's repeats"),
            Self::Exempt(why) => Some(why),
            Self::Out | Self::Shown => None,
        }
    }
}

/// A counter and its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Our figure and the recorded one.
    pub counter: Compared,
    /// Whether it is in, and if not, why.
    pub verdict: Verdict,
}

/// A case under a policy.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The recorded case.
    pub case: Case,
    /// The policy it ran under.
    pub policy: Policy,
    /// Tolerance, thousandths.
    pub tolerance_permille: u64,
    /// Every counter that was recorded.
    pub counters: Vec<Judged>,
}

impl Checked {
    /// True if no counter is out.
    #[must_use]
    pub fn pass(&self) -> bool {
        self.counters.iter().all(|c| c.verdict != Verdict::Out)
    }

    fn of(result: CaseResult, policy: Policy, tolerance_permille: u64) -> Self {
        let case = result.case;
        let counters = result
            .counters
            .into_iter()
            .map(|counter| Judged {
                verdict: verdict(case, policy, &counter, tolerance_permille),
                counter,
            })
            .collect();
        Self {
            case,
            policy,
            tolerance_permille,
            counters,
        }
    }
}

fn verdict(case: Case, policy: Policy, counter: &Compared, tolerance_permille: u64) -> Verdict {
    let exempt = EXEMPT.iter().find(|e| {
        e.case == case && e.policy == policy.recorded && e.counters.contains(&counter.name)
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
    } else {
        Verdict::Out
    }
}

/// Generates the cases, checks their hashes against the tables, replays them under the policies
/// in parallel and judges the counters. The result does not depend on the number of threads.
/// Cases that the tables do not have are left out.
///
/// # Errors
/// A sequence that is not the recorded one, or a replay that fails.
pub fn check(
    reference: &Reference,
    options: &CheckOptions,
    progress: &Progress,
) -> Result<Vec<Checked>, RunnerError> {
    let of_case = |&case: &Case| -> Result<Vec<Checked>, RunnerError> {
        let Some(run) = reference.runs_of(case.name()).next() else {
            return Ok(Vec::new());
        };
        let recorded = run.trace_fnv1a64.trim_start_matches("0x");
        let ours = case.recorded_hash();
        // 0 stands for a sequence that was not hashed.
        let expected = u64::from_str_radix(recorded, 16);
        if expected != Ok(0) && expected != Ok(ours) {
            return Err(RunnerError::Hash {
                case: case.name(),
                ours,
                recorded: recorded.into(),
            });
        }
        let trace = trace_of(case.sequence());
        let of_policy = |&policy: &Policy| -> Result<Option<Checked>, RunnerError> {
            let classic = policy.recorded == "classic";
            // Multi-gen results do not depend on the phase.
            let phases = if classic { options.phases } else { 1 };
            let tolerance = options.tolerance_permille.unwrap_or(if classic {
                CLASSIC_PERMILLE
            } else {
                MULTI_GEN_PERMILLE
            });
            let done = compare(reference, case, &trace, policy, phases);
            progress.step();
            let done = done.map_err(|error| RunnerError::Case {
                case: case.name(),
                policy: policy.recorded,
                error,
            })?;
            Ok(done.map(|result| Checked::of(result, policy, tolerance)))
        };
        let done: Vec<_> = options.policies.par_iter().map(of_policy).collect();
        all_of(done)
    };
    let done: Vec<_> = options.cases.par_iter().map(of_case).collect();
    all_of(done)
}

/// What all of them gave, one after the other; or the first error.
fn all_of<T>(
    done: Vec<Result<impl IntoIterator<Item = T>, RunnerError>>,
) -> Result<Vec<T>, RunnerError> {
    let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(done.into_iter().flatten().collect())
}

/// Per cent of a ratio minus one.
fn percent(error: Option<f64>) -> String {
    error.map_or_else(|| "-".into(), |e| format!("{:+.2} %", e * 100.0))
}

/// One table a case and policy, and a last line with the number of cases that are in.
#[must_use]
pub fn render_fidelity(checked: &[Checked], style: Style) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    for c in checked {
        let _ = writeln!(
            out,
            "{}, {} (lab variant {}): {} (tolerance {} %)\n",
            c.case.name(),
            c.policy.recorded,
            c.policy.variant,
            if c.pass() { "in" } else { "OUT" },
            c.tolerance_permille as f64 / 10.0
        );
        let columns = [
            ("counter", Align::Left),
            ("ours", Align::Right),
            ("kernel", Align::Right),
            ("error", Align::Right),
            ("kernel's repeats", Align::Right),
            ("verdict", Align::Left),
        ];
        let mut table = Table::new(columns);
        for j in &c.counters {
            let k = &j.counter;
            if k.ours == 0.0 && k.kernel == 0.0 {
                continue;
            }
            table.row([
                k.name.to_owned(),
                human((k.ours * 10.0).round() / 10.0),
                human(k.kernel),
                percent(k.error),
                format!("\u{b1}{:.2} %", k.kernel_spread * 100.0),
                j.verdict.text().into(),
            ]);
        }
        out.push_str(&table.text(style));
        for why in [SWITCHED_OUT, FLUSHER] {
            let names: Vec<&str> = c
                .counters
                .iter()
                .filter(|j| j.verdict == Verdict::Exempt(why))
                .map(|j| j.counter.name)
                .collect();
            if !names.is_empty() {
                let _ = writeln!(out, "exempt: {}: {why}", names.join(", "));
            }
        }
        out.push('\n');
    }
    for c in checked.iter().filter(|c| !c.pass()) {
        let names: Vec<String> = c
            .counters
            .iter()
            .filter(|j| j.verdict == Verdict::Out)
            .map(|j| format!("{} {}", j.counter.name, percent(j.counter.error)))
            .collect();
        let _ = writeln!(
            out,
            "OUT {} {}: {}",
            c.case.name(),
            c.policy.recorded,
            names.join(", ")
        );
    }
    let good = checked.iter().filter(|c| c.pass()).count();
    let count = |f: fn(Verdict) -> bool| {
        let all = checked.iter().flat_map(|c| &c.counters);
        all.filter(|j| (j.counter.ours != 0.0 || j.counter.kernel != 0.0) && f(j.verdict))
            .count()
    };
    let _ = writeln!(
        out,
        "{RULE}\n\nJudged counters: {} within the tolerance, {} within 32 pages, {} within the kernel's own \
         spread, {} out; {} exempt.\n{good} of {} cases in.",
        count(|v| v == Verdict::In(Within::Tolerance)),
        count(|v| v == Verdict::In(Within::Pages)),
        count(|v| v == Verdict::In(Within::Spread)),
        count(|v| v == Verdict::Out),
        count(|v| matches!(v, Verdict::Exempt(_))),
        checked.len(),
    );
    out
}

/// `{"cases": [{"case", "policy", "variant", "tolerance", "pass", "counters": {NAME: {"ours",
/// "kernel", "error", "kernel_spread", "verdict", "reason"}}}], "rule", "in", "of"}`.
#[must_use]
pub fn fidelity_json(checked: &[Checked]) -> String {
    let real = |x: f64| Number::Real(x).to_json();
    let case = |c: &Checked| -> Value {
        let counters: serde_json::Map<String, Value> = c
            .counters
            .iter()
            .map(|j| {
                let value = json!({
                    "ours": real(j.counter.ours),
                    "kernel": real(j.counter.kernel),
                    "error": j.counter.error.map_or(Value::Null, real),
                    "kernel_spread": real(j.counter.kernel_spread),
                    "verdict": match j.verdict {
                        Verdict::Shown => Value::Null,
                        v => v.name().to_lowercase().into(),
                    },
                    "reason": j.verdict.reason(),
                });
                (j.counter.name.to_owned(), value)
            })
            .collect();
        json!({
            "case": c.case.name(),
            "policy": c.policy.recorded,
            "variant": c.policy.variant,
            "tolerance": c.tolerance_permille as f64 / 1000.0,
            "pass": c.pass(),
            "counters": counters,
        })
    };
    let cases: Vec<Value> = checked.iter().map(case).collect();
    let good = checked.iter().filter(|c| c.pass()).count();
    format!(
        "{:#}\n",
        json!({"cases": cases, "rule": RULE, "in": good, "of": checked.len()})
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(case: Case, recorded: &str, name: &'static str, ours: f64, kernel: f64) -> Verdict {
        let counter = Compared {
            name,
            ours,
            kernel,
            error: (kernel > 0.0).then(|| ours / kernel - 1.0),
            kernel_spread: 0.0,
        };
        verdict(
            case,
            Policy::of(recorded).unwrap(),
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
        let of = |spread: f64| {
            let counter = Compared {
                name: "pgscan",
                ours: 101_000.0,
                kernel: 100_000.0,
                error: Some(0.01),
                kernel_spread: spread,
            };
            let policy = Policy::of("mglru-0x7").unwrap();
            verdict(Case::PreadCycle, policy, &counter, MULTI_GEN_PERMILLE)
        };
        assert_eq!(of(0.009), Verdict::Out);
        assert_eq!(of(0.011), Verdict::In(Within::Spread));
        assert_eq!(of(0.011).text(), "in (kernel's spread)");
        assert!(of(0.011).reason().is_some_and(|r| r.contains("repeats")));
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
    fn a_changed_table_is_refused() {
        let mut reference = Reference::embedded().unwrap();
        for run in &mut reference.runs {
            run.trace_fnv1a64 = "1234".into();
        }
        let options = CheckOptions {
            cases: vec![Case::PreadCycle],
            policies: vec![Policy::of("mglru-0x7").unwrap()],
            phases: 1,
            tolerance_permille: None,
        };
        let error = check(&reference, &options, &Progress::silent()).unwrap_err();
        assert!(
            error.to_string().ends_with("belong to another version"),
            "{error}"
        );
    }
}
