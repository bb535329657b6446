//! Which policies, which sizes.

use super::cache::is_list;
use super::Sample;
use crate::bounds::Count;
use crate::runner::{RunnerError, Size, Variant};

/// Policies of curves that name none.
pub const DEFAULT_POLICIES: &str = "fifo,clock,lru,2q,slru,arc,s3fifo,sieve,classic,v5,opt";
/// Sizes of curves that name none.
pub const POINTS_DEFAULT: u32 = 12;
/// The smallest of them, as a share of the pages.
const SMALLEST: f64 = 1.0 / 256.0;

/// What a curve is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MrcPolicy {
    /// A variant of the engine.
    Variant(Variant),
    /// Belady's optimal replacement.
    Opt,
    /// LRU without the engine, all sizes in one pass by stack distances. Under the name it was asked for by: `lru` or
    /// `lru-stack`.
    Lru(&'static str),
}

impl MrcPolicy {
    /// Reads a variant, `opt`, `lru` or `lru-stack`.
    ///
    /// # Errors
    /// As [`Variant::parse`].
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        match text.trim() {
            "opt" => Ok(Self::Opt),
            "lru" => Ok(Self::Lru("lru")),
            "lru-stack" => Ok(Self::Lru("lru-stack")),
            other => Variant::parse(other, &[]).map(Self::Variant),
        }
    }

    /// Name on the command line and in results.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Variant(v) => &v.label,
            Self::Opt => "opt",
            Self::Lru(name) => name,
        }
    }

    /// A kernel's policy, which is replayed; none: it is not.
    #[must_use]
    pub fn kernel(&self) -> Option<&Variant> {
        match self {
            Self::Variant(v) if !is_list(&v.switches) => Some(v),
            _ => None,
        }
    }
}

/// What to compute.
#[derive(Clone, Debug)]
pub struct MrcPlan {
    /// A curve for each of these.
    pub policies: Vec<MrcPolicy>,
    /// Sizes; none: `points` of them.
    pub sizes: Vec<Size>,
    /// Sizes from a small share of the pages to all of them, evenly spaced on a logarithmic scale.
    pub points: u32,
    /// Samples in place of all pages.
    pub sample: Option<Sample>,
    /// Which references are misses.
    pub count: Count,
    /// Kernel memory counts against the limits of kernels' policies.
    pub kernel_memory: bool,
}

impl MrcPlan {
    /// Reads policies separated by commas. Without any, [`DEFAULT_POLICIES`]; those that cannot be
    /// sampled, or counted so, are left out.
    ///
    /// # Errors
    /// Unknown names, one twice, or one that cannot be sampled or counted so.
    pub fn policies(
        names: &[String],
        sample: Option<&Sample>,
        count: Count,
    ) -> Result<Vec<MrcPolicy>, RunnerError> {
        let defaults: Vec<String> = DEFAULT_POLICIES.split(',').map(str::to_owned).collect();
        let given = !names.is_empty();
        let mut policies: Vec<MrcPolicy> = Vec::new();
        for name in if given { names } else { &defaults } {
            let policy = MrcPolicy::parse(name)?;
            let unfit = match (sample, count) {
                (Some(_), _) => Some(
                    "it without --sample: a kernel's policy evicts batches of 32, which do not shrink with a sample",
                ),
                (None, Count::Absences) => Some(
                    "it with --count reads: a kernel's policy is replayed, and a replay counts what is read",
                ),
                (None, Count::Reads) => None,
            };
            if let (Some(expected), Some(_)) = (unfit, policy.kernel()) {
                if given {
                    return Err(RunnerError::value("policy", name, expected));
                }
                continue;
            }
            if policies.iter().any(|p| p.name() == policy.name()) {
                return Err(RunnerError::Twice {
                    what: "policy",
                    name: name.clone(),
                });
            }
            policies.push(policy);
        }
        Ok(policies)
    }

    /// The sizes in pages, ascending, each once, for a trace of `unique` pages.
    ///
    /// # Errors
    /// A size of no page.
    pub fn pages(&self, unique: u64) -> Result<Vec<u64>, RunnerError> {
        let mut pages = if self.sizes.is_empty() {
            geometric(unique, self.points)
        } else {
            self.sizes.iter().map(|s| s.pages_of(unique)).collect()
        };
        if pages.contains(&0) {
            let expected = format!("at least one page; the trace has {unique} different pages");
            return Err(RunnerError::value("sizes", "0 pages", expected));
        }
        pages.sort_unstable();
        pages.dedup();
        Ok(pages)
    }
}

/// `points` sizes up to all of `unique` pages, evenly spaced on a logarithmic scale.
#[must_use]
pub fn geometric(unique: u64, points: u32) -> Vec<u64> {
    let last = f64::from(points.max(2) - 1);
    (0..points.max(2))
        .map(|i| {
            let share = SMALLEST.powf(1.0 - f64::from(i) / last);
            ((unique as f64 * share).round() as u64).clamp(1, unique.max(1))
        })
        .collect()
}
