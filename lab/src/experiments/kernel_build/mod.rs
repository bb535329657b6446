//! Kernel build (`docs/reference/experiments.md#kernel-build`): make -j96 on tmpfs in a memcg of 3 GiB, swapped to zram. The
//! published result is system time: noise, or slightly better.

mod build;
mod jobs;
mod tree;

use crate::experiment::{Effort, Experiment, ParamDoc, Quick, MEMBERS_MAX};
use coldset_report::{Band, Claim};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kernel-build",
    doc: "make -j96 of a kernel on tmpfs in a 3 GiB memcg, zram",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[],
    effort: Effort::Part("build of 2,800 files", build::EFFORT_DIVISOR),
    quick: Quick::share(500),
    scale: 16,
    params: PARAMS,
    costs: &["exec_ns", "open_ns"],
    deviations: &[],
    hosts: &build::hosts,
    run: &build::run,
    claims: &claims,
    mechanism: &[
        "system_share",
        "pgmajfault",
        "pgscan",
        "pgsteal",
        "pgactivate",
        "workingset_refault_anon",
        "workingset_refault_file",
        "pswpin",
        "pswpout",
        "aging_runs",
        "walk_ptes",
        "limit_reclaim",
        "zero_progress",
    ],
};

/// Parameters at scale 1. Sizes and times of a process shrink with the scale, their number does not.
const PARAMS: &[ParamDoc] = &[
    ParamDoc::new("limit_mib", "3072", "limit of the memcg, MiB"),
    ParamDoc::new("jobs", "96", "jobs at a time, not scaled").up_to(MEMBERS_MAX),
    ParamDoc::new(
        "units",
        "2800",
        "files to compile, before effort, not scaled [I]",
    )
    .up_to(MEMBERS_MAX),
    ParamDoc::new(
        "directories",
        "160",
        "groups they are in, archived each, before effort [I]",
    )
    .up_to(MEMBERS_MAX),
    ParamDoc::new("swap_mib", "12288", "size of the swap device, MiB"),
    ParamDoc::new(
        "zram",
        "lzo-rle",
        "algorithm of the swap device: lz4, lzo, lzo-rle, zstd",
    )
    .one_of("lz4, lzo, lzo-rle or zstd"),
    ParamDoc::new("tree_mib", "1434", "the source tree on tmpfs, MiB"),
    ParamDoc::new(
        "charged_permille",
        "333",
        "share of the tree charged to the memcg, thousandths [I]",
    ),
    ParamDoc::new("text_mib", "32", "text of the compiler, on disk, MiB"),
    ParamDoc::new("text_hot_mib", "22", "part of it in use, MiB"),
    ParamDoc::new(
        "retouch_percent",
        "40",
        "share of a compiler's memory in use until it exits, per cent",
    ),
    ParamDoc::new(
        "retouches",
        "8",
        "touches of that part for each new page [I]",
    ),
    ParamDoc::new("cpus", "96", "CPUs, not scaled"),
];

/// Acceptance rows (`docs/reference/experiments.md#kernel-build`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    let mut rows = vec![
        Claim::ratio("system time", "system_ms", before, after)
            .within(0.94, 1.02)
            .published_pair(2589.63, 2543.58)
            .unit("ms")
            .lower_is_better(),
        Claim::predicate("build finishes, no OOM", move |v| {
            let mut fine = true;
            for name in [&b, &a] {
                fine &= v.get(name, "oom_kill")? == 0.0;
                fine &= v.get(name, "units_left")? == 0.0;
            }
            Ok(fine)
        })
        .always(Band::exactly(1.0)),
        Claim::ratio("swap-ins", "pswpin", before, after)
            .noise_of(0.10)
            .unit("pages"),
    ];
    // The cost model's anchor (`docs/rules/machine.md#costs`): a factor of 3 is a finding.
    rows.push(
        Claim::value("system time of a unit, after", "system_s_per_unit", after)
            .direction_within(Band::between(0.3, 2.7))
            .published(0.9)
            .unit("s"),
    );
    rows
}
