//! Acceptance rows (`docs/reference/experiments.md#mysql`).

use coldset_report::{Band, Claim};

/// Steps of the series, each against the one before, with the throughput published for both in
/// version 2. Version 2 has no patch 8 and joins 9 and 10: its patch 8.
const STEPS: [(&str, Option<(f64, f64)>); 8] = [
    ("step4", None),
    ("step5", None),
    ("step6", Some((17_259.975714, 17_230.475714))),
    ("step7", Some((17_230.475714, 17_250.316667))),
    ("step8", None),
    ("step9", None),
    ("step10", None),
    ("step14", Some((17_278.933333, 17_265.361667))),
];

/// Rows for a pair of variants.
pub fn claims(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    let mut rows = vec![
        Claim::ratio("throughput", "throughput", before, after)
            .noise()
            .published_pair(17_260.781429, 17_266.842857)
            .unit("tps")
            .higher_is_better(),
        Claim::ratio(
            "anonymous refaults",
            "workingset_refault_anon",
            before,
            after,
        )
        .noise_of(0.10)
        .unit("pages"),
        Claim::ratio("swap-ins", "pswpin", before, after)
            .noise_of(0.10)
            .unit("pages"),
        Claim::predicate("no OOM", move |v| {
            Ok(v.get(&b, "oom_kill")? == 0.0 && v.get(&a, "oom_kill")? == 0.0)
        })
        .always(Band::exactly(1.0)),
        // The cost model's anchor (`docs/rules/machine.md#costs`): a factor of 3 is a finding.
        Claim::value("transaction, mean, after", "transaction_ms", after)
            .direction_within(Band::between(2.78 / 3.0, 2.78 * 3.0))
            .published(2.78)
            .unit("ms"),
    ];
    for variant in [before, after].into_iter().filter(|&v| v != "classic") {
        let name = format!("throughput, {variant} / classic");
        rows.push(
            Claim::ratio(name, "throughput", "classic", variant)
                .direction_within(Band::at_least(0.97))
                .unit("tps"),
        );
    }
    let mut last = before;
    for (step, published) in STEPS {
        let name = format!("throughput, {step} / {last}");
        let row = Claim::ratio(name, "throughput", last, step)
            .noise()
            .unit("tps");
        rows.push(match published {
            Some((before, after)) => row.published_pair(before, after),
            None => row,
        });
        last = step;
    }
    rows
}
