//! The results of `fidelity` as tables and JSON.

use super::summary;
use super::verdict::{FLUSHER, RULE, SWITCHED_OUT};
use super::{Checked, Verdict, Within};
use coldset_report::{human, Align, Number, Style, Table};
use serde_json::{json, Value};
use std::fmt::Write;

/// Per cent of a ratio minus one.
fn percent(error: Option<f64>) -> String {
    error.map_or_else(|| "-".into(), |e| format!("{:+.2} %", e * 100.0))
}

/// Counters on the way: those that tell where two runs part.
const ON_THE_WAY: [&str; 6] = [
    "workingset_refault_anon",
    "workingset_refault_file",
    "pgscan",
    "pgsteal",
    "pgactivate",
    "pgrefill",
];

/// The runs point by point, ours above the kernel's, with the generations at each: a table a case and policy.
#[must_use]
pub fn render_series(checked: &[Checked], style: Style) -> String {
    let mut out = String::new();
    for c in checked {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "Linux {}, {}, {} (lab variant {})\n",
            c.kernel.release,
            c.case.name(),
            c.policy.recorded,
            c.policy.variant,
        );
        let mut columns = vec![("accesses", Align::Right), ("", Align::Left)];
        columns.extend(ON_THE_WAY.map(|name| (name, Align::Right)));
        columns.push(("generations: number, anonymous + file pages", Align::Left));
        let mut table = Table::new(columns);
        for (ours, kernel) in &c.points {
            let get = |name: &str| {
                ours.counters
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|&(_, v)| v as f64)
            };
            let of_kernel = |name: &str| kernel.get(name).map(|v| v as f64);
            let cells = |value: &dyn Fn(&str) -> Option<f64>| {
                ON_THE_WAY.map(|name| value(name).map_or_else(|| "-".into(), human))
            };
            let row = |first: String, who: &str, cells: [String; 6], generations: &[[u64; 3]]| {
                let mut row = vec![first, who.to_owned()];
                row.extend(cells);
                row.push(generations_text(generations));
                row
            };
            table.row(row(
                ours.access.to_string(),
                "ours",
                cells(&get),
                &ours.generations,
            ));
            let theirs = kernel.lru_gen.as_deref().unwrap_or_default();
            table.row(row(String::new(), "kernel", cells(&of_kernel), theirs));
        }
        let _ = writeln!(out, "{}", table.text(style));
    }
    out
}

