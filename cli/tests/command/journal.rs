//! Journals of the pager at the command line.

use crate::common::{json_of, lab, message_of, stdout_of, temporary};
use coldset_pager::{FaultMode, Limits, Pool, PoolConfig, Region, SwapConfig};
use std::path::{Path, PathBuf};

const BUDGET: u64 = 4 << 20;

/// A pool that works the same on any kernel, with nothing that is left to chance: one thread, no
/// read-ahead, compressed memory aside as in the lab.
fn config(policy: &str) -> PoolConfig {
    PoolConfig::new(BUDGET)
        .policy(policy)
        .unwrap()
        .fault_mode(FaultMode::Explicit)
        .read_ahead(1)
        .background(false)
        .store_outside_budget()
        .swap(SwapConfig::lz4(64 << 20))
}

fn pool(policy: &str) -> Pool {
    Pool::new(config(policy)).unwrap()
}

/// Skewed reads and a few stores; small page numbers more often.
fn skewed(region: &Region, n: u64) {
    let pages = region.len() as u64 / 4096;
    let mut state = 88_172_645_463_325_252u64;
    for i in 0..n {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (a, b) = (state % pages, state / pages % pages);
        let page = (a * b / pages) as usize * 7 % pages as usize;
        if i % 5 == 0 {
            region.fix_mut(page).unwrap()[0] = 1;
        } else {
            drop(region.fix(page).unwrap());
        }
    }
}

struct Recorded {
    path: PathBuf,
    misses: u64,
}

/// A journal that begins in the middle.
fn recorded(policy: &str, name: &str) -> Recorded {
    let path = temporary(name);
    let pool = pool(policy);
    let region = pool.anonymous(16 << 20).unwrap();
    skewed(&region, 20_000);
    pool.record(&path).unwrap();
    let before = pool.stats().misses;
    skewed(&region, 200_000);
    let misses = pool.stats().misses - before;
    pool.stop_recording().unwrap();
    Recorded { path, misses }
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_journal_is_replayed_exactly_and_over_other_policies() {
    for policy in ["v5", "classic"] {
        let r = recorded(policy, policy);
        let arguments = [
            "replay",
            name(&r.path),
            "--variants",
            "classic,base,v5",
            "--json",
            "-",
        ];
        let json = json_of(&arguments, 0);
        let journal = &json["journal"];
        assert_eq!(journal["identical"], true);
        assert_eq!(journal["truncated"], false);
        assert_eq!(journal["budget_pages"], BUDGET / 4096);
        let own = journal["policy"].as_str().unwrap();
        assert!(own.starts_with(policy), "{own}");
        assert!(journal["decisions"].as_u64().unwrap() > 1000);
        assert_eq!(journal["misses"].as_u64().unwrap(), r.misses);
        let bounds = &json["bounds"];
        assert_eq!(bounds["memory_pages"], BUDGET / 4096);
        let accesses = bounds["accesses"].as_u64().unwrap();
        assert!(accesses > r.misses);
        // The stream over the policy that it comes from: what was in memory before is no miss, and
        // neither is a page never seen.
        let mean = |v: &str| json["variants"][v]["misses"]["mean"].as_f64().unwrap();
        let (live, again) = (r.misses as f64, mean(policy));
        println!(
            "{policy}: {live} misses live, {again} in the lab; classic {}, base {}, v5 {}; LRU {}, \
             OPT {}; {accesses} accesses of 200000, victims {}",
            mean("classic"),
            mean("base"),
            mean("v5"),
            bounds["lru_misses"],
            bounds["opt_misses"],
            journal["victims"],
        );
        assert!(
            (0.85..=1.15).contains(&(again / live)),
            "{policy}: {live} misses live, {again} in the lab"
        );
        std::fs::remove_file(r.path).unwrap();
    }
}

#[test]
fn text_says_what_was_found_and_what_is_lost() {
    let path = temporary("groups.journal");
    let pool = pool("v5");
    let low = Limits::new().low(1 << 20);
    let a = pool.group("a", low).unwrap();
    let b = a
        .group("b", Limits::new().high(2 << 20).max(3 << 20))
        .unwrap();
    let (x, y) = (a.anonymous(8 << 20).unwrap(), b.anonymous(8 << 20).unwrap());
    pool.record(&path).unwrap();
    skewed(&x, 10_000);
    skewed(&y, 10_000);
    drop((x, y, a, b, pool));
    let text = stdout_of(&["replay", name(&path), "--variants", "v5"], 0);
    for part in [
        "journal of a pool of 1,024 pages (4 MiB) under v5+stale_stats=off",
        "identical\n",
        "2 groups are tasks",
        "not replayed of groups: high, nesting",
        "2 tasks",
        "OPT",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let trace = temporary("groups.pageops.zst");
    let text = stdout_of(&["convert", name(&path), name(&trace)], 0);
    assert!(text.contains("references to"), "{text}");
    let json = json_of(
        &["replay", name(&trace), "--memory", "25%", "--json", "-"],
        0,
    );
    assert!(json["journal"].is_null());
    assert!(json["bounds"]["accesses"].as_u64().unwrap() > 1000);
    let view = stdout_of(&["inspect", name(&path), "--variants", "v5"], 0);
    assert!(view.contains("memcg"), "{view}");
}

#[test]
fn bad_journals_are_named() {
    let r = recorded("v5", "whole.journal");
    let whole = std::fs::read(&r.path).unwrap();
    let bad = temporary("bad.journal");
    let try_with = |bytes: &[u8], code| {
        std::fs::write(&bad, bytes).unwrap();
        message_of(&["replay", name(&bad)], code)
    };
    // Killed while it was written: good as far as it goes.
    std::fs::write(&bad, &whole[..whole.len() - 9]).unwrap();
    let text = stdout_of(&["replay", name(&bad), "--bounds", "none"], 0);
    assert!(text.contains("the journal ends early"), "{text}");
    let mut flipped = whole.clone();
    flipped[whole.len() * 2 / 3] ^= 1;
    let message = try_with(&flipped, 2);
    assert!(message.contains("the journal is damaged"), "{message}");
    let first = zstd::encode_all(&b"coldset-journal 7\n\n"[..], 1).unwrap();
    let message = try_with(&first, 2);
    assert!(message.contains("has format 7"), "{message}");
    // Another engine's decisions: a journal of a whole life, under another policy.
    let pool = Pool::new(config("v5").journal(&r.path)).unwrap();
    let region = pool.anonymous(16 << 20).unwrap();
    skewed(&region, 20_000);
    drop((region, pool));
    let mut plain = Vec::new();
    let whole = std::fs::read(&r.path).unwrap();
    let z = zstd::Decoder::new(&whole[..]).unwrap();
    std::io::Read::read_to_end(&mut { z }, &mut plain).unwrap();
    let name_of_policy = b"switch policy=mglru";
    let at = plain.windows(19).position(|w| w == name_of_policy).unwrap();
    plain.splice(at..at + 19, *b"switch policy=classic");
    let other = zstd::encode_all(&plain[..], 1).unwrap();
    std::fs::write(&bad, other).unwrap();
    let out = lab(&["replay", name(&bad)]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("written by another engine"), "{said}");
    std::fs::remove_file(r.path).unwrap();
}
