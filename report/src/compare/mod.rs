//! Two results of `lab run --json` side by side: two versions of the engine, two sets of costs, two
//! scales; or two of `lab replay`, `play` and `kernel play`.

mod read;
mod replays;
mod replays_text;
mod text;

pub use read::{read, CompareError, ReadFile, ReadResult};
pub use replays::{compare_replays, ComparedColumns, ReadReplays, ReplayComparison, ReplayRow};
pub(crate) use replays_text::HOW;
pub use replays_text::{render_replay_comparison, replay_comparison_json};
pub use text::{comparison_json, render_comparison};

use crate::stats::{differs_from_nothing, paired_ratio, Spread};
use crate::{
    Band, Claim, CounterSummary, Direction, ExperimentResult, Header, Measure, ReportError,
    RunResult,
};

/// What a counter did from one file to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Clearly the good way.
    Better,
    /// Clearly the bad way.
    Worse,
    /// Clearly different; which way is good is not known.
    Changed,
    /// The interval of the ratio contains 1.
    Noise,
    /// The same values under every seed.
    Equal,
}

impl Verdict {
    /// As in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Changed => "changed",
            Self::Noise => "noise",
            Self::Equal => "equal",
        }
    }

    /// Good, bad, or neither.
    #[must_use]
    pub const fn good(self) -> Option<bool> {
        match self {
            Self::Better => Some(true),
            Self::Worse => Some(false),
            _ => None,
        }
    }
}

/// One counter of a variant.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name: that of the claim, or of the counter.
    pub name: String,
    /// What is counted.
    pub counter: String,
    /// Unit; empty for none.
    pub unit: String,
    /// Which way is good.
    pub direction: Direction,
    /// The experiment makes a claim about it.
    pub claimed: bool,
    /// In the first result.
    pub before: CounterSummary,
    /// In the second one.
    pub after: CounterSummary,
    /// after / before, seed by seed; none after 0.
    pub ratio: Option<Spread>,
    /// What came of it.
    pub verdict: Verdict,
}

/// A variant that both files have.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its name in the files.
    pub variant: String,
    /// Both sides, for tables and charts: `before:NAME` and `after:NAME`.
    pub result: ExperimentResult,
    /// Counters that claims are about, then all others.
    pub rows: Vec<Row>,
}

/// Two files.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Names of the files.
    pub files: [String; 2],
    /// Name of the experiment.
    pub experiment: String,
    /// Lines of the headers that differ: name, before, after.
    pub differing: Vec<(String, String, String)>,
    /// Seeds of both.
    pub seeds: Vec<u64>,
    /// Variants of both.
    pub variants: Vec<Compared>,
    /// Variants of one file only, with its name.
    pub alone: Vec<(String, String)>,
}

/// The claims of the experiment called so, of a variant `before` and one `after`; none if it is not known.
pub type ClaimsOf = fn(&str) -> Vec<Claim>;

/// Compares two results. What they measure gets its name, unit and direction from `claims_of`.
///
/// # Errors
/// Other experiments, no variant or no seed in common.
pub fn compare(
    before: &ReadResult,
    after: &ReadResult,
    claims_of: ClaimsOf,
) -> Result<Comparison, CompareError> {
    let name = |r: &ReadResult| r.result.header.experiment.clone();
    if name(before) != name(after) {
        return Err(CompareError::Experiments {
            before: name(before),
            after: name(after),
        });
    }
    let seeds: Vec<u64> = before.result.seeds.clone();
    let seeds: Vec<u64> = seeds
        .into_iter()
        .filter(|s| after.result.seeds.contains(s))
        .collect();
    if seeds.is_empty() {
        return Err(CompareError::NoSeed);
    }
    let claims = counters(claims_of(&name(before)));
    let common = |variant: &&String| after.result.variants.contains_key(*variant);
    let mut variants = Vec::new();
    for variant in before.result.variants.keys().filter(common) {
        variants.push(one(
            variant,
            [&before.result, &after.result],
            &seeds,
            &claims,
        )?);
    }
    if variants.is_empty() {
        let list = |r: &ReadResult| {
            let names: Vec<&str> = r.result.variants.keys().map(String::as_str).collect();
            names.join(", ")
        };
        return Err(CompareError::NoVariant {
            before: list(before),
            after: list(after),
        });
    }
    let mut alone = Vec::new();
    for (own, other) in [(before, after), (after, before)] {
        for variant in own.result.variants.keys() {
            if !other.result.variants.contains_key(variant) {
                alone.push((variant.clone(), own.name.clone()));
            }
        }
    }
    Ok(Comparison {
        files: [before.name.clone(), after.name.clone()],
        experiment: name(before),
        differing: differing(&before.result, &after.result),
        seeds,
        variants,
        alone,
    })
}

