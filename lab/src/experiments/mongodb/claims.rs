//! Acceptance rows (`docs/reference/experiments.md#mongodb`).

use coldset_report::{Band, Claim, ReportError, SeedView};

/// Rows for a pair of variants.
pub fn claims(before: &str, after: &str) -> Vec<Claim> {
    let mut rows = published(before, after);
    rows.extend(controls(before, after));
    rows
}

/// What each part of the mechanism does when it is alone, or missing.
fn controls(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    let ratio = |name: &str, counter: &'static str| {
        let (b, a) = (b.clone(), a.clone());
        Claim::derived(name, move |v| {
            Ok(of_control(v, &a, counter)? / of_control(v, &b, counter)?)
        })
    };
    let (of_before, of_after) = (b.clone(), a.clone());
    vec![
        Claim::value(
            "blocks read per op, classic",
            "blocks_per_op",
            super::CLASSIC,
        )
        .always(Band::at_most(0.62)),
        ratio("blocks read per op without read-ahead", "ra0.blocks_per_op")
            .always(Band::between(0.97, 1.03)),
        ratio(
            "blocks read per op with dirty limits of the memcg",
            "memcg.blocks_per_op",
        )
        .always(Band::at_least(0.93)),
        Claim::derived(
            "random advice: correlation of blocks read with the dirty share, before",
            move |v| of_control(v, &of_before, "random.reads_follow_dirty_share"),
        )
        .always(Band::at_least(0.0)),
        Claim::derived(
            "random advice: windows started by dirty pages, after a wake-up / before it, after",
            move |v| {
                let at = |counter| of_control(v, &of_after, counter);
                let before = at("random.dirty_windows_before_wakeups")?;
                Ok(at("random.dirty_windows_after_wakeups")? / before.max(1.0))
            },
        )
        .always(Band::at_most(0.5)),
    ]
}

/// A counter of a control.
fn of_control(v: &SeedView<'_>, variant: &str, counter: &str) -> Result<f64, ReportError> {
    if !v.has(variant, counter)? {
        return Err(ReportError::NoCell(format!("control {counter}")));
    }
    v.get(variant, counter)
}

fn published(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    vec![
        Claim::ratio("throughput", "throughput", before, after)
            .within(1.15, 1.45)
            .published_pair(62485.03, 79760.72)
            .unit("ops/s")
            .higher_is_better(),
        Claim::ratio("average latency", "latency_us", before, after)
            .within(0.70, 0.88)
            .published_pair(500.97, 391.25)
            .unit("us")
            .lower_is_better(),
        Claim::ratio("file refaults", "workingset_refault_file", before, after)
            .within(0.42, 0.75)
            .published_pair(34_522_071.0, 19_566_366.0)
            .unit("pages")
            .lower_is_better(),
        Claim::ratio("pgpgin", "pgpgin", before, after)
            .within(0.58, 0.85)
            .published_pair(159_347_462.0, 111_093_923.0)
            .unit("KiB")
            .lower_is_better(),
        Claim::ratio("pgpgout", "pgpgout", before, after)
            .within(0.90, 1.12)
            .published_pair(5_413_332.0, 5_437_456.0)
            .unit("KiB"),
        Claim::value("blocks read per op, before", "blocks_per_op", before)
            .within_band(Band::at_least(0.70))
            .published(0.83),
        Claim::value("blocks read per op, after", "blocks_per_op", after)
            .within(0.53, 0.66)
            .published(0.58)
            .lower_is_better(),
        Claim::predicate("no anonymous refault, no OOM", move |v| {
            let mut none = true;
            for name in [&b, &a] {
                none &= v.get(name, "workingset_refault_anon")? == 0.0;
                none &= v.get(name, "oom_kill")? == 0.0;
            }
            Ok(none)
        })
        .always(Band::exactly(1.0)),
        mechanism_moves(before, after),
        mechanism_wakes(before, after),
    ]
}

/// Per stolen page, before moves up more dirty pages at the cold end than after re-activates.
fn mechanism_moves(before: &str, after: &str) -> Claim {
    let (b, a) = (before.to_string(), after.to_string());
    Claim::derived(
        "dirty pages moved up (before) less re-activated (after), per stolen page",
        move |v| {
            let up = v.get(&b, "dirty_moved_up")? / v.get(&b, "pgsteal")?.max(1.0);
            let re = v.get(&a, "dirty_reactivated")? / v.get(&a, "pgsteal")?.max(1.0);
            Ok(up - re)
        },
    )
    .direction_within(Band::at_least(f64::EPSILON))
}

/// After wakes the flushers more often per dirty page scanned.
fn mechanism_wakes(before: &str, after: &str) -> Claim {
    let (b, a) = (before.to_string(), after.to_string());
    Claim::derived(
        "flusher wake-ups per 1000 dirty pages scanned, after less before",
        move |v| {
            let rate = |name: &str| {
                Ok::<_, coldset_report::ReportError>(
                    1000.0 * v.get(name, "flusher_wakeups")?
                        / v.get(name, "unqueued_dirty")?.max(1.0),
                )
            };
            Ok(rate(&a)? - rate(&b)?)
        },
    )
    .direction_within(Band::at_least(0.0))
}
