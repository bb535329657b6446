use super::*;

/// Runs seeds `first..first + seeds`. Shares run in parallel.
fn share(first: u64, seeds: u64, ops: u64) {
    let (mut done, mut failures) = (0, Vec::new());
    let (mut reclaimed, mut swapped, mut kills, mut errors) = (0, 0, 0, 0);
    for seed in first..first + seeds {
        match run(seed, ops) {
            Ok(r) => {
                done += r.ops;
                reclaimed += r.reclaimed;
                swapped += r.swapped;
                kills += r.kills;
                errors += r.device_errors;
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(done >= seeds * ops, "{done} operations");
    // The seeds reach what they are for.
    assert!(reclaimed > 0 && swapped > 0 && kills > 0 && errors > 0);
}

/// Shares of the seeds: together about five million operations.
macro_rules! shares {
    ($($name:ident: $first:literal,)*) => {
        $(#[test]
        fn $name() {
            share($first, seeds(), OPS);
        })*
    };
}

/// Seeds of a share; `make soak` asks for more.
fn seeds() -> u64 {
    let asked = std::env::var("COLDSET_SWARM_SEEDS").ok();
    asked.map_or(20, |n| n.parse().expect("COLDSET_SWARM_SEEDS is a number"))
}

const OPS: u64 = 30_000;

shares! {
    seeds_of_share_1: 1_000,
    seeds_of_share_2: 2_000,
    seeds_of_share_3: 3_000,
    seeds_of_share_4: 4_000,
    seeds_of_share_5: 5_000,
    seeds_of_share_6: 6_000,
    seeds_of_share_7: 7_000,
    seeds_of_share_8: 8_000,
    seeds_of_share_9: 9_000,
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..12 {
        assert_eq!(run(seed, 2_000), run(seed, 2_000));
    }
}

/// Room for the buffer of a page was made by reclaiming the page, which came back and needed another one, for hours.
#[test]
fn a_page_stays_while_its_buffer_is_charged() {
    let run = run(9_022, 27_100);
    assert!(run.is_ok(), "{}", run.unwrap_err());
}

/// A planted defect is caught in every seed in which it comes about.
fn caught(plant: Plant, text: &[&str]) {
    let mut found = 0;
    for seed in 0..12 {
        let Err(failure) = run_planted(seed, 5_000, plant) else {
            continue;
        };
        assert!(
            text.iter().any(|t| failure.what.contains(t)),
            "caught as something else: {failure}"
        );
        assert!(
            failure.ops <= 5_000 && failure.operation <= 3 * failure.ops + 1_000,
            "{failure}"
        );
        let again = run_planted(seed, failure.ops, plant);
        assert!(again.is_err(), "the shortened run passes: {failure}");
        assert!(
            run(seed, failure.ops).is_ok(),
            "fails without the defect: {failure}"
        );
        found += 1;
    }
    assert!(found >= 9, "{plant:?} was caught in {found} of 12 seeds");
}

#[test]
fn a_store_that_never_happened_is_caught() {
    caught(Plant::Model, &["has seen"]);
}

#[test]
fn a_dirty_page_marked_clean_is_caught() {
    let texts = [
        "dirty mark",
        "pages of write contexts",
        "dirty and gone",
        "lost store",
        "tag without a dirty folio",
        "fsync returned",
    ];
    caught(Plant::Clean, &texts);
}

#[test]
fn a_reference_never_given_back_is_caught() {
    caught(Plant::Leak, &["folios are left"]);
}

#[test]
fn a_failure_is_one_line_with_its_command() {
    let failure = run_planted(1, 5_000, Plant::Model).unwrap_err().to_string();
    assert_eq!(failure.lines().count(), 1);
    assert!(failure.starts_with("seed 1, operation "), "{failure}");
    assert!(
        failure.contains("coldset lab fuzz --seed 1 --ops "),
        "{failure}"
    );
}
