//! Judging a claim on a result.

use super::claim::{Band, Claim, Class, Direction, Measure, Published};
use super::{ExperimentResult, ReportError};
use crate::stats::{paired_ratio, Interval, Spread};

/// Width of the band of class N where the claim gives none.
const NOISE: f64 = 0.03;

/// A judged claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimResult {
    /// Name of the claim.
    pub name: String,
    /// How it was judged.
    pub class: Class,
    /// Figure of the original report.
    pub published: Option<Published>,
    /// Median over the seeds (condition: share of the seeds in which it holds); `None`
    /// where there is no ratio.
    pub value: Option<f64>,
    /// 95 % confidence interval of the mean over the seeds; `None` for one seed or a
    /// condition.
    pub ci95: Option<Interval>,
    /// Band it was judged by.
    pub band: Option<Band>,
    /// Class D without a band: side of the neutral value that is right.
    pub side: Option<Side>,
    /// Verdict.
    pub pass: bool,
    /// Unit of the counter; empty for none.
    pub unit: String,
    /// Which way is good.
    pub direction: Direction,
    /// Remark for the reader; empty for none.
    pub note: String,
    /// The parameter that the figure only gives back; empty for none.
    pub restates: String,
    /// Where it is shown that the workload cannot give the figure; empty for nowhere.
    pub cannot: String,
    /// Figure under each seed (condition: 1 or 0).
    pub per_seed: Vec<f64>,
    /// Seeds outside what every seed must keep (classes A and N).
    pub failing_seeds: Vec<u64>,
    /// Why it fails; empty if it passes.
    pub reason: String,
    /// What is measured.
    pub subject: Subject,
}

/// A claim that could not be judged because a variant was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Name of the claim.
    pub name: String,
    /// What is missing.
    pub reason: String,
}

/// Right side of the neutral value (1 for ratios, 0 for others).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Side {
    /// Strictly above.
    Above(f64),
    /// Strictly below.
    Below(f64),
}

/// What a judged claim measured, with names for the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Ratio of (variant, counter) after to before.
    Ratio {
        /// Denominator.
        before: super::Term,
        /// Numerator.
        after: super::Term,
    },
    /// Difference of (variant, counter).
    Difference {
        /// Subtracted.
        before: super::Term,
        /// Subtracted from.
        after: super::Term,
    },
    /// One counter.
    Value(super::Term),
    /// A computed figure.
    Derived,
    /// A condition.
    Predicate,
}

/// Judges one claim.
///
/// # Errors
/// Unknown variant or counter, a part that was not run, or a claim without what its class needs.
pub(super) fn judge(claim: &Claim, result: &ExperimentResult) -> Result<ClaimResult, ReportError> {
    if !claim.part.is_empty() && !result.ran(&claim.part) {
        return Err(ReportError::NoCell(claim.part.clone()));
    }
    let (subject, figures) = measure(claim, result)?;
    let mut judged = ClaimResult {
        name: claim.name.clone(),
        class: claim.class,
        published: claim.published.clone(),
        value: None,
        ci95: None,
        band: claim.band,
        side: None,
        pass: false,
        unit: claim.unit.clone(),
        direction: claim.direction,
        note: claim.note.clone(),
        restates: claim.restates.clone(),
        cannot: claim.cannot.clone(),
        per_seed: Vec::new(),
        failing_seeds: Vec::new(),
        reason: String::new(),
        subject,
    };
    let rule = Rule::of(claim)?;
    judged.band = rule.band.or(claim.band);
    judged.side = rule.side;
    let spread = match figures {
        Ok(spread) => spread,
        Err(why) => {
            judged.reason = why;
            return Ok(judged);
        }
    };
    let condition = judged.subject == Subject::Predicate;
    judged.value = Some(if condition {
        spread.mean
    } else {
        spread.median
    });
    judged.ci95 = spread.ci95.filter(|_| !condition);
    judged.failing_seeds = result
        .seeds
        .iter()
        .zip(&spread.per_seed)
        .filter(|(_, &figure)| !rule.each.is_none_or(|band| band.contains(figure)))
        .map(|(&seed, _)| seed)
        .collect();
    judged.reason = rule.why_out(&spread, judged.failing_seeds.len());
    judged.pass = judged.reason.is_empty();
    judged.per_seed = spread.per_seed;
    Ok(judged)
}

/// What the figures must satisfy.
struct Rule {
    /// Band to show.
    band: Option<Band>,
    /// Band of the median.
    median: Option<Band>,
    /// Side of the median.
    side: Option<Side>,
    /// Band of every seed.
    each: Option<Band>,
    /// Share of the seeds that must be in `each`.
    seeds_needed: (u32, u32),
}

