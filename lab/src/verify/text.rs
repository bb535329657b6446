//! The acceptance table.

use super::Verified;
use crate::report::text::{band, figure, is_ratio, published, verdict};
use crate::report::{human, Align, ClaimResult, Class, ExperimentResult, Grid, Style, Subject};
use std::fmt::Write;
use Align::{Left, Right};

/// One row a claim, then the counters of each experiment's mechanism.
#[must_use]
pub fn render_verify(verified: &Verified, style: Style) -> String {
    let mut out = acceptance(verified, style);
    for (experiment, result) in &verified.experiments {
        if let Ok(result) = result {
            deviations(&mut out, result, style);
            let grid = mechanism(result, experiment.mechanism, style);
            if !grid.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(
                    out,
                    "\nMechanism of {}: means over the seeds\n\n{}",
                    experiment.name,
                    grid.render()
                );
            }
        }
    }
    summary(&mut out, verified);
    out
}

fn acceptance(verified: &Verified, style: Style) -> String {
    let mut grid = Grid::new(
        style,
        &[
            ("experiment", Left),
            ("claim", Left),
            ("class", Left),
            ("published", Right),
            ("ours", Right),
            ("band", Left),
            ("verdict", Left),
        ],
    );
    for (experiment, result) in &verified.experiments {
        match result {
            Ok(result) => {
                for claim in &result.claims {
                    grid.row(row(experiment.name, claim, result.seeds.len()));
                }
                for claim in &result.restated {
                    let mut cells = row(experiment.name, claim, result.seeds.len());
                    cells[6] = format!("restates {}", claim.restates);
                    grid.row(cells);
                }
                for skipped in &result.skipped {
                    let mut cells = vec![experiment.name.to_owned(), skipped.name.clone()];
                    cells.extend(["", "", "not run", "", "-"].map(str::to_owned));
                    grid.row(cells);
                }
            }
            Err(error) => {
                let mut cells = vec![experiment.name.to_owned(), error.to_string()];
                cells.extend(["", "", "no result", "", "OUT"].map(str::to_owned));
                grid.row(cells);
            }
        }
    }
    grid.render()
}

/// What an experiment changes in the table of costs.
fn deviations(out: &mut String, result: &ExperimentResult, style: Style) {
    let columns = [
        ("cost", Left),
        ("here", Right),
        ("table", Right),
        ("why", Left),
        ("source", Left),
    ];
    let mut grid = Grid::new(style, &columns);
    for d in &result.header.deviations {
        let (value, table) = (d.value.to_string(), d.table.to_string());
        grid.row(vec![
            d.name.clone(),
            value,
            table,
            d.why.clone(),
            d.source.clone(),
        ]);
    }
    if !grid.is_empty() {
        let name = &result.header.experiment;
        let grid = grid.render();
        let _ = write!(
            out,
            "\nDeviations of {name} from the table of costs\n\n{grid}"
        );
    }
}

fn row(experiment: &str, claim: &ClaimResult, seeds: usize) -> Vec<String> {
    let condition = claim.subject == Subject::Predicate;
    let ours = if condition {
        format!("{}/{seeds} seeds", seeds - claim.failing_seeds.len())
    } else {
        figure(claim)
    };
    vec![
        experiment.to_owned(),
        claim.name.clone(),
        claim.class.to_string(),
        published(claim.published.as_ref(), is_ratio(claim)),
        ours,
        band(claim),
        verdict(claim.pass).into(),
    ]
}

fn mechanism(result: &ExperimentResult, names: &[&str], style: Style) -> Grid {
    let mut columns = vec![("counter", Left)];
    columns.extend(result.variants.keys().map(|v| (v.as_str(), Right)));
    let mut grid = Grid::new(style, &columns);
    for &name in names {
        let of = |variant: &String| result.variants[variant].get(name);
        if result.variants.keys().any(|v| of(v).is_some()) {
            let mut cells = vec![name.to_owned()];
            cells.extend(
                result.variants.keys().map(|v| {
                    of(v).map_or_else(|| "-".into(), |summary| human(summary.mean.as_f64()))
                }),
            );
            grid.row(cells);
        }
    }
    grid
}

fn summary(out: &mut String, verified: &Verified) {
    let (results, failed) = verified.split();
    out.push('\n');
    for result in &results {
        let (name, share) = (&result.header.experiment, &result.header.effort_share);
        let _ = writeln!(out, "effort {} of {name}: {share}", result.header.effort);
    }
    for class in [Class::A, Class::B, Class::N, Class::D] {
        let claims = || {
            let all = results.iter().flat_map(|r| &r.claims);
            all.filter(move |c| c.class == class)
        };
        let (all, good) = (claims().count(), claims().filter(|c| c.pass).count());
        if all > 0 {
            let _ = writeln!(out, "class {class}: {good} of {all} in");
        }
    }
    for (name, reason) in failed {
        let _ = writeln!(out, "{name}: no result: {reason}");
    }
    for result in results {
        for claim in result.claims.iter().filter(|c| !c.pass) {
            let name = &result.header.experiment;
            let _ = writeln!(out, "OUT {name}: {}: {}", claim.name, claim.reason);
        }
    }
}
