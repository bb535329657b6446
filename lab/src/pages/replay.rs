//! The page of `lab replay`.

use super::variants::{costs, difference, switches};
use crate::charts;
use crate::runner::{killed_after, show_pages, ReplayTable, Size, Variant};
use coldset_machine::{Params, SwapConfig};
use coldset_report::html::{capital, causes, change, reasons_of_misses, Page, Section, Summary};
use coldset_report::tables::{counter_names, Counters, Variants};
use coldset_report::{human, Align, Cell, Number, Table};

/// Sentences about counters, at most.
const CAUSES_MAX: usize = 6;

/// A gap between LRU and OPT that shares of can be told, as a part of all accesses.
const LEAST_GAP: f64 = 0.0005;

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

/// None: it was killed before the end, so that there is nothing to compare.
fn miss_ratio(table: &ReplayTable, variant: &str) -> Option<f64> {
    if killed_after(&table.result.variants[variant]).is_some() {
        return None;
    }
    let summary = table.result.variants[variant].get("miss_ratio")?;
    Some(summary.mean.as_f64())
}

/// A figure of an exact policy as the tables count it.
fn bound(table: &ReplayTable, policy: &str) -> Option<f64> {
    let get = |name: &str| table.result.bounds.get(name).map(|n: &Number| n.as_f64());
    // Where no page can leave memory, they have nothing to decide.
    get("evictable_accesses").filter(|accesses| *accesses > 0.0)?;
    Some(get(&format!("{policy}_misses"))? / get("accesses")?)
}

/// A miss ratio. With read-ahead more pages may be read than there are accesses.
fn percent(x: f64) -> String {
    match x {
        x if x > 1.0 => format!("{x:.2} per access"),
        x => format!("{:.3}\u{a0}%", 100.0 * x),
    }
}

