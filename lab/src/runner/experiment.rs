//! An experiment over variants and seeds.

use super::quantity::{show_effort, show_scale};
use super::ran::{check_costs, Ran};
use super::{RunnerError, Variant};
use crate::experiment::{Asked, Costs, Experiment, RunInput};
use crate::experiments::EXPERIMENTS;
use crate::replay;
use crate::runner::Progress;
use crate::workload;
use coldset_machine::Params;
use coldset_report::{Claim, Class, Deviation, ExperimentResult, Header, RunResult};
use indexmap::IndexMap;
use rayon::prelude::*;
use std::path::Path;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Variants; the first is before, the last after.
    pub variants: Vec<Variant>,
    /// Seeds 1 to so many.
    pub seeds: u64,
    /// Denominator of the scale.
    pub scale: u64,
    /// Effort in thousandths.
    pub effort_permille: u64,
    /// The table of costs, with what was set.
    pub costs: Costs,
    /// Parameters of the experiment that are not at their default.
    pub params: Vec<(String, String)>,
    /// Settings to put on record in the header, beside the parameters.
    pub record: Vec<(String, String)>,
    /// Samples over virtual time to keep of each machine, at most; 0 = none. They change no result.
    pub sample_points: usize,
}

impl Plan {
    /// One run of the plan.
    #[must_use]
    pub fn input(&self, experiment: &Experiment, variant: &Variant, seed: u64) -> RunInput {
        RunInput {
            seed,
            scale: self.scale,
            effort_permille: self.effort_permille,
            costs: self.costs.clone(),
            params: self.params.clone(),
            sample_points: self.sample_points,
            ..experiment.input(&variant.label, variant.switches.clone())
        }
    }
}

impl Plan {
    /// That every cost that was set has an effect on the experiment.
    ///
    /// # Errors
    /// [`RunnerError::Idle`] with the reason, or parameters that cannot be used.
    pub fn check_costs(&self, experiment: &'static Experiment) -> Result<(), RunnerError> {
        match self.variants.first() {
            Some(first) => check_costs(&[(experiment, self.input(experiment, first, 1))]),
            None => Ok(()),
        }
    }
}

/// Samples of a run whose series are shown.
pub const SAMPLE_POINTS: usize = 400;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counters and verdicts.
    pub result: ExperimentResult,
    /// The single runs, with their series: variant by variant, seed by seed.
    pub runs: Vec<RunResult>,
    /// The costs that ran; where the machines of a run differ, those of the first.
    pub costs: Params,
}

/// The experiment called `name`, or the one that the file of that name describes, if it ends in `.toml`.
///
/// # Errors
/// [`RunnerError::Name`] with the nearest name, [`RunnerError::Workload`] with the mistake in the file.
pub fn experiment(name: &str) -> Result<&'static Experiment, RunnerError> {
    if is_workload(name) {
        return Ok(workload::read(Path::new(name))?);
    }
    EXPERIMENTS.iter().find(|e| e.name == name).ok_or_else(|| {
        let names = EXPERIMENTS.iter().map(|e| e.name);
        RunnerError::name("experiment", name, names, "see: coldset lab list")
    })
}

/// That a name is one of a file with a workload, not of a built-in experiment.
#[must_use]
pub fn is_workload(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "toml")
}

/// Every deviation from the table of costs, with what declares it: an experiment, or `lab replay`.
#[must_use]
pub fn deviations() -> Vec<(&'static str, Deviation)> {
    let of = EXPERIMENTS.iter().map(|e| (e.name, e.deviations));
    let of = of.chain([("lab replay", replay::DEVIATIONS)]);
    of.flat_map(|(name, all)| all.iter().map(move |d| (name, d.shown())))
        .collect()
}

/// Claims of the experiment called `name`, of a variant `before` and one `after`: what
/// [`compare`](crate::compare::compare) asks for. None if there is no such experiment.
#[must_use]
pub fn claims_of(name: &str) -> Vec<Claim> {
    experiment(name).map_or_else(|_| Vec::new(), |e| (e.claims)("before", "after"))
}

