//! MongoDB on slow devices (`docs/reference/experiments.md#slow-io`): the server of `mongodb` over a grid of device, size
//! of the data and share of updates.

use super::mongodb;
use crate::experiment::{Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput};
use coldset_report::{Band, Claim, ReportError, RunResult, SeedView};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "slow-io",
    doc: "the mongodb server on HDD and network storage, by size of the data and share of updates",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[],
    effort: Effort::Own("8 operations for each block of data"),
    quick: Quick::share(750),
    scale: 64,
    params: PARAMS,
    costs: mongodb::COSTS,
    deviations: mongodb::DEVIATIONS,
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "hdd.20M.u5.blocks_per_op",
        "hdd.20M.u5.dirty_moved_up",
        "hdd.20M.u5.dirty_reactivated",
        "hdd.20M.u5.unqueued_dirty",
        "hdd.20M.u5.flusher_wakeups",
        "hdd.20M.u5.aging_runs",
        "hdd.6M.u50.blocks_per_op",
        "hdd.6M.u50.dirty_moved_up",
        "hdd.6M.u50.dirty_reactivated",
        "hdd.6M.u50.unqueued_dirty",
        "hdd.6M.u50.flusher_wakeups",
        "hdd.6M.u50.aging_runs",
    ],
};

/// Parameters at scale 1. All but the grid are those of the server and go to it unchanged.
const PARAMS: &[ParamDoc] = &[
    ParamDoc::new("devices", "hdd,net", "devices of the grid, comma-separated"),
    ParamDoc::new(
        "records",
        "20000000,7000000,6000000",
        "records of the grid, comma-separated",
    ),
    ParamDoc::new(
        "update_percents",
        "5,20,50",
        "shares of updates of the grid, per cent, comma-separated",
    ),
    ParamDoc::new(
        "reference",
        "nvme",
        "device to compare with, run with the first share of updates; none = not",
    ),
    ParamDoc::new(
        "ops_per_block",
        "8",
        "operations of a cell, by blocks of data",
    ),
    ParamDoc::new(
        "wide_device",
        "net",
        "device that is also run with wide read-ahead, with the first number of records; none = not",
    ),
    ParamDoc::new(
        "wide_kb",
        "4096",
        "that read-ahead, KiB: what tuned sets by throughput-performance, its profile for servers",
    ),
    mongodb::LIMIT_MIB,
    mongodb::CACHE_MIB,
    mongodb::HEAP_MIB,
    mongodb::THREADS,
    mongodb::DIST,
    mongodb::CHECKPOINT_S,
    mongodb::CGROUP,
    mongodb::READ_AHEAD_KB,
    mongodb::DIRTY_LIMITS,
    mongodb::EVICT_QUEUE,
    mongodb::RAM_MIB,
    mongodb::CPUS,
];

/// Parameters of this experiment that the server does not know.
const OF_THE_GRID: &[&str] = &[
    "devices",
    "records",
    "update_percents",
    "reference",
    "ops_per_block",
    "wide_device",
    "wide_kb",
];
/// What is kept of each cell.
const KEPT: &[&str] = &[
    "throughput",
    "latency_us",
    "blocks_per_op",
    "pgpgin",
    "pgpgout",
    "workingset_refault_file",
    "pgscan",
    "pgsteal",
    "dirty_moved_up",
    "dirty_reactivated",
    "unqueued_dirty",
    "writeback_seen",
    "flusher_wakeups",
    "throttle_waits",
    "aging_runs",
    "zero_progress",
    "oom_kill",
];

/// One cell of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    device: String,
    records: u64,
    update_percent: u64,
    /// Read-ahead that is not the server's, KiB.
    wide_kb: Option<u64>,
}

impl Cell {
    /// Name before its counters: `hdd.20M.u5`, `net.20M.u5.ra4096`.
    fn name(&self) -> String {
        let million = 1_000_000;
        let records = if self.records.is_multiple_of(million) {
            format!("{}M", self.records / million)
        } else {
            self.records.to_string()
        };
        let wide = self.wide_kb.map(|kb| format!(".ra{kb}"));
        let wide = wide.unwrap_or_default();
        format!("{}.{records}.u{}{wide}", self.device, self.update_percent)
    }
}

