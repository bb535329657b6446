//! MySQL under sysbench oltp_read_only (`docs/reference/experiments.md#mysql`): a buffer pool of 24 GiB in a memcg of
//! 2 GiB, swapped to zram. The published result is "no difference", at every step of the series.

mod claims;
mod server;
mod tables;

use crate::experiment::{Effort, Experiment, ParamDoc, Quick, MEMBERS_MAX};

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
    quick: Quick {
        effort_permille: 31,
        params: &[("warm_up_s", "4")],
    },
    scale: 16,
    params: PARAMS,
    costs: &["sql_statement_ns"],
    deviations: &[],
    hosts: &server::hosts,
    run: &server::run,
    claims: &claims::claims,
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
    ParamDoc::new("limit_mib", "2048", "limit of the memcg, MiB"),
    ParamDoc::new(
        "pool_bytes",
        "26106127360",
        "innodb_buffer_pool_size, bytes",
    ),
    ParamDoc::new("tables", "48", "tables, not scaled").up_to(MEMBERS_MAX),
    ParamDoc::new("rows", "2000000", "rows of a table"),
    ParamDoc::new("threads", "48", "clients, not scaled").up_to(MEMBERS_MAX),
    ParamDoc::new(
        "rand",
        "special",
        "row choice: special (75 % in 1 % of the rows) or uniform",
    )
    .one_of("special or uniform"),
    ParamDoc::new("time_s", "600", "measured time, s, before effort"),
    ParamDoc::new("warm_up_s", "60", "time before measuring, s"),
    ParamDoc::new(
        "rows_per_leaf",
        "73",
        "rows of a leaf of 16 KiB (206 bytes at 15/16 fill)",
    ),
    ParamDoc::new(
        "secondary_mib",
        "34",
        "secondary index of a table, loaded and not read, MiB",
    ),
    ParamDoc::new(
        "descriptor_bytes",
        "368",
        "descriptor of a pool page, written at every access to the page [I]",
    ),
    ParamDoc::new("other_mib", "307", "other memory of the server, MiB [I]"),
    ParamDoc::new(
        "other_hot_percent",
        "10",
        "share of it in use, per cent [I]",
    ),
    ParamDoc::new("thread_kib", "1024", "memory of each thread, KiB [I]"),
    ParamDoc::new("files_mib", "100", "program text and logs, MiB [I]"),
    ParamDoc::new(
        "files_hot_percent",
        "20",
        "share of them in use, per cent [I]",
    ),
    ParamDoc::new("swap_mib", "65536", "size of the swap device, MiB"),
    ParamDoc::new(
        "zram",
        "lzo-rle",
        "algorithm of the swap device: lz4, lzo, lzo-rle, zstd",
    )
    .one_of("lz4, lzo, lzo-rle or zstd"),
    ParamDoc::new("cpus", "96", "CPUs, not scaled"),
];
