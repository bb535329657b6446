use super::*;

fn named(names: &[&str]) -> Vec<Adversary> {
    let find = |n: &&str| *ADVERSARIES.iter().find(|a| a.name == *n).unwrap();
    names.iter().map(find).collect()
}

fn protocol(name: &str) -> Protocol {
    *PROTOCOLS.iter().find(|p| p.name == name).unwrap()
}

fn memory(name: &str) -> Memory {
    *MEMORY.iter().find(|m| m.name == name).unwrap()
}

/// The counterexample of one run, if it finds any.
fn against(p: &str, m: &str, set: &[&str]) -> Option<Counterexample> {
    let mut report = prove_against(protocol(p), memory(m), vec![named(set)]);
    report.runs.remove(0).counterexample
}

fn holds_alone(p: Protocol, m: Memory) {
    let sets = std::iter::once(vec![]).chain(ADVERSARIES.iter().map(|&a| vec![a]));
    let report = prove_against(p, m, sets.collect());
    for run in &report.runs {
        let text = run.counterexample.as_ref().map(Counterexample::text);
        let who = (p.name, m.name, &run.against);
        assert_eq!(text, None, "{who:?}");
        assert!(run.ends > 0 && run.states > 80, "{run:?}");
    }
}

#[test]
fn every_form_holds_against_each_adversary() {
    for &p in PROTOCOLS.iter().filter(|p| p.sound) {
        holds_alone(p, memory("shmem"));
    }
}

#[test]
fn anonymous_memory_holds_against_each_adversary() {
    holds_alone(protocol("batched-v2"), memory("anon"));
}

#[test]
fn the_pair_of_item_8_is_held_by_what_is_sound_and_by_nothing_else() {
    let pair = ["stale-writer", "async-writer"];
    for (p, m) in [
        ("batched-v2", "shmem"),
        ("batched-v2", "anon"),
        ("batched-locked", "shmem"),
        ("batched-v1", "anon"),
        ("batched-v2", "file"),
    ] {
        let found = against(p, m, &pair);
        let text = found.as_ref().map(Counterexample::text);
        let sound = protocol(p).sound && memory(m).sound;
        assert_eq!(found.is_none(), sound, "{p} {m} {text:?}");
    }
}

#[test]
fn every_planted_bug_is_found_and_breaks_what_it_should() {
    let found = find_all(PLANTS);
    let broken = |name: &str| {
        let r = found.iter().find(|r| r.plant == name).unwrap();
        let c = r.counterexample.as_ref();
        c.unwrap_or_else(|| panic!("{name} is not found")).property
    };
    for plant in PLANTS {
        broken(plant.name);
    }
    let lost = Property::NoStoreLost.text();
    for plant in [
        "io-before-flush",
        "io-before-flush-unbatched",
        "writable-untold",
        "dirty-untold",
        "cleaned-unflushed",
        "marked-after-unpin",
        "item-8",
        "item-8-marked-early",
        "kept-unflushed",
    ] {
        assert_eq!(broken(plant), lost, "{plant}");
    }
    let reach = Property::NoFreeInReach.text();
    for plant in [
        "no-flush",
        "forgotten-cpu",
        "deferred-untold",
        "free-before-flush",
        "mapped-untold",
        "no-pending-flush",
    ] {
        assert_eq!(broken(plant), reach, "{plant}");
    }
    let sound = Property::LocksAndIndex.text();
    assert_eq!(broken("truncation-untold"), sound);

    // Item 8 takes two: a store after the flusher's copy.
    let item8 = found.iter().find(|r| r.plant == "item-8").unwrap();
    let c = item8.counterexample.as_ref().unwrap();
    assert_eq!(c.against, ["stale-writer", "async-writer"]);
    let store = c.steps.iter().position(|s| s.starts_with("stale-writer"));
    let copy = c.steps.iter().position(|s| s.starts_with("device: copies"));
    assert!(copy < store, "{}", c.text());
}

/// The window of item 8 is there without a batch, too: a pinned folio is unlocked after its unmap
/// and before the flush.
#[test]
fn three_at_once_break_the_unbatched_form() {
    let set = ["stale-writer", "pin", "async-writer"];
    let c = against("unbatched", "shmem", &set).expect("found");
    assert_eq!(c.property, Property::NoStoreLost.text());
    let pins = c.steps.iter().filter(|s| s.starts_with("pin: "));
    assert!(pins.count() > 2, "{}", c.text());
}

#[test]
fn the_same_run_says_the_same() {
    let run = || {
        let sets = vec![named(&["truncation"]), named(&["killer", "io-error"])];
        let report = prove_against(protocol("batched-v2"), memory("anon"), sets);
        serde_json::to_string(&report).unwrap()
    };
    assert_eq!(run(), run());
}
