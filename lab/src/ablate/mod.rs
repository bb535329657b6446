//! Which change carries the gain? Before, after, each patch added alone to before, and each taken
//! alone from after.

mod text;
mod trace;

pub use text::{ablation_json, carrier, render_ablation};
pub use trace::{
    ablate_trace, render_trace_ablation, trace_ablation_json, TraceAblation, TracePlan,
};

use crate::experiment::Experiment;
use crate::runner::{run, Plan, Progress, RunnerError, Variant};
use coldset_engine::switches::patches::PATCHES;
use coldset_engine::Switches;
use coldset_report::stats::{paired_ratio, Interval, Spread};
use coldset_report::{Direction, ExperimentResult, Number, Subject};

/// Switches that change together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Short name: `patch 6` or the name of a switch.
    pub name: String,
    /// What it does.
    pub subject: String,
    /// Its switches.
    pub switches: Vec<&'static str>,
}

/// What lies between two sets of switches: patches of the series as far as they differ, then every
/// other switch alone.
#[must_use]
pub fn parts(before: &Switches, after: &Switches) -> Vec<Part> {
    let mut left = before.differing(after);
    let mut parts = Vec::new();
    for patch in PATCHES {
        let switches: Vec<_> = patch.switches().filter(|s| left.contains(s)).collect();
        left.retain(|s| !switches.contains(s));
        if !switches.is_empty() {
            parts.push(Part {
                name: format!("patch {}", patch.number),
                subject: patch.subject.into(),
                switches,
            });
        }
    }
    parts.extend(left.into_iter().map(|switch| Part {
        name: switch.into(),
        subject: format!("switch {switch}"),
        switches: vec![switch],
    }));
    parts
}

/// `variant` with the switches of a part as in `other`.
fn with_part(variant: &Variant, other: &Variant, part: &Part, label: String) -> Variant {
    let mut switches = variant.switches.clone();
    switches.take(&part.switches, &other.switches);
    let mut set = variant.set.clone();
    for info in switches.describe() {
        if part.switches.contains(&info.name) {
            set.push(format!("{}={}", info.name, info.value));
        }
    }
    Variant {
        label,
        outside: variant.outside.clone(),
        preset: variant.preset.clone(),
        set,
        switches,
    }
}

/// What a part does to one counter.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Mean over the seeds.
    pub mean: f64,
    /// Median over the seeds of the ratio: added alone to before, or taken alone from after.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio's mean.
    pub ci95: Option<Interval>,
    /// Share of the whole change from before to after: gained if added alone, lost if taken away.
    /// None if the whole change is within the noise.
    pub share: Option<f64>,
}

/// One counter over all parts.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Name in tables.
    pub name: String,
    /// The counter that is compared.
    pub counter: String,
    /// Unit; empty for none.
    pub unit: String,
    /// Which way is good.
    pub direction: Direction,
    /// Mean before.
    pub before: f64,
    /// Mean after.
    pub after: f64,
    /// The change from before to after is more than noise: the interval of the ratio does not contain 1 or,
    /// where there is no ratio because before is 0, that of the difference 0.
    pub changes: bool,
    /// For each part: added alone, taken away alone.
    pub effects: Vec<(Effect, Effect)>,
}

/// An ablation.
#[derive(Debug)]
pub struct Ablation {
    /// All runs.
    pub result: ExperimentResult,
    /// Label of before.
    pub before: String,
    /// Label of after.
    pub after: String,
    /// What was added and taken away.
    pub parts: Vec<Part>,
    /// The counters that the experiment's ratio claims are about.
    pub metrics: Vec<Metric>,
}

/// The variants to run for a pair: before, the parts added, the parts taken away, after.
#[must_use]
pub fn variants(before: &Variant, after: &Variant, parts: &[Part]) -> Vec<Variant> {
    let mut all = vec![before.clone()];
    for part in parts {
        let label = format!("{} with {}", before.label, part.name);
        all.push(with_part(before, after, part, label));
    }
    for part in parts {
        let label = format!("{} without {}", after.label, part.name);
        all.push(with_part(after, before, part, label));
    }
    all.push(after.clone());
    all
}

