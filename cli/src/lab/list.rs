//! `coldset lab list`.

use crate::args::ListArgs;
use crate::error::{Failure, Verdict};
use crate::output::print;
use coldset_engine::presets::{PRESETS, SUFFIXES};
use coldset_engine::switches::SwitchInfo;
use coldset_engine::Switches;
use coldset_lab::experiments::{Experiment, EXPERIMENTS};
use coldset_lab::fidelity::Case;
use coldset_lab::replay;
use coldset_lab::report::{Align, Deviation, Grid, Style};
use coldset_lab::runner::{show_scale, RunnerError, Variant};
use coldset_lab::traces::Format;
use coldset_machine::device::{DeviceKind, ZramAlgorithm};
use serde_json::{json, Value};

/// Indented JSON with a final newline.
pub fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// What a trace format is.
pub fn format_doc(format: Format) -> &'static str {
    match format {
        Format::PageOps => "this project's own: records of 8 bytes",
        Format::OracleGeneral => "libCacheSim oracleGeneral: records of 24 bytes",
        Format::Arc => "ARC .lis: first block, number of blocks",
        Format::Lirs => "LIRS: one page a line",
        Format::CloudPhysics => "CloudPhysics block numbers: 32 bits, little-endian",
        Format::CloudPhysicsCsv => "CloudPhysics requests with reads and writes: CSV",
        Format::Address => "loads and stores by address: text",
        Format::Cache2k => "cache2k keys: 32 bits, big-endian",
        Format::Csv => "CSV with a column named page",
        Format::Lackey => "Valgrind's lackey, --trace-mem=yes",
        Format::Perf => "perf script: events of the page cache, page faults",
        Format::Ftrace => "ftrace (trace, trace_pipe, trace-cmd report): the same events",
        Format::Fio => "fio --write_iolog, versions 2 and 3",
        Format::Blkparse => "blkparse: requests to block devices",
    }
}

/// What a device is.
pub fn device_doc(device: DeviceKind) -> &'static str {
    match device {
        DeviceKind::Nvme => "consumer NVMe drive",
        DeviceKind::NvmeFast => "low-latency NVMe drive",
        DeviceKind::Sata => "SATA SSD",
        DeviceKind::Hdd => "disk with 7200 revolutions per minute",
        DeviceKind::Net => "network block device",
        DeviceKind::Ufs => "storage of a phone",
        DeviceKind::NvmeSwap => "swap files on an NVMe drive, 90 us",
        DeviceKind::Delayed => "consumer NVMe drive behind a delay",
        DeviceKind::Ramdisk => "RAM disk, synchronous",
    }
}

/// Every switch as it is in `base`.
fn switches() -> Result<Vec<SwitchInfo>, RunnerError> {
    Ok(Variant::parse("base", &[])?.switches.describe())
}

/// Every deviation from the table of costs, with the experiment that declares it.
pub fn deviations() -> Vec<(&'static str, Deviation)> {
    let of = EXPERIMENTS.iter().map(|e| (e.name, e.deviations));
    let of = of.chain([("lab replay", replay::DEVIATIONS)]);
    of.flat_map(|(name, all)| all.iter().map(move |d| (name, d.shown())))
        .collect()
}

