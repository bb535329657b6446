//! All experiments, one acceptance table (`docs/acceptance.md`).

mod sensitivity;
mod text;

pub use sensitivity::{
    render_sensitivity, sensitivity, sensitivity_json, sensitivity_table, Changed, Costing,
    Sensitivity,
};
pub use text::render_verify;

use crate::experiment::{Costs, Experiment, Quick};
use crate::experiments::EXPERIMENTS;
use crate::runner::{check_costs, experiment, run, Plan, Progress, RunnerError, Variant};
use coldset_report::{Class, ExperimentResult};
use rayon::prelude::*;

/// What to verify.
#[derive(Clone, Debug)]
pub struct VerifyPlan {
    /// Experiments, in the order of the table.
    pub experiments: Vec<&'static Experiment>,
    /// Seeds 1 to so many.
    pub seeds: u64,
    /// Effort in thousandths.
    pub effort_permille: u64,
    /// Runs are as short as each experiment has it for a quick look.
    pub quick: bool,
    /// The table of costs, with what was set.
    pub costs: Costs,
}

/// What came of it: a result for each experiment, or why there is none.
#[derive(Debug)]
pub struct Verified {
    /// In the order of the plan.
    pub experiments: Vec<(&'static Experiment, Result<ExperimentResult, RunnerError>)>,
}

impl VerifyPlan {
    /// A plan for the experiments called `only`, or for all if there are none.
    ///
    /// # Errors
    /// Unknown name, or one twice.
    pub fn new<S: AsRef<str>>(only: &[S], seeds: u64) -> Result<Self, RunnerError> {
        let mut experiments: Vec<&'static Experiment> = Vec::new();
        for name in only {
            let found = experiment(name.as_ref())?;
            if experiments.iter().any(|e| e.name == found.name) {
                return Err(RunnerError::Twice {
                    what: "experiment",
                    name: found.name.into(),
                });
            }
            experiments.push(found);
        }
        if experiments.is_empty() {
            experiments.extend(EXPERIMENTS);
        }
        Ok(Self {
            experiments,
            seeds,
            effort_permille: 1000,
            quick: false,
            costs: Costs::default(),
        })
    }

    /// Number of runs: experiments times variants times seeds.
    #[must_use]
    pub fn runs(&self) -> u64 {
        let variants = |e: &&Experiment| e.default_variants().len() as u64;
        self.experiments.iter().map(variants).sum::<u64>() * self.seeds
    }

    /// That every cost that was set has an effect on one of the experiments.
    ///
    /// # Errors
    /// [`RunnerError::Idle`] with the reason.
    pub fn check(&self) -> Result<(), RunnerError> {
        let mut runs = Vec::new();
        for &experiment in &self.experiments {
            let plan = self.plan(experiment)?;
            runs.push((experiment, plan.input(experiment, &plan.variants[0], 1)));
        }
        check_costs(&runs)
    }

    fn plan(&self, experiment: &Experiment) -> Result<Plan, RunnerError> {
        let quick = match self.quick {
            true => experiment.quick,
            false => Quick::WHOLE,
        };
        Ok(Plan {
            variants: Variant::parse_all(&experiment.default_variants(), &[])?,
            seeds: self.seeds,
            scale: experiment.scale,
            effort_permille: (self.effort_permille * quick.effort_permille / 1000).max(1),
            costs: self.costs.clone(),
            params: quick
                .params
                .iter()
                .map(|&(name, value)| (name.into(), value.into()))
                .collect(),
            record: Vec::new(),
            sample_points: 0,
        })
    }
}

impl Verified {
    /// True if every experiment has a result and no claim of class A or B is out.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.experiments.iter().all(|(_, result)| {
            result.as_ref().is_ok_and(|r| {
                r.claims
                    .iter()
                    .all(|c| c.pass || matches!(c.class, Class::N | Class::D))
            })
        })
    }

    /// The results, and what has none with the reason.
    #[must_use]
    pub fn split(&self) -> (Vec<&ExperimentResult>, Vec<(String, String)>) {
        let results = self.experiments.iter().filter_map(|(_, r)| r.as_ref().ok());
        let failed = self.experiments.iter().filter_map(|(e, r)| {
            let error = r.as_ref().err()?;
            Some((e.name.to_owned(), error.to_string()))
        });
        (results.collect(), failed.collect())
    }
}

/// Runs everything, in parallel. The result does not depend on the number of threads.
#[must_use]
pub fn verify(plan: &VerifyPlan, progress: &Progress) -> Verified {
    let one = |&experiment: &&'static Experiment| {
        let result = plan
            .plan(experiment)
            .and_then(|p| run(experiment, &p, progress))
            .map(|outcome| outcome.result);
        (experiment, result)
    };
    Verified {
        experiments: plan.experiments.par_iter().map(one).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let all = VerifyPlan::new::<&str>(&[], 2).unwrap();
        assert_eq!(all.experiments.len(), EXPERIMENTS.len());
        let variants: usize = EXPERIMENTS.iter().map(|e| e.default_variants().len()).sum();
        assert_eq!(all.runs(), 2 * variants as u64);
        let error = VerifyPlan::new(&["mongodbb"], 1).unwrap_err().to_string();
        assert!(error.contains("did you mean 'mongodb'"), "{error}");
        let error = VerifyPlan::new(&["mongodb", "mongodb"], 1).unwrap_err();
        assert!(error.to_string().contains("twice"), "{error}");
    }

    /// A quick look sets parameters that there are, to values that a run takes.
    #[test]
    fn quick_looks_can_be_run() {
        let mut plan = VerifyPlan::new::<&str>(&[], 1).unwrap();
        plan.quick = true;
        plan.check().unwrap();
        for e in &plan.experiments {
            let of = plan.plan(e).unwrap();
            crate::runner::check_params(e, &of.params).unwrap();
            assert!((1..=1000).contains(&of.effort_permille), "{}", e.name);
            if matches!(e.effort, crate::experiment::Effort::Fixed(_)) {
                assert_eq!(of.effort_permille, 1000, "{}", e.name);
            }
            (e.hosts)(&of.input(e, &of.variants[0], 1)).unwrap();
        }
    }

    #[test]
    fn a_quick_look_that_leaves_a_part_out_has_a_result() {
        let mut plan = VerifyPlan::new(&["aging-oom"], 1).unwrap();
        plan.quick = true;
        plan.effort_permille = 50;
        let verified = verify(&plan, &Progress::silent());
        let (results, failed) = verified.split();
        assert!(failed.is_empty(), "{failed:?}");
        let sizes: Vec<_> = results[0].claims.iter().map(|c| &c.name[..3]).collect();
        assert_eq!(sizes, ["16g"; 5]);
        assert_eq!(results[0].skipped.len(), 5);
    }

    #[test]
    fn one_experiment_as_run_alone() {
        let mut plan = VerifyPlan::new(&["mongodb"], 1).unwrap();
        plan.effort_permille = 20;
        let verified = verify(&plan, &Progress::silent());
        let experiment = plan.experiments[0];
        let alone = run(
            experiment,
            &plan.plan(experiment).unwrap(),
            &Progress::silent(),
        );
        let (results, failed) = verified.split();
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(*results[0], alone.unwrap().result);
        let out = results[0]
            .claims
            .iter()
            .any(|c| !c.pass && matches!(c.class, Class::A | Class::B));
        assert_eq!(verified.accepted(), !out);
    }
}
