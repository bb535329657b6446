//! Programs from which the controller learns: tiers to be protected, and types to be preferred.

use super::aging::ANON;
use super::host::Machine;
use super::pair::Pair;
use super::programs::{at_work, Seen};
use super::request::{Request, Who};
use super::rules::{Page, PRESETS};
use crate::Rng;

/// A loop over a file that does not fit, read twice or more at each turn, beside a scan of the file or of anonymous
/// memory: the loop's tier is to be protected, or anonymous memory to go first.
fn a_loop_and_a_scan(preset: &'static str, seed: u64, anon: bool) -> Seen {
    let r = &mut Rng(seed);
    let machine = Machine {
        preset,
        span: 4000,
        swap: if anon { 100_000 } else { 0 },
        nodes: 1,
        min_ttl_ms: 0,
    };
    let mut p = Pair::new(&machine, seed, r);
    let new = Page::default;
    p.set_swappiness(2, 60 + r.below(80));
    // Where referenced pages enter higher, generations go by faster, and it takes more pages to learn from one of them.
    let scale = if p.m.rules.since_72 || anon { 4 } else { 1 };
    let turn = scale * (r.below(60) + if anon { 100 } else { 200 });
    let times = 2 + r.below(3);
    for step in 0..4000 * scale {
        if anon && step == 3000 * scale {
            // Anonymous memory is not worth more than before, and goes last nevertheless.
            p.set_swappiness(2, 1);
        }
        if r.one_in(2) {
            let name = (2, (step / 2 % turn) as u32);
            (0..times).for_each(|_| p.read(0, name, new()));
        } else if anon {
            p.touch(0, (2, ANON + step as u32), false, new());
        } else {
            p.read(0, (2, 2000 + step as u32), new());
        }
        if p.m.pages.len() > 300 * scale as usize {
            p.reclaim(Request::new(Who::Task, 2, 32));
        }
    }
    p.compare();
    p.m.seen
}

/// Anonymous memory and a file, both used at random, which do not fit together: both come back, soon or late, and swappiness
/// decides which goes.
fn both_types(preset: &'static str, seed: u64, swappiness: u64) -> Seen {
    let r = &mut Rng(seed);
    let machine = Machine {
        preset,
        span: 4000,
        swap: 100_000,
        nodes: 1,
        min_ttl_ms: 0,
    };
    let mut p = Pair::new(&machine, seed, r);
    let new = Page::default;
    p.set_swappiness(2, swappiness);
    let of_each = 3000;
    for _ in 0..12_000 {
        p.touch(0, (2, ANON + r.below(of_each) as u32), false, new());
        p.read(0, (2, r.below(of_each) as u32), new());
        if p.m.pages.len() > 1500 {
            p.reclaim(Request::new(Who::Task, 2, 32));
        }
    }
    p.compare();
    p.m.seen
}

#[test]
fn swappiness_weighs_types_as_in_the_model() {
    for preset in PRESETS {
        for swappiness in [20, 180] {
            let seen = both_types(preset, 1, swappiness);
            at_work(&seen, &["swappiness decides"]);
        }
    }
}

#[test]
fn tiers_and_types_are_protected_as_in_the_model() {
    for preset in PRESETS {
        for seed in 0..2 {
            at_work(&a_loop_and_a_scan(preset, seed, false), &["spared"]);
            let seen = a_loop_and_a_scan(preset, seed, true);
            at_work(
                &seen,
                &["anonymous memory first", "files although they come back"],
            );
        }
    }
}
