//! The page of `lab verify`.

use super::variants::{costs, deviations};
use crate::charts;
use crate::experiment::Costs;
use crate::verify::{sensitivity_json, sensitivity_table, Sensitivity, Verified};
use coldset_report::html::{capital, Page, Section, Summary};
use coldset_report::shown::seeds;
use coldset_report::tables::{self, accepted, Counters, ACCEPTANCE};
use coldset_report::{experiments_json, Align, Cell, Class, ExperimentResult, Table};

/// Where the unit stands among the columns of the acceptance table.
const UNIT_AT: usize = 4;

/// Claims of an experiment, with their units; `pointer` leads to it in the JSON.
fn acceptance(name: &str, result: &ExperimentResult, pointer: &str) -> Table {
    let mut columns = ACCEPTANCE.to_vec();
    columns.insert(UNIT_AT, ("unit", Align::Left));
    let mut table = Table::new(columns).caption(name);
    let judged = result.claims.iter().enumerate();
    let judged = judged.map(|(i, c)| (c, format!("{pointer}/claims/{i}")));
    let restated = result.restated.iter().enumerate();
    let restated = restated.map(|(i, c)| (c, format!("{pointer}/restated/{i}")));
    let cannot = result.cannot.iter().enumerate();
    let cannot = cannot.map(|(i, c)| (c, format!("{pointer}/cannot/{i}")));
    for (claim, place) in judged.chain(restated).chain(cannot) {
        let mut row = accepted(claim, &place).to_vec();
        let unit = if claim.is_ratio() {
            "ratio"
        } else {
            &claim.unit
        };
        row.insert(UNIT_AT, unit.into());
        table.row(row);
    }
    for skipped in &result.skipped {
        let name = skipped.name.as_str();
        table.row([name, "", "", "", "", "", "not run"].map(Cell::from));
    }
    table
}

/// How many claims of a class are in, and what that class demands.
fn of_class(class: Class, results: &[&ExperimentResult]) -> Option<String> {
    let claims = results.iter().flat_map(|r| &r.claims);
    let passed: Vec<bool> = claims
        .filter(|c| c.class == class)
        .map(|c| c.pass)
        .collect();
    let what = match class {
        Class::A => "must hold under every seed",
        Class::B => "the median must be in the band",
        Class::N => "no difference beyond the noise",
        Class::D => "the direction must be right",
    };
    let good = passed.iter().filter(|pass| **pass).count();
    (!passed.is_empty()).then(|| format!("Class {class} ({what}): {good} of {} in.", passed.len()))
}

/// The verdict in words.
fn summary(verified: &Verified) -> Summary {
    let (results, failed) = verified.split();
    let claims = || results.iter().flat_map(|r| &r.claims);
    let (all, good) = (claims().count(), claims().filter(|c| c.pass).count());
    let accepted = if verified.accepted() {
        "Accepted: every claim of class A and B is in its band"
    } else {
        "Not accepted: a claim of class A or B is out, or an experiment gave no result"
    };
    let classes = [Class::A, Class::B, Class::N, Class::D];
    let classes = classes.into_iter().filter_map(|c| of_class(c, &results));
    let mut paragraphs = vec![(String::new(), classes.collect())];
    let mut out: Vec<String> = Vec::new();
    for result in &results {
        for claim in result.claims.iter().filter(|c| !c.pass) {
            let name = &result.header.experiment;
            out.push(format!("{name}, {}: {}.", claim.name, claim.reason));
        }
    }
    let lacking = failed
        .iter()
        .map(|(name, reason)| format!("{name}: {reason}."));
    for (heading, list) in [
        ("Out of their band:", out),
        ("Without a result:", lacking.collect()),
    ] {
        if !list.is_empty() {
            paragraphs.push((heading.into(), list));
        }
    }
    Summary {
        headline: format!("{accepted}. {good} of {all} claims are in."),
        paragraphs,
    }
}

/// The page of all experiments.
#[must_use]
pub fn verify(
    verified: &Verified,
    changes: Option<&Sensitivity>,
    used: &Costs,
    command: &str,
) -> String {
    let (results, failed) = verified.split();
    let names: Vec<&str> = verified.experiments.iter().map(|(e, _)| e.name).collect();
    let mut facts = vec![("experiments".into(), names.join(", "))];
    facts.extend(results.first().map(|r| ("seeds".into(), seeds(&r.seeds))));
    let (mut claims, mut pictures, mut mechanisms) = (Vec::new(), Vec::new(), Vec::new());
    let mut declared = Vec::new();
    let there = verified.experiments.iter();
    let there = there.filter_map(|(e, result)| Some((e, result.as_ref().ok()?)));
    for (i, (experiment, result)) in there.enumerate() {
        let place = format!("/experiments/{i}");
        claims.push(acceptance(experiment.name, result, &place));
        declared.push(tables::deviations(result).caption(experiment.name));
        for mut chart in charts::experiment(result, &[], experiment.mechanism) {
            chart.id = format!("{}-{}", experiment.name, chart.id);
            chart.title = format!("{}: {}", experiment.name, chart.title.to_lowercase());
            pictures.push(chart);
        }
        let names = experiment.mechanism.iter().copied();
        let tables = Counters::on_page(&result.variants, names, &place).into_iter();
        mechanisms.extend(tables.map(|t| t.caption(capital(experiment.name))));
    }
    let page = Page {
        title: "Acceptance of the model".into(),
        lead: "The published experiments on Coldset's simulated machine, each figure beside the published one.".into(),
        facts,
        summary: summary(verified),
        sections: vec![
            Section::new("acceptance", "Acceptance table")
                .intro(
                    "Ours is the median over the seeds with half the 95 % confidence interval of \
                     the mean.",
                )
                .tables(claims),
            Section::new("sensitivity", "Sensitivity to assumed costs")
                .intro(
                    "The same claims with the assumed costs halved and doubled: a sign that is not \
                     kept hangs on a guess.",
                )
                .tables(changes.map(sensitivity_table).into_iter().collect()),
            Section::new("measures", "Before and after").charts(pictures),
            Section::new("mechanism", "Counters of the mechanisms")
                .intro("Means over the seeds.")
                .tables(mechanisms)
                .folded(),
            deviations(declared),
            costs(used.table()),
        ],
        command: command.into(),
        json: experiments_json(&results, &failed, changes.map(sensitivity_json)),
    };
    page.render()
}
