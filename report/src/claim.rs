//! What an experiment must show (`docs/acceptance.md`).

use std::fmt;
use std::sync::Arc;

use super::{ReportError, SeedView};

/// Acceptance class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Must hold for every seed (or the stated share of them).
    A,
    /// Median over the seeds inside the band.
    B,
    /// Noise: median inside the band, no seed outside the wider one.
    N,
    /// Direction only.
    D,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More is better.
    HigherIsBetter,
    /// Less is better.
    LowerIsBetter,
    /// Neither.
    Neutral,
}

/// A closed interval, open-ended where an end is infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Lower end, or minus infinity.
    pub lo: f64,
    /// Upper end, or infinity.
    pub hi: f64,
}

impl Band {
    /// `lo..=hi`.
    #[must_use]
    pub fn between(lo: f64, hi: f64) -> Self {
        Self { lo, hi }
    }

    /// `centre` plus or minus `width`.
    #[must_use]
    pub fn around(centre: f64, width: f64) -> Self {
        Self::between(centre - width, centre + width)
    }

    /// `lo` or more.
    #[must_use]
    pub fn at_least(lo: f64) -> Self {
        Self::between(lo, f64::INFINITY)
    }

    /// `hi` or less.
    #[must_use]
    pub fn at_most(hi: f64) -> Self {
        Self::between(f64::NEG_INFINITY, hi)
    }

    /// Exactly `value`.
    #[must_use]
    pub fn exactly(value: f64) -> Self {
        Self::between(value, value)
    }

    /// True if `value` is inside.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// The band of the same centre and twice the width.
    #[must_use]
    pub fn doubled(&self) -> Self {
        let half = (self.hi - self.lo) / 2.0;
        Self::between(self.lo - half, self.hi + half)
    }
}

/// A counter of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Variant name.
    pub variant: String,
    /// Counter name.
    pub counter: String,
}

impl Term {
    /// A counter of a variant.
    #[must_use]
    pub fn new(variant: impl Into<String>, counter: impl Into<String>) -> Self {
        Self {
            variant: variant.into(),
            counter: counter.into(),
        }
    }
}

/// A figure computed under one seed.
pub type Figure = Arc<dyn Fn(&SeedView<'_>) -> Result<f64, ReportError> + Send + Sync>;
/// A condition on one seed.
pub type Condition = Arc<dyn Fn(&SeedView<'_>) -> Result<bool, ReportError> + Send + Sync>;

/// What a claim is about.
#[derive(Clone)]
pub enum Measure {
    /// `after / before`, seed by seed.
    Ratio {
        /// Denominator.
        before: Term,
        /// Numerator.
        after: Term,
    },
    /// `after - before`, seed by seed.
    Difference {
        /// Subtracted.
        before: Term,
        /// Subtracted from.
        after: Term,
    },
    /// One counter.
    Value(Term),
    /// Any figure.
    Derived(Figure),
    /// Any condition.
    Predicate(Condition),
}

impl fmt::Debug for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio { before, after } => write!(f, "Ratio({after:?} / {before:?})"),
            Self::Difference { before, after } => write!(f, "Difference({after:?} - {before:?})"),
            Self::Value(term) => write!(f, "Value({term:?})"),
            Self::Derived(_) => f.write_str("Derived(..)"),
            Self::Predicate(_) => f.write_str("Predicate(..)"),
        }
    }
}

/// The figure of the original report.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// One number: a ratio, difference or value, as the claim measures.
    Number(f64),
    /// The two sides of a ratio.
    Pair {
        /// Figure before.
        before: f64,
        /// Figure after.
        after: f64,
    },
    /// Anything else, as it should be shown.
    Text(String),
}

impl From<f64> for Published {
    fn from(x: f64) -> Self {
        Self::Number(x)
    }
}

impl From<&str> for Published {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One statement about an experiment, to be judged.
///
/// Built from a measure ([`Claim::ratio`] ...) and a class ([`Claim::within`] ...):
/// `Claim::ratio("throughput", "ops_per_s", "mglru-7.0", "series-v5").within(1.15, 1.45)`.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Shown name, unique in the experiment.
    pub name: String,
    /// How it is judged.
    pub class: Class,
    /// What is measured.
    pub what: Measure,
    /// Figure of the original report.
    pub published: Option<Published>,
    /// Accepted band. N: of the median, 1 +- 0.03 if not given. D: instead of a side.
    pub band: Option<Band>,
    /// N only: band that no seed may leave; twice the width of `band` if not given.
    pub seed_band: Option<Band>,
    /// A only: least share of the seeds that must hold, as a fraction; 1/1 = all.
    pub seeds_needed: (u32, u32),
    /// Unit of the counter; empty for none.
    pub unit: String,
    /// Which way is good.
    pub direction: Direction,
    /// Remark for the reader; empty for none.
    pub note: String,
    /// The parameter that the figure only gives back; empty for none.
    pub restates: String,
    /// Where it is shown that the workload as described cannot give the published figure; empty
    /// for nowhere.
    pub cannot: String,
    /// The part of the experiment it is about, as counters of that part begin; empty for all of it.
    pub part: String,
}

