//! The page of `lab ablate`.

use super::experiment::parameters;
use super::variants::{costs, differences, switches};
use crate::ablate::{ablation_json, carrier, Ablation, Effect};
use crate::charts;
use crate::experiments::Experiment;
use crate::report::html::common::{all_counters, claims, counters, facts};
use crate::report::html::{Cell, Page, Section, Table};
use crate::report::{human, Number};
use crate::runner::Plan;

fn effects(a: &Ablation, index: usize) -> Table {
    let metric = &a.metrics[index];
    let unit = if metric.unit.is_empty() {
        String::new()
    } else {
        format!(", {}", metric.unit)
    };
    let mut table = Table::new([
        "change",
        "alone",
        "ratio to before",
        "share",
        "without",
        "ratio to after",
        "share lost",
    ])
    .caption(format!(
        "{}{unit}: {} {}, {} {}",
        metric.name,
        a.before,
        human(metric.before),
        a.after,
        human(metric.after)
    ));
    for (i, (part, (added, taken))) in a.parts.iter().zip(&metric.effects).enumerate() {
        let at = |how: &str| format!("/ablation/metrics/{index}/changes/{i}/{how}");
        let cells = |e: &Effect, at: &str| {
            let ratio = match e.ratio {
                Some(r) => {
                    let half = e.ci95.map_or(0.0, |ci| ci.half_width());
                    let more = if half > 0.0 {
                        format!(" \u{b1}{half:.3}")
                    } else {
                        String::new()
                    };
                    Cell::number(
                        format!("{r:.3}"),
                        Number::Real(r),
                        format!("{at}/ratio"),
                        &more,
                    )
                }
                None => Cell::figure("n/a"),
            };
            // Adding zero makes minus zero plain.
            let share = e.share.map_or_else(String::new, |s| {
                format!("{:.0} %", (s * 100.0).round() + 0.0)
            });
            let mean = Number::Real(e.mean);
            [
                Cell::number(human(e.mean), mean, format!("{at}/mean"), ""),
                ratio,
                Cell::figure(share),
            ]
        };
        let mut row = vec![Cell::text(part.label())];
        row.extend(cells(added, &at("alone")));
        row.extend(cells(taken, &at("without")));
        table.row(row);
    }
    table
}

/// The page of an ablation; `plan` has the two variants it is of.
#[must_use]
pub fn ablation(
    experiment: &'static Experiment,
    plan: &Plan,
    a: &Ablation,
    command: &str,
) -> String {
    let result = &a.result;
    let page = Page::new(
        format!("{}: which change carries the gain", experiment.name),
        format!(
            "From {} to {}: each change added alone to before, and each taken away alone from after.",
            a.before, a.after
        ),
        command,
    );
    let mut page = facts(page, result);
    let carried: Vec<String> = a
        .metrics
        .iter()
        .map(|m| format!("{}: {}", m.name, carrier(a, m)))
        .collect();
    let mut carried = carried.into_iter();
    page = page
        .headline(carried.next().unwrap_or_else(|| {
            "No claim of this experiment is a ratio, so there is nothing to divide among the changes.".into()
        }))
        .explain("", carried.collect());
    if let [before, .., after] = plan.variants.as_slice() {
        page = page.explain(
            format!("What {} changes against {}:", after.label, before.label),
            differences(before, after),
        );
    }
    let mut tables = Section::new(
        "ablation",
        "Which change carries the gain",
        "Alone: before with only this change. Without: after with this change taken away. Ratios are medians \
         over the seeds with half their 95 % confidence interval; share: of the whole change from before \
         to after.",
    )
    .charts(charts::ablation(a));
    for i in 0..a.metrics.len() {
        tables = tables.table(effects(a, i));
    }
    // Before and after only: the ones between are in the tables above.
    let mut pair = result.clone();
    pair.variants
        .retain(|name, _| *name == a.before || *name == a.after);
    page.section(tables)
        .section(
            Section::new(
                "claims",
                "Before and after",
                "Means over the seeds with half their 95 % interval.",
            )
            .table(claims(&pair, "")),
        )
        .section(
            Section::new(
                "counters",
                "All counters",
                "Before and after, means over the seeds.",
            )
            .table(counters(
                &pair.variants,
                all_counters(&pair.variants).into_iter(),
                "",
            ))
            .folded(),
        )
        .section(switches(&plan.variants))
        .section(parameters(experiment, plan))
        .section(costs(plan.costs.table()))
        .json(ablation_json(a))
        .render()
}
