use super::*;

/// Plain runs over many seeds, in shares that run in parallel.
fn share(first: u64, seeds: u64, ops: u64) {
    let (mut done, mut failures) = (0, Vec::new());
    for seed in first..first + seeds {
        match run(seed, ops) {
            Ok(report) => done += report.ops,
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(done >= seeds * ops);
}

#[test]
fn seeds_0() {
    share(0, 100, 10_000);
}
