//! Acceptance rows (`docs/systems/faulty-backport.md`).

use coldset_report::{flag, Band, Claim};

/// Why a lost budget cannot bring back more pages than reclaim of the whole machine has freed.
const BUDGET: &str = "docs/acceptance.md#android-heavy-budget";

/// Rows for a sound kernel and a candidate that must be flagged.
pub(super) fn claims(before: &str, faulty: &str) -> Vec<Claim> {
    let mut rows = vec![flagged(before, faulty, true)];
    for sound in super::EXPERIMENT.extra {
        rows.push(flagged(before, sound, false));
    }
    let ratio = |name: &str, counter: &str| Claim::ratio(name, counter, before, faulty);
    rows.extend([
        ratio("anonymous refaults", "workingset_refault_anon")
            .within(1.8, 8.0)
            .published_pair(390_967.0, 1_492_964.0)
            .unit("pages")
            .cannot(BUDGET),
        ratio("file refaults", "workingset_refault_file")
            .within(2.0, 15.0)
            .published_pair(79_927.0, 590_505.0)
            .unit("pages")
            .cannot(BUDGET),
        ratio("launch total", "launch_total_ms")
            .within(1.05, 1.40)
            .published_pair(7702.0, 8872.0)
            .unit("ms"),
        ratio("camera launch", "camera_ms")
            .within(1.15, 2.0)
            .published_pair(684.0, 980.0)
            .unit("ms"),
        ratio("reclaim speed", "reclaim_mb_per_ms")
            .within(0.15, 0.6)
            .published_pair(0.339, 0.111)
            .unit("MB/ms"),
        ratio("Cached", "cached_mb")
            .within(0.70, 0.95)
            .published_pair(3862.0, 3213.0)
            .unit("MB"),
        ratio("direct reclaim calls", "direct_reclaim")
            .direction_within(Band::at_least(1.0))
            .published_pair(16_117.0, 27_562.0),
        ratio("pgpgin", "pgpgin")
            .direction_within(Band::at_least(1.0))
            .published_pair(3_701_869.0, 5_752_429.0)
            .unit("KiB")
            .note("without zram, which has zram_in and zram_out")
            .cannot(BUDGET),
    ]);
    // Against the series without the faults: what the series itself does is no lost budget.
    for sound in super::EXPERIMENT.extra {
        let name = "pages scanned per call of reclaim";
        let row = Claim::ratio(name, "pgscan_per_call", sound, faulty)
            .direction_within(Band::at_least(1.0 + f64::EPSILON))
            .note("the budget is lost");
        rows.push(row);
    }
    rows
}

/// The flagging rule fires, or does not, under every seed.
fn flagged(before: &str, candidate: &str, fires: bool) -> Claim {
    let (b, c) = (before.to_string(), candidate.to_string());
    let verb = if fires {
        "is flagged"
    } else {
        "is not flagged"
    };
    Claim::predicate(format!("{candidate} {verb}"), move |v| {
        Ok(flag(v, &b, &c)?.fires() == fires)
    })
    .always(Band::exactly(1.0))
    .published(if fires {
        "two signs or more"
    } else {
        "fewer than two signs"
    })
}
