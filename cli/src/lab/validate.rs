//! `coldset lab validate`: prediction beside measurement.

use super::{export, load_trace, style};
use crate::args::{GuestArgs, ValidateArgs};
use crate::error::{Failure, Verdict};
use crate::kernel::{here, measure, setting, Measured, HERE};
use crate::output::{Outputs, Wanted};
use crate::predict::{beside, nearby, Beside, Setting};
use coldset_lab::report::{human, Align, CounterSummary, Table};
use coldset_lab::runner::{experiment, show_pages, Size};
use coldset_lab::traces::Trace;
use indexmap::IndexMap;
use serde_json::{json, Value};
use std::fmt::Write as _;
use tempfile::NamedTempFile;

/// Rows: heading, counters that are summed.
const ROWS: &[(&str, &[&str])] = &[
    (
        "refaults",
        &["workingset_refault_file", "workingset_refault_anon"],
    ),
    ("scanned", &["pgscan"]),
    ("stolen", &["pgsteal"]),
    ("activated", &["pgactivate"]),
    ("refilled", &["pgrefill"]),
    (
        "refaults activated",
        &["workingset_activate_file", "workingset_activate_anon"],
    ),
    (
        "refaults restored",
        &["workingset_restore_file", "workingset_restore_anon"],
    ),
];

/// A change that counts: below, a kernel's own repeats may differ as much.
const CHANGE: f64 = 0.03;
/// Counts below this are no basis for a ratio.
const FEW: f64 = 100.0;

type Counters = IndexMap<String, CounterSummary>;

/// A kernel beside its variant.
struct Pair {
    kernel: String,
    variant: String,
    measured: Counters,
    predicted: Counters,
    /// The same under limits near the one asked for.
    near: Vec<Counters>,
    /// Where that is from.
    beside: Beside,
}

impl Pair {
    /// What was measured, and the mean of what is predicted with limits near the one asked for: kernels differ by as
    /// much from run to run, as their own memory does.
    fn values(&self, counters: &[&str]) -> Option<(f64, f64)> {
        let each = counters.iter().filter_map(|c| self.measured.get(*c));
        let measured = each.map(|c| c.mean.as_f64()).reduce(|a, b| a + b)?;
        let known = counters.iter().any(|c| self.predicted.contains_key(*c));
        let all = self.predictions(counters);
        known.then(|| (measured, all.iter().sum::<f64>() / all.len() as f64))
    }

    /// What is predicted, with the limit asked for and those near it.
    fn predictions(&self, counters: &[&str]) -> Vec<f64> {
        let all = self.near.iter().chain([&self.predicted]);
        let sum = |c: &Counters| {
            let each = counters.iter().filter_map(|name| c.get(*name));
            each.map(|c| c.mean.as_f64()).sum()
        };
        all.map(sum).collect()
    }

    /// The least and the most of that.
    fn range(&self, counters: &[&str]) -> (f64, f64) {
        let all = self.predictions(counters).into_iter();
        all.fold((f64::INFINITY, 0.0), |(least, most), v| {
            (least.min(v), most.max(v))
        })
    }

    /// Shares of the runs that were killed for want of memory: measured, and predicted.
    fn killed(&self) -> (f64, f64) {
        let share = |all: &Counters| {
            let counter = all.get("events_oom_kill");
            counter.map_or(0.0, |c| c.mean.as_f64().min(1.0))
        };
        (share(&self.measured), share(&self.predicted))
    }

    /// What became of the runs; none where nobody was killed, and nobody was to be.
    fn fate(&self) -> Option<String> {
        let (measured, predicted) = self.killed();
        let of_all = match measured {
            0.0 => "no run was".to_owned(),
            1.0 => "every run was".to_owned(),
            share => format!("{:.0} % of the runs were", share * 100.0),
        };
        let verdict = match (self.is_fate_right(), predicted > 0.0) {
            (true, _) => "as predicted",
            (false, true) => "PREDICTED: killed",
            (false, false) => "PREDICTED: alive",
        };
        let any = measured + predicted > 0.0;
        any.then(|| format!("{of_all} killed for want of memory: {verdict}"))
    }

    /// Most of the runs ended as the lab says.
    fn is_fate_right(&self) -> bool {
        let (measured, predicted) = self.killed();
        (measured > 0.5) == (predicted > 0.5)
    }

