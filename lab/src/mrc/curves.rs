//! The curves of a plan.

use super::cache::misses;
use super::sample::Part;
use super::{MrcPlan, MrcPolicy, Sample};
use crate::bounds::{lru, lru_at, opt, Sequence};
use crate::replay::{ReplaySettings, MEMORY_MIN};
use crate::runner::{killed_after, replay_all, Progress, ReplayPlan, RunnerError, Size};
use crate::traces::{OpKind, Trace};
use coldset_report::charts::CurveLine;
use indexmap::IndexMap;
use rayon::prelude::*;
use serde::Serialize;

/// One size of memory and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Memory, pages.
    pub pages: u64,
    /// References that missed, first touches of files included; of a sample, estimated.
    pub misses: u64,
    /// Misses divided by references.
    pub miss_ratio: f64,
    /// Of a sample: how far off the ratio may be (`sample.rs`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// One policy over the sizes. Sizes that are too small for it are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Name of the policy.
    pub policy: String,
    /// Sizes, ascending.
    pub points: Vec<Point>,
}

/// What was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampled {
    /// Part of the pages in each sample.
    pub rate: f64,
    /// Samples, of different pages.
    pub samples: u64,
    /// Different pages in all of them.
    pub pages: u64,
    /// References to them.
    pub references: u64,
    /// The greatest error of a point.
    pub largest_error: f64,
    /// The least miss ratio there can be: that of memory for all pages.
    pub least_ratio: f64,
}

/// All curves of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// References of the trace.
    pub references: u64,
    /// Different pages of the trace.
    pub unique_pages: u64,
    /// Which references are misses: `reads` or `absences`.
    pub count: String,
    /// Kernels' policies, which are replayed.
    #[serde(skip)]
    pub kernels: Vec<String>,
    /// Most kernel memory that a replay of one had, pages; none: there is none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_pages: Option<u64>,
    /// How the trace was sampled, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Sizes, pages.
    pub sizes: Vec<u64>,
    /// Curves, in the order of the plan.
    pub curves: Vec<Curve>,
}

impl Curves {
    /// The lines of a chart ([`crate::charts::curves`]).
    #[must_use]
    pub fn lines(&self) -> Vec<CurveLine> {
        let line = |curve: &Curve| CurveLine {
            name: curve.policy.clone(),
            points: curve
                .points
                .iter()
                .map(|p| (p.pages, p.miss_ratio))
                .collect(),
            error: curve.points.iter().filter_map(|p| p.error).reduce(f64::max),
        };
        self.curves.iter().map(line).collect()
    }
}

/// Misses of a policy with each number of frames.
fn all_sizes(policy: &MrcPolicy, sequence: &Sequence, frames: &[Option<u64>]) -> Vec<Option<u64>> {
    let narrow = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
    match policy {
        // A list is faster than distances if there is but one size.
        MrcPolicy::Lru(_) if frames.len() == 1 => frames
            .iter()
            .map(|f| f.map(|f| lru(sequence, narrow(f)).misses))
            .collect(),
        MrcPolicy::Lru(_) => {
            let given: Vec<u32> = frames.iter().flatten().map(|&f| narrow(f)).collect();
            let mut done = lru_at(sequence, &given).into_iter();
            let one = |f: &Option<u64>| f.map(|_| done.next().expect("one each").misses);
            frames.iter().map(one).collect()
        }
        MrcPolicy::Opt => frames
            .iter()
            .map(|f| f.map(|f| opt(sequence, narrow(f)).misses))
            .collect(),
        MrcPolicy::Variant(v) => frames
            .iter()
            .map(|f| f.map(|f| misses(&v.switches, sequence, f)))
            .collect(),
    }
}

/// Replays of kernels' policies.
#[derive(Default)]
struct Replayed {
    /// Misses by policy and pages.
    misses: IndexMap<(String, u64), u64>,
    kernel_pages: Option<u64>,
}

