//! The acceptance table.

use super::Verified;
use coldset_report::tables::{accepted, deviations, Counters, ACCEPTANCE};
use coldset_report::{Align, Cell, Class, ExperimentResult, Style, Table};
use std::fmt::Write;

/// One row a claim, then the counters of each experiment's mechanism.
#[must_use]
pub fn render_verify(verified: &Verified, style: Style) -> String {
    let mut out = acceptance(verified).text(style);
    for (experiment, result) in &verified.experiments {
        let Ok(result) = result else { continue };
        let table = deviations(result);
        if !table.is_empty() {
            let _ = write!(
                out,
                "\nDeviations of {} from the table of costs\n\n{}",
                experiment.name,
                table.text(style)
            );
        }
        let table = mechanism(result, experiment.mechanism);
        if !table.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "\nMechanism of {}: means over the seeds\n\n{}",
                experiment.name,
                table.text(style)
            );
        }
    }
    summary(&mut out, verified);
    out
}

fn acceptance(verified: &Verified) -> Table {
    let mut table = Table::new([("experiment", Align::Left)].into_iter().chain(ACCEPTANCE));
    for (experiment, result) in &verified.experiments {
        let mut row = |cells: [Cell; 6]| {
            table.row([experiment.name.into()].into_iter().chain(cells));
        };
        match result {
            Ok(result) => {
                let apart = result.restated.iter().chain(&result.cannot);
                for claim in result.claims.iter().chain(apart) {
                    row(accepted(claim, ""));
                }
                for skipped in &result.skipped {
                    let name = skipped.name.as_str();
                    row([name, "", "", "not run", "", "-"].map(Cell::from));
                }
            }
            Err(error) => {
                let error = error.to_string();
                row([error.as_str(), "", "", "no result", "", "OUT"].map(Cell::from));
            }
        }
    }
    table
}

fn mechanism(result: &ExperimentResult, names: &[&'static str]) -> Table {
    let all = &result.variants;
    let there = |name: &&str| all.values().any(|counters| counters.contains_key(*name));
    let shown = Counters {
        names: names.iter().copied().filter(there).collect(),
        variants: all.keys().map(String::as_str).collect(),
        intervals: false,
        ratio: None,
        pointer: "",
    };
    shown.table(all)
}

fn summary(out: &mut String, verified: &Verified) {
    let (results, failed) = verified.split();
    out.push('\n');
    for result in &results {
        let (name, share) = (&result.header.experiment, &result.header.effort_share);
        let set: Vec<String> = result
            .header
            .parameters
            .iter()
            .map(|(n, v)| format!("; {n}={v}"))
            .collect();
        let _ = writeln!(
            out,
            "effort {} of {name}: {share}{}",
            result.header.effort,
            set.concat()
        );
    }
    if results.iter().any(|r| !r.header.parameters.is_empty()) {
        let _ = writeln!(out, "A quick look: one seed, and less of most experiments; what counts are whole runs over several seeds.");
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
        for claim in &result.cannot {
            let name = &result.header.experiment;
            let _ = writeln!(out, "cannot {name}: {}: see {}", claim.name, claim.cannot);
        }
    }
}
