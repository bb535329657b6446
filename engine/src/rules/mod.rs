//! What a kernel does, where kernels differ (`docs/rules/kernels.md`).
//!
//! [`Rules`] is resolved once, from the switches. The reclaim code asks it by the name of the rule and
//! never looks at a version.
//!
//! | file | what |
//! |---|---|
//! | `kernel.rs` | the names of the rules of generations |
//! | `v612.rs` | generations of Linux 6.12 |
//! | `v614.rs` | generations since 6.14, before and after the series |
//! | `series.rs` | the reclaim-loop series, a function or two for each patch, and as it was merged |
//! | `v72.rs` | what 7.2 and 7.3 changed about generations besides the series |
//! | `shadow_nodes.rs` | how many index nodes with shadows only are kept |
//! | `faults.rs` | the faults of a backport, put in from outside |
//!
//! - A kernel generation is a constant `Kernel`: its file has a function for each rule and the table of
//!   them. A new one is a file with the rules that changed and `Kernel { rule, ..v614::KERNEL }`, or a
//!   switch for each rule that puts it in, where they are to be told apart (`v72.rs`).
//! - A patch is a switch, a line in [`patches`](crate::switches::patches) and a function in `series.rs`
//!   that the loop asks.

mod faults;
pub(crate) mod kernel;
mod series;
mod shadow_nodes;
pub(crate) mod v612;
pub(crate) mod v614;
mod v72;

pub(crate) use kernel::{Fate, Kernel, ProtectedBy, Survivor};
pub(crate) use shadow_nodes::OfMemcg;

use crate::ids::LruType;
use crate::mglru::MultiGen;
use crate::switches::{RecentTest, RefsModel, Switches};
pub(crate) use series::AfterType;
use series::Series;

/// What one engine does.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "state", serde(from = "Switches", into = "Switches"))]
pub struct Rules {
    /// How generations work.
    pub(crate) kernel: Kernel,
    /// Is a refault recent that was evicted from this (truncated) sequence number?
    pub(crate) recent: fn(&MultiGen, LruType, u64) -> bool,
    /// How the reclaim loop works.
    pub(crate) series: Series,
    /// Index nodes with shadows only that a lruvec may have before the shrinker takes some; none: any number.
    pub(crate) shadow_nodes_kept: Option<shadow_nodes::Kept>,
}

impl Rules {
    /// The rules that the switches ask for.
    pub fn new(sw: Switches) -> Self {
        let mut kernel = match sw.refs_model {
            RefsModel::V612 => v612::KERNEL,
            RefsModel::V614 => v614::KERNEL,
        };
        v72::put_in(&mut kernel, &sw);
        let recent = match sw.recent_test {
            RecentTest::MinSeq => v612::recent,
            RecentTest::Window => v614::recent,
        };
        let shadow_nodes_kept = shadow_nodes::kept(sw.shadow_nodes);
        let mut series = Series::new(sw);
        faults::put_in(&mut series);
        Self {
            kernel,
            recent,
            series,
            shadow_nodes_kept,
        }
    }

    /// The switches they come from.
    pub fn switches(&self) -> &Switches {
        self.series.switches()
    }
}

impl From<Switches> for Rules {
    fn from(sw: Switches) -> Self {
        Self::new(sw)
    }
}

impl From<Rules> for Switches {
    fn from(rules: Rules) -> Self {
        rules.series.into()
    }
}
