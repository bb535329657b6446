//! The costs of a run as they were: the table, what was set, and what the experiment declares.

use super::effect::idle;
use super::{Plan, RunnerError};
use crate::experiment::{Experiment, Host, RunInput};
use coldset_machine::Params;
use coldset_report::Deviation;
use indexmap::IndexMap;

/// The machines of a run with their costs.
pub(super) struct Ran {
    machines: Vec<(String, Params)>,
}

impl Ran {
    /// Those of an experiment that is run as planned.
    pub fn of(experiment: &'static Experiment, plan: &Plan) -> Result<Self, RunnerError> {
        let Some(variant) = plan.variants.first() else {
            return Ok(Self {
                machines: Vec::new(),
            });
        };
        let input = plan.input(experiment, variant, 1);
        let hosts = hosts(experiment, &input)?;
        let costs = |h: Host| (input.costs_on(&h.name), h.name);
        let machines = hosts.into_iter().map(costs).map(|(c, name)| (name, c));
        Ok(Self {
            machines: machines.collect(),
        })
    }

    /// Costs of the first machine.
    pub fn costs(&self) -> Params {
        self.machines
            .first()
            .map(|(_, p)| p.clone())
            .unwrap_or_default()
    }

    /// Rows that are not as in the table; the machine stands before a row that only it has so.
    pub fn differing(&self) -> IndexMap<String, u64> {
        let mut rows = IndexMap::new();
        for info in Params::default().describe() {
            let of = |p: &Params| p.get(info.name).unwrap_or(info.default);
            let values = self.machines.iter().map(|(name, p)| (name, of(p)));
            let own: Vec<_> = values.filter(|(_, v)| *v != info.default).collect();
            let alike = own.windows(2).all(|w| w[0].1 == w[1].1);
            match own.first() {
                Some((_, value)) if alike && own.len() == self.machines.len() => {
                    rows.insert(info.name.to_owned(), *value);
                }
                _ => rows.extend(own.iter().map(|(m, v)| (format!("{m}{}", info.name), *v))),
            }
        }
        rows
    }

    /// The experiment's deviations that hold.
    pub fn deviations(&self, experiment: &Experiment, plan: &Plan) -> Vec<Deviation> {
        let overridden = |d: &crate::experiment::Deviation| {
            d.machine.is_empty() && plan.costs.were_set().contains(&d.name)
        };
        let hold = experiment.deviations.iter().filter(|d| !overridden(d));
        hold.map(crate::experiment::Deviation::shown).collect()
    }
}

fn hosts(experiment: &'static Experiment, input: &RunInput) -> Result<Vec<Host>, RunnerError> {
    (experiment.hosts)(input).map_err(|error| RunnerError::Experiment {
        experiment: experiment.name,
        variant: input.variant.clone(),
        seed: input.seed,
        error,
    })
}

