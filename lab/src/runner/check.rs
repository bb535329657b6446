//! Recorded cases of a real kernel, replayed and judged.

use super::RunnerError;
use crate::fidelity::compare::{compare, trace_of, CaseResult, Compared, Policy};
use crate::fidelity::{Case, Reference};
use crate::report::{human, Align, Grid, Number, Progress, Style};
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
/// Counters that took one of several values in the recorded repeats, for a reason that was not
/// recorded: whether a task was switched out between two walks (`mglru.md` 5.1), or when the
/// flusher wrote.
const DISCRETE: &[(Case, &str, &[&str])] = &[
    (
        Case::AnonZram,
        "mglru-0x7",
        &[
            "pgscan",
            "pgactivate",
            "workingset_restore_anon",
            "pgrefill",
        ],
    ),
    (Case::ReadWriteZipf, "mglru-0x7", &["pgactivate"]),
    (Case::ReadWriteZipf, "mglru-0x1", &["pgactivate"]),
];

/// What to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Cases.
    pub cases: Vec<Case>,
    /// Policies.
    pub policies: Vec<Policy>,
    /// Phases of the statistics fold over which classic results are averaged.
    pub phases: u64,
    /// Tolerance of every counter, thousandths; none: by policy.
    pub tolerance_permille: Option<u64>,
}

/// What became of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the tolerance.
    In,
    /// Not within it.
    Out,
    /// Has several values in the kernel, too; not judged.
    Discrete,
    /// Shown only.
    Shown,
}

impl Verdict {
    /// One word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "OUT",
            Self::Discrete => "discrete",
            Self::Shown => "",
        }
    }
}

/// A counter and its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Both figures.
    pub counter: Compared,
    /// Verdict.
    pub verdict: Verdict,
}

/// A case under a policy.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Case.
    pub case: Case,
    /// Policy.
    pub policy: Policy,
    /// Tolerance, thousandths.
    pub tolerance_permille: u64,
    /// Counters.
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
    let discrete = DISCRETE
        .iter()
        .any(|(c, p, names)| *c == case && *p == policy.recorded && names.contains(&counter.name));
    if discrete {
        return Verdict::Discrete;
    }
    if !JUDGED.contains(&counter.name) {
        return Verdict::Shown;
    }
    // No closer than the kernel is to itself.
    let relative = (tolerance_permille as f64 / 1000.0).max(counter.kernel_spread);
    let allowed = (counter.kernel * relative).max(SLACK_PAGES);
    if (counter.ours - counter.kernel).abs() <= allowed {
        Verdict::In
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
        Ok(done
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect())
    };
    let done: Vec<_> = options.cases.par_iter().map(of_case).collect();
    Ok(done
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
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
        let mut grid = Grid::new(style, &columns);
        for j in &c.counters {
            let k = &j.counter;
            if k.ours == 0.0 && k.kernel == 0.0 {
                continue;
            }
            grid.row(vec![
                k.name.into(),
                human((k.ours * 10.0).round() / 10.0),
                human(k.kernel),
                percent(k.error),
                format!("\u{b1}{:.2} %", k.kernel_spread * 100.0),
                j.verdict.name().into(),
            ]);
        }
        out.push_str(&grid.render());
        out.push('\n');
    }
    let discrete = checked
        .iter()
        .flat_map(|c| &c.counters)
        .any(|j| j.verdict == Verdict::Discrete);
    if discrete {
        out.push_str("discrete: the kernel has several outcomes here and did not record why it took one; not judged.\n");
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
    let _ = writeln!(out, "{good} of {} cases in.", checked.len());
    out
}

/// `{"cases": [{"case", "policy", "variant", "tolerance", "pass", "counters": {NAME: {"ours",
/// "kernel", "error", "kernel_spread", "verdict"}}}], "in", "of"}`.
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
        json!({"cases": cases, "in": good, "of": checked.len()})
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
        assert_eq!(d(100_500.0, 100_000.0), Verdict::In);
        assert_eq!(d(100_501.0, 100_000.0), Verdict::Out);
        assert_eq!(d(99_499.0, 100_000.0), Verdict::Out);
        assert_eq!(d(32.0, 0.0), Verdict::In);
        assert_eq!(d(33.0, 0.0), Verdict::Out);
    }

    #[test]
    fn some_counters_are_not_judged() {
        let v = judge(Case::AnonZram, "mglru-0x7", "pgscan", 38_000.0, 57_000.0);
        assert_eq!(v, Verdict::Discrete);
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