/// `5: 0+4433, 6: 3+5307`.
fn generations_text(generations: &[[u64; 3]]) -> String {
    let one = |&[seq, anon, file]: &[u64; 3]| format!("{seq}: {anon}+{file}");
    generations.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// One table a case and policy, and a last line with the number of cases that are in.
#[must_use]
pub fn render_fidelity(checked: &[Checked], style: Style) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    for c in checked {
        let _ = writeln!(
            out,
            "Linux {}, {}, {} (lab variant {}): {} (tolerance {} %)\n",
            c.kernel.release,
            c.case.name(),
            c.policy.recorded,
            c.policy.variant,
            if c.pass() { "in" } else { "OUT" },
            c.tolerance_permille as f64 / 10.0
        );
        let columns = [
            ("counter", Align::Left),
            ("ours", Align::Right),
            ("kernel", Align::Right),
            ("error", Align::Right),
            ("kernel's repeats", Align::Right),
            ("verdict", Align::Left),
        ];
        let mut table = Table::new(columns);
        for j in &c.counters {
            let k = &j.counter;
            if k.ours == 0.0 && k.kernel == 0.0 {
                continue;
            }
            table.row([
                k.name.to_owned(),
                human((k.ours * 10.0).round() / 10.0),
                human(k.kernel),
                percent(k.error),
                format!(
                    "\u{b1}{:.2} % of {}",
                    k.kernel_spread * 100.0,
                    k.repeats.len()
                ),
                j.verdict.text().into(),
            ]);
        }
        out.push_str(&table.text(style));
        for why in [SWITCHED_OUT, FLUSHER] {
            let names: Vec<&str> = c
                .counters
                .iter()
                .filter(|j| j.verdict == Verdict::Exempt(why))
                .map(|j| j.counter.name)
                .collect();
            if !names.is_empty() {
                let _ = writeln!(out, "exempt: {}: {why}", names.join(", "));
            }
        }
        out.push('\n');
    }
    for c in checked.iter().filter(|c| !c.pass()) {
        let names: Vec<String> = c
            .counters
            .iter()
            .filter(|j| j.verdict == Verdict::Out)
            .map(|j| format!("{} {}", j.counter.name, percent(j.counter.error)))
            .collect();
        let _ = writeln!(
            out,
            "OUT {} {} {}: {}",
            c.kernel.name,
            c.case.name(),
            c.policy.recorded,
            names.join(", "),
        );
    }
    let good = checked.iter().filter(|c| c.pass()).count();
    let count = |f: fn(Verdict) -> bool| {
        let all = checked.iter().flat_map(|c| &c.counters);
        all.filter(|j| (j.counter.ours != 0.0 || j.counter.kernel != 0.0) && f(j.verdict))
            .count()
    };
    let _ = writeln!(
        out,
        "\nError over the cases of a kernel, median and worst (a case recorded without DAMON as well counts as recorded without):\n\n{}",
        summary::render(checked, style)
    );
    let _ = writeln!(
        out,
        "{RULE}\n\nJudged counters: {} within the tolerance, {} within 32 pages, {} within the kernel's own \
         spread, {} within the range of phases, {} \
         at one of the kernel's outcomes, {} out; {} exempt.\n{good} of {} cases in.",
        count(|v| v == Verdict::In(Within::Tolerance)),
        count(|v| v == Verdict::In(Within::Pages)),
        count(|v| v == Verdict::In(Within::Spread)),
        count(|v| v == Verdict::In(Within::Phases)),
        count(|v| v == Verdict::In(Within::Outcome)),
        count(|v| v == Verdict::Out),
        count(|v| matches!(v, Verdict::Exempt(_))),
        checked.len(),
    );
    out
}

/// `{"cases": [{"kernel", "case", "policy", "variant", "tolerance", "pass", "counters": {NAME: {"ours",
/// "kernel", "error", "kernel_spread", "repeats", "verdict", "reason"}}}], "summary": {KERNEL: {FIGURE: {"cases", "median", "worst",
/// "worst_case"}}}, "rule", "in", "of"}`.
#[must_use]
pub fn fidelity_json(checked: &[Checked]) -> String {
    let real = |x: f64| Number::Real(x).to_json();
    let case = |c: &Checked| -> Value {
        let counters: serde_json::Map<String, Value> = c
            .counters
            .iter()
            .map(|j| {
                let value = json!({
                    "ours": real(j.counter.ours),
                    "kernel": real(j.counter.kernel),
                    "error": j.counter.error.map_or(Value::Null, real),
                    "kernel_spread": real(j.counter.kernel_spread),
                    "repeats": j.counter.repeats.len(),
                    "verdict": match j.verdict {
                        Verdict::Shown => Value::Null,
                        v => v.name().to_lowercase().into(),
                    },
                    "reason": j.verdict.reason(),
                });
                (j.counter.name.to_owned(), value)
            })
            .collect();
        json!({
            "kernel": c.kernel.release,
            "case": c.case.name(),
            "policy": c.policy.recorded,
            "variant": c.policy.variant,
            "tolerance": c.tolerance_permille as f64 / 1000.0,
            "pass": c.pass(),
            "counters": counters,
        })
    };
    let cases: Vec<Value> = checked.iter().map(case).collect();
    let good = checked.iter().filter(|c| c.pass()).count();
    format!(
        "{:#}\n",
        json!({"cases": cases, "summary": summary::json(checked), "rule": RULE, "in": good, "of": checked.len()})
    )
}