/// That every cost that was set has an effect on one of the runs.
///
/// # Errors
/// [`RunnerError::Idle`] with the reason, or parameters that cannot be used.
pub fn check_costs(runs: &[(&'static Experiment, RunInput)]) -> Result<(), RunnerError> {
    let mut all = Vec::new();
    for (experiment, input) in runs {
        all.push((input, hosts(experiment, input)?));
    }
    let set = runs
        .first()
        .map_or(&[][..], |(_, input)| input.costs.were_set());
    for &name in set {
        let idle: Option<Vec<String>> = all.iter().map(|(i, h)| idle(name, i, h)).collect();
        if let Some(why) = idle {
            let names: Vec<&str> = runs.iter().map(|(e, _)| e.name).collect();
            return Err(RunnerError::Idle {
                name,
                experiments: names.join(", "),
                why: why.join("; "),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{experiment, run, Progress, Variant};
    use super::*;
    use crate::experiment::Costs;
    use crate::experiments::EXPERIMENTS;

    fn plan(name: &str, set: &[(&str, u64)]) -> (&'static Experiment, Plan) {
        let experiment = experiment(name).unwrap();
        let mut costs = Costs::default();
        for (name, value) in set {
            costs.set(name, *value).unwrap();
        }
        let plan = Plan {
            variants: Variant::parse_all(&[experiment.before, experiment.after], &[]).unwrap(),
            seeds: 1,
            scale: experiment.scale,
            effort_permille: 20,
            costs,
            params: Vec::new(),
            record: Vec::new(),
            sample_points: 0,
        };
        (experiment, plan)
    }

    fn refused(name: &str, row: &str) -> String {
        let value = Params::default().get(row).unwrap() + 1;
        let (experiment, plan) = plan(name, &[(row, value)]);
        let input = plan.input(experiment, &plan.variants[0], 1);
        match check_costs(&[(experiment, input)]) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_cost_without_effect_is_refused_with_the_reason() {
        for (experiment, row, why) in [
            ("mongodb", "hdd_bytes_per_s", "its devices are nvme"),
            ("mongodb", "sql_statement_ns", "only the load of mysql"),
            ("mongodb", "zram_lz4_read_ns", "it has no zram"),
            ("fairness", "zram_zstd_read_ns", "compresses with lz4"),
            ("mysql", "kswapd_wake_ns", "kswapd sleeps"),
            ("slow-io", "ufs_lat_ns", "its devices are"),
        ] {
            let text = refused(experiment, row);
            assert!(text.contains(why) && text.contains(row), "{text}");
        }
        for (experiment, row) in [
            ("mongodb", "nvme_read_lat_ns"),
            ("mongodb", "minor_fault_anon_ns"),
            ("slow-io", "hdd_bytes_per_s"),
            ("mysql", "sql_statement_ns"),
            ("fairness", "zram_lz4_read_ns"),
            ("throttling-oom", "timer_hz"),
            ("throttling-oom", "nvme_write_lat_ns"),
        ] {
            assert_eq!(refused(experiment, row), "", "{experiment} {row}");
        }
        // In a table of several experiments it is enough if one of them has the device.
        let set = [("hdd_bytes_per_s", 1_000_000)];
        let both = ["mongodb", "slow-io"].map(|name| {
            let (experiment, plan) = plan(name, &set);
            (experiment, plan.input(experiment, &plan.variants[0], 1))
        });
        assert!(check_costs(&both).is_ok());
    }

    #[test]
    fn every_row_of_a_load_is_charged_by_an_experiment() {
        use crate::experiments::EXPERIMENTS;
        for info in Params::default().describe().iter().filter(|i| i.load) {
            let charged = EXPERIMENTS.iter().any(|e| e.costs.contains(&info.name));
            assert!(charged, "{}", info.name);
        }
    }

    #[test]
    fn what_ran_is_in_the_header() {
        let (experiment, plan) = plan("throttling-oom", &[]);
        let ran = Ran::of(experiment, &plan).unwrap();
        let rows = ran.differing();
        assert_eq!(rows["timer_hz"], 250);
        assert_eq!(rows["nodelay.delay_write_ns"], 0);
        assert!(!rows.contains_key("delay_write_ns"));
        let listed = ran.deviations(experiment, &plan);
        let named = |n: &str| listed.iter().any(|d| d.name == n);
        assert!(named("timer_hz") && named("nodelay.delay_write_ns"));
    }

    /// Before anything runs: a sweep finds out when it lists its cells, not hours later.
    #[test]
    fn nonsense_is_refused_before_a_run() {
        for experiment in EXPERIMENTS {
            let variant = Variant::parse(experiment.before, &[]).unwrap();
            let given = |name: &str, value: &str| RunInput {
                params: vec![(name.into(), value.into())],
                ..experiment.input(&variant.label, variant.switches.clone())
            };
            for param in experiment.params {
                let name = param.name;
                let text = experiment.check(&given(name, "no such")).unwrap_err();
                assert!(text.to_string().contains("no such"), "{name}: {text}");
                if let Err(error) = experiment.check(&given(name, param.default)) {
                    // Given, although something else says that it has no effect.
                    let text = error.to_string();
                    assert!(text.contains("no effect"), "{name}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_parameter_without_effect_is_refused() {
        for (name, params) in [
            ("aging-oom", [("sizes", "16g"), ("large_anon_mib", "1000")]),
            ("fairness", [("swap", "none"), ("swap_mib", "1000")]),
            ("tlb-stress", [("swap", "zram"), ("page_cluster", "0")]),
        ] {
            let (experiment, mut plan) = plan(name, &[]);
            let one = |(n, v): (&str, &str)| (n.to_owned(), v.to_owned());
            plan.params = params.map(one).to_vec();
            let text = run(experiment, &plan, &Progress::silent())
                .unwrap_err()
                .to_string();
            assert!(
                text.contains(params[1].0) && text.contains("no effect"),
                "{text}"
            );
        }
    }

    /// One tick for the simulator, for reclaim and for dirty throttling.
    #[test]
    fn the_tick_has_one_source() {
        let (experiment, plan) = plan("throttling-oom", &[("timer_hz", 500)]);
        let ran = Ran::of(experiment, &plan).unwrap();
        assert_eq!(ran.costs().timer_hz, 500, "what was set wins");
        assert!(ran
            .deviations(experiment, &plan)
            .iter()
            .all(|d| d.name != "timer_hz"));
        let input = plan.input(experiment, &plan.variants[0], 1);
        let host = (experiment.hosts)(&input).unwrap().remove(0);
        let rig = crate::rig::Rig::new(&input, host).unwrap();
        let world = rig.machine().world();
        assert_eq!(rig.machine().sim.config().hz, 500);
        assert_eq!(world.engine.config().hz, 500);
        assert_eq!(world.dirty_params().hz, 500);
    }

    #[test]
    fn a_claim_that_restates_a_parameter_is_in_no_total() {
        let (experiment, mut plan) = plan("dead-folios", &[]);
        plan.effort_permille = 5;
        let done = run(experiment, &plan, &Progress::silent()).unwrap().result;
        let share = "dead share at the drain";
        assert!(done.claims.iter().all(|c| c.name != share));
        assert_eq!(done.restated.len(), 1);
        assert_eq!(
            (
                done.restated[0].name.as_str(),
                done.restated[0].restates.as_str()
            ),
            (share, "p")
        );
        let text = coldset_report::render_text(&done, crate::report::Style::Plain);
        assert!(
            text.contains(&format!("of {} claims in", done.claims.len())),
            "{text}"
        );
        assert!(text.contains("counted in no total"), "{text}");
    }
}
