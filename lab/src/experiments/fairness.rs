//! Browsers and servers in 32 memcgs, twice as much as fits (`docs/reference/experiments.md#fairness`): does reclaim of the
//! whole machine still treat all memcgs alike after the series?

use super::browser::{self, params, Shape};
use crate::experiment::{Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput};
use coldset_report::{Band, Claim, RunResult};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fairness",
    doc: "browsers and servers in 32 memcgs on 2 nodes, twice as much memory as there is, zram",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[],
    effort: Effort::Part("hour", EFFORT_DIVISOR),
    quick: Quick::share(250),
    scale: 64,
    params: PARAMS,
    costs: browser::COSTS,
    deviations: &[],
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "pgscan",
        "pgsteal",
        "pgmajfault",
        "workingset_refault_anon",
        "workingset_refault_file",
        "pageoutrun",
        "allocstall",
        "aging_runs",
        "abort_after_aging",
        "memcg_visits",
        "latency_ms",
    ],
};

/// Parameters at scale 1; times and sizes shrink with the scale.
const PARAMS: &[ParamDoc] = &[
    params::RAM_MIB,
    params::NODES,
    params::CPUS,
    params::MEMCGS,
    params::CHUNKS,
    params::CHUNK_MIB,
    params::STRIDE,
    params::FILL,
    params::SWAP,
    params::SWAP_MIB,
    params::SWAP_DEVICE,
    params::DURATION_S,
];

/// The measured time is that much shorter than the published one: about 80 requests of each worker,
/// as `docs/reference/experiments.md#fairness` has it (there by effort 1/16 of slower requests).
const EFFORT_DIVISOR: u64 = 64;

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    let shape = Shape::read(input, EFFORT_DIVISOR)?;
    Ok(vec![browser::host("", &shape)])
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let shape = Shape::read(input, EFFORT_DIVISOR)?;
    let outcome = browser::run(input, "", &shape)?;
    let mut r = RunResult::new(&input.variant, input.seed);
    outcome.report("", &mut r);
    Ok(r)
}

/// Names of the buckets that were published.
const BUCKETS: [&str; 4] = ["[0,1) s", "[1,2) s", "[2,4) s", "[4,8) s"];

/// Acceptance rows (`docs/reference/experiments.md#fairness`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    let mut rows = vec![
        Claim::ratio("requests", "requests", before, after)
            .within(0.97, 1.10)
            .published_pair(79_915.0, 81_382.0)
            .unit("requests")
            .higher_is_better(),
        Claim::difference("Jain's index, after less before", "jain", before, after)
            .within_band(Band::at_least(-0.025))
            .published_pair(0.997795, 0.991480)
            .higher_is_better(),
    ];
    let variants = [
        (before, 0.997795, 33.61, 49.69),
        (after, 0.991480, 32.80, 48.02),
    ];
    for (v, jain, fast, slow) in variants {
        rows.extend([
            Claim::value(format!("Jain's index, {v}"), "jain", v)
                .always(Band::at_least(0.97))
                .published(jain)
                .higher_is_better(),
            Claim::value(format!("slowest worker / mean, {v}"), "slowest_worker", v)
                .always(Band::at_least(0.5))
                .higher_is_better(),
            Claim::value(format!("requests below 1 s, {v}"), "percent [0,1) s", v)
                .within(25.0, 45.0)
                .published(fast)
                .unit("%"),
            Claim::value(format!("requests of 4 to 8 s, {v}"), "percent [4,8) s", v)
                .within(38.0, 60.0)
                .published(slow)
                .unit("%"),
        ]);
    }
    rows.push(
        Claim::derived("greatest change of a bucket's share", move |s| {
            let mut most: f64 = 0.0;
            for bucket in BUCKETS {
                let name = format!("percent {bucket}");
                most = most.max((s.get(&a, &name)? - s.get(&b, &name)?).abs());
            }
            Ok(most)
        })
        .within_band(Band::at_most(4.0))
        .published(1.67)
        .unit("points")
        .lower_is_better(),
    );
    rows
}
