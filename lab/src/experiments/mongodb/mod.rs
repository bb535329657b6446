//! MongoDB under YCSB workload B (`docs/reference/experiments.md#mongodb`): a storage engine with a cache of its own above
//! the page cache, 95 % reads and 5 % updates, in a memcg that is smaller than the data.

mod cache;
mod claims;
mod layout;
mod server;
mod setting;
mod windows;

pub(super) use layout::RECORDS_PER_BLOCK;

use crate::experiment::{
    Deviation, Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput, MEMBERS_MAX,
};
use coldset_report::RunResult;
use setting::Setting;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mongodb",
    doc: "YCSB B on a storage engine in a 10 GiB memcg, NVMe, no swap",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[CLASSIC],
    effort: Effort::Part("6,000,000 operations", 1),
    quick: Quick::WHOLE,
    scale: 64,
    params: PARAMS,
    costs: COSTS,
    deviations: DEVIATIONS,
    hosts: &hosts,
    run: &run,
    claims: &claims::claims,
    mechanism: &[
        "blocks_per_op",
        "async_windows",
        "async_windows_dirty",
        "dirty_share",
        "ra128.blocks_per_op",
        "pgscan",
        "pgsteal",
        "pgrefill",
        "pgactivate",
        "pgrotated",
        "dirty_moved_up",
        "dirty_reactivated",
        "unqueued_dirty",
        "writeback_seen",
        "flusher_wakeups",
        "throttle_waits",
        "aging_runs",
        "limit_reclaim",
        "zero_progress",
    ],
};

pub(super) const LIMIT_MIB: ParamDoc =
    ParamDoc::new("limit_mib", "10240", "limit of the memcg, MiB");
pub(super) const CACHE_MIB: ParamDoc =
    ParamDoc::new("cache_mib", "4608", "cache of the storage engine, MiB");
pub(super) const HEAP_MIB: ParamDoc =
    ParamDoc::new("heap_mib", "358", "other anonymous memory, MiB");
pub(super) const THREADS: ParamDoc =
    ParamDoc::new("threads", "32", "workers, not scaled").up_to(MEMBERS_MAX);
pub(super) const DIST: ParamDoc =
    ParamDoc::new("dist", "scale-true", "record choice: scale-true or literal")
        .one_of("scale-true or literal");
pub(super) const CHECKPOINT_S: ParamDoc =
    ParamDoc::new("checkpoint_s", "60", "seconds between checkpoints");
pub(super) const CGROUP: ParamDoc = ParamDoc::new(
    "cgroup",
    "v2",
    "hierarchy of the memcg: v2 or v1 (no writeback by memcg)",
)
.one_of("v2 or v1");
pub(super) const RAM_MIB: ParamDoc = ParamDoc::new("ram_mib", "131072", "RAM of the host, MiB");
pub(super) const CPUS: ParamDoc = ParamDoc::new("cpus", "96", "CPUs, not scaled");

pub(super) const READ_AHEAD_KB: ParamDoc = ParamDoc::new(
    "read_ahead_kb",
    "512",
    "largest window of read-ahead, KiB: assumed, the kernel's default is 128",
);
pub(super) const DIRTY_LIMITS: ParamDoc = ParamDoc::new(
    "dirty_limits",
    "host",
    "whose dirty pages are limited and flushed together: host or memcg (with the io controller)",
);
pub(super) const EVICT_QUEUE: ParamDoc = ParamDoc::new(
    "evict_queue",
    "100",
    "victims that an eviction worker takes on at a time, not scaled",
);

/// The variant that has always flushed so.
const CLASSIC: &str = "classic";

/// The drive was the bottleneck: 23 of 32 workers waited for it, and it gave no more than this.
pub(super) const DEVIATIONS: &[Deviation] = &[Deviation {
    name: "nvme_read_bytes_per_s",
    value: 1_700_000_000,
    machine: "",
    why: "the published run reads 1.70 GB/s while 23 of its 32 workers wait for the drive",
    source:
        "published pgpgin over published run time, before the series: 159,347,462 KiB in 96.0 s",
}];

/// Parameters at scale 1; times shrink with the scale.
pub const PARAMS: &[ParamDoc] = &[
    LIMIT_MIB,
    CACHE_MIB,
    HEAP_MIB,
    ParamDoc::new("records", "20000000", "records of 1.17 KB, 27 a block"),
    ParamDoc::new("operations", "6000000", "operations"),
    THREADS,
    ParamDoc::new("update_percent", "5", "share of updates, per cent"),
    DIST,
    ParamDoc::new("device", "nvme", "device of the data"),
    CHECKPOINT_S,
    CGROUP,
    READ_AHEAD_KB,
    DIRTY_LIMITS,
    EVICT_QUEUE,
    ParamDoc::new(
        "controls",
        "on",
        "also runs without read-ahead, and so on: on or off",
    ),
    RAM_MIB,
    CPUS,
];

/// What the server charges.
pub(super) const COSTS: &[&str] = &[
    "storage_op_hit_ns",
    "storage_op_fill_ns",
    "ycsb_client_op_ns",
    "heap_touch_page_ns",
    "cache_retry_ns",
];

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    let all = Setting::all(input)?.into_iter();
    Ok(all.map(|setting| setting.host).collect())
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let mut r = RunResult::new(&input.variant, input.seed);
    for setting in Setting::all(input)? {
        server::run(input, setting, &mut r)?;
    }
    Ok(r)
}

/// The machine of the server alone, without controls.
///
/// # Errors
/// Parameters that cannot be used.
pub(super) fn host(input: &RunInput) -> Result<Host, ExperimentError> {
    Ok(Setting::main(input)?.host)
}

/// Runs the server alone, without controls.
///
/// # Errors
/// Parameters that cannot be used, or a failed operation of the server.
pub(super) fn run_alone(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let mut r = RunResult::new(&input.variant, input.seed);
    server::run(input, Setting::main(input)?, &mut r)?;
    Ok(r)
}
