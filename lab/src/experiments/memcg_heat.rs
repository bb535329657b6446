//! The two-hour test of memcg heat levels (`docs/reference/experiments.md#memcg-heat`): browsers and servers, a little more than
//! fits, swap on a disk. Classic lists before; heat levels in the order of global reclaim after.

use super::browser::{self, params, Shape};
use crate::experiment::{Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput};
use coldset_report::{Band, Claim, RunResult};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "memcg-heat",
    doc:
        "browsers and servers in 32 memcgs on 4 nodes, 5 % more memory than there is, swap on disk",
    source: "\"Introduce heat-level memcg reclaim\", Chen Ridong, linux-mm, 20 January 2026",
    before: "classic",
    after: "classic+heat",
    extra: &[],
    effort: Effort::Part("two hours", EFFORT_DIVISOR),
    quick: Quick::share(500),
    scale: 512,
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
        "workingset_activate_anon",
        "pswpout",
        "pageoutrun",
        "allocstall",
        "memcg_visits",
        "heat_skips",
        "heat_visits_warm",
        "heat_visits_hot",
        "latency_ms",
    ],
};

/// Parameters at scale 1; times and sizes shrink with the scale.
const PARAMS: &[ParamDoc] = &[
    params::RAM_MIB.or("1028608"),
    params::NODES.or("4"),
    params::CPUS.or("128"),
    params::MEMCGS,
    params::CHUNKS.or("16"),
    params::CHUNK_MIB,
    params::STRIDE,
    params::FILL,
    params::SWAP.or("disk"),
    params::SWAP_MIB.or("524288"),
    params::SWAP_DEVICE,
    params::DURATION_S.or("7200"),
];

/// The measured time is a sixth of the published one: what a run of all experiments has time for.
const EFFORT_DIVISOR: u64 = 6;
/// The run without pressure takes this part of the time.
const LIGHT_DIVISOR: u64 = 12;
/// Its demand is this share of RAM, permille.
const LIGHT_PERMILLE: u64 = 900;
/// Fewer requests than this in the published two hours: a starved client.
const STARVED: u64 = 1000;

/// The machine without pressure.
const LIGHT: &str = "light.";

/// The load, and the one without pressure.
fn shapes(input: &RunInput) -> Result<(Shape, Shape), ExperimentError> {
    let shape = Shape::read(input, EFFORT_DIVISOR)?;
    let light = Shape {
        ram_pages: shape.demand_pages() * 1000 / LIGHT_PERMILLE,
        duration_ns: shape.duration_ns / LIGHT_DIVISOR,
        ..shape.clone()
    };
    Ok((shape, light))
}

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    let (shape, light) = shapes(input)?;
    Ok(vec![
        browser::host("", &shape),
        browser::host(LIGHT, &light),
    ])
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let (shape, light) = shapes(input)?;
    let mut r = RunResult::new(&input.variant, input.seed);
    let outcome = browser::run(input, "", &shape)?;
    outcome.report("", &mut r);
    let least = STARVED * input.effort_permille / 1000 / EFFORT_DIVISOR;
    r.set("starved_clients", outcome.starved(least.max(1)));
    let overcommit = shape.demand_pages() as f64 / shape.ram_pages as f64;
    r.set("overcommit", overcommit);
    browser::run(input, LIGHT, &light)?.report(LIGHT, &mut r);
    Ok(r)
}

/// The tail of the published distribution: bucket, requests before and after.
const TAIL: [(&str, f64, f64); 4] = [
    ("[16,32) s", 4611.0, 2863.0),
    ("[32,64) s", 1658.0, 1061.0),
    ("[64,128) s", 586.0, 444.0),
    ("[128,inf) s", 1231.0, 1057.0),
];

/// Requests of `least` s and more, whose buckets are `buckets`. Single buckets hold few requests, and a
/// cure that moves some from one to the next is none.
fn tail(before: &str, after: &str, buckets: &'static [(&str, f64, f64)], least: u32) -> Claim {
    let (b, a) = (before.to_string(), after.to_string());
    let published = |side: fn(&(&str, f64, f64)) -> f64| buckets.iter().map(side).sum::<f64>();
    let name = format!("requests of {least} s and more, after / before");
    Claim::derived(name, move |s| {
        let mut sums = [0.0; 2];
        for (bucket, _, _) in buckets {
            let counter = format!("requests {bucket}");
            sums[0] += s.get(&b, &counter)?;
            sums[1] += s.get(&a, &counter)?;
        }
        Ok(sums[1] / sums[0].max(1.0))
    })
    .published(published(|t| t.2) / published(|t| t.1))
    .lower_is_better()
}

/// Acceptance rows (`docs/reference/experiments.md#memcg-heat`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let mut rows = vec![Claim::ratio("requests", "requests", before, after)
        .within(1.15, 1.60)
        .published_pair(1_734_169.0, 2_353_717.0)
        .unit("requests")
        .higher_is_better()];
    let sums = [
        (16, Band::between(0.50, 0.85)),
        (32, Band::at_most(0.95)),
        (64, Band::at_most(0.95)),
    ];
    for (i, (least, band)) in sums.into_iter().enumerate() {
        rows.push(tail(before, after, &TAIL[i..], least).within_band(band));
    }
    let (b, a) = (before.to_string(), after.to_string());
    rows.extend([
        Claim::derived("Jain's index, after less before", move |s| {
            Ok(s.get(&a, "jain")? - s.get(&b, "jain")?)
        })
        .always(Band::at_least(0.0))
        .published(0.9246 - 0.8815)
        .higher_is_better(),
        Claim::difference(
            "starved clients, after less before",
            "starved_clients",
            before,
            after,
        )
        .direction_within(Band::at_most(0.0))
        .published_pair(9.0, 6.0)
        .unit("clients")
        .lower_is_better(),
        Claim::ratio("requests without pressure", "light.requests", before, after)
            .noise_of(0.05)
            .unit("requests"),
    ]);
    rows
}
