//! The faults of a backport to a phone kernel, put into true rules (`docs/rules/faults.md`).
//!
//! Faults that lie in the loop itself are in `reclaim/faulty_loop.rs`.

use super::series::{must_age, Series};
use crate::mglru::{EvictableTypes, MultiGen};

/// Replaces the rules that the switches `mut_*` name.
pub(super) fn put_in(series: &mut Series) {
    if series.sw.mut_no_defprio_return {
        series.must_age = must_age_at_any_priority;
    }
    if series.sw.mut_no_protection {
        series.protection_scales_budget = false;
    }
    if series.sw.mut_counters_dropped {
        series.sums_dirty = false;
    }
}

/// "Not at the default priority" got lost.
fn must_age_at_any_priority(m: &MultiGen, types: EvictableTypes, _priority: u8) -> bool {
    must_age(m, types, 0)
}
