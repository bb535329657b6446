//! Two built-in experiments as workloads: the generators of `crate::experiments`, written by hand in Rust,
//! are the oracle.

use crate::experiment::Costs;
use crate::report::experiment_json;
use crate::runner::{experiment, run, Plan, Progress, Variant};
use crate::workload::read;
use std::path::PathBuf;

fn example(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join(format!("../examples/{name}.toml"))
}

/// The same bytes as the built-in experiment, over its default variants.
fn same_as_built_in(name: &str, effort_permille: u64, scale: Option<u64>, params: &[(&str, &str)]) {
    let built_in = experiment(name).unwrap();
    let described = read(&example(name)).unwrap();
    assert_eq!(described.default_variants(), built_in.default_variants());
    assert_eq!(described.scale, built_in.scale);
    let plan = Plan {
        variants: Variant::parse_all(&built_in.default_variants(), &[]).unwrap(),
        seeds: 2,
        scale: scale.unwrap_or(built_in.scale),
        effort_permille,
        costs: Costs::default(),
        params: params.iter().map(|&(n, v)| (n.into(), v.into())).collect(),
        record: Vec::new(),
        sample_points: 50,
    };
    let of = |e| run(e, &plan, &Progress::silent()).unwrap();
    let (ours, theirs) = (of(described), of(built_in));
    let (ours_json, theirs_json) = (
        experiment_json(&ours.result),
        experiment_json(&theirs.result),
    );
    if ours_json != theirs_json {
        let lines = ours_json.lines().zip(theirs_json.lines());
        let (n, (a, b)) = lines.enumerate().find(|(_, (a, b))| a != b).unwrap();
        panic!("{name}, line {}: {a} instead of {b}", n + 1);
    }
    // What is sampled over time, too. The last sample is taken when the run stops: here when the last task has spent the
    // time it has been charged with, in the generators by hand some of them a moment before.
    for (ours, theirs) in ours.runs.iter().zip(&theirs.runs) {
        assert!(ours.series.keys().eq(theirs.series.keys()));
        for (name, series) in &theirs.series {
            let (ours, n) = (&ours.series[name], series.len());
            assert_eq!(ours.len(), n, "{name}");
            assert_eq!(ours[..n - 1], series[..n - 1], "{name}");
            assert_eq!(ours[n - 1].1, series[n - 1].1, "{name}");
        }
    }
}

#[test]
fn throttling_oom_is_the_same() {
    same_as_built_in("throttling-oom", 1000, None, &[]);
    same_as_built_in(
        "throttling-oom",
        1000,
        None,
        &[("limit_mib", "96"), ("blocks", "150")],
    );
}

#[test]
fn fio_mmap_is_the_same() {
    let params = [
        ("ramp_ms", "2000"),
        ("jobs", "3"),
        ("limit_mib", "2000"),
        ("zipf_limit_mib", "2500"),
    ];
    same_as_built_in("fio-mmap", 20, Some(128), &params);
}