impl Claim {
    /// A claim of class D without band, direction or published figure.
    #[must_use]
    pub fn new(name: impl Into<String>, what: Measure) -> Self {
        Self {
            name: name.into(),
            class: Class::D,
            what,
            published: None,
            band: None,
            seed_band: None,
            seeds_needed: (1, 1),
            unit: String::new(),
            direction: Direction::Neutral,
            note: String::new(),
            restates: String::new(),
            cannot: String::new(),
            part: String::new(),
        }
    }

    /// About `after / before` of one counter.
    #[must_use]
    pub fn ratio(name: impl Into<String>, counter: &str, before: &str, after: &str) -> Self {
        let (before, after) = (Term::new(before, counter), Term::new(after, counter));
        Self::new(name, Measure::Ratio { before, after })
    }

    /// About `after - before` of one counter.
    #[must_use]
    pub fn difference(name: impl Into<String>, counter: &str, before: &str, after: &str) -> Self {
        let (before, after) = (Term::new(before, counter), Term::new(after, counter));
        Self::new(name, Measure::Difference { before, after })
    }

    /// About one counter of one variant.
    #[must_use]
    pub fn value(name: impl Into<String>, counter: &str, variant: &str) -> Self {
        Self::new(name, Measure::Value(Term::new(variant, counter)))
    }

    /// About a figure computed from several counters under each seed.
    #[must_use]
    pub fn derived(
        name: impl Into<String>,
        figure: impl Fn(&SeedView<'_>) -> Result<f64, ReportError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, Measure::Derived(Arc::new(figure)))
    }

    /// A condition that must hold for every seed (class A).
    #[must_use]
    pub fn predicate(
        name: impl Into<String>,
        condition: impl Fn(&SeedView<'_>) -> Result<bool, ReportError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            class: Class::A,
            ..Self::new(name, Measure::Predicate(Arc::new(condition)))
        }
    }

    /// Class A: inside the band for every seed.
    #[must_use]
    pub fn always(mut self, band: Band) -> Self {
        self.class = Class::A;
        self.band = Some(band);
        self
    }

    /// Class A: enough if it holds for `numerator / denominator` of the seeds.
    #[must_use]
    pub fn for_seeds(mut self, numerator: u32, denominator: u32) -> Self {
        self.seeds_needed = (numerator, denominator);
        self
    }

    /// Class B: median inside `lo..=hi`.
    #[must_use]
    pub fn within(self, lo: f64, hi: f64) -> Self {
        self.within_band(Band::between(lo, hi))
    }

    /// Class B: median inside the band.
    #[must_use]
    pub fn within_band(mut self, band: Band) -> Self {
        self.class = Class::B;
        self.band = Some(band);
        self
    }

    /// Class N: median ratio in 1 +- 0.03, every seed in 1 +- 0.06.
    #[must_use]
    pub fn noise(self) -> Self {
        self.noise_of(0.03)
    }

    /// Class N with another width: median in 1 +- `width`, every seed in twice that.
    #[must_use]
    pub fn noise_of(mut self, width: f64) -> Self {
        self.class = Class::N;
        self.band = Some(Band::around(1.0, width));
        self
    }

    /// Class N: another band for the single seeds.
    #[must_use]
    pub fn seeds_within(mut self, band: Band) -> Self {
        self.seed_band = Some(band);
        self
    }

    /// Class D: the median is on the side of the published figure or, without one, on
    /// the good side.
    #[must_use]
    pub fn direction_only(mut self) -> Self {
        self.class = Class::D;
        self
    }

    /// Class D: the median is inside the (usually one-sided) band.
    #[must_use]
    pub fn direction_within(mut self, band: Band) -> Self {
        self.class = Class::D;
        self.band = Some(band);
        self
    }

    /// Figure of the original report.
    #[must_use]
    pub fn published(mut self, figure: impl Into<Published>) -> Self {
        self.published = Some(figure.into());
        self
    }

    /// Both sides of the original report's ratio.
    #[must_use]
    pub fn published_pair(self, before: f64, after: f64) -> Self {
        self.published(Published::Pair { before, after })
    }

    /// Unit of the counter.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        unit.clone_into(&mut self.unit);
        self
    }

    /// More is better.
    #[must_use]
    pub fn higher_is_better(mut self) -> Self {
        self.direction = Direction::HigherIsBetter;
        self
    }

    /// Less is better.
    #[must_use]
    pub fn lower_is_better(mut self) -> Self {
        self.direction = Direction::LowerIsBetter;
        self
    }

    /// The figure is what `parameter` was chosen for: that it comes out says nothing about the rules of
    /// reclaim. It is printed apart and counted in no total.
    #[must_use]
    pub fn restates(mut self, parameter: &str) -> Self {
        parameter.clone_into(&mut self.restates);
        self
    }

    /// The workload as it is described cannot give the published figure: `page` (with an anchor) shows it by
    /// arithmetic or by a run on a real kernel. While it is out it is printed apart and counted in no
    /// total.
    #[must_use]
    pub fn cannot(mut self, page: &str) -> Self {
        page.clone_into(&mut self.cannot);
        self
    }

    /// It is about a part that parameters can leave out, whose counters are named `part.counter`: not judged
    /// where that was not run.
    #[must_use]
    pub fn part(mut self, part: &str) -> Self {
        part.clone_into(&mut self.part);
        self
    }

    /// Remark for the reader.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }
}
