//! Each class in and out of its band.

use super::*;
use crate::model::tests::{header, runs};
use crate::Claim;

const BEFORE: [f64; 5] = [100.0; 5];

fn verdict(after: &[f64; 5], claim: Claim) -> ClaimResult {
    let runs = runs(&[("before", "x", &BEFORE), ("after", "x", after)]);
    let result = ExperimentResult::collect(header(), &runs, &[claim]).unwrap();
    result.claims.into_iter().next().unwrap()
}

fn ratio() -> Claim {
    Claim::ratio("x", "x", "before", "after")
}

fn bad(claim: Claim) -> String {
    let runs = runs(&[("before", "x", &BEFORE), ("after", "x", &BEFORE)]);
    let error = ExperimentResult::collect(header(), &runs, &[claim]).unwrap_err();
    error.to_string()
}

#[test]
fn class_a_needs_every_seed() {
    let values = [120.0, 120.0, 120.0, 120.0, 90.0];
    let all = verdict(&values, ratio().always(Band::at_least(1.0)));
    assert!(!all.pass);
    assert_eq!(all.failing_seeds, [5]);
    assert_eq!(all.reason, "holds for 4 of 5 seeds, 5 needed");
    assert!(verdict(&values, ratio().always(Band::at_least(0.9))).pass);
    let most = verdict(&values, ratio().always(Band::at_least(1.0)).for_seeds(4, 5));
    assert!(most.pass && most.failing_seeds == [5]);
    assert!(bad(Claim {
        class: Class::A,
        ..ratio()
    })
    .contains("needs a band"));
    assert!(bad(ratio().always(Band::exactly(1.0)).for_seeds(3, 2)).contains("fraction"));
}

#[test]
fn conditions_count_seeds() {
    let condition =
        |limit: f64| Claim::predicate("c", move |seed| Ok(seed.get("after", "x")? < limit));
    let values = [1.0, 2.0, 3.0, 4.0, 5.0];
    let out = verdict(&values, condition(4.5));
    assert_eq!((out.pass, out.value, out.ci95), (false, Some(0.8), None));
    assert!(verdict(&values, condition(4.5).for_seeds(4, 5)).pass);
    assert!(!verdict(&values, condition(3.5).for_seeds(4, 5)).pass);
    assert!(verdict(&values, condition(6.0)).pass);
    assert!(bad(condition(1.0).within(0.0, 1.0)).contains("class A only"));
}

#[test]
fn class_b_takes_the_median() {
    let values = [56.0, 57.0, 58.0, 10.0, 900.0];
    let inside = verdict(&values, ratio().within(0.55, 0.60));
    assert!(inside.pass && inside.reason.is_empty());
    assert_eq!(inside.value, Some(0.57));
    let outside = verdict(&values, ratio().within(0.42, 0.56));
    assert_eq!(outside.reason, "median outside the band");
    assert!(bad(Claim {
        class: Class::B,
        ..ratio()
    })
    .contains("class B needs a band"));
}

#[test]
fn class_n_watches_median_and_seeds() {
    assert!(verdict(&[103.0, 99.0, 106.0, 94.0, 101.0], ratio().noise()).pass);
    assert!(!verdict(&[104.0, 104.0, 104.0, 100.0, 100.0], ratio().noise()).pass);
    let one_off = verdict(&[100.0, 100.0, 100.0, 100.0, 107.0], ratio().noise());
    assert!(!one_off.pass);
    assert_eq!(one_off.failing_seeds, [5]);
    let wide = ratio().noise_of(0.10).seeds_within(Band::around(1.0, 0.15));
    assert!(verdict(&[109.0, 109.0, 109.0, 100.0, 114.0], wide.clone()).pass);
    assert!(!verdict(&[109.0, 109.0, 109.0, 100.0, 116.0], wide).pass);
    let default = verdict(
        &BEFORE,
        Claim {
            class: Class::N,
            ..ratio()
        },
    );
    assert_eq!(default.band, Some(Band::around(1.0, 0.03)));
}

#[test]
fn class_d_takes_the_side() {
    let up = [101.0, 102.0, 103.0, 99.0, 98.0];
    assert!(verdict(&up, ratio().direction_only().higher_is_better()).pass);
    assert!(!verdict(&up, ratio().direction_only().lower_is_better()).pass);
    // The published figure goes before the good direction.
    assert!(verdict(&up, ratio().lower_is_better().published(1.2)).pass);
    assert!(!verdict(&up, ratio().higher_is_better().published_pair(9.0, 8.0)).pass);
    assert!(
        !verdict(&BEFORE, ratio().higher_is_better()).pass,
        "no change is no direction"
    );
    assert!(verdict(&up, ratio().direction_within(Band::at_most(1.3))).pass);
    assert!(bad(ratio()).contains("class D needs"));
    let difference = Claim::difference("x", "x", "before", "after").higher_is_better();
    assert_eq!(verdict(&up, difference).value, Some(1.0));
}

#[test]
fn figures_that_do_not_exist_fail_with_a_reason() {
    let runs = runs(&[("before", "x", &[0.0, 1.0]), ("after", "x", &[3.0, 1.0])]);
    let nan = Claim::derived("d", |seed| Ok(0.0 / (seed.get("before", "x")? * 0.0)));
    let claims = [ratio().within(0.0, 9.0), nan.within(0.0, 1.0)];
    let result = ExperimentResult::collect(header(), &runs, &claims).unwrap();
    assert!(!result.all_pass());
    assert!(result.claims[0].reason.contains("no ratio"));
    assert_eq!(result.claims[0].value, None);
    assert_eq!(result.claims[1].reason, "no figure for seed 1");
}

#[test]
fn absent_variants_skip_and_typos_fail() {
    let runs = runs(&[("before", "x", &BEFORE)]);
    let result = ExperimentResult::collect(header(), &runs, &[ratio().noise()]).unwrap();
    assert!(result.claims.is_empty());
    assert_eq!(result.skipped[0].reason, "variant after was not run");
    let typo = Claim::value("v", "throughput", "before").within(0.0, 1.0);
    let error = ExperimentResult::collect(header(), &runs, &[typo]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "variant before has no counter 'throughput'"
    );
}

#[test]
fn claims_of_a_part_that_was_not_run_are_skipped() {
    let runs = runs(&[("before", "16g.rounds", &BEFORE)]);
    let of = |part: &str| {
        let claim = Claim::value(part, &format!("{part}.rounds"), "before");
        claim.within(0.0, 9.0).part(part)
    };
    let result = ExperimentResult::collect(header(), &runs, &[of("16g"), of("48g")]).unwrap();
    assert_eq!(result.claims.len(), 1);
    assert_eq!(result.skipped[0].reason, "48g was not run");
    let typo = Claim::value("v", "16g.ronds", "before").within(0.0, 9.0);
    assert!(ExperimentResult::collect(header(), &runs, &[typo.part("16g")]).is_err());
}