/// Runs the ablation. `plan.variants` are before and after.
///
/// # Errors
/// A run that fails; a pair that does not differ.
///
/// # Panics
/// If the plan has not two variants.
pub fn ablate(
    experiment: &'static Experiment,
    plan: &Plan,
    progress: &Progress,
) -> Result<Ablation, RunnerError> {
    let [before, after] = plan.variants.as_slice() else {
        panic!("an ablation is of two variants");
    };
    let parts = parts(&before.switches, &after.switches);
    if parts.is_empty() {
        return Err(no_difference(before, after));
    }
    let plan = Plan {
        variants: variants(before, after, &parts),
        ..plan.clone()
    };
    let result = run(experiment, &plan, progress)?.result;
    let metrics = metrics(&result, parts.len());
    Ok(Ablation {
        before: before.label.clone(),
        after: after.label.clone(),
        result,
        parts,
        metrics,
    })
}

fn no_difference(before: &Variant, after: &Variant) -> RunnerError {
    let pair = format!("{},{}", before.label, after.label);
    RunnerError::value("variants", &pair, "two variants that differ in a switch")
}

/// Whether a counter changes by more than noise from before to after, seed by seed.
fn changes(before: &[f64], after: &[f64]) -> bool {
    let differences = || before.iter().zip(after).map(|(b, a)| a - b).collect();
    let (spread, same) = match paired_ratio(before, after) {
        Ok(ratios) => (Some(ratios), 1.0),
        Err(_) => (Spread::of(differences()), 0.0),
    };
    spread.is_some_and(|s| match s.ci95 {
        Some(ci) => ci.lo > same || ci.hi < same,
        None => s.median != same,
    })
}

