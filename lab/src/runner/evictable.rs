//! Exact policies beside a replay: what they could evict, and their misses.

use super::{RunnerError, Variant};
use crate::bounds::{lru, lru_at, opt, Bound, Count, Sequence};
use crate::charts::CurveLine;
use crate::mrc::cache;
use crate::traces::{About, OpKind, Trace};
use coldset_machine::SwapConfig;
use coldset_report::Number;
use indexmap::IndexMap;
use rayon::prelude::*;

/// What exact policies could evict at all.
pub(super) struct Evictable {
    /// Anonymous pages can leave.
    anon: bool,
    /// Different anonymous pages.
    anon_pages: u64,
}

impl Evictable {
    /// Of `trace` beside `swap`.
    pub fn of(trace: &About, swap: &SwapConfig) -> Self {
        let anon = *swap != SwapConfig::None;
        let anonymous = trace.objects.iter().filter(|o| o.is_anon);
        let anon_pages = anonymous.map(|o| u64::from(o.used)).sum();
        Self { anon, anon_pages }
    }

    /// What they are given. Their misses are the pages that they have to read, as those of a replay are.
    pub fn sequence(&self, trace: &Trace) -> Result<Sequence, RunnerError> {
        Ok(Sequence::of_trace(trace, Count::Reads, self.anon)?)
    }

    /// Miss ratios of the exact policies over the memory, counted as in the tables: over all accesses.
    pub fn curves(&self, trace: &About, sequence: &Sequence, own: u32) -> Vec<CurveLine> {
        let ratio = |bound: Bound| bound.misses as f64 / (trace.accesses as f64).max(1.0);
        let line = |name: &str, sizes: &[u32], bounds: Vec<Bound>| CurveLine {
            name: name.into(),
            points: sizes
                .iter()
                .zip(bounds)
                .map(|(&size, bound)| (u64::from(size) + u64::from(own), ratio(bound)))
                .collect(),
            error: None,
        };
        let lru_sizes = sizes(sequence.room(), LRU_SIZES);
        // OPT takes a pass a size.
        let many = sequence.len() > LONG_SEQUENCE;
        let opt_sizes = sizes(
            sequence.room(),
            if many { OPT_SIZES / 3 } else { OPT_SIZES },
        );
        let (least_recent, clairvoyant) = rayon::join(
            || lru_at(sequence, &lru_sizes),
            || opt_sizes.par_iter().map(|&s| opt(sequence, s)).collect(),
        );
        vec![
            line("exact LRU", &lru_sizes, least_recent),
            line("OPT", &opt_sizes, clairvoyant),
        ]
    }

    /// Exact policies with all of the limit but the program's own pages and those that cannot leave. Kernel memory is
    /// not deducted: what OPT reaches is out of reach for any policy under the same limit.
    pub fn bounds(
        &self,
        trace: &About,
        sequence: Option<&Sequence>,
        memory: u64,
        own: u32,
    ) -> IndexMap<String, Number> {
        let frames = memory.saturating_sub(u64::from(own));
        let mut out = IndexMap::new();
        let mut put = |name: &str, value: u64| {
            out.insert(name.to_owned(), Number::Int(value));
        };
        put("memory_pages", memory);
        let fixed = if self.anon { 0 } else { self.anon_pages };
        put("capacity_pages", frames.saturating_sub(fixed));
        put("accesses", trace.accesses);
        put("unique_pages", trace.unique_pages);
        let Some(sequence) = sequence else { return out };
        put("evictable_accesses", sequence.len() as u64);
        put("anon_first_touches", self.anon_pages);
        put("compulsory_misses", sequence.compulsory().into());
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        let (least_recent, clairvoyant) =
            rayon::join(|| lru(sequence, frames), || opt(sequence, frames));
        // A page that is read to be written in part is a miss, but no refault.
        let calls = [OpKind::Pwrite, OpKind::WholeWrite];
        let refaults = !calls.iter().any(|&kind| trace.occurs(kind));
        let mut put = |name: &str, bound: Bound| {
            out.insert(format!("{name}_misses"), Number::Int(bound.misses));
            if refaults {
                out.insert(format!("{name}_refaults"), Number::Int(bound.refaults()));
            }
        };
        put("lru", least_recent);
        put("opt", clairvoyant);
        out
    }

    /// Misses of a list policy as a cache of pages alone: no kernel memory, one page at a time, each reference seen. None:
    /// it is a kernel's policy, or some pages cannot leave.
    pub fn alone(
        &self,
        sequence: &Sequence,
        variant: &Variant,
        memory: u64,
        own: u32,
    ) -> Option<u64> {
        let frames = memory.checked_sub(own.into())?;
        let is_list = cache::is_list(&variant.switches);
        let all_leave = self.anon || self.anon_pages == 0;
        (is_list && all_leave).then(|| cache::misses(&variant.switches, sequence, frames))
    }
}

/// Sizes of the curve of exact LRU and of OPT.
const LRU_SIZES: u64 = 96;
const OPT_SIZES: u64 = 24;
/// References beyond which OPT gets fewer sizes.
const LONG_SEQUENCE: usize = 20_000_000;

/// `n` sizes at equal distances up to `unique` pages.
fn sizes(unique: u32, n: u64) -> Vec<u32> {
    let mut sizes: Vec<u32> = (1..=n)
        .map(|i| (u64::from(unique) * i / n) as u32)
        .filter(|&s| s > 0)
        .collect();
    sizes.dedup();
    sizes
}
