//! What a journal shows of the program's accesses, so that other policies can be tried on them.
//!
//! A miss is an access. A hit is seen by the policy only, when it asks: a page found young by a walk
//! or a test has been used since it was asked about last, once or a thousand times. The first such
//! sight after a miss may be of the miss itself and is left out. Hits of pages
//! that nobody asked about are not in the stream, and a journal of another policy shows other hits.

use super::error::{JournalError, Replayed};
use super::run::run;
use super::stream::{Access, RegionInfo, Stream};
use crate::policy::Policy;
use coldset_engine::memcg::UNLIMITED;
use coldset_engine::MemcgId;
use std::path::Path;

/// A group with its limits as they were in the end, pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupInfo {
    /// Index of the group above; none for the root.
    pub parent: Option<u32>,
    /// Never reclaimed below this.
    pub min: u64,
    /// Reclaimed below this only if there is no other way.
    pub low: u64,
    /// Above this, misses reclaim and wait.
    pub high: Option<u64>,
    /// Never above this. Of the root: the budget.
    pub max: Option<u64>,
}

/// The accesses of a journal.
#[derive(Clone, Debug)]
pub struct Accesses {
    /// In the order in which they were seen.
    pub accesses: Vec<Access>,
    /// The first so many are not accesses: pages that were in memory when the journal began, the
    /// coldest first.
    pub resident_before: u64,
    /// Regions, in order of creation, also those closed later. An empty one stands for those that
    /// were closed before the journal began.
    pub regions: Vec<RegionInfo>,
    /// Groups; the first is the root.
    pub groups: Vec<GroupInfo>,
    /// Pages of the budget.
    pub budget: u64,
    /// Pages that the swap can hold.
    pub swap: u64,
    /// `switch=value` of the policy it was recorded with.
    pub switches: Vec<String>,
    /// The exact replay over that policy.
    pub replayed: Replayed,
}

impl Accesses {
    /// Accesses that missed.
    pub fn misses(&self) -> u64 {
        self.accesses.iter().filter(|a| a.missed).count() as u64
    }
}

/// Replays a journal over its own policy, comparing as [`replay`](super::run::replay) does, and gathers the
/// accesses that it shows.
///
/// # Errors
/// As [`replay`](super::run::replay).
pub fn accesses(path: impl AsRef<Path>) -> Result<Accesses, JournalError> {
    let r = run(path.as_ref(), Some(Stream::default()))?;
    let stream = r.stream.expect("given");
    let config = r.header.config;
    let describe = config.switches.describe();
    Ok(Accesses {
        groups: groups(&r.policy, config.budget),
        accesses: stream.accesses,
        resident_before: stream.resident_before,
        regions: stream.regions,
        budget: config.budget,
        swap: config.slots.into(),
        switches: describe
            .iter()
            .map(|s| format!("{}={}", s.name, s.value))
            .collect(),
        replayed: r.out,
    })
}

/// Below the engine's own root, which a pool does not use.
fn groups(policy: &Policy, budget: u64) -> Vec<GroupInfo> {
    let tree = &policy.engine().memcgs;
    let limit = |pages: u64| (pages < UNLIMITED).then_some(pages);
    (policy.top.0..tree.capacity() as u32)
        .map(|id| {
            let m = &tree[MemcgId(id)];
            GroupInfo {
                parent: m.parent().and_then(|p| p.0.checked_sub(policy.top.0)),
                min: m.memory().min(),
                low: m.memory().low(),
                high: limit(m.memory().high()),
                // The compressed store has taken its part of the root's.
                max: if id == policy.top.0 {
                    Some(budget)
                } else {
                    limit(m.memory().max())
                },
            }
        })
        .collect()
}
