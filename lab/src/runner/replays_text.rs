//! Replays as tables, JSON and CSV.

use super::quantity::show_pages;
use super::replays::{killed_after, ReplayTable, KILLED_AFTER};
use super::Size;
use coldset_machine::SwapConfig;
use coldset_report::{human, replay_json, wrap, Align, Cell, CounterSummary, Number, Style, Table};
use indexmap::IndexMap;
use std::fmt::Write as _;

/// Variants side by side in one table.
const ABREAST: usize = 5;
/// Heading of the row that says who was killed.
const KILLED: &str = "killed for lack of memory";
/// Before the name of a counter in lists of values: it ended where its variant was killed.
pub const UNTIL_KILLED: &str = "until_killed.";
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
    ("  by kswapd", &["pgscan_kswapd"], ""),
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
    ("runs of kswapd", &["pageoutrun"], ""),
    ("reclaim by tasks", &["allocstall"], ""),
    (KILLED, &["events_oom_kill"], ""),
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
    out += &render(table, style, true);
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

/// The table alone, with the figures of whoever was killed as well: a run on a kernel stands beside them.
#[must_use]
pub fn render_counters(table: &ReplayTable, style: Style) -> String {
    render(table, style, false)
}

/// `apart`: of whoever was killed the table says that, and nothing that could be compared.
fn render(table: &ReplayTable, style: Style, apart: bool) -> String {
    let mut out = String::new();
    let names: Vec<&str> = table.result.variants.keys().map(String::as_str).collect();
    for (i, names) in names.chunks(ABREAST).enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&side_by_side(table, names, apart).text(style));
    }
    out
}

/// A mean of whole numbers, as exact as anybody needs it. Of something rare, such as one kill in three runs, a tenth
/// would be another number.
fn tenths(mean: f64) -> f64 {
    match mean.abs() < 1.0 {
        true => mean,
        false => (mean * 10.0).round() / 10.0,
    }
}

/// Variants beside the exact policies.
fn side_by_side(table: &ReplayTable, names: &[&str], apart: bool) -> Table {
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
    let killed = |name: &str| killed_after(&table.result.variants[name]).filter(|_| apart);
    if names.iter().any(|name| killed(name).is_some()) {
        let mut row = vec![KILLED.to_owned()];
        row.extend(names.iter().map(|name| match killed(name) {
            Some(after) => format!("after {} accesses", human(after as f64)),
            None => "no".to_owned(),
        }));
        if with_bounds {
            row.extend([String::new(), String::new()]);
        }
        grid.row(row);
    }
    for &(heading, counters, figure) in ROWS {
        if apart && heading == KILLED {
            continue;
        }
        let value = |name: &&str| match killed(name) {
            Some(_) => None,
            None => mean(name, counters),
        };
        let values: Vec<Option<f64>> = names.iter().map(value).collect();
        if values.iter().all(|v| v.unwrap_or(0.0) == 0.0) && figure.is_empty() {
            continue;
        }
        let mut row = vec![heading.to_owned()];
        let show = |value: f64| match figure {
            "miss_ratio" => format!("{:.3} %", value * 100.0),
            _ => human(tenths(value)),
        };
        row.extend(
            names
                .iter()
                .zip(&values)
                .map(|(name, value)| match (killed(name), value) {
                    (Some(_), _) => "-".to_owned(),
                    (None, value) => value.map_or_else(String::new, show),
                }),
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

/// Counters by the names that they have where nothing else says that a replay was killed.
pub fn until_killed(
    counters: &IndexMap<String, CounterSummary>,
) -> impl Iterator<Item = (String, &CounterSummary)> {
    let killed = counters.contains_key(KILLED_AFTER);
    counters.iter().map(move |(counter, summary)| {
        let partial = killed && ![KILLED_AFTER, "events_oom_kill"].contains(&counter.as_str());
        let name = format!("{}{counter}", if partial { UNTIL_KILLED } else { "" });
        (name, summary)
    })
}

/// `memory_pages,variant,phase,counter,value` of all tables, for CSV. Of a variant that was killed, counters of what it had
/// done by then have other names, so that nobody takes them for those of the whole trace.
#[must_use]
pub fn replay_values(tables: &[ReplayTable]) -> Table {
    let columns = ["memory_pages", "variant", "phase", "counter", "value"];
    let mut out = Table::of_words(columns);
    for table in tables {
        for (variant, counters) in &table.result.variants {
            for (name, summary) in until_killed(counters) {
                for (phase, &value) in summary.per_seed.iter().enumerate() {
                    out.row([
                        Cell::from(table.memory.pages),
                        variant.into(),
                        (phase as u64).into(),
                        name.as_str().into(),
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
    use coldset_report::ReplayResult;

    #[test]
    fn what_is_rare_keeps_its_digits() {
        let shown = [1.0 / 3.0, 2.0 / 3.0, 0.96, 0.0, 2.34, 1234.56];
        let shown = shown.map(|mean| human(tenths(mean)));
        assert_eq!(shown, ["0.333", "0.667", "0.960", "0", "2.300", "1,235"]);
    }

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

    /// Whoever was killed early has few misses, and must not look best.
    #[test]
    fn figures_of_the_killed_are_apart() {
        let mut table = table(221);
        let of = |n: u64| CounterSummary {
            mean: Number::Int(n),
            ci95: None,
            per_seed: vec![Number::Int(n)],
        };
        let counters = [
            ("accesses", 58),
            ("misses", 7),
            ("pgscan", 9),
            ("events_oom_kill", 1),
            ("killed_after", 58),
        ];
        let counters = counters.map(|(name, n)| (name.to_owned(), of(n)));
        let variants = &mut table.result.variants;
        variants.insert("v618".to_owned(), counters.into_iter().collect());
        let text = render_replay(&table, Style::Plain);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        let has = |row: &[&str]| assert!(lines.iter().any(|l| l == row), "{row:?}: {text}");
        has(&[
            "killed", "for", "lack", "of", "memory", "no", "after", "58", "accesses",
        ]);
        has(&["misses", "70", "-", "90", "40"]);
        has(&["scanned", "1,234", "-"]);
        let mut out = Vec::new();
        replay_values(&[table.clone()]).csv(&mut out).unwrap();
        let csv = String::from_utf8(out).unwrap();
        assert!(csv.contains("221,base,0,misses,70\n"), "{csv}");
        assert!(csv.contains("221,v618,0,until_killed.misses,7\n"), "{csv}");
        assert!(csv.contains("221,v618,0,killed_after,58\n"), "{csv}");
        // Beside a kernel that kills as well, the figures are there.
        let text = render_counters(&table, Style::Plain);
        let misses = text
            .lines()
            .find(|l| l.trim_start().starts_with("misses"))
            .unwrap();
        assert_eq!(
            misses.split_whitespace().collect::<Vec<_>>(),
            ["misses", "70", "7", "90", "40"]
        );
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