fn differing(before: &ExperimentResult, after: &ExperimentResult) -> Vec<(String, String, String)> {
    let lines = |r: &ExperimentResult| {
        let seeds: Vec<String> = r.seeds.iter().map(u64::to_string).collect();
        let mut lines = vec![
            ("scale".to_owned(), r.header.scale.clone()),
            ("effort".to_owned(), r.header.effort.clone()),
            ("seeds".to_owned(), seeds.join(" ")),
        ];
        let own = r.header.parameters.iter();
        lines.extend(own.map(|(n, v)| (n.clone(), v.clone())));
        lines
    };
    let (b, a) = (lines(before), lines(after));
    let find = |list: &[(String, String)], name: &str| {
        let found = list.iter().find(|(n, _)| n == name);
        found.map_or_else(|| "default".to_owned(), |(_, v)| v.clone())
    };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in b.iter().chain(&a) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .map(|n| (n.clone(), find(&b, n), find(&a, n)))
        .filter(|(_, b, a)| b != a)
        .collect()
}

/// The first claim of each counter that compares before with after.
fn counters(claims: Vec<Claim>) -> Vec<(String, Claim)> {
    let mut list: Vec<(String, Claim)> = Vec::new();
    for claim in claims {
        let counter = match &claim.what {
            // The other way round is the same counter with the directions swapped.
            Measure::Ratio { before, after }
                if before.counter == after.counter && before.variant == "before" =>
            {
                after.counter.clone()
            }
            _ => continue,
        };
        if !list.iter().any(|(c, _)| *c == counter) {
            list.push((counter, claim));
        }
    }
    list
}

fn one(
    variant: &str,
    files: [&ExperimentResult; 2],
    seeds: &[u64],
    claims: &[(String, Claim)],
) -> Result<Compared, ReportError> {
    let labels = [format!("before:{variant}"), format!("after:{variant}")];
    let mut runs = Vec::new();
    for (label, file) in labels.iter().zip(files) {
        for &seed in seeds {
            let at = file.seeds.iter().position(|&s| s == seed).unwrap_or(0);
            let mut run = RunResult::new(label, seed);
            for (counter, summary) in &file.variants[variant] {
                run.set(counter, summary.per_seed[at]);
            }
            runs.push(run);
        }
    }
    let both = |counter: &str| {
        files
            .iter()
            .all(|f| f.variants[variant].contains_key(counter))
    };
    let used: Vec<Claim> = claims
        .iter()
        .filter(|(counter, _)| both(counter))
        .map(|(counter, claim)| {
            let mut own = Claim::ratio(&claim.name, counter, &labels[0], &labels[1])
                .direction_within(Band::at_least(0.0))
                .unit(&claim.unit);
            own.direction = claim.direction;
            own
        })
        .collect();
    let header = Header {
        experiment: files[0].header.experiment.clone(),
        ..Header::default()
    };
    let result = ExperimentResult::collect(header, &runs, &used)?;
    let side = |i: usize| &result.variants[labels[i].as_str()];
    let mut rows: Vec<Row> = side(0)
        .iter()
        .filter_map(|(counter, before)| {
            let after = side(1).get(counter)?;
            let claim = claims.iter().find(|(c, _)| c == counter).map(|(_, c)| c);
            let ratio = ratio(&values(before), &values(after));
            let direction = claim.map_or(Direction::Neutral, |c| c.direction);
            Some(Row {
                name: claim.map_or_else(|| counter.clone(), |c| c.name.clone()),
                counter: counter.clone(),
                unit: claim.map_or_else(String::new, |c| c.unit.clone()),
                direction,
                claimed: claim.is_some(),
                verdict: judge(before, after, ratio.as_ref(), direction),
                before: before.clone(),
                after: after.clone(),
                ratio,
            })
        })
        .collect();
    rows.sort_by_key(|row| {
        let place = claims.iter().position(|(c, _)| *c == row.counter);
        place.unwrap_or(claims.len())
    });
    Ok(Compared {
        variant: variant.to_owned(),
        result,
        rows,
    })
}

fn values(summary: &CounterSummary) -> Vec<f64> {
    summary.per_seed.iter().map(|v| v.as_f64()).collect()
}

/// After by before, seed by seed. Seeds with nothing on both sides say nothing of it, unless all are so.
fn ratio(before: &[f64], after: &[f64]) -> Option<Spread> {
    let pairs = before.iter().zip(after);
    let (b, a): (Vec<f64>, Vec<f64>) = pairs.filter(|&(&b, &a)| b != 0.0 || a != 0.0).unzip();
    let told = match b.is_empty() {
        true => paired_ratio(before, after),
        false => paired_ratio(&b, &a),
    };
    told.ok()
}

fn judge(
    before: &CounterSummary,
    after: &CounterSummary,
    ratio: Option<&Spread>,
    direction: Direction,
) -> Verdict {
    if before.per_seed == after.per_seed {
        return Verdict::Equal;
    }
    let up = after.mean.as_f64() > before.mean.as_f64();
    // Without an interval (one seed) any difference is shown as one. Where a seed has nothing before, there is no ratio.
    let noise = match ratio {
        Some(r) => r.ci95.is_some_and(|ci| ci.contains(1.0)),
        None => !differs_from_nothing(&values(before), &values(after)),
    };
    match (noise, direction) {
        (true, _) => Verdict::Noise,
        (_, Direction::Neutral) => Verdict::Changed,
        (_, d) if up == (d == Direction::HigherIsBetter) => Verdict::Better,
        _ => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests;
