//! The page of `lab ablate`.

use super::experiment::parameters;
use super::variants::{costs, difference, switches};
use crate::ablate::{ablation_json, carrier, Ablation};
use crate::charts;
use crate::experiment::Experiment;
use crate::runner::Plan;
use coldset_report::html::{facts, Page, Section, Summary};
use coldset_report::tables::{claims, counter_names, Counters};
use coldset_report::Table;

/// Which changes carry the gain, in words.
fn summary(a: &Ablation, plan: &Plan) -> Summary {
    let mut carried = a
        .metrics
        .iter()
        .map(|m| format!("{}: {}", m.name, carrier(a, m)));
    let headline = carried.next().unwrap_or_else(|| {
        "No claim of this experiment is a ratio, so there is nothing to divide among the changes.".into()
    });
    let mut paragraphs = vec![(String::new(), carried.collect())];
    paragraphs.extend(difference(&plan.variants));
    Summary {
        headline,
        paragraphs,
    }
}

/// The page of an ablation; `plan` has the two variants it is of.
#[must_use]
pub fn ablation(
    experiment: &'static Experiment,
    plan: &Plan,
    a: &Ablation,
    command: &str,
) -> String {
    // Before and after only: the ones between are in the tables of the changes.
    let mut pair = a.result.clone();
    pair.variants
        .retain(|name, _| *name == a.before || *name == a.after);
    let every = Counters::on_page(&pair.variants, counter_names(&pair.variants), "");
    let effects = |(i, metric)| -> Table { a.table(i).caption(a.heading(metric)) };
    let page = Page {
        title: format!("{}: which change carries the gain", experiment.name),
        lead: format!(
            "From {} to {}: each change added alone to before, and each taken away alone from after.",
            a.before, a.after
        ),
        facts: facts(&a.result),
        summary: summary(a, plan),
        sections: vec![
            Section::new("ablation", "Which change carries the gain")
                .intro(
                    "Alone: before with only this change. Without: after with this change taken \
                     away. Ratios are medians over the seeds with half their 95 % confidence \
                     interval; share: of the whole change from before to after.",
                )
                .tables(a.metrics.iter().enumerate().map(effects).collect())
                .charts(charts::ablation(a)),
            Section::new("claims", "Before and after")
                .intro("Means over the seeds with half their 95 % interval.")
                .tables(vec![claims(&pair, &pair.claims, "/claims", "")]),
            Section::new("counters", "All counters")
                .intro("Before and after, means over the seeds.")
                .tables(every)
                .folded(),
            switches(&plan.variants),
            parameters(experiment, plan),
            costs(plan.costs.table()),
        ],
        command: command.into(),
        json: ablation_json(a),
    };
    page.render()
}
