//! The page of `lab replay`.

use super::variants::{costs, difference, switches};
use crate::charts;
use crate::runner::{show_pages, ReplayTable, Size, Variant};
use coldset_machine::{Params, SwapConfig};
use coldset_report::html::{capital, causes, change, reasons, Page, Section, Summary};
use coldset_report::tables::{counter_names, Counters};
use coldset_report::{human, Align, Cell, Number, Table};

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
pub(super) fn figures(tables: &[ReplayTable], i: usize) -> Table {
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
    let all = &table.result.variants;
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
    Counters::on_page(all, wanted, &pointer(tables, i))
        .table(all)
        .caption(format!("Memory {}, {swap}", limit(table)))
}

/// All counters under a limit.
pub(super) fn every(tables: &[ReplayTable], i: usize) -> Table {
    let all = &tables[i].result.variants;
    Counters::on_page(all, counter_names(all), &pointer(tables, i))
        .table(all)
        .caption(format!("Memory {}", limit(&tables[i])))
}

fn bounds(tables: &[ReplayTable]) -> Table {
    let columns = [
        ("memory", Align::Left),
        ("figure", Align::Left),
        ("value", Align::Right),
    ];
    let mut out = Table::new(columns);
    for (i, table) in tables.iter().enumerate() {
        let at = pointer(tables, i);
        for (name, number) in &table.result.bounds {
            let place = format!("{at}/bounds/{name}");
            out.row([
                limit(table).into(),
                Cell::code(name),
                Cell::number(human(number.as_f64()), *number, place),
            ]);
        }
    }
    out
}

/// Whether the last variant misses less than the first one.
fn headline(tables: &[ReplayTable], before: &str, after: &str) -> String {
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
    format!(
        "{verdict}: {} against {} of all accesses ({}{over}).",
        percent(a),
        percent(b),
        change(a / b.max(f64::MIN_POSITIVE))
    )
}

/// Which counters moved under the first limit, and what that means.
fn mechanism(tables: &[ReplayTable], before: &str, after: &str) -> Option<(String, Vec<String>)> {
    let table = tables.first()?;
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
    let heading = format!("{why}The counters that moved most from {before} to {after}{limit}:");
    let sentences = moved.iter().take(CAUSES_MAX).map(|c| capital(&c.sentence));
    (!moved.is_empty()).then(|| (heading, sentences.collect()))
}

/// The replay in words.
fn summary(tables: &[ReplayTable], variants: &[Variant]) -> Summary {
    let ends = variants.first().zip(variants.last());
    let ends = ends.filter(|(b, a)| b.label != a.label);
    let mut paragraphs = vec![(
        "Misses of all variants, least first:".to_owned(),
        tables.iter().filter_map(sentence).collect(),
    )];
    paragraphs.extend(ends.and_then(|(b, a)| mechanism(tables, &b.label, &a.label)));
    paragraphs.extend(difference(variants));
    Summary {
        headline: ends.map_or_else(String::new, |(b, a)| headline(tables, &b.label, &a.label)),
        paragraphs,
    }
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
    let limits: Vec<String> = tables.iter().map(limit).collect();
    let mut curves = charts::replay(tables);
    let over_time = curves.split_off(1.min(curves.len()));
    let page = Page {
        title: heading.into(),
        lead: lead.into(),
        facts: vec![
            ("variants".into(), names.join(", ")),
            ("memory".into(), limits.join(", ")),
        ],
        summary: summary(tables, variants),
        sections: vec![
            Section::new("misses", "Figures")
                .intro(
                    "A miss is an access whose page had to be read from a device or from swap; the \
                     ratio is the last variant's figure over the first one's.",
                )
                .tables((0..tables.len()).map(|i| figures(tables, i)).collect()),
            Section::new("curves", "Miss ratio over memory").charts(curves),
            Section::new("time", "Over the accesses").charts(over_time),
            Section::new("bounds", "Exact policies")
                .intro("LRU and OPT have the whole limit: no kernel memory is deducted.")
                .tables(vec![bounds(tables)])
                .folded(),
            Section::new("counters", "All counters")
                .intro("What is 0 everywhere is left out.")
                .tables((0..tables.len()).map(|i| every(tables, i)).collect())
                .folded(),
            switches(variants),
            costs(&Params::default()),
        ],
        command: command.into(),
        json,
    };
    page.render()
}