/// Kernels' policies over the sizes that are large enough, and that nobody was killed under.
fn replays(
    trace: &Trace,
    plan: &MrcPlan,
    sizes: &[u64],
    progress: &Progress,
) -> Result<Replayed, RunnerError> {
    let replays = plan.replays(sizes);
    if replays.variants.is_empty() || replays.memory.is_empty() {
        return Ok(Replayed::default());
    }
    let mut replayed = Replayed::default();
    for table in replay_all(trace, &replays.of_trace(trace), |_| progress.clone())? {
        for (name, counters) in &table.result.variants {
            if killed_after(counters).is_none() {
                let at = (name.clone(), table.memory.pages);
                let value = |name: &str| counters[name].mean.as_f64() as u64;
                replayed.misses.insert(at, value("misses"));
                let most = replayed.kernel_pages.max(Some(value("kernel_pages")));
                replayed.kernel_pages = most;
            }
        }
    }
    Ok(replayed)
}

impl MrcPlan {
    /// Whether the trace has to be put into a sequence: caches and samples are of one, replays are not. It may leave out
    /// loads from anonymous memory, so it is what counts the references of a trace that has any.
    fn needs_sequence(&self, trace: &Trace) -> bool {
        let mut policies = self.policies.iter();
        self.sample.is_some()
            || policies.any(|p| p.kernel().is_none())
            || trace.occurs(OpKind::AnonRead)
    }

    /// The replays of its kernels' policies, over those of `sizes` that are large enough.
    fn replays(&self, sizes: &[u64]) -> ReplayPlan {
        let kernels = self.policies.iter().filter_map(MrcPolicy::kernel).cloned();
        let sizes = sizes.iter().filter(|&&pages| pages >= MEMORY_MIN);
        ReplayPlan {
            settings: ReplaySettings {
                kernel_memory: self.kernel_memory,
                ..ReplaySettings::default()
            },
            memory: sizes.map(|&pages| Size::Pages(pages)).collect(),
            ..ReplayPlan::new(kernels.collect(), Size::Pages(MEMORY_MIN))
        }
    }
}

/// Computes the curves of a trace, in parallel; the result does not depend on the threads.
///
/// # Errors
/// A size of no page, a trace that is too long, a replay that fails.
pub fn curves(
    trace: &Trace,
    plan: &MrcPlan,
    progress: impl FnOnce(u64) -> Progress,
) -> Result<Curves, RunnerError> {
    let sequence = plan
        .needs_sequence(trace)
        .then(|| Sequence::of_trace(trace, plan.count, true))
        .transpose()?;
    let references = sequence.as_ref().map_or(trace.accesses, |s| s.len() as u64);
    let sequence = &sequence.unwrap_or_default();
    let sizes = plan.pages(trace.unique_pages)?;
    let parts = plan.sample.map(|sample| (sample, sample.of(sequence)));
    let per_policy = parts.as_ref().map_or(1, |(_, p)| p.len());
    // LRU takes all sizes at once; everything else is a job a size.
    let caches = plan.policies.iter().filter(|p| p.kernel().is_none());
    let jobs: Vec<(&MrcPolicy, usize, &[u64])> = caches
        .flat_map(|p| {
            let stretch = match p {
                MrcPolicy::Lru(_) => sizes.len(),
                _ => 1,
            };
            let chunks: Vec<&[u64]> = sizes.chunks(stretch.max(1)).collect();
            chunks
                .into_iter()
                .flat_map(move |chunk| (0..per_policy).map(move |part| (p, part, chunk)))
        })
        .collect();
    let kernels = plan.replays(&sizes);
    let progress = progress((jobs.len() + kernels.variants.len() * kernels.memory.len()) as u64);
    let one = |&(policy, part, chunk): &(&MrcPolicy, usize, &[u64])| {
        if progress.is_stopped() {
            return Err(RunnerError::Stopped);
        }
        let misses = match &parts {
            None => {
                let frames: Vec<Option<u64>> = chunk.iter().map(|&f| Some(f)).collect();
                all_sizes(policy, sequence, &frames)
            }
            Some((sample, parts)) => {
                let part: &Part = &parts[part];
                let frames: Vec<Option<u64>> =
                    chunk.iter().map(|&f| sample.frames(part, f)).collect();
                all_sizes(policy, &part.sequence, &frames)
            }
        };
        progress.step();
        Ok(misses)
    };
    let (done, replayed) = rayon::join(
        || jobs.par_iter().map(one).collect::<Result<Vec<_>, _>>(),
        || replays(trace, plan, &sizes, &progress),
    );
    let (done, replayed) = (done?, replayed?);
    // Of a sample: misses that no policy avoids.
    let first_misses = plan.sample.map(|_| first_misses(sequence));
    let mut curves = Vec::new();
    for policy in &plan.policies {
        let of_policy = jobs.iter().zip(&done).filter(|(j, _)| j.0 == policy);
        let of_policy: Vec<_> = of_policy.collect();
        let mut points = Vec::new();
        for &pages in &sizes {
            let misses: Vec<u64> = match policy.kernel() {
                Some(variant) => {
                    let at = (variant.label.clone(), pages);
                    replayed.misses.get(&at).copied().into_iter().collect()
                }
                None => of_policy
                    .iter()
                    .filter_map(|(job, done)| done[job.2.iter().position(|&s| s == pages)?])
                    .collect(),
            };
            let sample = plan.sample.as_ref();
            points.extend(match first_misses {
                // Nothing ever leaves: no sample is needed.
                Some(first) if policy.kernel().is_none() && pages >= trace.unique_pages => {
                    Some(known(pages, first, references))
                }
                first => point(pages, &misses, references, sample.zip(first)),
            });
        }
        curves.push(Curve {
            policy: policy.name().to_owned(),
            points,
        });
    }
    let sampled = parts.as_ref().map(|(sample, parts)| {
        // Without the halves.
        let parts = &parts[..sample.samples() as usize];
        Sampled {
            rate: sample.rate(),
            samples: sample.samples(),
            pages: parts.iter().map(|p| u64::from(p.sequence.unique())).sum(),
            references: parts.iter().map(|p| p.sequence.len() as u64).sum(),
            largest_error: curves
                .iter()
                .flat_map(|c| &c.points)
                .filter_map(|p| p.error)
                .fold(0.0, f64::max),
            least_ratio: first_misses.unwrap_or(0) as f64 / references.max(1) as f64,
        }
    });
    Ok(Curves {
        references,
        unique_pages: trace.unique_pages,
        count: plan.count.to_string(),
        kernels: kernels.variants.into_iter().map(|v| v.label).collect(),
        kernel_pages: replayed.kernel_pages,
        sampled,
        sizes,
        curves,
    })
}

