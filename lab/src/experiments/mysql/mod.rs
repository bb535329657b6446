//! MySQL under sysbench oltp_read_only (`docs/reference/experiments.md#mysql`): a buffer pool of 24 GiB in a memcg of
//! 2 GiB, swapped to zram. The published result is "no difference", at every step of the series.

mod claims;
mod server;
mod tables;

use crate::experiment::{Effort, Experiment, ParamDoc};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mysql",
    doc: "sysbench oltp_read_only on a buffer pool far above its memcg, zram; steps: --variants base,step4,...",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[
        "classic", "step4", "step5", "step6", "step7", "step8", "step9", "step10", "step14",
    ],
    effort: Effort::Part("600 s", server::EFFORT_DIVISOR),
    scale: 16,
    params: PARAMS,
    costs: &["sql_statement_ns"],
    deviations: &[],
    hosts: server::hosts,
    run: server::run,
    claims: claims::claims,
    mechanism: &[
        "swap_ins_per_transaction",
        "pgmajfault",
        "pgscan",
        "pgsteal",
        "pgactivate",
        "workingset_refault_anon",
        "workingset_refault_file",
        "aging_runs",
        "walk_ptes",
        "walk_promoted",
        "limit_reclaim",
        "zero_progress",
        "abort_after_aging",
    ],
};

/// Parameters at scale 1; times and sizes shrink with the scale.
const PARAMS: &[ParamDoc] = &[
    ParamDoc {
        name: "limit_mib",
        default: "2048",
        doc: "limit of the memcg, MiB",
    },
    ParamDoc {
        name: "pool_bytes",
        default: "26106127360",
        doc: "innodb_buffer_pool_size, bytes",
    },
    ParamDoc {
        name: "tables",
        default: "48",
        doc: "tables, not scaled",
    },
    ParamDoc {
        name: "rows",
        default: "2000000",
        doc: "rows of a table",
    },
    ParamDoc {
        name: "threads",
        default: "48",
        doc: "clients, not scaled",
    },
    ParamDoc {
        name: "rand",
        default: "special",
        doc: "row choice: special (75 % in 1 % of the rows) or uniform",
    },
    ParamDoc {
        name: "time_s",
        default: "600",
        doc: "measured time, s, before effort",
    },
    ParamDoc {
        name: "warm_up_s",
        default: "60",
        doc: "time before measuring, s",
    },
    ParamDoc {
        name: "rows_per_leaf",
        default: "73",
        doc: "rows of a leaf of 16 KiB (206 bytes at 15/16 fill)",
    },
    ParamDoc {
        name: "secondary_mib",
        default: "34",
        doc: "secondary index of a table, loaded and not read, MiB",
    },
    ParamDoc {
        name: "descriptor_bytes",
        default: "368",
        doc: "descriptor of a pool page, written at every access to the page [I]",
    },
    ParamDoc {
        name: "other_mib",
        default: "307",
        doc: "other memory of the server, MiB [I]",
    },
    ParamDoc {
        name: "other_hot_percent",
        default: "10",
        doc: "share of it in use, per cent [I]",
    },
    ParamDoc {
        name: "thread_kib",
        default: "1024",
        doc: "memory of each thread, KiB [I]",
    },
    ParamDoc {
        name: "files_mib",
        default: "100",
        doc: "program text and logs, MiB [I]",
    },
    ParamDoc {
        name: "files_hot_percent",
        default: "20",
        doc: "share of them in use, per cent [I]",
    },
    ParamDoc {
        name: "swap_mib",
        default: "65536",
        doc: "size of the swap device, MiB",
    },
    ParamDoc {
        name: "zram",
        default: "lzo-rle",
        doc: "algorithm of the swap device: lz4, lzo, lzo-rle, zstd",
    },
    ParamDoc {
        name: "cpus",
        default: "96",
        doc: "CPUs, not scaled",
    },
];
