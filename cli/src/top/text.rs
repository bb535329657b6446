//! Sizes, times and rates as text; the table of `--once`.

use super::change::Change;
use crate::output::escaped;
use coldset_pager::observe::{GroupSnapshot, Lists, ProcessSnapshot, Snapshot};
use std::borrow::Cow;
use std::fmt::Write;

/// Bytes with a unit, three figures or so.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut v = n as f64;
    let mut unit = 0;
    while v >= 1024.0 && unit + 1 < UNITS.len() {
        v /= 1024.0;
        unit += 1;
    }
    if unit == 0 || v >= 100.0 || v.fract() == 0.0 {
        format!("{v:.0} {}", UNITS[unit])
    } else {
        format!("{v:.1} {}", UNITS[unit])
    }
}

/// A duration with a unit.
pub fn time(ns: u64) -> String {
    let v = ns as f64;
    match ns {
        0..=999 => format!("{ns} ns"),
        1_000..=999_999 => format!("{:.1} us", v / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} ms", v / 1e6),
        1_000_000_000..=119_999_999_999 => format!("{:.1} s", v / 1e9),
        _ => format!("{} min", ns / 60_000_000_000),
    }
}

/// With a comma between groups of three digits.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// Events in a second.
pub fn rate(v: f64) -> String {
    if v > 0.0 && v < 10.0 {
        format!("{v:.1}")
    } else {
        count(v.round() as u64)
    }
}

/// A sum of numbers of another process, which may be any.
pub fn sum(all: impl IntoIterator<Item = u64>) -> u64 {
    all.into_iter().fold(0, u64::saturating_add)
}

/// Text of another process, which may hold anything: what a terminal would obey is shown as it is written in a program.
pub fn shown(text: &str) -> Cow<'_, str> {
    // Beside the control characters, those that turn the direction of what follows.
    escaped(text, |c| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

/// What a pool is.
pub fn title(p: &Snapshot) -> String {
    let age = time(p.age_ns);
    format!(
        "pool {}, policy {}, {}, {age} old",
        p.pool,
        shown(&p.policy),
        shown(&p.fault_mode)
    )
}

/// Where its budget goes.
pub fn budget(p: &Snapshot) -> String {
    let used = sum([p.resident_bytes, p.store_bytes]);
    let percent = u128::from(used) * 100 / u128::from(p.budget_bytes.max(1));
    format!(
        "{} of {} ({percent}%): pages {}, store {}; peak {}",
        bytes(used),
        bytes(p.budget_bytes),
        bytes(p.resident_bytes),
        bytes(p.store_bytes),
        bytes(p.peak_bytes)
    )
}

/// Dirty pages and swap.
pub fn elsewhere(p: &Snapshot) -> String {
    format!(
        "dirty {}; swap {} of {}; regions: {}, {}",
        bytes(p.dirty_bytes),
        bytes(p.swap_used_bytes),
        bytes(p.swap_bytes),
        p.regions.len(),
        bytes(sum(p.regions.iter().map(|r| r.bytes)))
    )
}

/// Groups, each after the one it is in.
pub fn groups(root: &GroupSnapshot) -> Vec<&GroupSnapshot> {
    let mut all = vec![root];
    let mut at = 0;
    while at < all.len() {
        // Children go right behind their parent.
        for (i, c) in all[at].children.iter().enumerate() {
            all.insert(at + 1 + i, c);
        }
        at += 1;
    }
    all
}

/// Usage and limits of a group.
pub fn group(g: &GroupSnapshot) -> String {
    let mut out = format!("{}  {}", shown(&g.name), bytes(g.usage_bytes));
    if let Some(max) = g.max_bytes {
        let _ = write!(out, " of {}", bytes(max));
    }
    for (name, value) in [
        ("min", Some(g.min_bytes)),
        ("low", Some(g.low_bytes)),
        ("high", g.high_bytes),
        ("swap", Some(g.swap_bytes)),
    ] {
        if let Some(v) = value.filter(|&v| v > 0) {
            let _ = write!(out, ", {name} {}", bytes(v));
        }
    }
    out
}

/// A line of a group's lists: its name, anonymous and file pages.
pub fn lists(l: &Lists) -> Vec<(String, u64, u64)> {
    match l {
        Lists::Generations { generations, .. } => {
            let line = |g: &coldset_pager::observe::Generation| {
                let name = format!("gen {}, {}", g.seq, time(g.age_ns));
                (name, g.anon_pages, g.file_pages)
            };
            generations.iter().rev().map(line).collect()
        }
        Lists::Classic {
            inactive_anon,
            active_anon,
            inactive_file,
            active_file,
        } => vec![
            ("active".into(), *active_anon, *active_file),
            ("inactive".into(), *inactive_anon, *inactive_file),
        ],
    }
}

/// A pool as a table.
pub fn pool(p: &Snapshot, c: &Change) -> String {
    let mut out = format!("\n{}\n", title(p));
    if let Some(why) = &p.fallback {
        let _ = writeln!(out, "  fallback: {}", shown(why));
    }
    let _ = writeln!(out, "  {}\n  {}\n", budget(p), elsewhere(p));
    let _ = writeln!(out, "  in a second, over {:.1} s", c.seconds);
    for (name, v) in &c.rates {
        let _ = writeln!(out, "    {name:<18}{:>14}", rate(*v));
    }
    let _ = writeln!(
        out,
        "\n  latency               events       p50       p99       max"
    );
    for (name, d) in &c.latencies {
        let times = [d.median_ns(), d.p99_ns(), d.max_ns];
        let _ = write!(out, "    {name:<18}{:>8}", count(d.count));
        for t in times {
            let shown = if d.count == 0 { "-".into() } else { time(t) };
            let _ = write!(out, "{shown:>10}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "\n  groups{:>30}{:>14}", "anon pages", "file pages");
    for g in groups(&p.groups) {
        let _ = writeln!(out, "    {}", group(g));
        for (name, anon, file) in lists(&g.lists) {
            if sum([anon, file]) > 0 {
                let _ = writeln!(
                    out,
                    "      {name:<20}{:>10}{:>14}",
                    count(anon),
                    count(file)
                );
            }
        }
    }
    out
}

/// Processes, a line each.
pub fn processes(all: &[ProcessSnapshot]) -> String {
    let mut out = format!(
        "{:>8}  {:<24}{:>6}{:>12}{:>12}{:>12}\n",
        "PID", "program", "pools", "budget", "pages", "store"
    );
    for p in all {
        let all = |f: fn(&Snapshot) -> u64| bytes(sum(p.pools.iter().map(f)));
        let _ = writeln!(
            out,
            "{:>8}  {:<24}{:>6}{:>12}{:>12}{:>12}",
            p.pid,
            shown(&p.program),
            p.pools.len(),
            all(|s| s.budget_bytes),
            all(|s| s.resident_bytes),
            all(|s| s.store_bytes)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_text_of_a_process() {
        assert_eq!(shown("/tables \u{e4}"), "/tables \u{e4}");
        assert_eq!(
            shown("a\x1b[2J\nb\u{9b}\u{202e}"),
            "a\\u{1b}[2J\\nb\\u{9b}\\u{202e}"
        );
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(6_100), "6.1 us");
        assert_eq!(time(2_500_000_000), "2.5 s");
        assert_eq!(time(600_000_000_000), "10 min");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(rate(0.5), "0.5");
        assert_eq!(rate(1234.4), "1,234");
    }
}