fn metrics(result: &ExperimentResult, parts: usize) -> Vec<Metric> {
    let mut list: Vec<Metric> = Vec::new();
    for claim in &result.claims {
        let Subject::Ratio { after: term, .. } = &claim.subject else {
            continue;
        };
        if list.iter().any(|m| m.counter == term.counter) {
            continue;
        }
        // Variants stand in the order of `variants`.
        let columns: Option<Vec<(f64, Vec<f64>)>> = result
            .variants
            .values()
            .map(|counters| {
                let summary = counters.get(&term.counter)?;
                let seeds = summary.per_seed.iter().copied().map(Number::as_f64);
                Some((summary.mean.as_f64(), seeds.collect()))
            })
            .collect();
        let Some(columns) = columns else { continue };
        let (first, last) = (&columns[0], &columns[columns.len() - 1]);
        let whole = last.0 - first.0;
        let changes = changes(&first.1, &last.1);
        let effect = |column: &(f64, Vec<f64>), side: &(f64, Vec<f64>), moved: f64| {
            let ratio = paired_ratio(&side.1, &column.1).ok();
            Effect {
                mean: column.0,
                ci95: ratio.as_ref().and_then(|r| r.ci95),
                ratio: ratio.map(|r| r.median),
                share: changes.then_some(moved / whole),
            }
        };
        let effects = (0..parts)
            .map(|i| {
                let (added, taken) = (&columns[1 + i], &columns[1 + parts + i]);
                (
                    effect(added, first, added.0 - first.0),
                    effect(taken, last, last.0 - taken.0),
                )
            })
            .collect();
        list.push(Metric {
            name: claim.name.clone(),
            counter: term.counter.clone(),
            unit: claim.unit.clone(),
            direction: claim.direction,
            before: first.0,
            after: last.0,
            changes,
            effects,
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ExperimentError, RunInput};
    use coldset_report::{Claim, RunResult};

    /// Two switches each carry a part, a third none.
    fn run_once(input: &RunInput) -> Result<RunResult, ExperimentError> {
        let mut run = RunResult::new(input.variant.clone(), input.seed);
        let s = &input.switches;
        let gain = 30 * u64::from(s.smaller_batch) + 10 * u64::from(s.flush_in_loop);
        run.set("ops", 100 + gain + input.seed % 2);
        run.set("noise", 1000 + input.seed);
        let together = s.smaller_batch && s.flush_in_loop;
        run.set("freed", u64::from(together) * (50 + input.seed));
        Ok(run)
    }

    fn claims(before: &str, after: &str) -> Vec<Claim> {
        vec![
            Claim::ratio("throughput", "ops", before, after)
                .within(1.2, 2.0)
                .higher_is_better(),
            Claim::ratio("noise", "noise", before, after).noise(),
            Claim::ratio("freed", "freed", after, before).within(0.0, 0.05),
        ]
    }

    static COUNT: Experiment = Experiment {
        name: "count",
        doc: "counts",
        source: "",
        before: "base",
        after: "v5",
        extra: &[],
        scale: 64,
        params: &[],
        effort: crate::experiment::Effort::Own("counting"),
        quick: crate::experiment::Quick::WHOLE,
        costs: &[],
        deviations: &[],
        hosts: &|_| Ok(Vec::new()),
        run: &run_once,
        claims: &claims,
        mechanism: &[],
    };

    fn plan(variants: &[&str]) -> Plan {
        Plan {
            variants: Variant::parse_all(variants, &[]).unwrap(),
            seeds: 4,
            scale: 64,
            effort_permille: 1000,
            costs: crate::experiment::Costs::default(),
            params: Vec::new(),
            record: Vec::new(),
            sample_points: 0,
        }
    }

    #[test]
    fn the_gain_is_divided_among_the_patches_that_carry_it() {
        let a = ablate(&COUNT, &plan(&["base", "v5"]), &Progress::silent()).unwrap();
        assert_eq!(a.parts.len(), PATCHES.len());
        assert_eq!(a.result.variants.len(), 2 + 2 * PATCHES.len());
        let ops = &a.metrics[0];
        assert!(ops.changes);
        for (part, (added, taken)) in a.parts.iter().zip(&ops.effects) {
            let share = match part.name.as_str() {
                "patch 6" => 0.75,
                "patch 10" => 0.25,
                _ => 0.0,
            };
            assert_eq!(added.share, Some(share), "{}", part.name);
            assert_eq!(taken.share, Some(share), "{}", part.name);
        }
        let noise = &a.metrics[1];
        assert!(!noise.changes && noise.effects[0].0.share.is_none());
        let text = render_ablation(&a, coldset_report::Style::Plain);
        assert!(
            text.contains("patch 6: smaller batch") && text.contains("75 %"),
            "{text}"
        );
        assert!(text.contains("within the noise"), "{text}");
    }

    #[test]
    fn what_two_changes_make_together_of_nothing_is_ascribed_to_neither_alone() {
        let a = ablate(&COUNT, &plan(&["base", "v5"]), &Progress::silent()).unwrap();
        let freed = &a.metrics[2];
        assert!(freed.changes && freed.before == 0.0);
        for (part, (added, taken)) in a.parts.iter().zip(&freed.effects) {
            let needed = ["patch 6", "patch 10"].contains(&part.name.as_str());
            let lost = f64::from(u8::from(needed));
            assert_eq!(added.share, Some(0.0), "{}", part.name);
            assert_eq!(taken.share, Some(lost), "{}", part.name);
        }
        assert_eq!(
            carrier(&a, freed),
            "Alone, no change makes any of it; without any one of patch 6 and patch 10, 100 % is lost."
        );
        assert!(render_ablation(&a, coldset_report::Style::Plain).contains("ratio n/a"));
    }

    /// Others do the same without it: it has a part in it and carries nothing.
    #[test]
    fn what_costs_nothing_when_it_is_taken_away_carries_nothing() {
        let a = ablate(&COUNT, &plan(&["base", "v5"]), &Progress::silent()).unwrap();
        let mut ops = a.metrics[0].clone();
        for (part, (added, taken)) in a.parts.iter().zip(&mut ops.effects) {
            let it = part.name == "patch 6";
            added.share = Some(if it { 0.04 } else { 0.0 });
            taken.share = Some(if it { -0.02 } else { -0.1 });
        }
        assert_eq!(
            carrier(&a, &ops),
            "Alone, patch 6: smaller batch makes the largest part (4 %); taken away, none costs any of it."
        );
    }

    #[test]
    fn a_pair_that_does_not_differ_is_refused() {
        let error = ablate(&COUNT, &plan(&["v5", "series-v5"]), &Progress::silent()).unwrap_err();
        assert!(error.to_string().contains("differ in a switch"), "{error}");
    }

    #[test]
    fn other_switches_stand_alone() {
        let plan = plan(&["classic", "classic+drop_dead_on_drain=on"]);
        let [a, b] = plan.variants.as_slice() else {
            unreachable!()
        };
        let parts = parts(&a.switches, &b.switches);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].name, "drop_dead_on_drain");
        let all = variants(a, b, &parts);
        assert_eq!(all[1].switches, b.switches);
        assert_eq!(all[2].switches, a.switches);
    }
}