/// First references to pages, where these are misses: memory for all pages has no others.
fn first_misses(sequence: &Sequence) -> u64 {
    let mut seen = vec![false; sequence.unique() as usize];
    let all = sequence.keys().iter().enumerate();
    let first = all.filter(|&(position, &page)| {
        !std::mem::replace(&mut seen[page as usize], true) && !sequence.is_free(position)
    });
    first.count() as u64
}

/// A point of a sampled curve that is known without a sample.
fn known(pages: u64, misses: u64, references: u64) -> Point {
    Point {
        pages,
        misses,
        miss_ratio: misses as f64 / references.max(1) as f64,
        error: Some(0.0),
    }
}

/// Of one exact count, or of a count a sample, with the misses that no policy avoids; none of none.
fn point(
    pages: u64,
    misses: &[u64],
    references: u64,
    sample: Option<(&Sample, u64)>,
) -> Option<Point> {
    let first = *misses.first()?;
    Some(match sample {
        None => Point {
            pages,
            misses: first,
            miss_ratio: first as f64 / references.max(1) as f64,
            error: None,
        },
        Some((sample, unavoidable)) => {
            let least = unavoidable as f64 / references.max(1) as f64;
            let (miss_ratio, half) = within(sample.estimate(misses, references), least);
            Point {
                pages,
                misses: (miss_ratio * references as f64).round() as u64,
                miss_ratio,
                error: Some(half),
            }
        }
    })
}

/// A ratio and its error, no farther than ratios can be: from `least` to 1.
fn within((ratio, error): (f64, f64), least: f64) -> (f64, f64) {
    let ratio = ratio.clamp(least.min(1.0), 1.0);
    (ratio, error.min((ratio - least).max(1.0 - ratio)))
}

impl Point {
    /// Its interval holds all ratios there are: the samples say nothing.
    #[must_use]
    pub fn is_void(&self, least: f64) -> bool {
        let error = self.error.unwrap_or(0.0);
        error > 0.0 && error >= (self.miss_ratio - least).max(1.0 - self.miss_ratio)
    }
}
