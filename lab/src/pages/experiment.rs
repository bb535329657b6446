//! The page of `lab run`.

use super::variants::{changes, costs, deviations, switches};
use crate::charts;
use crate::experiment::Experiment;
use crate::runner::{Outcome, Plan};
use coldset_report::experiment_json;
use coldset_report::html::{facts, remarks, summary, Page, Section};
use coldset_report::tables::{self, claims, counter_names, other_means, Counters};
use coldset_report::{Align, Cell, ExperimentResult, Table};

/// The parameters of an experiment, as they were.
pub fn parameters(experiment: &Experiment, plan: &Plan) -> Section {
    let columns = ["parameter", "value", "default", "meaning"];
    let aligned = [Align::Left, Align::Right, Align::Right, Align::Left];
    let mut table = Table::new(columns.into_iter().zip(aligned));
    for doc in experiment.params {
        let given = plan.params.iter().rev().find(|(name, _)| name == doc.name);
        let value = given.map_or(doc.default, |(_, value)| value);
        table.row([
            Cell::code(doc.name),
            value.into(),
            doc.default.into(),
            doc.doc.into(),
        ]);
    }
    Section::new("experiment", "Parameters of the experiment")
        .intro(format!(
            "{}. Published in {}. Change: --param NAME=VALUE.",
            experiment.doc, experiment.source
        ))
        .tables(vec![table])
        .folded()
}

/// What is judged, and apart from it what was put in.
fn tables_of_claims(result: &ExperimentResult) -> Vec<Table> {
    let mut tables = vec![claims(result, &result.claims, "/claims", "")];
    tables.extend(other_means(result, &result.claims, ""));
    if !result.restated.is_empty() {
        let caption = "What was put in and comes back: counted in no total";
        tables.push(claims(result, &result.restated, "/restated", "").caption(caption));
    }
    if !result.cannot.is_empty() {
        let caption = "What the workload cannot give: counted in no total";
        tables.push(claims(result, &result.cannot, "/cannot", "").caption(caption));
    }
    tables
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
    let all = &result.variants;
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    let title = match names.as_slice() {
        [before, .., after] => format!("{}: {before} against {after}", experiment.name),
        [one] => format!("{}: {one}", experiment.name),
        [] => experiment.name.to_owned(),
    };
    let mut lines = vec![("variants".into(), names.join(", "))];
    lines.extend(facts(result));
    let mut measures = charts::experiment(result, &outcome.runs, experiment.mechanism);
    let first = measures
        .iter()
        .position(|c| !c.id.starts_with("measures"))
        .unwrap_or(measures.len());
    let over_time = measures.split_off(first);
    let mechanism = Counters::on_page(all, experiment.mechanism.iter().copied(), "");
    let every = Counters::on_page(all, counter_names(all), "");
    let page = Page {
        title,
        lead: format!(
            "{}, on Coldset's simulated machine. The first variant is \u{201c}before\u{201d}, the last one \
             \u{201c}after\u{201d}.",
            experiment.doc
        ),
        facts: lines,
        summary: summary(result, changes(&plan.variants)),
        sections: vec![
            Section {
                id: "claims",
                title: "Before and after",
                intro: "Means over the seeds with half their 95 % confidence interval (Student's t); figures are \
                        medians over the seeds. Class A must hold under every seed, B in the median, N is noise \
                        round 1, D is a direction only."
                    .into(),
                tables: tables_of_claims(result),
                points: remarks(result),
                ..Section::default()
            },
            Section::new("measures", "In one picture").charts(measures),
            Section::new("mechanism", "Counters of the mechanism")
                .intro("What explains the result, means over the seeds.")
                .tables(mechanism),
            Section::new("time", "Over virtual time").charts(over_time),
            Section::new("counters", "All counters")
                .intro("Means over the seeds; what is 0 everywhere is left out.")
                .tables(every)
                .folded(),
            switches(&plan.variants),
            parameters(experiment, plan),
            deviations(vec![tables::deviations(result)]),
            costs(&outcome.costs),
        ],
        command: command.into(),
        json: experiment_json(result),
    };
    page.render()
}
