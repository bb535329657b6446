//! Random programs, and what they come to under each preset.

use super::aging::ANON;
use super::pair::Pair;
use super::request::{Request, Who};
use super::rules::PRESETS;
use crate::Rng;
use std::collections::BTreeMap;

/// What a program does.
#[derive(Clone, Copy, Default)]
struct Program {
    /// Of 100 accesses, those to anonymous memory and by mappings of files.
    anon: u64,
    mapped: u64,
    /// Swap is small, and anonymous memory goes first.
    tight: bool,
    /// Root reclaim and kswapd as well.
    root: bool,
    /// Walks.
    spaces: bool,
}

fn run(preset: &str, seed: u64, program: Program) -> Pair {
    let r = &mut Rng(seed);
    let (pages, often) = (20 + r.below(400), 1 + r.below(5));
    let swap = match program.anon {
        0 => 0,
        _ if program.tight => 80 + r.below(300),
        _ => [100, 150, 300, 1000, 10_000][r.below(5) as usize],
    };
    let mut p = Pair::new(preset, seed, r, pages as u32, swap);
    if program.anon > 0 {
        for g in 0..7 {
            let any = [0, 1, 60, 100, 199, 200, r.below(201)];
            let any = any[r.below(7) as usize];
            p.set_swappiness(g, if program.tight { 200 } else { any });
            if g > 0 && r.one_in(5) {
                p.set_swap_max(g, r.below(300));
            }
        }
    }
    if program.spaces {
        (1..7).filter(|_| !r.one_in(3)).for_each(|g| p.add_space(g));
    }
    if program.root {
        p.set_zone(300 + r.below(500), 60, 60 + r.below(200));
    }
    for step in 0..1500 {
        if step % 500 == 400 && program.root && program.anon == 0 {
            let leaf = [6, 5, 4][step / 500];
            p.offline(leaf);
        }
        let cpu = usize::from(r.one_in(4));
        let index = r.below(pages).min(r.below(pages)) as u32;
        // In every other program one memcg has most of the traffic, and its tiers learn something.
        let g = match seed.is_multiple_of(2) || r.one_in(4) {
            true => 1 + r.below(6),
            false => 4,
        };
        let anon = r.below(100) < program.anon;
        let g = if p.m.groups[g as usize].offline { 1 } else { g };
        let name = (g as usize, index + if anon { ANON } else { 0 });
        let exec = index.is_multiple_of(5);
        match r.below(100) {
            1..=2 => p.drop_page(name),
            3..=6 => p.dirty(name),
            7..=8 => p.begin_write(name),
            9..=11 => p.write(cpu, name),
            17..=26 if program.tight => p.write(cpu, name),
            12 if program.root => {
                // Now and then nothing can go.
                let pages = [r.below(60), 100_000][r.below(2) as usize];
                match r.one_in(3) {
                    true => (1..4).for_each(|g| p.set_min(g, pages)),
                    false => p.set_min(name.0, r.below(60)),
                }
            }
            13..=16 => {
                let who = match r.one_in(4) {
                    true => Who::Proactive,
                    false => Who::Task,
                };
                let target = match program.root && r.one_in(2) {
                    true => 0,
                    false => name.0,
                };
                let mut q = Request::new(who, target, 1 + r.below(80));
                q.want += if program.tight { 400 } else { 0 };
                if program.anon > 0 && r.one_in(3) {
                    q.swappiness = Some([201, r.below(202)][r.below(2) as usize]);
                    q.may_swap = !r.one_in(4);
                }
                p.reclaim(q);
                p.compare();
            }
            _ if anon => {
                p.touch(cpu, name, false);
                if !r.one_in(3) {
                    p.dirty(name);
                }
            }
            _ if r.below(100) < program.mapped => p.touch(cpu, name, exec),
            _ => (0..1 + r.below(often)).for_each(|_| p.read(cpu, name)),
        }
        let free = |p: &Pair| p.h.eng.zones.all().first().map_or(u64::MAX, |z| z.free);
        if free(&p) < 60 && (p.m.order.failures == 0 || r.one_in(10)) {
            p.kswapd();
            p.compare();
        }
        while free(&p) < 2 {
            let any = *p.m.pages.keys().nth(r.below(100) as usize).unwrap();
            p.write(0, any);
            p.drop_page(any);
        }
    }
    p.compare();
    p.h.eng.check();
    p
}