fn left(columns: &[&'static str]) -> Grid {
    let columns: Vec<_> = columns.iter().map(|c| (*c, Align::Left)).collect();
    Grid::new(Style::Plain, &columns)
}

fn text(args: &ListArgs) -> Result<String, RunnerError> {
    let mut out = String::new();
    let mut section = |heading: &str, grid: &Grid| {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(heading);
        out.push_str("\n\n");
        out.push_str(&grid.render());
    };
    let mut grid = left(&["experiment", "section", "scale", "before", "after", "what"]);
    for e in EXPERIMENTS {
        grid.row(
            [
                e.name,
                e.section,
                &show_scale(e.scale),
                e.before,
                e.after,
                e.doc,
            ]
            .map(String::from)
            .into(),
        );
    }
    section("Experiments (coldset lab run EXPERIMENT)", &grid);
    if args.params {
        let mut grid = left(&["experiment", "parameter", "default", "what"]);
        for e in EXPERIMENTS {
            for p in e.params {
                grid.row([e.name, p.name, p.default, p.doc].map(String::from).into());
            }
        }
        section("Parameters (--param NAME=VALUE)", &grid);
    }
    let mut grid = left(&["experiment", "effort 1"]);
    for e in EXPERIMENTS {
        grid.row(vec![e.name.into(), e.effort.share(1000)]);
    }
    section("Effort (--effort)", &grid);
    let mut grid = left(&["of", "cost", "here", "table", "why", "source"]);
    for (of, d) in deviations() {
        let (here, table) = (d.value.to_string(), d.table.to_string());
        grid.row(vec![of.into(), d.name, here, table, d.why, d.source]);
    }
    let heading =
        "Deviations from the one table of costs (lab params); --cost NAME=VALUE overrides them";
    section(heading, &grid);
    let mut grid = left(&["variant", "also called", "what"]);
    for p in PRESETS {
        grid.row(vec![p.names[0].into(), p.names[1..].join(", "), p.what()]);
    }
    section(
        "Variants (--variants NAME[+SUFFIX][+SWITCH=VALUE],...)",
        &grid,
    );
    let mut grid = left(&["suffix", "what"]);
    for s in SUFFIXES {
        grid.row([s.name, s.doc].map(String::from).into());
    }
    section("Suffixes, behind any variant", &grid);
    if args.switches {
        let mut grid = left(&["switch", "takes", "in base", "what"]);
        for s in switches()? {
            grid.row(vec![s.name.into(), s.accepts.into(), s.value, s.doc]);
        }
        section("Switches (--set SWITCH=VALUE)", &grid);
    }
    let mut grid = left(&["format", "what"]);
    for format in Format::ALL {
        grid.row(vec![format.name().into(), format_doc(format).into()]);
    }
    section(
        "Trace formats (--format), plain or packed with gzip, zstd or xz",
        &grid,
    );
    let mut grid = left(&["device", "what"]);
    for device in DeviceKind::ALL {
        grid.row(vec![device.name().into(), device_doc(device).into()]);
    }
    section("Devices (--swap DEVICE:SIZE)", &grid);
    out.push_str("\nSwap in memory (--swap zram:SIZE:ALGORITHM): ");
    out.push_str(&ZramAlgorithm::ALL.map(ZramAlgorithm::name).join(", "));
    out.push_str("\nCases of fidelity (--cases): ");
    out.push_str(&Case::ALL.map(Case::name).join(", "));
    let more: Vec<&str> = [
        (!args.params).then_some("--params for the experiments' parameters"),
        (!args.switches).then_some("--switches for the switches"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !more.is_empty() {
        out.push_str(&format!("\n\nMore: {}.", more.join(", ")));
    }
    out.push('\n');
    Ok(out)
}

fn json() -> Result<Value, RunnerError> {
    let experiment = |e: &Experiment| {
        let params: Vec<Value> = e
            .params
            .iter()
            .map(|p| json!({"name": p.name, "default": p.default, "what": p.doc}))
            .collect();
        json!({
            "name": e.name,
            "section": e.section,
            "scale": show_scale(e.scale),
            "before": e.before,
            "after": e.after,
            "what": e.doc,
            "effort": e.effort.share(1000),
            "deviations": e.deviations.iter().map(|d| d.shown()).collect::<Vec<_>>(),
            "params": params,
        })
    };
    let experiments: Vec<Value> = EXPERIMENTS.iter().map(experiment).collect();
    let variants: Vec<Value> = PRESETS
        .iter()
        .map(|p| json!({"name": p.names[0], "aliases": p.names[1..], "what": p.doc, "paper": p.paper}))
        .collect();
    let suffixes: Vec<Value> = SUFFIXES
        .iter()
        .map(|s| json!({"name": s.name, "what": s.doc}))
        .collect();
    let switches: Vec<Value> = switches()?
        .into_iter()
        .map(|s| json!({"name": s.name, "accepts": s.accepts, "base": s.value, "what": s.doc}))
        .collect();
    debug_assert_eq!(switches.len(), Switches::NAMES.len());
    let formats = Format::ALL.map(|f| json!({"name": f.name(), "what": format_doc(f)}));
    let devices = DeviceKind::ALL.map(|d| json!({"name": d.name(), "what": device_doc(d)}));
    Ok(json!({
        "experiments": experiments,
        "replay": {
            "deviations": replay::DEVIATIONS.iter().map(|d| d.shown()).collect::<Vec<_>>(),
        },
        "variants": variants,
        "suffixes": suffixes,
        "switches": switches,
        "formats": formats.to_vec(),
        "devices": devices.to_vec(),
        "zram_algorithms": ZramAlgorithm::ALL.map(ZramAlgorithm::name).to_vec(),
        "cases": Case::ALL.map(Case::name).to_vec(),
    }))
}

/// Runs the command.
///
/// # Errors
/// Output that cannot be written.
pub fn run(args: &ListArgs) -> Result<Verdict, Failure> {
    print(&if args.json {
        pretty(&json()?)
    } else {
        text(args)?
    })?;
    Ok(Verdict::Good)
}
