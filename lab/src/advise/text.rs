//! The answer as a table and in sentences.

use super::{Advice, Against, Case, Level, LEAST, LEAST_READS};
use coldset_report::{human, wrap, Align, Cell, Number, Style, Table};
use std::fmt::Write as _;

/// Width of the text.
const COLUMNS: usize = 80;
/// Of the pages of a trace, one in so many more has room for the kernel's memory, too.
const SPARE: u64 = 8;
/// How to read the table.
pub(crate) const NOTE: &str = "Reads: pages read from files or from swap. \u{b1}: half the range over limits up to 0.4 % away. \
    Today: time against today's, = if the difference does not stand out from that range. Time is what faults, reclaim and \
    devices take (waiting: without a CPU), one access at a time; the program's own work is not in it.";

/// `5.5 MiB`.
pub(crate) fn size(pages: u64) -> String {
    let mib = pages as f64 / 256.0;
    match mib {
        m if m >= 1024.0 => format!("{} GiB", short(m / 1024.0)),
        m if m >= 1.0 => format!("{} MiB", short(m)),
        m => format!("{} KiB", short(m * 1024.0)),
    }
}

/// Three digits, no zeros at the end.
fn short(x: f64) -> String {
    let digits = match x {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{x:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", short(ns / 1e9)),
        ns if ns >= 1e6 => format!("{} ms", short(ns / 1e6)),
        ns => format!("{} us", short(ns / 1e3)),
    }
}

/// `x 5.9`, `=` where nothing stands out; no figure where the time of either is stops of writers.
fn times(against: Option<Against>, stops: bool) -> String {
    match against {
        _ if stops => "stops".into(),
        Some(Against { clear: false, .. }) => "=".into(),
        Some(Against { ratio: Some(r), .. }) => format!("x {}", short(r)),
        _ => "-".into(),
    }
}

/// A row for each size and variant.
#[must_use]
pub fn advice_table(advice: &Advice) -> Table {
    let columns = [
        ("memory", Align::Right),
        ("kernel", Align::Left),
        ("reads", Align::Right),
        ("±", Align::Right),
        ("swap in", Align::Right),
        ("out", Align::Right),
        ("time", Align::Right),
        ("waiting", Align::Right),
        ("today", Align::Right),
    ];
    let mut table = Table::new(columns);
    for (i, level) in advice.levels.iter().enumerate() {
        for (j, case) in level.cases.iter().enumerate() {
            table.row(row(advice, level, case, &format!("/levels/{i}/cases/{j}")));
        }
    }
    table
}

fn row(advice: &Advice, level: &Level, case: &Case, at: &str) -> Vec<Cell> {
    let mut row: Vec<Cell> = vec![size(level.pages).into(), (&case.variant).into()];
    let Some(cost) = case.cost else {
        row.push("killed".into());
        row.resize_with(9, || "".into());
        return row;
    };
    let count = |value: f64, name: &str| {
        let place = format!("{at}/cost/{name}");
        Cell::number(human(value.round()), Number::Real(value), place)
    };
    let spread = case.reads_nearby.map_or_else(String::new, |(least, most)| {
        human(((most - least) / 2.0).ceil())
    });
    row.push(count(cost.reads, "reads"));
    row.push(spread.into());
    row.push(count(cost.swapped_in, "swapped_in"));
    row.push(count(cost.swapped_out, "swapped_out"));
    // Units differ from row to row, so they are no numbers for the page to sort by.
    row.extend([cost.time_ns, cost.wait_ns].map(|ns| Cell::from(time(ns))));
    row.push(match level.pages == advice.today_pages {
        true => "".into(),
        false => {
            let today = advice.levels[0].cases.iter();
            let mut today = today.filter(|c| c.variant == case.variant);
            times(case.time_today, is_stops(case) || today.any(is_stops)).into()
        }
    });
    row
}

/// Writers that are stopped at dirty limits take most of its time.
fn is_stops(case: &Case) -> bool {
    case.cost.is_some_and(|cost| cost.is_stops())
}

/// `12 % more than`, `5.9 times as many as`.
fn compared(ratio: f64) -> String {
    match ratio {
        r if r >= 2.0 => format!("{} times as many as", short(r)),
        r if r >= 1.0 => format!("{} % more than", short(100.0 * (r - 1.0))),
        r => format!("{} % fewer than", short(100.0 * (1.0 - r))),
    }
}

/// What a size costs the first variant, and how the others compare with it.
fn sentence(advice: &Advice, level: &Level) -> String {
    let share = 100.0 * (1.0 - level.share);
    let memory = match level.share {
        1.0 => format!("Today ({})", size(level.pages)),
        s if s < 1.0 => format!("{} % less memory ({})", short(share), size(level.pages)),
        _ => format!("{} % more memory ({})", short(-share), size(level.pages)),
    };
    let (first, others) = level.cases.split_first().expect("a variant");
    let today = &advice.levels[0].cases[0];
    let what = match (first.cost, today.cost) {
        (None, _) => "killed for lack of memory".to_owned(),
        (Some(cost), _) if level.share == 1.0 => {
            let stops = match is_stops(first) {
                true => ", most of it stops of writers",
                false => "",
            };
            format!("{} reads, {}{stops}", human(cost.reads), time(cost.time_ns))
        }
        (Some(cost), None) => format!(
            "{} reads, {}; today it is killed",
            human(cost.reads),
            time(cost.time_ns)
        ),
        (Some(cost), Some(then)) => {
            let more = cost.reads - then.reads;
            let reads = match first.reads_today.is_some_and(|a| a.clear) {
                false => "no difference in reads above noise".to_owned(),
                true if more < 0.0 => format!("{} fewer reads", human(-more)),
                true => format!("{} more reads", human(more)),
            };
            let stops = is_stops(first) || is_stops(today);
            let longer = times_the_time(first.time_today);
            let longer = match stops {
                true => Some("its time cannot be compared"),
                false => longer.as_deref(),
            };
            let longer = longer.unwrap_or("no difference in time above noise");
            format!("{reads}, {longer}")
        }
    };
    let mut text = format!("{memory}, {}: {what}", first.variant);
    for other in others {
        let _ = match (first.cost, other.cost, other.reads_first) {
            (_, None, _) => write!(text, "; {} is killed", other.variant),
            (None, Some(_), _) => write!(text, "; {} is not", other.variant),
            (
                _,
                _,
                Some(Against {
                    clear: true,
                    ratio: Some(r),
                    ..
                }),
            ) => {
                let reads = compared(r);
                write!(text, "; {} reads {reads} {}", other.variant, first.variant)
            }
            (_, _, Some(Against { clear: true, .. })) => {
                write!(
                    text,
                    "; {} reads more than {}",
                    other.variant, first.variant
                )
            }
            _ => {
                let time = time_beside(other, first);
                write!(
                    text,
                    "; {}: no difference in reads above noise{time}",
                    other.variant
                )
            }
        };
    }
    text + "."
}

/// `2.1 times the time`, if it clearly differs.
fn times_the_time(against: Option<Against>) -> Option<String> {
    let ratio = against.filter(|a| a.clear)?.ratio?;
    Some(format!("{} times the time", short(ratio)))
}

/// The time of a case beside that of the first one, if it clearly differs.
fn time_beside(case: &Case, first: &Case) -> String {
    let clear = case
        .time_first
        .filter(|_| !is_stops(case) && !is_stops(first));
    let times = times_the_time(clear);
    times.map_or_else(String::new, |t| format!(", {t} of {}", first.variant))
}

/// Today's memory is as large as all pages of the trace, and yet some are pushed out: swapped, or read again.
struct PushedOut {
    /// More reads than pages have to be read at least, with names; those of whom it is more than noise.
    read_again: Vec<String>,
}

fn pushed_out(advice: &Advice) -> Option<PushedOut> {
    let today = &advice.levels[0];
    if !advice.kernel_memory || advice.today_pages < advice.unique_pages {
        return None;
    }
    let again = |case: &Case| {
        let reads = case.cost?.reads;
        let more = reads - today.opt_reads?;
        (more > LEAST_READS.max(LEAST * reads)).then(|| {
            format!(
                "{} reads {} pages a second time or more often",
                case.variant,
                human(more)
            )
        })
    };
    let read_again: Vec<String> = today.cases.iter().filter_map(again).collect();
    let mut costs = today.cases.iter().filter_map(|c| c.cost);
    let swaps = costs.any(|c| c.swapped_out > 0.0);
    (swaps || !read_again.is_empty()).then_some(PushedOut { read_again })
}

/// Under which sizes the time says nothing, because writers are stopped at dirty limits for most of it.
fn stops(advice: &Advice) -> Option<String> {
    let is_it = |level: &&Level| level.cases.iter().any(is_stops);
    let sizes: Vec<String> = advice
        .levels
        .iter()
        .filter(is_it)
        .map(|level| {
            let cases = level.cases.iter().filter(|c| is_stops(c));
            let names: Vec<&str> = cases.map(|c| c.variant.as_str()).collect();
            format!("{} ({})", size(level.pages), names.join(", "))
        })
        .collect();
    let (whose, remedy) = match advice.limits_of_host {
        true => ("the machine", ""),
        false => ("the cgroup", "; --dirty-limits host leaves them out"),
    };
    (!sizes.is_empty()).then(|| {
        format!(
            "Most of the time under {} is stops of writers at the dirty limits of {whose}, and says nothing about \
             memory. How long they are depends on how often statistics are folded, which a trace does not \
             tell{remedy}.",
            sizes.join(", ")
        )
    })
}

/// One for each size, and where the knee is.
#[must_use]
pub fn sentences(advice: &Advice) -> Vec<String> {
    let mut all: Vec<String> = advice.levels.iter().map(|l| sentence(advice, l)).collect();
    if let Some(pushed) = pushed_out(advice) {
        all[0].push_str(
            " That has room for all pages of the trace, but page tables and other memory of the kernel count against \
             the limit, too, and push some out (--kernel-memory off leaves them out).",
        );
        if !pushed.read_again.is_empty() {
            all[0].push_str(&format!(
                " So today's figures are of a memory that is too small: {}. What less memory costs is seen against one \
                 that has room, such as --today {}.",
                pushed.read_again.join(", "),
                size(advice.today_pages + advice.today_pages.div_ceil(SPARE)).replace(' ', "")
            ));
        }
    }
    all.extend(stops(advice));
    if let Some(knee) = advice.knee_pages {
        let share = 100.0 * knee as f64 / advice.today_pages as f64;
        all.push(format!(
            "The knee is at {} ({share:.0} % of today's), by exact LRU: below it each page less costs more misses than \
             above. It is where the curve bends; this is no recommendation of that size, since a miss takes far longer than a hit, so what \
             a size costs is what the times say.",
            size(knee)
        ));
    }
    all
}

/// Table and sentences.
#[must_use]
pub fn render_advice(advice: &Advice, style: Style) -> String {
    let mut out = advice_table(advice).text(style);
    out.push('\n');
    for sentence in sentences(advice) {
        out.push_str(&wrap(&sentence, COLUMNS));
        out.push('\n');
    }
    out.push('\n');
    out.push_str(&wrap(NOTE, COLUMNS));
    out.push('\n');
    out
}

/// All of it.
#[must_use]
pub fn advice_json(advice: &Advice) -> String {
    let text = serde_json::to_string_pretty(advice).expect("plain data");
    format!("{text}\n")
}
