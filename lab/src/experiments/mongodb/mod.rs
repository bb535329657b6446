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

pub(super) const LIMIT_MIB: ParamDoc = ParamDoc {
    name: "limit_mib",
    default: "10240",
    doc: "limit of the memcg, MiB",
};
pub(super) const CACHE_MIB: ParamDoc = ParamDoc {
    name: "cache_mib",
    default: "4608",
    doc: "cache of the storage engine, MiB",
};
pub(super) const HEAP_MIB: ParamDoc = ParamDoc {
    name: "heap_mib",
    default: "358",
    doc: "other anonymous memory, MiB",
};
pub(super) const THREADS: ParamDoc = ParamDoc {
    name: "threads",
    default: "32",
    doc: "workers, not scaled",
};
pub(super) const DIST: ParamDoc = ParamDoc {
    name: "dist",
    default: "scale-true",
    doc: "record choice: scale-true or literal",
};
pub(super) const CHECKPOINT_S: ParamDoc = ParamDoc {
    name: "checkpoint_s",
    default: "60",
    doc: "seconds between checkpoints",
};
pub(super) const CGROUP: ParamDoc = ParamDoc {
    name: "cgroup",
    default: "v2",
    doc: "hierarchy of the memcg: v2 or v1 (no writeback by memcg)",
};
pub(super) const RAM_MIB: ParamDoc = ParamDoc {
    name: "ram_mib",
    default: "131072",
    doc: "RAM of the host, MiB",
};
pub(super) const CPUS: ParamDoc = ParamDoc {
    name: "cpus",
    default: "96",
    doc: "CPUs, not scaled",
};

/// Parameters at scale 1; times shrink with the scale.
pub const PARAMS: &[ParamDoc] = &[
    LIMIT_MIB,
    CACHE_MIB,
    HEAP_MIB,
    ParamDoc {
        name: "records",
        default: "20000000",
        doc: "records of 1.17 KB, 27 a block",
    },
    ParamDoc {
        name: "operations",
        default: "6000000",
        doc: "operations",
    },
    THREADS,
    ParamDoc {
        name: "update_percent",
        default: "5",
        doc: "share of updates, per cent",
    },
    DIST,
    ParamDoc {
        name: "device",
        default: "nvme",
        doc: "device of the data",
    },
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
