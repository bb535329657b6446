//! Replays as tables, JSON and CSV.

use super::quantity::show_pages;
use super::replays::ReplayTable;
use super::Size;
use coldset_machine::SwapConfig;
use coldset_report::{human, replay_json, wrap, Align, Cell, Number, Style, Table};
use std::fmt::Write as _;

/// Variants side by side in one table.
const ABREAST: usize = 5;
/// Rows: heading, counters that are summed, figure of the bounds.
const ROWS: &[(&str, &[&str], &str)] = &[
    ("accesses", &["accesses"], "accesses"),
    ("misses", &["misses"], "misses"),
    ("miss ratio", &["miss_ratio"], "miss_ratio"),
    (
        "refaults",
        &["workingset_refault_file", "workingset_refault_anon"],
        "refaults",
    ),
    ("  of files", &["workingset_refault_file"], ""),
    ("  of anonymous memory", &["workingset_refault_anon"], ""),
    ("scanned", &["pgscan"], ""),
    ("stolen", &["pgsteal"], ""),
    ("activated", &["pgactivate"], ""),
    ("deactivated", &["pgdeactivate"], ""),
    ("refilled", &["pgrefill"], ""),
    (
        "refaults activated",
        &["workingset_activate_file", "workingset_activate_anon"],
        "",
    ),
    (
        "refaults restored",
        &["workingset_restore_file", "workingset_restore_anon"],
        "",
    ),
    ("disk reads, pages", &["disk_read_pages"], ""),
    ("disk writes, pages", &["disk_written_pages"], ""),
    ("swapped in", &["pswpin"], ""),
    ("swapped out", &["pswpout"], ""),
    ("limit met (events_max)", &["events_max"], ""),
    ("killed for want of memory", &["events_oom_kill"], ""),
    ("kernel memory, pages", &["kernel_pages"], ""),
];

/// A table with a heading that says what was replayed.
#[must_use]
pub fn render_replay(table: &ReplayTable, style: Style) -> String {
    let mut out = String::new();
    let share = match table.memory.size {
        Size::Percent(percent) => format!(" = {percent} % of the trace's pages"),
        Size::Pages(_) => String::new(),
    };
    let swap = match &table.swap {
        SwapConfig::None => "no swap".to_owned(),
        SwapConfig::Zram { pages, algorithm } => {
            format!("zram of {}, {algorithm}", show_pages(u64::from(*pages)))
        }
        SwapConfig::Disk { pages, device } => {
            format!(
                "swap on {} of {}",
                device.name(),
                show_pages(u64::from(*pages))
            )
        }
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "memory {}{share}; {swap}\n",
        show_pages(table.memory.pages)
    );
    out += &render_counters(table, style);
    for (variant, misses) in &table.alone {
        // Writing to a string cannot fail.
        let said = format!(
            "{variant} as a cache of pages alone (lab mrc): {} misses. Here it {}.",
            human(*misses as f64),
            unlike_alone(table, variant)
        );
        let _ = writeln!(out, "\n{}", wrap(&said, 100).trim_end());
    }
    out
}

/// What a list policy does in a machine that it does not do alone.
fn unlike_alone(table: &ReplayTable, variant: &str) -> String {
    let counters = table.result.variants.get(variant);
    let kernel = counters.and_then(|c| c.get("kernel_pages"));
    let has_kernel = kernel.is_some_and(|c| c.mean.as_f64() > 0.0);
    let mut all = vec![
        "gives up pages in batches",
        "hears of accesses through mappings only when it looks",
    ];
    if !matches!(table.swap, SwapConfig::None) {
        all.push("keeps anonymous memory and files apart");
    }
    if has_kernel {
        all.push("shares the limit with kernel memory");
    }
    let last = all.pop().expect("two at least");
    format!("{} and {last}", all.join(", "))
}

/// The table alone.
#[must_use]
pub fn render_counters(table: &ReplayTable, style: Style) -> String {
    let mut out = String::new();
    let names: Vec<&str> = table.result.variants.keys().map(String::as_str).collect();
    for (i, names) in names.chunks(ABREAST).enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&side_by_side(table, names).text(style));
    }
    out
}

/// Variants beside the exact policies.
fn side_by_side(table: &ReplayTable, names: &[&str]) -> Table {
    let with_bounds = table.result.bounds.contains_key("lru_misses");
    let mut columns = vec![("", Align::Left)];
    columns.extend(names.iter().map(|&name| (name, Align::Right)));
    if with_bounds {
        columns.extend([("exact LRU", Align::Right), ("OPT", Align::Right)]);
    }
    let mut grid = Table::new(columns);
    // None: not counted.
    let mean = |variant: &str, counters: &[&str]| -> Option<f64> {
        let all = &table.result.variants[variant];
        let counted = counters.iter().filter_map(|c| all.get(*c));
        counted
            .map(|c| c.mean.as_f64())
            .reduce(|sum, value| sum + value)
    };
    for &(heading, counters, figure) in ROWS {
        let values: Vec<Option<f64>> = names.iter().map(|name| mean(name, counters)).collect();
        if values.iter().all(|v| v.unwrap_or(0.0) == 0.0) && figure.is_empty() {
            continue;
        }
        let mut row = vec![heading.to_owned()];
        let show = |value: f64| match figure {
            "miss_ratio" => format!("{:.3} %", value * 100.0),
            _ => human((value * 10.0).round() / 10.0),
        };
        row.extend(
            values
                .iter()
                .map(|value| value.map_or_else(String::new, show)),
        );
        if with_bounds {
            row.extend(
                ["lru", "opt"]
                    .map(|policy| bound(table, policy, figure).map_or_else(String::new, show)),
            );
        }
        grid.row(row);
    }
    grid
}

