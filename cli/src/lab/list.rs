//! `coldset lab list`.

use crate::args::ListArgs;
use crate::error::{Failure, Verdict};
use crate::output::print;
use coldset_engine::presets::{PRESETS, SUFFIXES};
use coldset_engine::switches::SwitchInfo;
use coldset_engine::Switches;
use coldset_lab::experiment::Experiment;
use coldset_lab::experiments::EXPERIMENTS;
use coldset_lab::fidelity::Case;
use coldset_lab::replay;
use coldset_lab::report::Table;
use coldset_lab::runner::{deviations, show_scale, RunnerError, Variant};
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
        Format::Msr => "MSR Cambridge (SNIA): block requests, CSV",
        Format::Alibaba => "Alibaba: block requests, CSV",
        Format::Tencent => "Tencent CBS (SNIA): block requests, CSV; not recognised",
        Format::Twitter => "Twitter: commands to caches, CSV",
        Format::Wikipedia => "Wikimedia's CDN, upload of 2019: text",
        Format::Csv => "CSV with a column named page; any other text by what its columns hold: --columns time,page,-",
        Format::Lackey => "Valgrind's lackey, --trace-mem=yes",
        Format::Perf => {
            "perf script, and bpftrace with scripts/pages.bt: the page cache, calls, page faults"
        }
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

/// Suffixes of variants.
fn suffixes() -> Table {
    let mut table = Table::of_words(["suffix", "what"]);
    for s in SUFFIXES {
        table.row([s.name, s.doc]);
    }
    table
}

/// Trace formats.
fn formats() -> Table {
    let mut table = Table::of_words(["format", "what"]);
    for format in Format::ALL {
        table.row([format.name(), format_doc(format)]);
    }
    table
}

/// Devices.
fn devices() -> Table {
    let mut table = Table::of_words(["device", "what"]);
    for device in DeviceKind::ALL {
        table.row([device.name(), device_doc(device)]);
    }
    table
}

fn text(args: &ListArgs) -> Result<String, RunnerError> {
    let mut out = String::new();
    let mut section = |heading: &str, table: &Table| {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(heading);
        out.push_str("\n\n");
        out.push_str(&table.text(super::style(false)));
    };
    let mut table = Table::of_words(["experiment", "scale", "before", "after", "what"]);
    for e in EXPERIMENTS {
        table.row([e.name, &show_scale(e.scale), e.before, e.after, e.doc]);
    }
    section("Experiments (coldset lab run EXPERIMENT)", &table);
    if args.params {
        let mut table = Table::of_words(["experiment", "parameter", "default", "what"]);
        for e in EXPERIMENTS {
            for p in e.params {
                table.row([e.name, p.name, p.default, p.doc]);
            }
        }
        section("Parameters (--param NAME=VALUE)", &table);
    }
    let mut table = Table::of_words(["experiment", "effort 1"]);
    for e in EXPERIMENTS {
        table.row([e.name.to_owned(), e.effort.share(1000)]);
    }
    section("Effort (--effort)", &table);
    let mut table = Table::of_words(["of", "cost", "here", "table", "why", "source"]);
    for (of, d) in deviations() {
        let (here, usual) = (d.value.to_string(), d.table.to_string());
        table.row([of.to_owned(), d.name, here, usual, d.why, d.source]);
    }
    section(
        "Deviations from the one table of costs (lab params); --cost NAME=VALUE overrides them",
        &table,
    );
    let mut table = Table::of_words(["variant", "also called", "what"]);
    for p in PRESETS {
        table.row([p.names[0].to_owned(), p.names[1..].join(", "), p.what()]);
    }
    section(
        "Variants (--variants NAME[+SUFFIX][+SWITCH=VALUE],...)",
        &table,
    );
    section("Suffixes, behind any variant", &suffixes());
    if args.switches {
        let mut table = Table::of_words(["switch", "takes", "in base", "what"]);
        for s in switches()? {
            table.row([s.name.to_owned(), s.accepts.into(), s.value, s.doc]);
        }
        section("Switches (--set SWITCH=VALUE)", &table);
    }
    section(
        "Trace formats (--format), plain or packed with gzip, zstd or xz",
        &formats(),
    );
    section("Devices (--swap DEVICE:SIZE)", &devices());
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
            "source": e.source,
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
    let switches: Vec<Value> = switches()?
        .into_iter()
        .map(|s| json!({"name": s.name, "accepts": s.accepts, "base": s.value, "what": s.doc}))
        .collect();
    debug_assert_eq!(switches.len(), Switches::NAMES.len());
    Ok(json!({
        "experiments": experiments,
        "replay": {
            "deviations": replay::DEVIATIONS.iter().map(|d| d.shown()).collect::<Vec<_>>(),
        },
        "variants": variants,
        "suffixes": suffixes().json(),
        "switches": switches,
        "formats": formats().json(),
        "devices": devices().json(),
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
