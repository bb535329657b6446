//! Random programs, and what they come to under each preset.

use super::aging::ANON;
use super::host::Machine;
use super::model::At;
use super::pair::{Pair, MS};
use super::request::{Request, Who};
use super::rules::{Page, PRESETS};
use crate::Rng;
use std::collections::BTreeMap;

/// Names from here on are of folios of many pages, of files that are only read and written.
const LARGE: u32 = 1 << 15;
const ORDERS: [u8; 5] = [1, 2, 3, 4, 6];

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
    /// Pages are locked into memory.
    locks: bool,
    /// Folios of many pages.
    large: bool,
    /// Pages come to one node or the other.
    nodes: bool,
    /// Generations are opened by hand.
    by_hand: bool,
    /// Time passes, and young working sets are protected.
    ttl: bool,
}

fn run(preset: &'static str, seed: u64, program: Program) -> Pair {
    let r = &mut Rng(seed);
    let (pages, often) = (20 + r.below(400), 1 + r.below(5));
    let swap = match program.anon {
        0 => 0,
        _ if program.tight => 80 + r.below(300),
        _ => [100, 150, 300, 1000, 10_000][r.below(5) as usize],
    };
    let machine = Machine {
        preset,
        span: pages as u32,
        swap,
        nodes: if program.nodes { 2 } else { 1 },
        // Eighths of it pass, so that something is exactly as old now and then.
        min_ttl_ms: if program.ttl { 8 * r.of_bits(9) } else { 0 },
    };
    let mut p = Pair::new(&machine, seed, r);
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
        let managed = if program.nodes { 200 } else { 300 } + r.below(500);
        // A round may have scanned exactly what it was to.
        let high = [60 + r.below(200), 64, 128][r.below(3) as usize];
        p.set_zones(managed, 60, high);
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
        let large = program.large && !anon && r.one_in(4);
        let name = match (anon, large) {
            (true, _) => (g as usize, ANON + index),
            (_, true) => (g as usize, LARGE + index),
            _ => (g as usize, index),
        };
        let new = Page {
            order: if large { ORDERS[index as usize % 5] } else { 0 },
            node: if program.nodes {
                r.below(2) as usize
            } else {
                0
            },
            ..Page::default()
        };
        if program.ttl && r.one_in(40) {
            p.pass_time(r.below(5) * machine.min_ttl_ms * MS / 8);
        }
        if program.locks {
            let other = usize::from(!r.one_in(3));
            match r.below(5) {
                0 => p.lock(other, name),
                1 => p.unlock(other, name),
                2 => {
                    let slot =
                        p.m.pages
                            .iter()
                            .find(|(_, p)| p.slot && p.mapped && !p.locked);
                    let slot = slot.map(|(&name, _)| name);
                    slot.into_iter().for_each(|name| p.lock(other, name));
                }
                _ => {}
            }
        }
        let exec = index.is_multiple_of(5);
        match r.below(100) {
            1..=2 => p.drop_page(name),
            3..=6 => p.dirty(name),
            7..=8 => p.begin_write(name),
            9..=11 => p.write(cpu, name),
            17..=26 if program.tight || program.locks => p.write(cpu, name),
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
                q.node = new.node;
                q.want += if program.tight { 400 } else { 0 };
                if program.anon > 0 && r.one_in(3) {
                    q.swappiness = Some([201, r.below(202)][r.below(2) as usize]);
                    q.may_swap = !r.one_in(4);
                }
                p.reclaim(q);
                p.compare();
            }
            27..=30 if program.nodes && !anon => p.take_over(name, 1 + r.below(6) as usize),
            31 if program.by_hand => {
                let (g, node) = (name.0, new.node);
                p.age_by_hand(At { g, node }, r.one_in(2));
            }
            _ if anon => {
                p.touch(cpu, name, exec, new);
                if !r.one_in(3) {
                    p.dirty(name);
                }
            }
            _ if !large && r.below(100) < program.mapped => p.touch(cpu, name, exec, new),
            _ => (0..1 + r.below(often)).for_each(|_| p.read(cpu, name, new.clone())),
        }
        (0..p.m.nodes()).for_each(|node| make_room(&mut p, r, node, program));
    }
    p.compare();
    p.h.eng.check();
    p
}

