//! Two equal programs in sibling memcgs.

use super::{replay, ReplayOptions};
use crate::traces::{Op, OpKind, Trace};

/// Two tasks that take turns through the same pages, some used more than others, each in its own half of a file.
fn twins() -> Trace {
    let mut state = 7u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let part = |shift: u32| (state >> shift) % 1000;
        (part(33) * part(45) * part(23) / 200_000) as u32
    };
    let op = |task: u16, page| Op {
        kind: OpKind::Pread,
        object: 0,
        task,
        page,
    };
    let turns = (0..30_000).map(|_| draw());
    let ops = turns.flat_map(|page| [op(0, page), op(1, 100_000 + page)]);
    Trace::from_ops(ops.collect())
}

/// What Linux took from each of them (`coldset kernel play --repeat 3` of the same trace, means): the first loses a third or a
/// fifth more than its twin, and so it does here.
#[test]
fn twins_get_the_shares_that_kernels_give_them() {
    let trace = twins();
    for (variant, kernel) in [
        ("v618", [11_210.0, 8_029.0]), // 6.18.15: 11,195 to 11,239 and 8,028 to 8,032
        ("v72", [11_301.0, 9_559.0]),  // 7.2.13: 11,240 to 11,384 and 9,518 to 9,604
    ] {
        let replay = replay(&trace, variant, &ReplayOptions::new(2_000)).unwrap();
        let stolen = |task: usize| {
            let (_, counters) = &replay.tasks[task];
            counters.iter().find(|c| c.0 == "pgsteal").unwrap().1 as f64
        };
        for (task, of_kernel) in kernel.into_iter().enumerate() {
            let error = stolen(task) / of_kernel - 1.0;
            assert!(
                error.abs() < 0.025,
                "{variant}, task {task}: {} for {of_kernel}",
                stolen(task)
            );
        }
    }
}
