//! The same sequence in both arms: as many refaults, within a tenth.

use super::arm::{Arm, Plan};
use super::bodies::POLICIES;
use super::machine::Machine;
use super::pager::{Faulting, Pager};
use coldset_lab::draw::{Stream, Zipf};
use coldset_lab::traces::{self, TraceOptions};
use std::path::Path;

const PAGES: u32 = 4096;
const BUDGET: u64 = 1024;

/// Numbers of pages spread over the region.
fn spread(rank: u64, from: u64, n: u64) -> u32 {
    (from + rank * 2_654_435_761 % n) as u32
}

fn zipf() -> Vec<u32> {
    let (mut s, z) = (
        Stream::new(1, "conformance", 0),
        Zipf::new(4093, 0.99).unwrap(),
    );
    (0..100_000)
        .map(|_| spread(z.draw(&mut s), 0, 4093))
        .collect()
}

/// A set that is used all the time, and a scan of all the rest through it, one page in two.
fn scan() -> Vec<u32> {
    let (mut s, z) = (
        Stream::new(2, "conformance", 0),
        Zipf::new(599, 0.6).unwrap(),
    );
    let hot = |s: &mut Stream| spread(z.draw(s), 0, 599);
    let mut at = 600;
    let mut cold = || {
        at = if at + 1 == PAGES { 600 } else { at + 1 };
        at
    };
    (0..100_000)
        .map(|i| if i % 2 == 0 { cold() } else { hot(&mut s) })
        .collect()
}

/// The set in use is another one every 20000 accesses; a little of everything beside it.
fn phases() -> Vec<u32> {
    let (mut s, z) = (
        Stream::new(3, "conformance", 0),
        Zipf::new(1201, 0.7).unwrap(),
    );
    (0..100_000u64)
        .map(|i| match s.below(20) {
            0 => s.below(PAGES.into()) as u32,
            _ => spread(z.draw(&mut s), i / 20_000 % 3 * 1201, 1201),
        })
        .collect()
}

fn sample() -> Vec<u32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/sqlite.pageops.zst");
    let trace = traces::load(path, None, &TraceOptions::default()).unwrap();
    assert_eq!(trace.objects.len(), 1, "one region");
    trace.ops().iter().map(|op| op.page).collect()
}

struct Ran {
    refaults: u64,
    misses: u64,
}

/// Loads; the first access of an anonymous page is a store.
fn run<A: Arm>(plan: &Plan, pages: &[u32]) -> Option<Ran> {
    let mut arm = A::new(plan)?;
    let region = plan.regions[0];
    let mut touched = vec![!region.anon; region.pages as usize];
    for &p in pages {
        if std::mem::replace(&mut touched[p as usize], true) {
            arm.load(0, p);
        } else {
            arm.store(0, p);
        }
    }
    arm.check();
    Some(Ran {
        refaults: arm.refaults(),
        misses: arm.misses(),
    })
}

fn compare(name: &str, pages: &[u32], budget: u64) {
    let size = pages.iter().max().unwrap() + 1;
    let mut apart = Vec::new();
    for policy in POLICIES {
        for anon in [false, true] {
            let plan = Plan::one(policy, budget, anon, size);
            let machine = run::<Machine>(&plan, pages).expect("a machine");
            let guards = run::<Pager>(&plan, pages).expect("guards work everywhere");
            let faults = run::<Faulting>(&plan, pages);
            let kind = if anon { "anon" } else { "file" };
            for (how, pager) in [("guards", Some(guards)), ("faults", faults)] {
                let Some(pager) = pager else { continue };
                let ratio = |a: u64, b: u64| a as f64 / b as f64;
                let line = format!(
                    "{name} {policy} {kind} by {how}: refaults {} / {} = {:.3}, misses {} / {} = {:.3}",
                    pager.refaults,
                    machine.refaults,
                    ratio(pager.refaults, machine.refaults),
                    pager.misses,
                    machine.misses,
                    ratio(pager.misses, machine.misses),
                );
                println!("{line}");
                assert!(machine.refaults > 1000, "the sequence says something");
                let near = |a, b| (0.9..=1.1).contains(&ratio(a, b));
                if !near(pager.refaults, machine.refaults) || !near(pager.misses, machine.misses) {
                    apart.push(line);
                }
            }
        }
    }
    assert!(
        apart.is_empty(),
        "more than a tenth apart:\n{}",
        apart.join("\n")
    );
}

#[test]
fn zipf_refaults_alike() {
    compare("zipf", &zipf(), BUDGET);
}

#[test]
fn scan_refaults_alike() {
    compare("scan", &scan(), BUDGET);
}

#[test]
fn phase_change_refaults_alike() {
    compare("phases", &phases(), BUDGET);
}

#[test]
fn sample_refaults_alike() {
    compare("sqlite", &sample(), 553);
}

/// The comparison can fail: a policy is not like another.
#[test]
fn another_policy_is_told_apart() {
    let pages = scan();
    let plan = |policy| Plan::one(policy, BUDGET, false, PAGES);
    let machine = run::<Machine>(&plan("v5"), &pages).expect("a machine");
    let pager = run::<Pager>(&plan("fifo"), &pages).expect("guards work everywhere");
    let ratio = pager.refaults as f64 / machine.refaults as f64;
    assert!(ratio > 1.1, "{ratio}");
}