/// The cells that the parameters ask for, in order.
fn cells(input: &RunInput) -> Result<Vec<Cell>, ExperimentError> {
    let words = |name| {
        let text = input.text(name);
        text.split(',').map(str::trim).filter(|w| !w.is_empty())
    };
    let numbers = |name: &'static str| -> Result<Vec<u64>, ExperimentError> {
        words(name)
            .map(|w| {
                let number = w.parse().map_err(|_| ExperimentError::Param {
                    name: name.into(),
                    value: w.into(),
                    expected: "whole numbers, comma-separated",
                })?;
                input.fits(name, number)
            })
            .collect()
    };
    let (records, updates) = (numbers("records")?, numbers("update_percents")?);
    let cell = |device: &str, records, update_percent, wide_kb| Cell {
        device: device.into(),
        records,
        update_percent,
        wide_kb,
    };
    let mut cells = Vec::new();
    for device in words("devices") {
        for &n in &records {
            cells.extend(updates.iter().map(|&u| cell(device, n, u, None)));
        }
    }
    let wide = input.text("wide_device");
    if let Some(&n) = records.first().filter(|_| wide != "none") {
        let kb = Some(input.number("wide_kb")?);
        cells.extend(updates.iter().map(|&u| cell(wide, n, u, kb)));
    }
    let reference = input.text("reference");
    if reference != "none" && !words("devices").any(|d| d == reference) {
        let first = updates.first();
        cells.extend(
            records
                .iter()
                .flat_map(|&n| first.map(|&u| cell(reference, n, u, None))),
        );
    }
    Ok(cells)
}

/// What the server is given for a cell.
fn of_cell(input: &RunInput, cell: &Cell) -> Result<RunInput, ExperimentError> {
    let blocks = cell.records / mongodb::RECORDS_PER_BLOCK;
    let operations = blocks * input.number("ops_per_block")?;
    let mut own = input.clone();
    own.declared = mongodb::PARAMS;
    own.params
        .retain(|(name, _)| !OF_THE_GRID.contains(&name.as_str()));
    for (name, value) in [
        ("device", cell.device.clone()),
        ("records", cell.records.to_string()),
        ("update_percent", cell.update_percent.to_string()),
        ("operations", operations.to_string()),
    ] {
        own.params.push((name.into(), value));
    }
    if let Some(kb) = cell.wide_kb {
        own.params.retain(|(name, _)| name != "read_ahead_kb");
        own.params.push(("read_ahead_kb".into(), kb.to_string()));
    }
    Ok(own)
}

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    let mut hosts = Vec::new();
    for cell in cells(input)? {
        let name = format!("{}.", cell.name());
        let host = mongodb::host(&of_cell(input, &cell)?)?;
        hosts.push(Host { name, ..host });
    }
    Ok(hosts)
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let mut all = RunResult::new(&input.variant, input.seed);
    for cell in cells(input)? {
        let own = of_cell(input, &cell)?;
        let done = mongodb::run_alone(&own)?;
        let cell = cell.name();
        for &name in KEPT {
            if let Some(&value) = done.counters.get(name) {
                all.set(format!("{cell}.{name}"), value);
            }
        }
        all.take_shapes(&format!("{cell}."), done);
    }
    Ok(all)
}

/// Throughput of a cell, after over before.
fn ratio(v: &SeedView<'_>, before: &str, after: &str, cell: &str) -> Result<f64, ReportError> {
    let name = format!("{cell}.throughput");
    if !v.has(before, &name)? {
        return Err(ReportError::NoCell(format!("cell {cell}")));
    }
    Ok(v.get(after, &name)? / v.get(before, &name)?.max(f64::MIN_POSITIVE))
}

/// Ratios of all cells on slow devices.
fn ratios(v: &SeedView<'_>, before: &str, after: &str) -> Result<Vec<f64>, ReportError> {
    let cells: Vec<&str> = v
        .names(before)?
        .filter_map(|name| name.strip_suffix(".throughput"))
        .filter(|cell| !cell.starts_with("nvme."))
        .collect();
    if cells.is_empty() {
        return Err(ReportError::NoCell("a slow device".into()));
    }
    cells
        .into_iter()
        .map(|cell| ratio(v, before, after, cell))
        .collect()
}

/// Where it is shown that a disk cannot show a difference.
const DISK: &str = "docs/acceptance.md#a-disk-is-too-slow-to-meet-its-dirty-pages";

/// Where it is shown that the worst of many cells is out by chance.
const CHANCE: &str = "docs/acceptance.md#the-worst-of-21-cells";