/// That the experiment has these parameters.
///
/// # Errors
/// [`RunnerError::Name`] with the nearest name.
pub fn check_params(
    experiment: &Experiment,
    params: &[(String, String)],
) -> Result<(), RunnerError> {
    let names = || experiment.params.iter().map(|p| p.name);
    match params.iter().find(|(given, _)| names().all(|n| n != given)) {
        None => Ok(()),
        Some((name, _)) => {
            let list = "see: coldset lab list --params";
            Err(RunnerError::name(
                "experiment parameter",
                name,
                names(),
                list,
            ))
        }
    }
}

/// That the runs have asked for every parameter that was given.
///
/// # Errors
/// [`RunnerError::Unasked`] with the first one that changes nothing.
pub fn check_asked(asked: &Asked, params: &[(String, String)]) -> Result<(), RunnerError> {
    match asked.never(params) {
        None => Ok(()),
        Some(name) => Err(RunnerError::Unasked(name.to_owned())),
    }
}

/// Runs every variant under every seed, in parallel, and judges the experiment's claims if there
/// are at least two variants. The result does not depend on the number of threads.
///
/// # Errors
/// The first run that fails, in the order of variants and seeds; or unknown parameters.
pub fn run(
    experiment: &'static Experiment,
    plan: &Plan,
    progress: &Progress,
) -> Result<Outcome, RunnerError> {
    check_params(experiment, &plan.params)?;
    let asked = Asked::default();
    let pairs: Vec<(&Variant, u64)> = plan
        .variants
        .iter()
        .flat_map(|variant| (1..=plan.seeds).map(move |seed| (variant, seed)))
        .collect();
    let one = |&(variant, seed): &(&Variant, u64)| {
        if progress.is_stopped() {
            return Err(RunnerError::Stopped);
        }
        let input = RunInput {
            asked: asked.clone(),
            ..plan.input(experiment, variant, seed)
        };
        let done = experiment.run_once(&input);
        progress.step();
        done.map_err(|error| RunnerError::Experiment {
            experiment: experiment.name,
            variant: variant.label.clone(),
            seed,
            error,
        })
    };
    // All results first, then the first error: which one is reported must not depend on timing.
    let done: Vec<Result<RunResult, RunnerError>> = pairs.par_iter().map(one).collect();
    let runs = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    check_asked(&asked, &plan.params)?;
    let claims = match plan.variants.as_slice() {
        [before, .., after] => (experiment.claims)(&before.label, &after.label),
        _ => Vec::new(),
    };
    let mut parameters: IndexMap<String, String> = plan.params.iter().cloned().collect();
    parameters.extend(plan.record.iter().cloned());
    let ran = Ran::of(experiment, plan)?;
    let header = Header {
        experiment: experiment.name.into(),
        scale: show_scale(plan.scale),
        effort: show_effort(plan.effort_permille),
        effort_share: experiment.effort.share(plan.effort_permille),
        parameters,
        costs: ran.differing(),
        deviations: ran.deviations(experiment, plan),
    };
    let mut result = ExperimentResult::collect(header, &runs, &claims)?;
    for counters in result.variants.values_mut() {
        mechanism_last(counters, experiment.mechanism);
    }
    Ok(Outcome {
        result,
        runs,
        costs: ran.costs(),
    })
}

/// Puts the counters of the mechanism behind the others, in their order.
fn mechanism_last<T>(counters: &mut IndexMap<String, T>, mechanism: &[&str]) {
    for name in mechanism {
        if let Some((key, value)) = counters.shift_remove_entry(*name) {
            counters.insert(key, value);
        }
    }
}

