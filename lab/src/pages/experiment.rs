//! The page of `lab run`.

use super::variants::{costs, deviations, differences, switches};
use crate::charts;
use crate::experiments::Experiment;
use crate::report::experiment_json;
use crate::report::html::common::{all_counters, claims, counters, facts, remarks, restated};
use crate::report::html::{summary, Cell, Page, Section, Table};
use crate::runner::{Outcome, Plan};

/// The parameters of an experiment, as they were.
pub fn parameters(experiment: &Experiment, plan: &Plan) -> Section {
    let mut table = Table::new(["parameter", "value", "default", "meaning"]);
    for doc in experiment.params {
        let given = plan.params.iter().rev().find(|(name, _)| name == doc.name);
        table.row(vec![
            Cell::code(doc.name),
            Cell::figure(given.map_or(doc.default, |(_, value)| value)),
            Cell::figure(doc.default),
            Cell::text(doc.doc),
        ]);
    }
    Section::new(
        "experiment",
        "Parameters of the experiment",
        format!(
            "{}; {}. Change: --param NAME=VALUE.",
            experiment.doc, experiment.section
        ),
    )
    .table(table)
    .folded()
}

/// The page of an experiment that was run as planned; `command` runs it again.
#[must_use]
pub fn experiment(
    experiment: &'static Experiment,
    plan: &Plan,
    outcome: &Outcome,
    command: &str,
) -> String {
    let result = &outcome.result;
    let names: Vec<&str> = result.variants.keys().map(String::as_str).collect();
    let title = match names.as_slice() {
        [before, .., after] => format!("{}: {before} against {after}", experiment.name),
        [one] => format!("{}: {one}", experiment.name),
        [] => experiment.name.to_owned(),
    };
    let lead = format!(
        "{}, on Coldset's simulated machine. The first variant is \u{201c}before\u{201d}, the last one \
         \u{201c}after\u{201d}.",
        experiment.doc
    );
    let page = Page::new(title, lead, command).fact("variants", names.join(", "));
    let mut page = facts(page, result);
    let changes = match plan.variants.as_slice() {
        [before, .., after] => differences(before, after),
        _ => Vec::new(),
    };
    let said = summary(result, changes);
    page = page.headline(said.headline);
    for (text, points) in said.paragraphs {
        page = page.explain(text, points);
    }
    let mut charts = charts::experiment(result, &outcome.runs);
    let first = charts
        .iter()
        .position(|c| !c.id.starts_with("measures"))
        .unwrap_or(charts.len());
    let over_time = charts.split_off(first);
    let mechanism = experiment.mechanism.iter().copied();
    page.section(
        Section::new(
            "claims",
            "Before and after",
            "Means over the seeds with half their 95 % confidence interval (Student's t); figures are \
             medians over the seeds. Class A must hold under every seed, B in the median, N is noise \
             round 1, D is a direction only.",
        )
        .table(claims(result, ""))
        .tables(restated(result, ""))
        .points(remarks(result)),
    )
    .section(Section::new("measures", "In one picture", "").charts(charts))
    .section(
        Section::new(
            "mechanism",
            "Counters of the mechanism",
            "What explains the result, means over the seeds.",
        )
        .table(counters(&result.variants, mechanism, "")),
    )
    .section(Section::new("time", "Over virtual time", "").charts(over_time))
    .section(
        Section::new(
            "counters",
            "All counters",
            "Means over the seeds; what is 0 everywhere is left out.",
        )
        .table(counters(
            &result.variants,
            all_counters(&result.variants).into_iter(),
            "",
        ))
        .folded(),
    )
    .section(switches(&plan.variants))
    .section(parameters(experiment, plan))
    .section(deviations(result))
    .section(costs(&outcome.costs))
    .json(experiment_json(result))
    .render()
}