impl Rule {
    fn of(claim: &Claim) -> Result<Self, ReportError> {
        let bad = |problem| ReportError::BadClaim {
            claim: claim.name.clone(),
            problem,
        };
        let condition = matches!(claim.what, Measure::Predicate(_));
        let ratio = matches!(claim.what, Measure::Ratio { .. });
        let mut rule = Self {
            band: claim.band,
            median: None,
            side: None,
            each: None,
            seeds_needed: (1, 1),
        };
        match claim.class {
            Class::A => {
                let band = condition.then(|| Band::exactly(1.0)).or(claim.band);
                rule.each = Some(band.ok_or_else(|| bad("class A needs a band or a condition"))?);
                rule.band = if condition { None } else { rule.each };
                rule.seeds_needed = claim.seeds_needed;
                let (num, den) = claim.seeds_needed;
                if den == 0 || num > den {
                    return Err(bad("the share of seeds needed must be a fraction up to 1"));
                }
            }
            _ if condition => return Err(bad("a condition is judged by class A only")),
            Class::B => {
                rule.median = Some(claim.band.ok_or_else(|| bad("class B needs a band"))?);
            }
            Class::N => {
                let default = ratio.then(|| Band::around(1.0, NOISE));
                let band = claim.band.or(default);
                let band = band.ok_or_else(|| bad("class N needs a ratio or a band"))?;
                rule.band = Some(band);
                rule.median = Some(band);
                rule.each = Some(claim.seed_band.unwrap_or_else(|| band.doubled()));
            }
            Class::D if claim.band.is_some() => rule.median = claim.band,
            Class::D => {
                let side = right_side(claim, if ratio { 1.0 } else { 0.0 });
                rule.side = Some(side.ok_or_else(|| {
                    bad("class D needs a band, a published figure or a better direction")
                })?);
            }
        }
        Ok(rule)
    }

    /// Empty if the figures are in.
    fn why_out(&self, spread: &Spread, failing: usize) -> String {
        let median = spread.median;
        if self.median.is_some_and(|band| !band.contains(median)) {
            return "median outside the band".into();
        }
        match self.side {
            Some(Side::Above(neutral)) if median <= neutral => {
                return "wrong direction: should be above".into();
            }
            Some(Side::Below(neutral)) if median >= neutral => {
                return "wrong direction: should be below".into();
            }
            _ => {}
        }
        let seeds = spread.per_seed.len();
        let (num, den) = self.seeds_needed;
        let needed = (seeds * num as usize).div_ceil(den as usize);
        if self.each.is_some() && seeds - failing < needed {
            let holds = seeds - failing;
            return format!("holds for {holds} of {seeds} seeds, {needed} needed");
        }
        String::new()
    }
}

/// Side of `neutral` on which the published figure or the good direction lies.
fn right_side(claim: &Claim, neutral: f64) -> Option<Side> {
    let published = match claim.published {
        Some(Published::Number(x)) => Some(x),
        Some(Published::Pair { before, after }) => Some(neutral + (after - before)),
        _ => None,
    };
    match (published, claim.direction) {
        (Some(x), _) if x > neutral => Some(Side::Above(neutral)),
        (Some(x), _) if x < neutral => Some(Side::Below(neutral)),
        (_, Direction::HigherIsBetter) => Some(Side::Above(neutral)),
        (_, Direction::LowerIsBetter) => Some(Side::Below(neutral)),
        _ => None,
    }
}

type Figures = Result<Spread, String>;

/// Figure under each seed; the inner error is a reason to fail, not a mistake.
fn measure(claim: &Claim, result: &ExperimentResult) -> Result<(Subject, Figures), ReportError> {
    let column = |term: &super::Term| -> Result<Vec<f64>, ReportError> {
        let summary = result.counter(&term.variant, &term.counter)?;
        Ok(summary.per_seed.iter().map(|v| v.as_f64()).collect())
    };
    let spread = |figures: Vec<f64>| -> Figures {
        match figures.iter().position(|x| !x.is_finite()) {
            Some(at) => Err(format!("no figure for seed {}", result.seeds[at])),
            None => Spread::of(figures).ok_or_else(|| "no seeds".into()),
        }
    };
    Ok(match &claim.what {
        Measure::Ratio { before, after } => {
            let figures = paired_ratio(&column(before)?, &column(after)?);
            let (before, after) = (before.clone(), after.clone());
            let figures = figures.map_err(|error| error.to_string());
            (Subject::Ratio { before, after }, figures)
        }
        Measure::Difference { before, after } => {
            let pairs = column(before)?.into_iter().zip(column(after)?);
            let figures = pairs.map(|(b, a)| a - b).collect();
            let (before, after) = (before.clone(), after.clone());
            (Subject::Difference { before, after }, spread(figures))
        }
        Measure::Value(term) => (Subject::Value(term.clone()), spread(column(term)?)),
        Measure::Derived(figure) => {
            let figures: Result<Vec<f64>, _> = result.by_seed().map(|s| figure(&s)).collect();
            (Subject::Derived, spread(figures?))
        }
        Measure::Predicate(condition) => {
            let holds: Result<Vec<bool>, _> = result.by_seed().map(|s| condition(&s)).collect();
            let figures = holds?.into_iter().map(|h| f64::from(u8::from(h))).collect();
            (Subject::Predicate, spread(figures))
        }
    })
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