/// True if no claim of class A, B or N is out; class D does not decide.
#[must_use]
pub fn in_band(result: &ExperimentResult) -> bool {
    result
        .claims
        .iter()
        .all(|claim| claim.pass || claim.class == Class::D)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Effort, ExperimentError, Host, ParamDoc, Quick};
    use coldset_report::{Band, Claim};

    fn count(input: &RunInput) -> Result<RunResult, ExperimentError> {
        if input.seed == 3 && input.switches.scan_budget {
            return Err(ExperimentError::Scale {
                scale: input.scale,
                what: "the file",
                left: 0,
                max: 8,
            });
        }
        let mut run = RunResult::new(input.variant.clone(), input.seed);
        run.set(
            "pgscan",
            input.operations(input.number("start")?) + input.seed,
        );
        run.set(
            "ops",
            if input.switches.smaller_batch {
                30u64
            } else {
                20
            },
        );
        Ok(run)
    }

    fn claims(before: &str, after: &str) -> Vec<Claim> {
        vec![
            Claim::ratio("throughput", "ops", before, after).within_band(Band::at_least(1.2)),
            Claim::ratio("scanned", "pgscan", before, after)
                .direction_only()
                .lower_is_better(),
        ]
    }

    const COUNT: Experiment = Experiment {
        name: "count",
        doc: "counts",
        source: "",
        before: "base",
        after: "v5",
        extra: &[],
        scale: 64,
        params: &[
            ParamDoc::new("start", "64000", ""),
            ParamDoc::new("idle", "", ""),
        ],
        effort: Effort::Own("counting"),
        quick: Quick::WHOLE,
        costs: &[],
        deviations: &[],
        hosts: &|_| Ok(vec![Host::default()]),
        run: &count,
        claims: &claims,
        mechanism: &["pgscan"],
    };
    static EXPERIMENT: Experiment = COUNT;

    fn plan(variants: &[&str], seeds: u64) -> Plan {
        Plan {
            variants: Variant::parse_all(variants, &[]).unwrap(),
            seeds,
            scale: 64,
            effort_permille: 500,
            costs: Costs::default(),
            params: Vec::new(),
            record: Vec::new(),
            sample_points: 0,
        }
    }

    fn outcome(variants: &[&str], seeds: u64) -> Result<Outcome, RunnerError> {
        run(&EXPERIMENT, &plan(variants, seeds), &Progress::silent())
    }

    #[test]
    fn first_is_before_and_last_is_after() {
        let variants = ["base", "base+flush_in_loop=on", "base+smaller_batch=on"];
        let done = outcome(&variants, 4).unwrap();
        assert_eq!(done.result.seeds, [1, 2, 3, 4]);
        assert_eq!(done.runs.len(), 12);
        assert_eq!(done.result.claims[0].value, Some(1.5));
        let counters: Vec<_> = done.result.variants["base"].keys().collect();
        assert_eq!(counters, ["ops", "pgscan"]);
        assert_eq!(done.runs[0].counters["pgscan"].as_f64(), 501.0);
        // Class D is out and does not decide.
        assert!(!done.result.claims[1].pass);
        assert!(in_band(&done.result));
        assert!(!in_band(&outcome(&["base", "v612"], 1).unwrap().result));
        assert!(outcome(&["base"], 1).unwrap().result.claims.is_empty());
    }

    #[test]
    fn the_first_failing_run_is_named() {
        let error = outcome(&["base", "v2", "v5"], 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "count, variant v2, seed 3: scale 1/64 leaves the file of 0; use 1/8 or larger"
        );
        assert!(!error.is_environment());
    }

    #[test]
    fn a_parameter_that_no_run_asks_for_is_refused() {
        let with = |names: &[&str]| {
            let mut p = plan(&["base", "v5"], 2);
            p.params = names.iter().map(|&n| (n.into(), "128000".into())).collect();
            run(&EXPERIMENT, &p, &Progress::silent())
        };
        let pgscan = |o: Outcome| o.runs[0].counters["pgscan"].as_f64();
        assert_eq!(with(&["start"]).map(pgscan).unwrap(), 1001.0);
        let text = with(&["start", "idle"]).unwrap_err().to_string();
        assert!(text.starts_with("--param idle has no effect"), "{text}");
    }

    #[test]
    fn unknown_parameters_and_experiments_are_named() {
        let mut p = plan(&["base"], 1);
        p.params.push(("documents".into(), "1".into()));
        let error = run(&EXPERIMENT, &p, &Progress::silent()).unwrap_err();
        assert!(error.to_string().contains("'documents'"), "{error}");
        let first = EXPERIMENTS[0].name;
        let near = experiment(&first[..first.len() - 1])
            .map(|e| e.name)
            .unwrap_err();
        assert!(
            near.to_string()
                .contains(&format!("did you mean '{first}'")),
            "{near}"
        );
        assert_eq!(experiment(first).unwrap().name, first);
    }

    #[test]
    fn threads_do_not_show() {
        let with = |jobs| {
            super::super::with_jobs(Some(jobs), || outcome(&["base", "v612"], 8).unwrap().result)
        };
        assert_eq!(with(1).unwrap(), with(3).unwrap());
    }
}
