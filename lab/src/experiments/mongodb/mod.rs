//! MongoDB under YCSB workload B (`docs/reference/experiments.md#mongodb`): a storage engine with a cache of its own above
//! the page cache, 95 % reads and 5 % updates, in a memcg that is smaller than the data.

mod cache;
mod claims;
mod layout;
mod server;

pub(super) use layout::RECORDS_PER_BLOCK;
pub(super) use server::{hosts, run};

use crate::experiment::{Effort, Experiment, ParamDoc};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mongodb",
    doc: "YCSB B on a storage engine in a 10 GiB memcg, NVMe, no swap",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[],
    effort: Effort::Part("6,000,000 operations", 1),
    scale: 64,
    params: PARAMS,
    costs: COSTS,
    deviations: &[],
    hosts,
    run,
    claims: claims::claims,
    mechanism: &[
        "blocks_per_op",
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
pub(super) const THREADS: ParamDoc = ParamDoc::new("threads", "32", "workers, not scaled");
pub(super) const DIST: ParamDoc =
    ParamDoc::new("dist", "scale-true", "record choice: scale-true or literal");
pub(super) const CHECKPOINT_S: ParamDoc =
    ParamDoc::new("checkpoint_s", "60", "seconds between checkpoints");
pub(super) const CGROUP: ParamDoc = ParamDoc::new(
    "cgroup",
    "v2",
    "hierarchy of the memcg: v2 or v1 (no writeback by memcg)",
);
pub(super) const RAM_MIB: ParamDoc = ParamDoc::new("ram_mib", "131072", "RAM of the host, MiB");
pub(super) const CPUS: ParamDoc = ParamDoc::new("cpus", "96", "CPUs, not scaled");

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
