//! JSON forms, with a fixed key order and number format.

use indexmap::IndexMap;
use serde_json::{json, Map, Value};

use super::claim::{Band, Published};
use super::judge::ClaimResult;
use super::{CounterSummary, ExperimentResult, Number};
use crate::stats::Interval;

/// A replayed trace: counters by variant, and what exact policies reach.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayResult {
    /// Variant, then counter.
    pub variants: IndexMap<String, IndexMap<String, CounterSummary>>,
    /// Figures of exact policies (LRU, clairvoyant) by name.
    pub bounds: IndexMap<String, Number>,
    /// By variant: parts of the work, in the order in which they began. Empty for most traces.
    pub phases: IndexMap<String, Vec<PhaseStart>>,
}

/// The moment at which a part of the work began.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PhaseStart {
    /// The number that the trace gives it.
    pub phase: u32,
    /// Accesses done.
    pub access: u64,
    /// Counters by name.
    pub counters: IndexMap<String, Number>,
}

/// `{"experiment", "scale", "seeds", "variants", "claims", "restated", "cannot", "effort", "effort_share",
/// "costs", "deviations", "parameters", "not_judged"}`, indented, with a final newline.
///
/// Intervals and bands are `[lo, hi]`, an open end is `null`.
#[must_use]
pub fn experiment_json(result: &ExperimentResult) -> String {
    pretty(&experiment_value(result))
}

/// `{"experiments": [...]}`, each as [`experiment_json`] prints it, and `failed`: experiments
/// that gave no result, with the reason. With `sensitivity`, under that key.
#[must_use]
pub fn experiments_json(
    results: &[&ExperimentResult],
    failed: &[(String, String)],
    sensitivity: Option<Value>,
) -> String {
    let experiments: Vec<Value> = results.iter().map(|r| experiment_value(r)).collect();
    let failed: Vec<Value> = failed
        .iter()
        .map(|(name, reason)| json!({"experiment": name, "reason": reason}))
        .collect();
    let mut value = json!({"experiments": experiments, "failed": failed});
    if let Some(sensitivity) = sensitivity {
        value["sensitivity"] = sensitivity;
    }
    pretty(&value)
}

/// The same as a value, for results that add to it.
pub fn experiment_value(result: &ExperimentResult) -> Value {
    let claims: Vec<Value> = result.claims.iter().map(claim).collect();
    let not_judged: Vec<Value> = result
        .skipped
        .iter()
        .map(|skipped| json!({"name": skipped.name, "reason": skipped.reason}))
        .collect();
    json!({
        "experiment": result.header.experiment,
        "scale": result.header.scale,
        "seeds": result.seeds,
        "variants": variants(&result.variants),
        "claims": claims,
        "restated": result.restated.iter().map(claim).collect::<Vec<_>>(),
        "cannot": result.cannot.iter().map(claim).collect::<Vec<_>>(),
        "effort": result.header.effort,
        "effort_share": result.header.effort_share,
        "costs": result.header.costs,
        "deviations": result.header.deviations,
        "parameters": result.header.parameters,
        "not_judged": not_judged,
    })
}

/// `{"variants", "bounds"}`, indented, with a final newline.
#[must_use]
pub fn replay_json(result: &ReplayResult) -> String {
    let bounds: Map<String, Value> = result
        .bounds
        .iter()
        .map(|(name, number)| (name.clone(), number.to_json()))
        .collect();
    let mut all = json!({"variants": variants(&result.variants), "bounds": bounds});
    if result.phases.values().any(|starts| !starts.is_empty()) {
        let of = |(variant, starts): (&String, &Vec<PhaseStart>)| {
            let starts: Vec<Value> = starts.iter().map(PhaseStart::to_json).collect();
            (variant.clone(), starts.into())
        };
        all["phases"] = result.phases.iter().map(of).collect::<Map<_, _>>().into();
    }
    pretty(&all)
}

impl PhaseStart {
    fn to_json(&self) -> Value {
        let counters = self.counters.iter();
        let counters: Map<String, Value> =
            counters.map(|(n, v)| (n.clone(), v.to_json())).collect();
        json!({"phase": self.phase, "access": self.access, "counters": counters})
    }
}

fn pretty(value: &Value) -> String {
    // The alternate form of a JSON value is the indented one and cannot fail.
    format!("{value:#}\n")
}

fn variants(variants: &IndexMap<String, IndexMap<String, CounterSummary>>) -> Value {
    let variant = |counters: &IndexMap<String, CounterSummary>| -> Value {
        counters
            .iter()
            .map(|(name, summary)| (name.clone(), counter(summary)))
            .collect()
    };
    variants
        .iter()
        .map(|(name, counters)| (name.clone(), variant(counters)))
        .collect()
}

