//! The page of `lab replay`.

use super::variants::{costs, differences, switches};
use crate::charts;
use crate::report::html::common::{all_counters, counters};
use crate::report::html::{capital, causes, change, reasons, Cell, Page, Section, Table};
use crate::report::{human, Number};
use crate::runner::{show_pages, ReplayTable, Size, Variant};
use coldset_machine::{Params, SwapConfig};

/// Sentences about counters, at most.
const CAUSES_MAX: usize = 6;

/// Where a table stands in the JSON: one table is the document, several are in a list.
fn pointer(tables: &[ReplayTable], i: usize) -> String {
    if tables.len() > 1 {
        format!("/replays/{i}")
    } else {
        String::new()
    }
}

fn limit(table: &ReplayTable) -> String {
    match table.memory.size {
        Size::Percent(percent) => {
            format!(
                "{} ({percent} % of the trace)",
                show_pages(table.memory.pages)
            )
        }
        Size::Pages(_) => show_pages(table.memory.pages),
    }
}

fn miss_ratio(table: &ReplayTable, variant: &str) -> Option<f64> {
    let summary = table.result.variants[variant].get("miss_ratio")?;
    Some(summary.mean.as_f64())
}

/// A figure of an exact policy as the tables count it.
fn bound(table: &ReplayTable, policy: &str) -> Option<f64> {
    let get = |name: &str| table.result.bounds.get(name).map(|n: &Number| n.as_f64());
    let misses = get(&format!("{policy}_misses"))? - get("anon_first_touches")?;
    Some(misses / get("accesses")?)
}

fn percent(x: f64) -> String {
    format!("{:.3}\u{a0}%", 100.0 * x)
}