/// Acceptance rows (`docs/reference/experiments.md#slow-io`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let over = |figure: fn(f64, f64) -> f64| {
        let (b, a) = (before.to_string(), after.to_string());
        move |v: &SeedView<'_>| {
            let all = ratios(v, &b, &a)?;
            Ok(all.into_iter().reduce(figure).unwrap_or(1.0))
        }
    };
    let mut rows = vec![
        Claim::derived("throughput ratio, worst cell", over(f64::min))
            .always(Band::at_least(0.97))
            .higher_is_better()
            .cannot(CHANCE),
        Claim::derived("throughput ratio, best cell", over(f64::max))
            .within_band(Band::at_least(2.0))
            .published("over 100 % gain for some workloads")
            .note("wide read-ahead included")
            .higher_is_better(),
    ];
    for (device, shown) in [("hdd", DISK), ("net", "")] {
        let cell = format!("{device}.20M.u5");
        let pair = || (before.to_string(), after.to_string(), cell.clone());
        let (b, a, c) = pair();
        rows.push(
            Claim::derived(format!("throughput ratio, {cell}"), move |v| {
                ratio(v, &b, &a, &c)
            })
            .within(1.2, 2.2)
            .published("larger than on NVMe (1.28)")
            .higher_is_better()
            .cannot(shown),
        );
        let (b, a, c) = pair();
        rows.push(
            Claim::derived(format!("throughput ratio, {cell} less nvme"), move |v| {
                Ok(ratio(v, &b, &a, &c)? - ratio(v, &b, &a, "nvme.20M.u5")?)
            })
            .within_band(Band::at_least(-0.05))
            .cannot(shown),
        );
    }
    for records in ["20M", "7M", "6M"] {
        for (quick, slow, shown) in [("nvme", "net", ""), ("net", "hdd", DISK)] {
            let (b, a) = (before.to_string(), after.to_string());
            rows.push(
                Claim::derived(
                    format!("ratio grows from {quick} to {slow}, {records}"),
                    move |v| {
                        let of = |device| ratio(v, &b, &a, &format!("{device}.{records}.u5"));
                        Ok(of(slow)? - of(quick)?)
                    },
                )
                .direction_within(Band::at_least(f64::EPSILON))
                .cannot(shown),
            );
        }
    }
    // Two plain LRUs of the same sizes: whether the generator has the right data at all.
    for (records, misses) in [("20M", 0.59), ("7M", 0.28), ("6M", 0.20)] {
        let a = after.to_string();
        rows.push(
            Claim::derived(
                format!("blocks read per op, net.{records}.u5, after"),
                move |v| {
                    let name = format!("net.{records}.u5.blocks_per_op");
                    if !v.has(&a, &name)? {
                        return Err(ReportError::NoCell(format!("cell net.{records}.u5")));
                    }
                    v.get(&a, &name)
                },
            )
            .direction_within(Band::around(misses, 0.08))
            .published(misses)
            .note("published: two plain LRUs of the same sizes"),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Variant;

    fn input(params: &[(&str, &str)]) -> RunInput {
        let switches = Variant::parse("v5", &[]).unwrap().switches;
        RunInput {
            scale: 512,
            effort_permille: 200,
            params: params.iter().map(|&(n, v)| (n.into(), v.into())).collect(),
            ..EXPERIMENT.input("v5", switches)
        }
    }

    #[test]
    fn default_grid_is_eighteen_cells_the_wide_ones_and_the_reference() {
        let all = cells(&input(&[])).unwrap();
        assert_eq!(all.len(), 18 + 3 + 3);
        assert_eq!(all[0].name(), "hdd.20M.u5");
        assert_eq!(all[17].name(), "net.6M.u50");
        assert_eq!(all[19].name(), "net.20M.u20.ra4096");
        assert_eq!(all[23].name(), "nvme.6M.u5");
        let one = input(&[
            ("devices", "net"),
            ("records", "1500000"),
            ("reference", "none"),
            ("wide_device", "none"),
        ]);
        let names: Vec<_> = cells(&one).unwrap().iter().map(Cell::name).collect();
        assert_eq!(
            names,
            ["net.1500000.u5", "net.1500000.u20", "net.1500000.u50"]
        );
    }

    #[test]
    fn mistakes_in_the_grid_are_named() {
        let e = cells(&input(&[("records", "20000000,many")])).unwrap_err();
        assert!(e.to_string().contains("'many'"), "{e}");
        let e = run(&input(&[("devices", "tape"), ("reference", "none")])).unwrap_err();
        assert!(e.to_string().contains("'tape'"), "{e}");
    }

    /// The device is the server's: the same work takes longer on a slower one, and a larger share
    /// of updates writes more.
    #[test]
    fn cells_differ_as_their_parameters_do() {
        let done = run(&input(&[
            ("records", "6000000"),
            ("update_percents", "5,50"),
            ("wide_kb", "2048"),
        ]))
        .unwrap();
        let get = |name: &str| done.counters[name].as_f64();
        assert!(get("nvme.6M.u5.throughput") > 1.2 * get("net.6M.u5.throughput"));
        assert!(get("net.6M.u5.throughput") > 2.0 * get("hdd.6M.u5.throughput"));
        assert!(get("net.6M.u50.pgpgout") > 3.0 * get("net.6M.u5.pgpgout"));
        assert!(!done.counters.contains_key("nvme.6M.u50.throughput"));
        assert!(get("net.6M.u5.ra2048.pgpgin") != get("net.6M.u5.pgpgin"));
    }
}
