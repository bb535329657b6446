//! Recorded cases of real kernels, replayed and judged.

mod summary;
mod text;
mod verdict;

pub use summary::summaries;
pub use text::{fidelity_json, render_fidelity, render_series};
pub use verdict::{Verdict, Within, SLACK_PAGES};

use super::RunnerError;
use crate::fidelity::compare::{compare, trace_of, CaseResult, Compared};
use crate::fidelity::{Case, Point, Policy, RecordedKernel, Reference};
use crate::replay::SeriesPoint;
use crate::runner::Progress;
use rayon::prelude::*;
use verdict::{accept_outcome, verdict};

/// What to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Cases to run; all recorded ones by default.
    pub cases: Vec<Case>,
    /// Recorded policies to run each case under, as far as a kernel has them.
    pub policies: Vec<&'static str>,
    /// Phases of the statistics fold over which classic results are averaged.
    pub phases: u64,
    /// Tolerance of every counter, thousandths; none: that of the policy.
    pub tolerance_permille: Option<u64>,
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
    /// The kernel that ran it.
    pub kernel: RecordedKernel,
    /// The recorded case.
    pub case: Case,
    /// The policy it ran under.
    pub policy: Policy,
    /// Tolerance, thousandths.
    pub tolerance_permille: u64,
    /// Every counter that was recorded.
    pub counters: Vec<Judged>,
    /// Ours and the kernel's first run on the way.
    pub points: Vec<(SeriesPoint, Point)>,
}

impl Checked {
    /// True if no counter is out.
    #[must_use]
    pub fn pass(&self) -> bool {
        self.counters.iter().all(|c| c.verdict != Verdict::Out)
    }

    /// The counter of that name.
    fn counter(&self, name: &str) -> Option<&Compared> {
        let mut all = self.counters.iter().map(|j| &j.counter);
        all.find(|c| c.name == name)
    }

    fn of(
        result: CaseResult,
        kernel: RecordedKernel,
        policy: Policy,
        tolerance_permille: u64,
    ) -> Self {
        let case = result.case;
        let counters = result.counters.into_iter().map(|counter| Judged {
            verdict: verdict(kernel, case, policy, &counter, tolerance_permille),
            counter,
        });
        let mut counters: Vec<Judged> = counters.collect();
        accept_outcome(&mut counters, tolerance_permille);
        Self {
            kernel,
            case,
            policy,
            tolerance_permille,
            counters,
            points: result.points,
        }
    }
}

/// Generates the cases, checks their hashes against the tables, replays them under what each kernel was set
/// to, in parallel, and judges the counters. The result does not depend on the number of threads: it goes
/// by kernels, cases, policies. What a table does not have is left out.
///
/// # Errors
/// A sequence that is not the recorded one, or a replay that fails.
pub fn check(
    tables: &[(RecordedKernel, Reference)],
    options: &CheckOptions,
    progress: &Progress,
) -> Result<Vec<Checked>, RunnerError> {
    let of_case = |&case: &Case| -> Result<Vec<(usize, Checked)>, RunnerError> {
        let jobs: Vec<_> = jobs_of(tables, options, case).collect();
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        same_sequence(tables, case)?;
        let trace = trace_of(case.sequence());
        let done = jobs.par_iter().map(|&(at, policy)| {
            let (kernel, table) = &tables[at];
            let done = compare(table, case, &trace, policy, policy.phases(options.phases));
            progress.step();
            let result = done.map_err(|error| RunnerError::Case {
                case: case.name(),
                policy: policy.recorded,
                error,
            })?;
            let tolerance = options
                .tolerance_permille
                .unwrap_or(policy.tolerance_permille);
            Ok(result.map(|r| (at, Checked::of(r, *kernel, policy, tolerance))))
        });
        let done: Result<Vec<_>, RunnerError> = done.collect();
        Ok(done?.into_iter().flatten().collect())
    };
    let done: Result<Vec<_>, RunnerError> = options.cases.par_iter().map(of_case).collect();
    let mut all: Vec<_> = done?.into_iter().flatten().collect();
    all.sort_by_key(|&(kernel, _)| kernel);
    Ok(all.into_iter().map(|(_, checked)| checked).collect())
}

/// How many steps [`check`] takes.
#[must_use]
pub fn check_steps(tables: &[(RecordedKernel, Reference)], options: &CheckOptions) -> usize {
    let steps = |&case: &Case| jobs_of(tables, options, case).count();
    options.cases.iter().map(steps).sum()
}

/// The tables that have a case, and the policies under which they have it.
fn jobs_of<'a>(
    tables: &'a [(RecordedKernel, Reference)],
    options: &'a CheckOptions,
    case: Case,
) -> impl Iterator<Item = (usize, Policy)> + 'a {
    let wanted = |p: &Policy| options.policies.contains(&p.recorded);
    tables
        .iter()
        .enumerate()
        .flat_map(move |(at, (kernel, table))| {
            let policies = kernel.policies.iter().copied().filter(wanted);
            let has = move |p: &Policy| table.runs_under(case.name(), p.recorded).next().is_some();
            policies.filter(has).map(move |policy| (at, policy))
        })
}

/// Is the sequence that the tables have the one that is generated here?
fn same_sequence(tables: &[(RecordedKernel, Reference)], case: Case) -> Result<(), RunnerError> {
    let ours = case.recorded_hash();
    for run in tables
        .iter()
        .filter_map(|(_, t)| t.runs_of(case.name()).next())
    {
        let recorded = run.trace_fnv1a64.trim_start_matches("0x");
        // 0 stands for a sequence that was not hashed.
        if !matches!(u64::from_str_radix(recorded, 16), Ok(hash) if hash == 0 || hash == ours) {
            return Err(RunnerError::Hash {
                case: case.name(),
                ours,
                recorded: recorded.into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::KERNELS;

    #[test]
    fn a_changed_table_is_refused() {
        let mut reference = KERNELS[0].reference().unwrap();
        for run in &mut reference.runs {
            run.trace_fnv1a64 = "1234".into();
        }
        let options = CheckOptions {
            cases: vec![Case::PreadCycle],
            policies: vec!["mglru-0x7"],
            phases: 1,
            tolerance_permille: None,
        };
        let error = check(&[(KERNELS[0], reference)], &options, &Progress::silent()).unwrap_err();
        assert!(
            error.to_string().ends_with("belong to another version"),
            "{error}"
        );
    }
}
