//! What both arms can do: groups with limits, regions, accesses, and questions.
//!
//! What a page holds is the number of stores it has seen: the machine keeps just that of each copy
//! of a page, the pager keeps it in the page.

use coldset_engine::Counter;

/// Limits of a group, pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub low: u64,
    pub max: Option<u64>,
}

/// A region of a group (none: of all).
#[derive(Clone, Copy, Debug)]
pub struct RegionPlan {
    pub group: Option<usize>,
    pub anon: bool,
    pub pages: u32,
}

/// What an arm is made from.
#[derive(Clone, Debug)]
pub struct Plan {
    pub policy: &'static str,
    /// Pages.
    pub budget: u64,
    pub groups: Vec<Limits>,
    pub regions: Vec<RegionPlan>,
}

impl Plan {
    /// One region under a budget.
    pub fn one(policy: &'static str, budget: u64, anon: bool, pages: u32) -> Self {
        let group = None;
        Self {
            policy,
            budget,
            groups: Vec::new(),
            regions: vec![RegionPlan { group, anon, pages }],
        }
    }
}

/// A machine or a pager, single page fills, swap beside the budget.
pub trait Arm: Sized {
    /// None, with a message, where it cannot be had.
    fn new(plan: &Plan) -> Option<Self>;
    /// Loads; what the page holds.
    fn load(&mut self, region: usize, page: u32) -> u32;
    /// Stores once more.
    fn store(&mut self, region: usize, page: u32);
    /// Makes a file durable. False: an error was reported.
    fn sync(&mut self, region: usize) -> bool;
    /// What the file behind a region holds.
    fn durable(&self, region: usize, page: u32) -> u32;
    /// Every write to a file fails from now on, or none.
    fn fail_writes(&mut self, fail: bool);
    /// Waits until the flushers have tried to write what is dirty.
    fn let_flushers_try(&mut self);
    fn set(&mut self, group: usize, limits: Limits);
    fn reclaim(&mut self, group: usize, pages: u64);
    /// Pages charged to a group.
    fn usage(&self, group: usize) -> u64;
    /// Pages charged to all.
    fn resident(&self) -> u64;
    /// A counter of the engine, of all.
    fn counter(&self, c: Counter) -> i64;
    /// Pages read from a file or from swap.
    fn misses(&self) -> u64;
    /// Asserts what must hold inside.
    fn check(&mut self);

    /// Refaults of both types.
    fn refaults(&self) -> u64 {
        let both = [Counter::RefaultAnon, Counter::RefaultFile];
        both.iter().map(|&c| self.counter(c) as u64).sum()
    }
}