type Seen = BTreeMap<&'static str, u64>;

/// Runs programs under all presets. Victims, and how often each rule has been at work.
fn runs(seeds: std::ops::Range<u64>, program: Program) -> (u64, Seen) {
    let (mut victims, mut seen) = (0, Seen::new());
    for preset in PRESETS {
        for seed in seeds.clone() {
            let p = run(preset, seed, program);
            victims += p.victims;
            for (what, n) in p.m.seen {
                *seen.entry(what).or_default() += n;
            }
        }
    }
    (victims, seen)
}

fn at_work(seen: &Seen, rules: &[&str]) {
    for rule in rules {
        let n = seen.get(rule).copied().unwrap_or(0);
        assert!(n >= 10, "{rule}: {n}, {seen:?}");
    }
}

#[test]
fn limit_reclaim_takes_the_victims_of_the_model() {
    let (victims, seen) = runs(0..30, Program::default());
    assert!(victims > 100_000, "{victims}");
    let rules = ["late refault", "restored", "aged", "lazily promoted"];
    at_work(&seen, &rules);
    let rules = ["survivor", "tried again", "below low", "least budget"];
    at_work(&seen, &rules);
    at_work(&seen, &["rotated without a budget"]);
}

#[test]
fn anonymous_memory_goes_to_swap_as_in_the_model() {
    let program = Program {
        anon: 50,
        ..Program::default()
    };
    let (victims, seen) = runs(0..30, program);
    assert!(victims > 100_000, "{victims}");
    let rules = ["inverted", "kept near the other type", "the other type"];
    at_work(&seen, &rules);
    let none = "anonymous memory only, and none can go";
    at_work(&seen, &["the same type once more", "survivor", none]);
}

#[test]
fn swap_that_is_nearly_full_is_used_as_in_the_model() {
    let program = Program {
        anon: 90,
        tight: true,
        ..Program::default()
    };
    let (_, seen) = runs(0..20, program);
    at_work(&seen, &["no slot", "slot given back"]);
}

#[test]
fn root_reclaim_and_kswapd_take_the_victims_of_the_model() {
    let root = true;
    let program = Program {
        root,
        ..Program::default()
    };
    let (victims, seen) = runs(0..30, program);
    assert!(victims > 100_000, "{victims}");
    let rules = ["begins lower", "below low", "walk ended at the target"];
    at_work(&seen, &rules);
    at_work(&seen, &["offline"]);
}

#[test]
fn mapped_pages_are_found_in_use_as_in_the_model() {
    let (mapped, spaces) = (50, true);
    let program = Program {
        mapped,
        spaces,
        ..Program::default()
    };
    let (victims, seen) = runs(0..30, program);
    assert!(victims > 100_000, "{victims}");
    let rules = ["promoted", "walked", "table skipped", "dense window"];
    at_work(&seen, &rules);
    let near = ["neighbour activated", "neighbour with a walk context"];
    at_work(&seen, &near);
}

#[test]
fn everything_at_once_goes_as_in_the_model() {
    let program = Program {
        anon: 40,
        mapped: 50,
        tight: false,
        root: true,
        spaces: true,
    };
    let (victims, seen) = runs(0..30, program);
    assert!(victims > 100_000, "{victims}");
    at_work(&seen, &["kswapd without progress", "promoted", "inverted"]);
}

/// A loop over a file that does not fit, read twice or more at each turn, beside a scan of the file or of anonymous
/// memory: the loop's tier is to be protected, or anonymous memory to go first.
fn a_loop_and_a_scan(preset: &str, seed: u64, anon: bool) -> Seen {
    let r = &mut Rng(seed);
    let mut p = Pair::new(preset, seed, r, 4000, if anon { 100_000 } else { 0 });
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
            (0..times).for_each(|_| p.read(0, name));
        } else if anon {
            p.touch(0, (2, ANON + step as u32), false);
        } else {
            p.read(0, (2, 2000 + step as u32));
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
fn both_types(preset: &str, seed: u64, swappiness: u64) -> Seen {
    let r = &mut Rng(seed);
    let mut p = Pair::new(preset, seed, r, 4000, 100_000);
    p.set_swappiness(2, swappiness);
    let of_each = 3000;
    for _ in 0..12_000 {
        p.touch(0, (2, ANON + r.below(of_each) as u32), false);
        p.read(0, (2, r.below(of_each) as u32));
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