/// Which variant misses least under a limit, and how far that is from the bounds.
fn sentence(table: &ReplayTable) -> Option<String> {
    let mut all: Vec<(&str, f64)> = table
        .result
        .variants
        .keys()
        .filter_map(|v| Some((v.as_str(), miss_ratio(table, v)?)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let list: Vec<String> = all
        .iter()
        .map(|(v, r)| format!("{v} {}", percent(*r)))
        .collect();
    let mut text = format!("Memory {}: {}", limit(table), list.join(", "));
    if let (Some(lru), Some(opt)) = (bound(table, "lru"), bound(table, "opt")) {
        text += &format!("; exact LRU {}, OPT {}", percent(lru), percent(opt));
        let (best, ratio) = all.first()?;
        if lru > opt {
            let share = 100.0 * (lru - ratio) / (lru - opt);
            text += &if share >= 0.5 {
                format!(". {best} closes {share:.0} % of the gap from LRU to OPT")
            } else {
                ". No variant is better than exact LRU".into()
            };
        }
    }
    Some(text + ".")
}

/// The main figures of a limit.
fn figures(tables: &[ReplayTable], i: usize) -> Table {
    let table = &tables[i];
    let wanted = [
        "misses",
        "miss_ratio",
        "workingset_refault_file",
        "workingset_refault_anon",
        "pgscan",
        "pgsteal",
        "pgactivate",
        "disk_read_pages",
        "disk_written_pages",
        "pswpin",
        "pswpout",
        "aging_runs",
    ];
    let at = pointer(tables, i);
    let swap = match &table.swap {
        SwapConfig::None => "no swap".to_owned(),
        SwapConfig::Zram { pages, .. } => format!("zram of {}", show_pages(u64::from(*pages))),
        SwapConfig::Disk { pages, device } => {
            format!(
                "swap on {} of {}",
                device.name(),
                show_pages(u64::from(*pages))
            )
        }
    };
    counters(&table.result.variants, wanted.into_iter(), &at)
        .caption(format!("Memory {}, {swap}", limit(table)))
}

fn bounds(tables: &[ReplayTable]) -> Table {
    let mut out = Table::new(["memory", "figure", "value"]);
    for (i, table) in tables.iter().enumerate() {
        let at = pointer(tables, i);
        for (name, number) in &table.result.bounds {
            out.row(vec![
                Cell::text(limit(table)),
                Cell::code(name),
                Cell::number(
                    human(number.as_f64()),
                    *number,
                    format!("{at}/bounds/{name}"),
                    "",
                ),
            ]);
        }
    }
    out
}

/// The page of a replay. `heading` says which trace it was; `json` is what `--json` writes.
#[must_use]
pub fn replay(
    heading: &str,
    lead: &str,
    variants: &[Variant],
    tables: &[ReplayTable],
    json: String,
    command: &str,
) -> String {
    let names: Vec<&str> = variants.iter().map(|v| v.label.as_str()).collect();
    let mut page = Page::new(heading, lead, command)
        .fact("variants", names.join(", "))
        .fact(
            "memory",
            tables.iter().map(limit).collect::<Vec<_>>().join(", "),
        );
    let ends = names.first().zip(names.last()).filter(|(b, a)| b != a);
    if let Some((before, after)) = ends {
        let mean = |v: &str| {
            let all: Vec<f64> = tables.iter().filter_map(|t| miss_ratio(t, v)).collect();
            all.iter().sum::<f64>() / all.len().max(1) as f64
        };
        let (b, a) = (mean(before), mean(after));
        let verdict = match a.total_cmp(&b) {
            std::cmp::Ordering::Less => format!("{after} misses less than {before}"),
            std::cmp::Ordering::Equal => format!("{after} misses as often as {before}"),
            std::cmp::Ordering::Greater => format!("{after} misses more than {before}"),
        };
        let over = if tables.len() > 1 {
            ", mean over the limits"
        } else {
            ""
        };
        page = page.headline(format!(
            "{verdict}: {} against {} of all accesses ({}{over}).",
            percent(a),
            percent(b),
            change(a / b.max(f64::MIN_POSITIVE))
        ));
    }
    page = page.explain(
        "Misses of all variants, least first:",
        tables.iter().filter_map(sentence).collect(),
    );
    if let (Some((before, after)), [table, ..]) = (ends, tables) {
        let of = |v: &str| &table.result.variants[v];
        let moved = causes(of(before), of(after));
        let better = miss_ratio(table, after) < miss_ratio(table, before);
        let why = reasons(&moved, better).map_or_else(String::new, |r| {
            let what = if better { "better" } else { "different" };
            format!("Why {after} is {what}: {r}. ")
        });
        let limit = if tables.len() > 1 {
            format!(" with memory {}", limit(table))
        } else {
            String::new()
        };
        if !moved.is_empty() {
            page = page.explain(
                format!("{why}The counters that moved most from {before} to {after}{limit}:"),
                moved
                    .iter()
                    .take(CAUSES_MAX)
                    .map(|c| capital(&c.sentence))
                    .collect(),
            );
        }
    }
    if let [before, .., after] = variants {
        page = page.explain(
            format!("What {} changes against {}:", after.label, before.label),
            differences(before, after),
        );
    }
    let mut charts = charts::replay(tables);
    let over_time = charts.split_off(1.min(charts.len()));
    let mut section = Section::new(
        "misses",
        "Figures",
        "A miss is an access whose page had to be read from a device or from swap; the ratio is the last \
         variant's figure over the first one's.",
    );
    for i in 0..tables.len() {
        section = section.table(figures(tables, i));
    }
    let mut whole = Section::new(
        "counters",
        "All counters",
        "What is 0 everywhere is left out.",
    );
    for (i, table) in tables.iter().enumerate() {
        let all = all_counters(&table.result.variants).into_iter();
        let table = counters(&table.result.variants, all, &pointer(tables, i))
            .caption(format!("Memory {}", limit(table)));
        whole = whole.table(table);
    }
    page.section(section)
        .section(Section::new("curves", "Miss ratio over memory", "").charts(charts))
        .section(Section::new("time", "Over the accesses", "").charts(over_time))
        .section(
            Section::new(
                "bounds",
                "Exact policies",
                "LRU and OPT have the whole limit: no kernel memory is deducted.",
            )
            .table(bounds(tables))
            .folded(),
        )
        .section(whole.folded())
        .section(switches(variants))
        .section(costs(&Params::default()))
        .json(json)
        .render()
}
