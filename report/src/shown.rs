//! How numbers, means and claims are written for people: the words of every table.

use crate::{Band, ClaimResult, Direction, Published, Side, Subject};

/// Runs from which half a confidence interval is shown: that of two is 12.7 times their spread, which tells
/// nobody anything.
pub(crate) const SPREAD_FROM: usize = 3;

/// A number with thousands separators and about four significant digits; whole numbers
/// in full.
#[must_use]
pub fn human(x: f64) -> String {
    if !x.is_finite() {
        return "n/a".into();
    }
    let size = x.abs();
    let decimals = match size {
        _ if x.fract() == 0.0 => 0,
        s if s >= 1000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.001 => 5,
        _ => return format!("{x:.2e}"),
    };
    separated(&format!("{x:.decimals$}"))
}

/// A ratio, three decimals (four below 0.01, fewer for large ones).
#[must_use]
pub fn ratio(x: f64) -> String {
    match x.abs() {
        s if s >= 1000.0 => human(x.round()),
        s if s >= 100.0 => format!("{x:.1}"),
        s if s >= 0.01 || s == 0.0 => format!("{x:.3}"),
        _ => format!("{x:.5}"),
    }
}

/// An end of a band: no superfluous digits.
fn edge(x: f64) -> String {
    let rounded = (x * 1e6).round() / 1e6;
    separated(&format!("{rounded}"))
}

/// Inserts commas into the whole part.
fn separated(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// Half a confidence interval in text.
#[must_use]
pub fn half(half: f64) -> String {
    human(if half >= 10.0 { half.round() } else { half })
}

/// The same on a page: as many digits as the mean shows are enough, unless nothing would be left.
#[must_use]
pub fn half_beside(mean: &str, half: f64) -> String {
    let decimals = mean.split_once('.').map_or(0, |(_, digits)| digits.len());
    let step = 10f64.powi(decimals.min(9) as i32);
    let rounded = (half * step).round() / step;
    if rounded == 0.0 || rounded >= 1000.0 {
        human(half.max(rounded))
    } else {
        format!("{rounded:.decimals$}")
    }
}

/// Seeds as they are given: `1 2 3`.
#[must_use]
pub fn seeds(seeds: &[u64]) -> String {
    let list: Vec<String> = seeds.iter().map(u64::to_string).collect();
    list.join(" ")
}

/// Which way is good.
#[must_use]
pub const fn better(direction: Direction) -> &'static str {
    match direction {
        Direction::HigherIsBetter => "higher",
        Direction::LowerIsBetter => "lower",
        Direction::Neutral => "",
    }
}

/// A judged claim in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownClaim {
    /// What the figure is of: `v5 / base`.
    pub of: String,
    /// Median over the seeds, and half the width of the interval: `0.567 \u{b1}0.012`.
    pub figure: String,
    /// The figure; of a condition, under how many seeds it holds: `5/5 seeds`.
    pub ours: String,
    /// What the original report gave: a figure, or the change between two.
    pub published: String,
    /// Where the figure must lie: `1.15..1.25`, `>= 1.2`, `> 1`.
    pub band: String,
    /// `in` or `OUT`.
    pub verdict: &'static str,
    /// Which way is good.
    pub better: &'static str,
}

impl ClaimResult {
    /// Whether its figure is a quotient.
    #[must_use]
    pub fn is_ratio(&self) -> bool {
        matches!(self.subject, Subject::Ratio { .. })
    }

    /// Whether it is a condition, which has no figure.
    #[must_use]
    pub fn is_condition(&self) -> bool {
        self.subject == Subject::Predicate
    }

    /// In words.
    #[must_use]
    pub fn shown(&self) -> ShownClaim {
        let show = if self.is_ratio() { ratio } else { human };
        let figure = match (self.value, self.ci95) {
            (None, _) => "n/a".into(),
            (Some(x), Some(ci)) if ci.half_width() > 0.0 && self.per_seed.len() >= SPREAD_FROM => {
                format!("{} \u{b1}{}", show(x), show(ci.half_width()))
            }
            (Some(x), _) => show(x),
        };
        let ours = if self.is_condition() {
            let seeds = self.per_seed.len();
            format!("{}/{seeds} seeds", seeds - self.failing_seeds.len())
        } else {
            figure.clone()
        };
        let published = match &self.published {
            None => String::new(),
            Some(Published::Number(x)) => show(*x),
            Some(Published::Pair { before, after }) if self.is_ratio() => ratio(after / before),
            Some(Published::Pair { before, after }) => human(after - before),
            Some(Published::Text(text)) => text.clone(),
        };
        ShownClaim {
            of: of(&self.subject),
            figure,
            ours,
            published,
            band: band(self),
            verdict: match self.pass {
                true => "in",
                false if self.cannot.is_empty() => "OUT",
                false => "cannot",
            },
            better: better(self.direction),
        }
    }
}

fn of(subject: &Subject) -> String {
    match subject {
        Subject::Ratio { before, after } => format!("{} / {}", after.variant, before.variant),
        Subject::Difference { before, after } => {
            format!("{} - {}", after.variant, before.variant)
        }
        Subject::Value(term) => term.variant.clone(),
        Subject::Derived | Subject::Predicate => String::new(),
    }
}

fn band(claim: &ClaimResult) -> String {
    match (claim.band, claim.side) {
        (Some(Band { lo, hi }), _) => {
            if lo == hi {
                edge(lo)
            } else if lo == f64::NEG_INFINITY {
                format!("<= {}", edge(hi))
            } else if hi == f64::INFINITY {
                format!(">= {}", edge(lo))
            } else {
                format!("{}..{}", edge(lo), edge(hi))
            }
        }
        (None, Some(Side::Above(neutral))) => format!("> {}", edge(neutral)),
        (None, Some(Side::Below(neutral))) => format!("< {}", edge(neutral)),
        (None, None) => String::new(),
    }
}

/// `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

/// Breaks a text into lines of at most `columns`.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > columns {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_digits() {
        let cases = [
            (0.0, "0"),
            (999.0, "999"),
            (159_347_462.0, "159,347,462"),
            (-1234.0, "-1,234"),
            (62_485.03, "62,485"),
            (500.97, "501.0"),
            (26.56, "26.56"),
            (0.567, "0.567"),
            (0.0123, "0.01230"),
            (0.000_012, "1.20e-5"),
            (f64::INFINITY, "n/a"),
        ];
        for (x, text) in cases {
            assert_eq!(human(x), text);
        }
        assert_eq!(ratio(0.567_4), "0.567");
        assert_eq!(ratio(0.0012), "0.00120");
        assert_eq!(edge(1.0 - 0.03), "0.97");
        assert_eq!(edge(5000.0), "5,000");
    }

    #[test]
    fn half_an_interval_has_the_digits_of_the_mean_on_a_page() {
        for (mean, x, page, text) in [
            ("249.5", 6.353, "6.4", "6.353"),
            ("1,028", 6.353, "6", "6.353"),
            ("79.88", 12.694, "12.69", "13"),
            ("5", 0.2, "0.200", "0.200"),
            ("50,123", 4321.0, "4,321", "4,321"),
        ] {
            assert_eq!((half_beside(mean, x), half(x)), (page.into(), text.into()));
        }
    }
}