    /// Half the distance of the least and the most of what is predicted, as a share of the mean. Runs in one guest may be
    /// closer to each other than runs in several are.
    fn predicted_spread(&self, counters: &[&str]) -> f64 {
        let (least, most) = self.range(counters);
        self.values(counters)
            .map_or(0.0, |(_, mean)| (most - least) / 2.0 / mean.max(1.0))
    }

    /// Half the distance of the least and the greatest of the runs, as a share of the mean; none of one run.
    fn spread(&self, counters: &[&str]) -> Option<f64> {
        let all = counters.iter().filter_map(|c| self.measured.get(*c));
        let runs: Vec<Vec<f64>> = all
            .map(|c| c.per_seed.iter().map(|n| n.as_f64()).collect())
            .collect();
        let sums: Vec<f64> = (0..runs.first().map_or(0, Vec::len))
            .map(|i| runs.iter().map(|r| r[i]).sum())
            .collect();
        let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
        let most = sums.iter().copied().fold(0.0, f64::max);
        let mean = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        (sums.len() > 1 && mean > 0.0).then(|| (most - least) / 2.0 / mean)
    }
}

/// The change of a counter from one kernel to the next, measured and predicted.
struct Change {
    name: &'static str,
    measured: f64,
    predicted: f64,
    /// What the runs of each kernel differ by among themselves, or its predictions, together.
    noise: f64,
}

impl Change {
    /// Too small to count, or of the same sign.
    fn is_right(&self) -> bool {
        self.measured.abs() <= CHANGE.max(self.noise) || self.measured * self.predicted > 0.0
    }

    fn verdict(&self) -> &'static str {
        let size = (self.predicted - self.measured).abs() <= self.measured.abs() / 5.0;
        match self.measured.abs() <= CHANGE {
            true => "no change to speak of",
            false if self.measured.abs() <= self.noise => "within the spread of the runs",
            false if self.predicted == 0.0 => "NOT PREDICTED",
            false if !self.is_right() => "WRONG SIGN",
            false if size => "right",
            false => "right sign, another size",
        }
    }
}

/// Of runs that came to the end of the trace: where one was killed, counts are of another length.
fn changes(before: &Pair, after: &Pair) -> Vec<Change> {
    let killed = [before.killed(), after.killed()];
    if killed.iter().any(|k| k.0 + k.1 > 0.0) {
        return Vec::new();
    }
    let change = |&(name, counters): &(&'static str, &[&str])| {
        let (from, to) = (before.values(counters)?, after.values(counters)?);
        let enough = from.0.min(from.1) >= FEW;
        let spread = |pair: &Pair| {
            let of_runs = pair.spread(counters).unwrap_or(0.0);
            of_runs.max(pair.predicted_spread(counters))
        };
        enough.then(|| Change {
            name,
            noise: spread(before) + spread(after) * to.0 / from.0,
            measured: to.0 / from.0 - 1.0,
            predicted: to.1 / from.1 - 1.0,
        })
    };
    ROWS.iter().filter_map(change).collect()
}

/// The variant that is a kernel: by its version, or classic where the multi-gen LRU is off.
fn variant_of(label: &str) -> Option<&'static str> {
    let (version, policy) = label.split_once(' ')?;
    let mut numbers = version
        .split(['.', '+', '-', '~'])
        .map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next()?, numbers.next()?);
    match (policy, version) {
        ("classic", _) => Some("classic"),
        (_, (6, 12)) => Some("v612"),
        (_, (6, 14..)) => Some("v618"),
        (_, (7, 2)) => Some("v72"),
        (_, (7, 3..)) => Some("v73"),
        _ => None,
    }
}

fn percent(x: f64) -> String {
    format!("{:+.1} %", x * 100.0)
}

fn pair_table(pair: &Pair) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(vec![
        ("", Align::Left),
        right("measured"),
        right("spread"),
        right("predicted"),
        right("error"),
        right("limit ±0.4 %"),
    ]);
    for (name, counters) in ROWS {
        let Some((measured, predicted)) = pair.values(counters) else {
            continue;
        };
        if measured + predicted == 0.0 {
            continue;
        }
        let error = match measured >= FEW {
            true => percent(predicted / measured - 1.0),
            false => "few".into(),
        };
        let spread = pair.spread(counters);
        let spread = spread.map_or_else(String::new, |s| format!("±{:.1} %", s * 100.0));
        let show = |x: f64| human(x.round());
        let (least, most) = pair.range(counters);
        table.row([
            (*name).to_owned(),
            show(measured),
            spread,
            show(predicted),
            error,
            format!("{} to {}", show(least), show(most)),
        ]);
    }
    table
}