/// Which variant misses least under a limit, and how far that is from the bounds.
fn sentence(table: &ReplayTable) -> String {
    let mut all: Vec<(&str, f64)> = table
        .result
        .variants
        .keys()
        .filter_map(|v| Some((v.as_str(), miss_ratio(table, v)?)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut list: Vec<String> = all
        .iter()
        .map(|(v, r)| format!("{v} {}", percent(*r)))
        .collect();
    list.extend(killed(table));
    let mut text = format!("Memory {}: {}", limit(table), list.join(", "));
    if let (Some(lru), Some(opt)) = (bound(table, "lru"), bound(table, "opt")) {
        text += &format!("; exact LRU {}, OPT {}", percent(lru), percent(opt));
        // Where the gap is nothing to speak of, a share of it says nothing.
        let best = all.first().filter(|_| lru - opt > LEAST_GAP);
        if let Some((best, ratio)) = best {
            let share = 100.0 * (lru - ratio) / (lru - opt);
            text += &if share >= 0.5 {
                format!(". {best} closes {share:.0} % of the gap from LRU to OPT")
            } else if share > 0.0 {
                format!(". {best} closes less than 1 % of the gap from LRU to OPT")
            } else {
                ". No variant is better than exact LRU".into()
            };
        }
    }
    text + "."
}

/// Who did not come to the end of the trace.
fn killed(table: &ReplayTable) -> Vec<String> {
    let of = |(variant, counters): (&String, &_)| {
        let after = human(killed_after(counters)? as f64);
        Some(format!(
            "{variant} killed for lack of memory after {after} accesses"
        ))
    };
    table.result.variants.iter().filter_map(of).collect()
}

/// The counters of those that came to the end: they alone can be compared.
fn survivors(table: &ReplayTable) -> Variants {
    let mut all = table.result.variants.clone();
    all.retain(|_, counters| killed_after(counters).is_none());
    all
}

/// What a table of [`survivors`] leaves out, behind its caption.
fn left_out(table: &ReplayTable) -> String {
    let said = killed(table).into_iter();
    said.fold(String::new(), |text, who| text + "; " + &who)
}

/// The main figures of a limit.
pub(super) fn figures(tables: &[ReplayTable], i: usize) -> Vec<Table> {
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
    let all = &survivors(table);
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
    let caption = format!("Memory {}, {swap}{}", limit(table), left_out(table));
    with_caption(
        Counters::on_page(all, wanted, &pointer(tables, i)),
        &caption,
    )
}

fn with_caption(tables: Vec<Table>, caption: &str) -> Vec<Table> {
    tables.into_iter().map(|t| t.caption(caption)).collect()
}

/// All counters under a limit.
pub(super) fn every(tables: &[ReplayTable], i: usize) -> Vec<Table> {
    let table = &tables[i];
    let all = &survivors(table);
    let caption = format!("Memory {}{}", limit(table), left_out(table));
    with_caption(
        Counters::on_page(all, counter_names(all), &pointer(tables, i)),
        &caption,
    )
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

/// The limit under which two variants are farthest apart: what is said of them is said of this one.
fn telling<'a>(tables: &'a [ReplayTable], before: &str, after: &str) -> Option<&'a ReplayTable> {
    let apart = |t: &ReplayTable| Some((miss_ratio(t, after)? - miss_ratio(t, before)?).abs());
    let all = tables.iter().filter_map(|t| Some((apart(t)?, t)));
    // The first of those that are equal.
    let most = all.reduce(|a, b| if b.0 > a.0 { b } else { a });
    most.map(|(_, table)| table)
}

/// `, with memory 1 MiB`, if there are several limits.
fn with_memory(tables: &[ReplayTable], table: &ReplayTable) -> String {
    match tables.len() {
        1 => String::new(),
        _ => format!(" with memory {}", limit(table)),
    }
}

/// Whether the last variant misses less than the first one, under the limit where they are farthest apart.
fn headline(tables: &[ReplayTable], before: &str, after: &str) -> Option<String> {
    let table = telling(tables, before, after)?;
    let (b, a) = (miss_ratio(table, before)?, miss_ratio(table, after)?);
    let verdict = match a.total_cmp(&b) {
        std::cmp::Ordering::Less => format!("{after} misses less than {before}"),
        std::cmp::Ordering::Equal => return Some(format!("{after} misses as often as {before}.")),
        std::cmp::Ordering::Greater => format!("{after} misses more than {before}"),
    };
    let under = |wanted: std::cmp::Ordering| {
        let both = |t: &&ReplayTable| {
            let both = miss_ratio(t, before).zip(miss_ratio(t, after));
            both.is_some_and(|(x, y)| y.total_cmp(&x) == wanted)
        };
        tables.iter().filter(both).count()
    };
    let way = a.total_cmp(&b);
    let count = match (tables.len(), under(way.reverse())) {
        (1, _) => String::new(),
        (all, 0) => format!(" Likewise under {} of {all} limits.", under(way)),
        (all, reverse) => format!(
            " Likewise under {} of {all} limits, the other way round under {reverse}.",
            under(way)
        ),
    };
    let of_all = if a.max(b) > 1.0 {
        ""
    } else {
        " of all accesses"
    };
    Some(format!(
        "{verdict}{}: {} against {}{of_all} ({}).{count}",
        with_memory(tables, table),
        percent(a),
        percent(b),
        change(a / b.max(f64::MIN_POSITIVE))
    ))
}

/// Which of the two is killed, and under how many limits.
fn killed_ends(tables: &[ReplayTable], before: &str, after: &str) -> Option<String> {
    let is_killed = |variant: &str| {
        let killed = |t: &&ReplayTable| killed_after(&t.result.variants[variant]).is_some();
        let count = tables.iter().filter(killed).count();
        let limits = match tables.len() {
            1 => String::new(),
            all => format!(" under {count} of {all} limits"),
        };
        (count > 0).then(|| format!("{variant} is killed for lack of memory{limits}"))
    };
    let said: Vec<String> = [before, after].into_iter().filter_map(is_killed).collect();
    (!said.is_empty()).then(|| said.join(", ") + ".")
}

/// Which counters moved under the limit of the headline, and what that means.
fn mechanism(tables: &[ReplayTable], before: &str, after: &str) -> Option<(String, Vec<String>)> {
    let table = telling(tables, before, after)?;
    let of = |v: &str| &table.result.variants[v];
    let moved = causes(of(before), of(after));
    let (b, a) = (miss_ratio(table, before)?, miss_ratio(table, after)?);
    let why = match a.total_cmp(&b) {
        std::cmp::Ordering::Less => reasons_of_misses(&moved, true).map(|r| ("less", r)),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => reasons_of_misses(&moved, false).map(|r| ("more", r)),
    };
    let why = why.map_or_else(String::new, |(what, r)| {
        format!("Why {after} misses {what}: {r}. ")
    });
    let limit = with_memory(tables, table);
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
        tables.iter().map(sentence).collect(),
    )];
    paragraphs.extend(ends.and_then(|(b, a)| mechanism(tables, &b.label, &a.label)));
    paragraphs.extend(difference(variants));
    let headline = ends.map(|(b, a)| {
        let killed = killed_ends(tables, &b.label, &a.label);
        let said = killed
            .into_iter()
            .chain(headline(tables, &b.label, &a.label));
        said.collect::<Vec<_>>().join(" ")
    });
    Summary {
        headline: headline.unwrap_or_default(),
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
                    "A miss is a page that had to be read from a device or from swap, read-ahead included; \
                     the ratio is the last variant's figure over the first one's.",
                )
                .tables((0..tables.len()).flat_map(|i| figures(tables, i)).collect()),
            Section::new("curves", "Miss ratio over memory").charts(curves),
            Section::new("time", "Over the accesses").charts(over_time),
            Section::new("bounds", "Exact policies")
                .intro("LRU and OPT have the whole limit: no kernel memory is deducted.")
                .tables(vec![bounds(tables)])
                .folded(),
            Section::new("counters", "All counters")
                .intro("What is 0 everywhere is left out.")
                .tables((0..tables.len()).flat_map(|i| every(tables, i)).collect())
                .folded(),
            switches(variants),
            costs(&Params::default()),
        ],
        command: command.into(),
        json,
    };
    page.render()
}