/// A figure of an exact policy, counted as those of the variants.
fn bound(table: &ReplayTable, policy: &str, figure: &str) -> Option<f64> {
    let get = |name: &str| table.result.bounds.get(name).map(|n: &Number| n.as_f64());
    let misses = || get(&format!("{policy}_misses"));
    match figure {
        "accesses" => get("accesses"),
        "misses" => misses(),
        "miss_ratio" => Some(misses()? / get("accesses")?),
        "refaults" => get(&format!("{policy}_refaults")),
        _ => None,
    }
}

/// One table: `{"variants", "bounds"}`. Several: `{"replays": [{"variants", "bounds"}, ...]}`,
/// told apart by `bounds.memory_pages`.
#[must_use]
pub fn replays_json(tables: &[ReplayTable]) -> String {
    if let [table] = tables {
        return replay_json(&table.result);
    }
    let parts: Vec<String> = tables
        .iter()
        .map(|table| {
            let text = replay_json(&table.result);
            let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
            lines.join("\n")
        })
        .collect();
    format!("{{\n  \"replays\": [\n{}\n  ]\n}}\n", parts.join(",\n"))
}

/// `memory_pages,variant,phase,counter,value` of all tables, for CSV.
#[must_use]
pub fn replay_values(tables: &[ReplayTable]) -> Table {
    let columns = ["memory_pages", "variant", "phase", "counter", "value"];
    let mut out = Table::of_words(columns);
    for table in tables {
        for (variant, counters) in &table.result.variants {
            for (counter, summary) in counters {
                for (phase, &value) in summary.per_seed.iter().enumerate() {
                    out.row([
                        Cell::from(table.memory.pages),
                        variant.into(),
                        (phase as u64).into(),
                        counter.into(),
                        value.into(),
                    ]);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Memory;
    use coldset_report::{CounterSummary, ReplayResult};
    use indexmap::IndexMap;

    fn table(pages: u64) -> ReplayTable {
        let of = |n: u64| CounterSummary {
            mean: Number::Int(n),
            ci95: None,
            per_seed: vec![Number::Int(n)],
        };
        let counters = [("accesses", 900), ("misses", 70), ("pgscan", 1234)];
        let counters: IndexMap<String, _> = counters
            .iter()
            .map(|(n, v)| ((*n).to_owned(), of(*v)))
            .collect();
        let bounds = [
            ("memory_pages", pages),
            ("accesses", 900),
            ("lru_misses", 90),
            ("lru_refaults", 80),
            ("opt_misses", 40),
            ("opt_refaults", 30),
        ];
        ReplayTable {
            memory: Memory {
                size: Size::Percent(10.0),
                pages,
            },
            swap: SwapConfig::None,
            series: IndexMap::new(),
            curves: std::sync::Arc::default(),
            alone: IndexMap::new(),
            scans: IndexMap::new(),
            result: ReplayResult {
                variants: IndexMap::from([("base".to_owned(), counters)]),
                bounds: bounds
                    .iter()
                    .map(|(n, v)| ((*n).to_owned(), Number::Int(*v)))
                    .collect(),
                phases: IndexMap::new(),
            },
        }
    }

    #[test]
    fn text_shows_bounds_and_leaves_empty_rows_out() {
        let text = render_replay(&table(221), Style::Plain);
        assert!(
            text.starts_with("memory 221 pages (884 KiB) = 10 % of the trace's pages; no swap\n"),
            "{text}"
        );
        let row = |name: &str| -> Vec<&str> {
            let mut lines = text.lines().map(str::trim_start);
            let cells = lines.find_map(|l| l.strip_prefix(name)).unwrap();
            cells.split_whitespace().collect()
        };
        assert_eq!(row("misses"), ["70", "90", "40"]);
        // The variant does not count them.
        assert_eq!(row("refaults"), ["80", "30"]);
        assert_eq!(row("scanned"), ["1,234"]);
        assert!(!text.contains("swapped in"));
    }

    #[test]
    fn several_tables_are_one_json_document() {
        let one: serde_json::Value = serde_json::from_str(&replays_json(&[table(221)])).unwrap();
        let text = replays_json(&[table(221), table(442)]);
        let two: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(two["replays"][0], one);
        assert_eq!(two["replays"][1]["bounds"]["memory_pages"], 442);
        assert!(text.ends_with("]\n}\n"));
    }

    #[test]
    fn csv_is_long() {
        let mut out = Vec::new();
        replay_values(&[table(221)]).csv(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("memory_pages,variant,phase,counter,value\n221,base,0,accesses,900\n")
        );
    }
}