fn change_table(changes: &[Change]) -> Table {
    let mut table = Table::new(vec![
        ("", Align::Left),
        ("measured", Align::Right),
        ("predicted", Align::Right),
        ("verdict", Align::Left),
    ]);
    for c in changes {
        let row = [
            c.name.to_owned(),
            percent(c.measured),
            percent(c.predicted),
            c.verdict().into(),
        ];
        table.row(row);
    }
    table
}

/// What disturbed each run.
fn disturbed(played: &Value) -> Vec<&Value> {
    let runs = played["runs"].as_array().into_iter().flatten();
    runs.map(|run| &run["disturbed"]).collect()
}

fn json_of(pairs: &[Pair], measured: &[Measured]) -> String {
    let kernels = pairs.iter().zip(measured).map(|(p, m)| {
        let rows = ROWS.iter().filter_map(|(name, counters)| {
            let (measured, predicted) = p.values(counters)?;
            let (least, most) = p.range(counters);
            let figures = json!({"measured": measured, "predicted": predicted, "spread": p.spread(counters),
                "predicted_least": least, "predicted_most": most});
            Some(((*name).to_owned(), figures))
        });
        json!({
            "kernel": p.kernel,
            "variant": p.variant,
            "machine": m.played["machine"],
            "prediction": p.beside.json(),
            "disturbed": disturbed(&m.played),
            "killed": {"measured": p.killed().0, "predicted": p.killed().1},
            "counters": rows.collect::<serde_json::Map<String, Value>>(),
        })
    });
    let steps = pairs.windows(2).map(|w| {
        let rows = changes(&w[0], &w[1]).into_iter().map(|c| {
            let figures =
                json!({"measured": c.measured, "predicted": c.predicted, "verdict": c.verdict()});
            (c.name.to_owned(), figures)
        });
        json!({
            "from": w[0].kernel,
            "to": w[1].kernel,
            "counters": rows.collect::<serde_json::Map<String, Value>>(),
        })
    });
    let all = json!({"kernels": kernels.collect::<Vec<_>>(), "changes": steps.collect::<Vec<_>>()});
    format!("{all:#}\n")
}

/// The work of an experiment, if it is not a trace that is named.
fn exported(args: &ValidateArgs) -> Result<Option<NamedTempFile>, Failure> {
    let name = args.trace.to_string_lossy();
    if args.trace.exists() || experiment(&name).is_err() {
        return Ok(None);
    }
    let file = tempfile::Builder::new().suffix(".pageops").tempfile();
    let file = file.map_err(|e| Failure::Surroundings(format!("a file for the trace: {e}")))?;
    export::write(&name, &args.work, file.path())?;
    Ok(Some(file))
}

/// What all kernels did, and what a prediction of each is to have: that of the guests, or of the machine that this is.
fn measure_all(
    args: &GuestArgs,
    trace: &Trace,
    of_guests: &Setting,
) -> Result<(Vec<Measured>, Vec<Setting>), Failure> {
    let is_here = |name: &String| name == HERE;
    let guests = GuestArgs {
        kernel: args
            .kernel
            .iter()
            .filter(|k| !is_here(k))
            .cloned()
            .collect(),
        ..args.clone()
    };
    // What may be missing is said before minutes have passed.
    let here = match args.kernel.iter().any(is_here) {
        true => Some(here(args, trace)?),
        false => None,
    };
    let mut booted = match guests.kernel.is_empty() {
        true => Vec::new(),
        false => measure(&guests, trace)?,
    }
    .into_iter();
    let each = args.kernel.iter().filter_map(|name| match &here {
        Some(here) if is_here(name) => Some(here.clone()),
        _ => Some((booted.next()?, of_guests.clone())),
    });
    Ok(each.unzip())
}