/// kswapd runs where little is free. Where it gets nowhere, pages are given up.
fn make_room(p: &mut Pair, r: &mut Rng, node: usize, program: Program) {
    let free = |p: &Pair| p.h.eng.zones.all().get(node).map_or(u64::MAX, |z| z.free);
    if free(p) < 60 && (p.m.orders[node].failures == 0 || r.one_in(10)) {
        p.kswapd(node);
        p.compare();
    }
    let room = if program.large { 1 << ORDERS[4] } else { 1 };
    while free(p) <= room {
        let any = r.below(100) as usize % p.m.pages.len();
        let any = *p.m.pages.keys().nth(any).unwrap();
        p.write(0, any);
        p.drop_page(any);
    }
}

pub(super) type Seen = BTreeMap<&'static str, u64>;

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

pub(super) fn at_work(seen: &Seen, rules: &[&str]) {
    for rule in rules {
        let n = seen.get(rule).copied().unwrap_or(0);
        assert!(n >= 10, "{rule}: {n}, {seen:?}");
    }
}

#[test]
fn limit_reclaim_takes_the_victims_of_the_model() {
    let (victims, seen) = runs(0..25, Program::default());
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
    let (victims, seen) = runs(0..28, program);
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
    let (victims, seen) = runs(0..25, program);
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
    let (victims, seen) = runs(0..25, program);
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
        root: true,
        spaces: true,
        ..Program::default()
    };
    let (victims, seen) = runs(0..25, program);
    assert!(victims > 100_000, "{victims}");
    at_work(&seen, &["kswapd without progress", "promoted", "inverted"]);
    at_work(&seen, &["a task's progress that does not count"]);
}

#[test]
fn young_working_sets_are_protected_as_in_the_model() {
    let program = Program {
        anon: 30,
        root: true,
        ttl: true,
        ..Program::default()
    };
    let (_, seen) = runs(0..8, program);
    at_work(&seen, &["a working set is in danger", "not a moment older"]);
}

#[test]
fn locked_pages_stay_as_in_the_model() {
    let program = Program {
        anon: 60,
        mapped: 30,
        spaces: true,
        by_hand: true,
        locks: true,
        ..Program::default()
    };
    let (_, seen) = runs(0..12, program);
    let rules = [
        "locked on a list",
        "locked, at the scan",
        "locked, and taken",
    ];
    at_work(&seen, &rules);
    at_work(&seen, &["unlocked", "locked, without its slot"]);
    at_work(
        &seen,
        &[
            "looked everywhere",
            "aged on command",
            "forced out",
            "forced out, and promoted before",
        ],
    );
    let program = Program {
        large: true,
        ..program
    };
    let (_, seen) = runs(0..4, program);
    at_work(&seen, &["unlocked", "large, forced out"]);
}

#[test]
fn large_folios_are_counted_in_pages_as_in_the_model() {
    let program = Program {
        anon: 30,
        by_hand: true,
        large: true,
        root: true,
        ..Program::default()
    };
    let (_, seen) = runs(0..10, program);
    at_work(
        &seen,
        &[
            "large, gone",
            "large, spared",
            "large, back",
            "large, forced out",
        ],
    );
}

#[test]
fn nodes_have_lists_of_their_own_as_in_the_model() {
    let program = Program {
        nodes: true,
        ..Program::default()
    };
    let (_, seen) = runs(0..8, program);
    let back = ["back on another node", "back in another memcg", "restored"];
    at_work(&seen, &back);
    let program = Program {
        anon: 40,
        root: true,
        mapped: 40,
        spaces: true,
        ..program
    };
    let (_, seen) = runs(0..8, program);
    at_work(&seen, &["back on another node", "begins lower"]);
    at_work(&seen, &["below low", "kswapd", "promoted", "table skipped"]);
}
