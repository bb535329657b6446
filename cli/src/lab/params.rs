//! `coldset lab params`.

use super::list::pretty;
use crate::args::ParamsArgs;
use crate::error::{Failure, Verdict};
use crate::output::print;
use coldset_engine::switches::SwitchInfo;
use coldset_lab::report::{human, Align, Cell, Number, Table};
use coldset_lab::runner::{RunnerError, Variant};
use coldset_machine::params::ParamInfo;
use coldset_machine::Params;
use serde_json::{json, Map, Value};

fn costs(filter: &str) -> Result<Vec<ParamInfo>, RunnerError> {
    let mut found = Params::default().describe();
    found.retain(|info| info.name.contains(filter));
    if found.is_empty() {
        let names = Params::NAMES.iter().copied();
        return Err(RunnerError::name(
            "cost with this in its name:",
            filter,
            names,
            "see: coldset lab params",
        ));
    }
    Ok(found)
}

fn costs_table(costs: &[ParamInfo]) -> Table {
    let mut table = Table::new([
        ("cost", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
        ("mark", Align::Left),
        ("what", Align::Left),
        ("source", Align::Left),
    ]);
    for info in costs {
        let shown = human(info.value as f64);
        table.row([
            info.name.into(),
            Cell::number(shown, Number::Int(info.value), String::new()),
            info.unit.into(),
            info.mark.letter().to_string().into(),
            info.what.into(),
            info.source.into(),
        ]);
    }
    table
}

/// Switches with one value for each variant; of several variants only where they differ.
fn switches(variants: &[Variant], filter: &str) -> Vec<(SwitchInfo, Vec<String>)> {
    let described: Vec<Vec<SwitchInfo>> = variants.iter().map(|v| v.switches.describe()).collect();
    let Some(first) = described.first() else {
        return Vec::new();
    };
    first
        .iter()
        .enumerate()
        .map(|(i, info)| {
            let values = described.iter().map(|d| d[i].value.clone()).collect();
            (info.clone(), values)
        })
        .filter(|(info, values): &(SwitchInfo, Vec<String>)| {
            let differs = values.iter().any(|v| *v != values[0]);
            info.name.contains(filter) && (values.len() == 1 || differs)
        })
        .collect()
}

fn switches_text(variants: &[Variant], rows: &[(SwitchInfo, Vec<String>)]) -> String {
    let mut columns = vec!["switch"];
    columns.extend(variants.iter().map(|v| v.label.as_str()));
    columns.extend(["takes", "what"]);
    let mut table = Table::of_words(columns);
    for (info, values) in rows {
        let mut row = vec![info.name.to_owned()];
        row.extend(values.iter().cloned());
        row.extend([info.accepts.to_owned(), info.doc.clone()]);
        table.row(row);
    }
    if table.is_empty() {
        return "no difference\n".into();
    }
    table.text(super::style(false))
}

fn switches_json(variants: &[Variant], rows: &[(SwitchInfo, Vec<String>)]) -> Value {
    let one = |(info, values): &(SwitchInfo, Vec<String>)| {
        let values: Map<String, Value> = variants
            .iter()
            .zip(values)
            .map(|(variant, value)| (variant.label.clone(), value.as_str().into()))
            .collect();
        json!({"name": info.name, "values": values, "accepts": info.accepts, "what": info.doc})
    };
    rows.iter().map(one).collect()
}

/// Runs the command.
///
/// # Errors
/// Unknown variants; a filter that nothing matches.
pub fn run(args: &ParamsArgs) -> Result<Verdict, Failure> {
    let filter = args.filter.as_deref().unwrap_or("");
    let text = if args.switches.is_empty() {
        let costs = costs_table(&costs(filter)?);
        if args.json {
            pretty(&json!({"costs": costs.json()}))
        } else {
            costs.text(super::style(false))
                + "\nmark: P published, A assumed, S setting of the model. Change: --cost NAME=VALUE.\n"
        }
    } else {
        let variants = Variant::parse_all(&args.switches, &[])?;
        let rows = switches(&variants, filter);
        if args.json {
            pretty(&json!({"switches": switches_json(&variants, &rows)}))
        } else {
            switches_text(&variants, &rows)
        }
    };
    print(&text)?;
    Ok(Verdict::Good)
}