fn counter(summary: &CounterSummary) -> Value {
    let per_seed: Vec<Value> = summary.per_seed.iter().map(|v| v.to_json()).collect();
    json!({
        "mean": summary.mean.to_json(),
        "ci95": interval(summary.ci95),
        "per_seed": per_seed,
    })
}

fn claim(claim: &ClaimResult) -> Value {
    let per_seed: Vec<Value> = claim.per_seed.iter().map(|&x| real(x)).collect();
    let mut value = json!({
        "name": claim.name,
        "class": claim.class.to_string(),
        "published": published(claim.published.as_ref()),
        "value": claim.value.map_or(Value::Null, real),
        "ci95": interval(claim.ci95),
        "band": claim.band.map_or(Value::Null, band),
        "pass": claim.pass,
        "unit": claim.unit,
        "per_seed": per_seed,
        "failing_seeds": claim.failing_seeds,
        "reason": claim.reason,
        "note": claim.note,
    });
    if !claim.restates.is_empty() {
        value["restates"] = claim.restates.as_str().into();
    }
    if !claim.cannot.is_empty() {
        value["cannot"] = claim.cannot.as_str().into();
    }
    if let Some(Published::Pair { before, after }) = claim.published {
        value["published_before"] = real(before);
        value["published_after"] = real(after);
    }
    value
}

fn published(published: Option<&Published>) -> Value {
    match published {
        None => Value::Null,
        Some(Published::Number(x)) => real(*x),
        Some(Published::Pair { before, after }) => real(after / before),
        Some(Published::Text(text)) => text.as_str().into(),
    }
}

fn real(x: f64) -> Value {
    Number::Real(x).to_json()
}

fn interval(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |i| json!([real(i.lo), real(i.hi)]))
}

fn band(band: Band) -> Value {
    json!([real(band.lo), real(band.hi)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{header, runs};
    use crate::Claim;

    fn result() -> ExperimentResult {
        let runs = runs(&[
            ("before", "ops", &[100.0, 100.0]),
            ("after", "ops", &[125.0, 130.5]),
        ]);
        let claims = [
            Claim::ratio("throughput", "ops", "before", "after")
                .within_band(Band::at_least(1.15))
                .published_pair(50.0, 64.0)
                .unit("ops/s"),
            Claim::ratio("other", "ops", "before", "classic").noise(),
        ];
        ExperimentResult::collect(header(), &runs, &claims).unwrap()
    }

    #[test]
    fn keys_are_in_the_agreed_order() {
        let text = experiment_json(&result());
        let value: Value = serde_json::from_str(&text).unwrap();
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            keys(&value)[..5],
            ["experiment", "scale", "seeds", "variants", "claims"]
        );
        assert_eq!(keys(&value["variants"]), ["before", "after"]);
        let ops = &value["variants"]["after"]["ops"];
        assert_eq!(keys(ops), ["mean", "ci95", "per_seed"]);
        assert_eq!(ops["per_seed"], json!([125, 130.5]));
        let claim = &value["claims"][0];
        assert_eq!(
            keys(claim)[..7],
            [
                "name",
                "class",
                "published",
                "value",
                "ci95",
                "band",
                "pass"
            ]
        );
        assert_eq!(claim["published"], json!(1.28));
        assert_eq!(claim["band"], json!([1.15, null]));
        assert_eq!(claim["pass"], json!(true));
        assert_eq!(value["not_judged"][0]["name"], "other");
        assert_eq!(text, experiment_json(&result()));
        assert!(text.contains("\"mean\": 100,\n"), "{text}");
    }

    #[test]
    fn replay_form() {
        let replay = ReplayResult {
            variants: result().variants,
            bounds: IndexMap::from([("lru_misses".to_owned(), Number::Int(7))]),
            phases: IndexMap::new(),
        };
        let value: Value = serde_json::from_str(&replay_json(&replay)).unwrap();
        assert_eq!(value["bounds"], json!({"lru_misses": 7}));
        assert_eq!(value["variants"]["before"]["ops"]["mean"], json!(100));
        assert!(value.get("phases").is_none());
        let start = PhaseStart {
            phase: 3,
            access: 40,
            counters: IndexMap::from([("pgscan".to_owned(), Number::Int(5))]),
        };
        let phases = IndexMap::from([("before".to_owned(), vec![start])]);
        let text = replay_json(&ReplayResult { phases, ..replay });
        let value: Value = serde_json::from_str(&text).unwrap();
        let expected = json!([{"phase": 3, "access": 40, "counters": {"pgscan": 5}}]);
        assert_eq!(value["phases"]["before"], expected);
    }
}
