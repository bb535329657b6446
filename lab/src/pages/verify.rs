//! The page of `lab verify`.

use super::variants::{costs, deviation_table};
use crate::charts;
use crate::report::html::common::{claim_figure, claim_verdict, counters, seeds};
use crate::report::html::{capital, Cell, Page, Section, Table};
use crate::report::text::{band, is_ratio, published};
use crate::report::{experiments_json, Class, ExperimentResult};
use crate::rig::Costs;
use crate::verify::{sensitivity_json, sensitivity_rows, Sensitivity, Verified};

fn acceptance(name: &str, result: &ExperimentResult, pointer: &str) -> Table {
    let mut table = Table::new([
        "claim",
        "class",
        "published",
        "ours",
        "unit",
        "band",
        "verdict",
    ])
    .caption(name);
    let restated = result.restated.iter().enumerate();
    let restated = restated.map(|(i, c)| (c, format!("{pointer}/restated/{i}")));
    let judged = result.claims.iter().enumerate();
    let judged = judged.map(|(i, c)| (c, format!("{pointer}/claims/{i}")));
    for (claim, place) in judged.chain(restated) {
        table.row(vec![
            Cell::text(&claim.name),
            Cell::text(claim.class.to_string()),
            Cell::figure(published(claim.published.as_ref(), is_ratio(claim))),
            claim_figure(claim, &place),
            Cell::text(if is_ratio(claim) {
                "ratio"
            } else {
                &claim.unit
            }),
            Cell::text(band(claim)),
            match claim.restates.as_str() {
                "" => claim_verdict(claim),
                parameter => Cell::text(format!("restates {parameter}")),
            },
        ]);
    }
    for skipped in &result.skipped {
        let mut row = vec![Cell::text(&skipped.name)];
        row.extend((0..5).map(|_| Cell::text("")));
        row.push(Cell::text("not run"));
        table.row(row);
    }
    table
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
    let claims = || results.iter().flat_map(|r| &r.claims);
    let (all, good) = (claims().count(), claims().filter(|c| c.pass).count());
    let names: Vec<&str> = verified.experiments.iter().map(|(e, _)| e.name).collect();
    let accepted = if verified.accepted() {
        "Accepted: every claim of class A and B is in its band"
    } else {
        "Not accepted: a claim of class A or B is out, or an experiment gave no result"
    };
    let mut points = Vec::new();
    for class in [Class::A, Class::B, Class::N, Class::D] {
        let of = || claims().filter(move |c| c.class == class);
        if of().next().is_some() {
            let what = match class {
                Class::A => "must hold under every seed",
                Class::B => "the median must be in the band",
                Class::N => "no difference beyond the noise",
                Class::D => "the direction must be right",
            };
            points.push(format!(
                "Class {class} ({what}): {} of {} in.",
                of().filter(|c| c.pass).count(),
                of().count()
            ));
        }
    }
    let mut out: Vec<String> = Vec::new();
    for result in &results {
        for claim in result.claims.iter().filter(|c| !c.pass) {
            let name = &result.header.experiment;
            out.push(format!("{name}, {}: {}.", claim.name, claim.reason));
        }
    }
    let mut lacking: Vec<String> = Vec::new();
    for (name, reason) in &failed {
        lacking.push(format!("{name}: {reason}."));
    }
    let mut page = Page::new(
        "Acceptance of the model",
        "The published experiments on Coldset's simulated machine, each figure beside the published one.",
        command,
    )
    .fact("experiments", names.join(", "));
    if let Some(first) = results.first() {
        page = page.fact("seeds", seeds(&first.seeds));
    }
    page = page
        .headline(format!("{accepted}. {good} of {all} claims are in."))
        .explain("", points);
    if !out.is_empty() {
        page = page.explain("Out of their band:", out);
    }
    if !lacking.is_empty() {
        page = page.explain("Without a result:", lacking);
    }
    let mut table = Section::new(
        "acceptance",
        "Acceptance table",
        "Ours is the median over the seeds with half the 95 % confidence interval of the mean.",
    );
    for (i, result) in results.iter().enumerate() {
        let name = &result.header.experiment;
        table = table.table(acceptance(name, result, &format!("/experiments/{i}")));
    }
    page = page.section(table);
    if let Some(s) = changes {
        let (columns, rows) = sensitivity_rows(s);
        let mut grid = Table::new(columns);
        for row in rows {
            grid.row(row.into_iter().map(Cell::text).collect());
        }
        page = page.section(
            Section::new(
                "sensitivity",
                "Sensitivity to assumed costs",
                "The same claims with the assumed costs halved and doubled: a sign that is not kept hangs \
                 on a guess.",
            )
            .table(grid),
        );
    }
    let mut pictures = Vec::new();
    let mut mechanism = Section::new(
        "mechanism",
        "Counters of the mechanisms",
        "Means over the seeds.",
    );
    let mut declared = Section::new("deviations", "Deviations from the table of costs", "");
    let mut index = 0;
    for (experiment, result) in &verified.experiments {
        let Ok(result) = result else { continue };
        for mut chart in charts::experiment(result, &[]) {
            chart.id = format!("{}-{}", experiment.name, chart.id);
            chart.title = format!("{}: {}", experiment.name, chart.title.to_lowercase());
            pictures.push(chart);
        }
        let names = experiment.mechanism.iter().copied();
        let table = counters(&result.variants, names, &format!("/experiments/{index}"));
        mechanism = mechanism.table(table.caption(capital(experiment.name)));
        declared = declared.tables(deviation_table(result).map(|t| t.caption(experiment.name)));
        index += 1;
    }
    page.section(Section::new("measures", "Before and after", "").charts(pictures))
        .section(mechanism.folded())
        .section(declared)
        .section(costs(used.table()))
        .json(experiments_json(
            &results,
            &failed,
            changes.map(sensitivity_json),
        ))
        .render()
}