/// Runs the command.
///
/// # Errors
/// As `kernel play`; a kernel whose variant is not known and not named.
pub fn run(args: &ValidateArgs) -> Result<Verdict, Failure> {
    let memory = Size::parse("memory", &args.guest.memory)?;
    let exported = exported(args)?;
    let path = exported.as_ref().map_or(args.trace.as_path(), |f| f.path());
    let (trace, _) = load_trace(path, &args.reading, args.guest.tasks.reading())?;
    let setting = setting(&args.guest, &trace)?;
    let outputs = Outputs::open(Wanted {
        json: args.form.json.as_deref(),
        ..Wanted::default()
    })?;
    let mut guest = args.guest.clone();
    let named: Vec<Option<String>> = guest
        .kernel
        .iter_mut()
        .map(|text| {
            let (kernel, variant) = text.rsplit_once('=')?;
            let (kernel, variant) = (kernel.to_owned(), variant.to_owned());
            *text = kernel;
            Some(variant)
        })
        .collect();
    let (measured, settings) = measure_all(&guest, &trace, &setting)?;
    let mut pairs = Vec::new();
    for ((m, setting), named) in measured.iter().zip(&settings).zip(named) {
        let known = named.or_else(|| variant_of(&m.label).map(str::to_owned));
        let variant = known.ok_or_else(|| {
            Failure::Usage(format!(
                "{}: no variant is this kernel; name one: KERNEL=VARIANT",
                m.label
            ))
        })?;
        let setting = setting.clone().at_times_of(&m.played);
        let mut beside = beside(
            &trace,
            std::slice::from_ref(&variant),
            setting.clone(),
            IndexMap::new(),
            0,
        )?;
        let near = nearby(&trace, &variant, &setting)?;
        let predicted = std::mem::take(&mut beside.table.result.variants);
        let predicted = predicted.into_iter().next();
        pairs.push(Pair {
            kernel: m.label.clone(),
            variant,
            measured: m.counters.clone(),
            predicted: predicted.map(|(_, counters)| counters).unwrap_or_default(),
            near,
            beside,
        });
    }
    let steps: Vec<Vec<Change>> = pairs.windows(2).map(|w| changes(&w[0], &w[1])).collect();
    let good = steps.iter().flatten().all(Change::is_right);
    let good = good && pairs.iter().all(Pair::is_fate_right);
    let text = || {
        let mut out = format!(
            "{}: {} accesses; memory {}; {} run{} a kernel\n",
            args.trace.display(),
            human(trace.ops().len() as f64),
            show_pages(memory.pages_of(trace.unique_pages)),
            guest.runs.count(),
            if guest.runs.count() == 1 { "" } else { "s" },
        );
        let style = style(args.form.markdown);
        for (p, m) in pairs.iter().zip(&measured) {
            let _ = write!(
                out,
                "\n{} beside {}\n\n{}{}",
                p.kernel,
                p.variant,
                pair_table(p).text(style),
                p.beside.text(),
            );
            for remark in p.fate().into_iter().chain(m.remarks()) {
                let _ = writeln!(out, "{remark}");
            }
        }
        for (w, step) in pairs.windows(2).zip(&steps).filter(|(_, s)| !s.is_empty()) {
            let _ = writeln!(
                out,
                "\nfrom {} to {}\n\n{}",
                w[0].kernel,
                w[1].kernel,
                change_table(step).text(style)
            );
        }
        out
    };
    outputs.write_text_or_json(text, || json_of(&pairs, &measured))?;
    Ok(Verdict::of(good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_their_variants() {
        for (label, variant) in [
            ("6.12.95+deb13-cloud-amd64 multi-gen", Some("v612")),
            ("6.18.44-fc-v657 classic", Some("classic")),
            ("6.18.15 multi-gen", Some("v618")),
            ("7.2.12+deb14-cloud-amd64 multi-gen", Some("v72")),
            ("7.4.0~rc1 multi-gen", Some("v73")),
            ("5.10.0 multi-gen", None),
            ("nonsense", None),
        ] {
            assert_eq!(variant_of(label), variant, "{label}");
        }
    }

    #[test]
    fn a_change_of_the_wrong_sign_is_told() {
        let change = |measured, predicted| Change {
            name: "refaults",
            measured,
            predicted,
            noise: 0.05,
        };
        assert_eq!(change(0.02, -0.5).verdict(), "no change to speak of");
        let noise = change(-0.04, 0.5);
        assert_eq!(noise.verdict(), "within the spread of the runs");
        assert!(noise.is_right());
        assert_eq!(change(0.10, 0.11).verdict(), "right");
        assert_eq!(change(0.10, 0.30).verdict(), "right sign, another size");
        assert_eq!(change(0.10, -0.01).verdict(), "WRONG SIGN");
        assert_eq!(change(0.10, 0.0).verdict(), "NOT PREDICTED");
        assert!(!change(0.10, 0.0).is_right());
        assert!(!change(0.10, -0.01).is_right() && change(0.02, -0.5).is_right());
    }
}
