//! `coldset lab validate`: prediction beside measurement.

mod measures;
mod origin;
mod pair;

use super::{export, load_trace, style};
use crate::args::{GuestArgs, ValidateArgs};
use crate::error::{Failure, Verdict};
use crate::kernel::{here, measure, setting, Measured, HERE};
use crate::output::Outputs;
use crate::predict::{beside, nearby, version, Look, Setting};
use crate::scratch;
use coldset_lab::report::{human, Align, Table};
use coldset_lab::runner::{experiment, show_pages, Size};
use coldset_lab::traces::Trace;
use indexmap::IndexMap;
use measures::{Measures, Recorded};
use origin::Origin;
use pair::{changes, Change, Pair, FEW, ROWS};
use serde_json::{json, Value};
use std::fmt::Write as _;
use std::path::Path;
use tempfile::NamedTempFile;

/// The variant that is a kernel: by its version, or classic where the multi-gen LRU is off.
fn variant_of(label: &str) -> Option<&'static str> {
    let (_, policy) = label.split_once(' ')?;
    match (policy, version(label)?) {
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
    for row in ROWS {
        let Some((measured, predicted)) = pair.values(row) else {
            continue;
        };
        if measured + predicted == 0.0 {
            continue;
        }
        let error = match measured >= FEW {
            true => percent(predicted / measured - 1.0),
            false => "few".into(),
        };
        let spread = pair.measures.row(row.0).and_then(|f| f.spread);
        let spread = spread.map_or_else(String::new, |s| format!("±{:.1} %", s * 100.0));
        let show = |x: f64| human(x.round());
        let (least, most) = pair.range(row);
        table.row([
            row.0.to_owned(),
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

fn json_of(pairs: &[Pair], origin: &Origin) -> String {
    let kernels = pairs.iter().map(|p| {
        let rows = ROWS.iter().filter_map(|row| {
            let (measured, predicted) = p.values(row)?;
            let (least, most) = p.range(row);
            let spread = p.measures.row(row.0)?.spread;
            let figures = json!({"measured": measured, "predicted": predicted, "spread": spread,
                "predicted_least": least, "predicted_most": most});
            Some((row.0.to_owned(), figures))
        });
        json!({
            "kernel": p.measures.label,
            "variant": p.variant,
            "machine": p.measures.machine,
            "prediction": p.beside.json(),
            "disturbed": p.measures.disturbed,
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
            "from": w[0].measures.label,
            "to": w[1].measures.label,
            "counters": rows.collect::<serde_json::Map<String, Value>>(),
        })
    });
    let mut all = origin.fields();
    all.insert("kernels".into(), kernels.collect());
    all.insert("changes".into(), steps.collect());
    let all = Value::from(all);
    format!("{all:#}\n")
}

/// The work of an experiment, if it is not a trace that is named.
fn exported(args: &ValidateArgs) -> Result<Option<NamedTempFile>, Failure> {
    let name = args.trace.to_string_lossy();
    if args.trace.exists() || experiment(&name).is_err() {
        return Ok(None);
    }
    let file = scratch::file("a file for the trace", ".pageops")?;
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
        false => measure(&guests, trace, false)?,
    }
    .into_iter();
    let each = args.kernel.iter().filter_map(|name| match &here {
        Some(here) if is_here(name) => Some(here.clone()),
        _ => Some((booted.next()?, of_guests.clone())),
    });
    Ok(each.unzip())
}

/// A kernel that is to be predicted: what it did, which variant it is, and what its prediction is to have.
struct Case {
    measures: Measures,
    variant: String,
    setting: Setting,
}

/// Kernels that are measured now.
fn measured(args: &GuestArgs, trace: &Trace, of_guests: &Setting) -> Result<Vec<Case>, Failure> {
    let mut guest = args.clone();
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
    let (measured, settings) = measure_all(&guest, trace, of_guests)?;
    let case = |((m, setting), named): ((&Measured, Setting), Option<String>)| {
        let known = named.or_else(|| variant_of(&m.label).map(str::to_owned));
        let variant = known.ok_or_else(|| {
            Failure::Usage(format!(
                "{}: no variant is this kernel; name one: KERNEL=VARIANT",
                m.label
            ))
        })?;
        Ok(Case {
            measures: Measures::of(m),
            variant,
            setting: setting
                .on_kernel(&m.label)
                .on_machine_of(&m.played)
                .at_times_of(&m.played, args.runs),
        })
    };
    measured.iter().zip(settings).zip(named).map(case).collect()
}

/// Kernels that have been measured before.
fn recorded(path: &Path, origin: &Origin, of_guests: &Setting) -> Result<Vec<Case>, Failure> {
    let case = |kernel: Recorded| {
        let setting = of_guests.clone().on_kernel(&kernel.measures.label);
        let setting = setting.with_clocks(kernel.clock, kernel.clocks);
        Case {
            measures: kernel.measures,
            variant: kernel.variant,
            setting: match kernel.room {
                Some(room) => setting.with_rooms(room, kernel.rooms),
                None => setting,
            },
        }
    };
    Ok(Recorded::read(path, origin)?
        .into_iter()
        .map(case)
        .collect())
}

/// The limit that was asked for is replayed twice, and not for nothing: alone its fold of statistics is where that of a
/// replay is, and among its neighbours in the middle of the interval.
fn predicted(trace: &Trace, case: Case) -> Result<Pair, Failure> {
    let Case {
        measures,
        variant,
        setting,
    } = case;
    let named = std::slice::from_ref(&variant);
    let mut beside = beside(
        trace,
        named,
        setting.clone(),
        IndexMap::new(),
        Look::default(),
    )?;
    let near = nearby(trace, &variant, &setting)?;
    let predicted = std::mem::take(&mut beside.table.result.variants);
    let predicted = predicted.into_iter().next();
    Ok(Pair {
        measures,
        variant,
        predicted: predicted.map(|(_, counters)| counters).unwrap_or_default(),
        near,
        beside,
    })
}

/// Runs the command.
///
/// # Errors
/// As `kernel play`; a kernel whose variant is not known and not named; a record that cannot be read.
pub fn run(args: &ValidateArgs) -> Result<Verdict, Failure> {
    let memory = Size::parse("memory", &args.guest.memory)?;
    let exported = exported(args)?;
    let path = exported.as_ref().map_or(args.trace.as_path(), |f| f.path());
    let (trace, _) = load_trace(path, &args.reading, args.guest.tasks.reading())?;
    let setting = setting(&args.guest, &trace)?;
    let pages = memory.pages_of(trace.unique_pages);
    let origin = Origin::of(&args.trace, exported.is_some(), &trace, pages);
    let trace_file = ("the trace", &*args.trace);
    let recorded_file = args.recorded.as_deref().map(|file| ("--recorded", file));
    let besides = [trace_file].into_iter().chain(recorded_file);
    let outputs = Outputs::open_json(args.form.json.as_deref(), besides)?;
    let cases = match &args.recorded {
        Some(path) => recorded(path, &origin, &setting)?,
        None => measured(&args.guest, &trace, &setting)?,
    };
    let each = cases.into_iter().map(|case| predicted(&trace, case));
    let pairs = each.collect::<Result<Vec<Pair>, _>>()?;
    let steps: Vec<Vec<Change>> = pairs.windows(2).map(|w| changes(&w[0], &w[1])).collect();
    let good = steps.iter().flatten().all(Change::is_right);
    let good = good && pairs.iter().all(Pair::is_fate_right);
    let text = || {
        let mut out = format!(
            "{}: {} accesses; memory {}; {} run{} a kernel\n",
            args.trace.display(),
            human(trace.ops().len() as f64),
            show_pages(pages),
            args.guest.runs.count(),
            if args.guest.runs.count() == 1 {
                ""
            } else {
                "s"
            },
        );
        let style = style(args.form.markdown);
        for p in &pairs {
            let _ = write!(
                out,
                "\n{} beside {}\n\n{}{}",
                p.measures.label,
                p.variant,
                pair_table(p).text(style),
                p.beside.text(),
            );
            for remark in p.fate().iter().chain(&p.measures.remarks) {
                let _ = writeln!(out, "{remark}");
            }
        }
        for (w, step) in pairs.windows(2).zip(&steps).filter(|(_, s)| !s.is_empty()) {
            let _ = writeln!(
                out,
                "\nfrom {} to {}\n\n{}",
                w[0].measures.label,
                w[1].measures.label,
                change_table(step).text(style)
            );
        }
        out
    };
    outputs.write_text_or_json(text, || json_of(&pairs, &origin))?;
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
}
