//! The run in windows of equally many operations: cold start, growth and age look different.

use super::server::BLOCK_KIB;
use coldset_engine::{Counter, MemcgId};
use coldset_machine::Machine;

/// Windows of a run.
const WINDOWS: u64 = 8;

/// Totals at the end of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    operations: u64,
    kib_read: i64,
    refaults: i64,
    wakeups: i64,
}

/// One window.
#[derive(Clone, Copy, Debug)]
struct Window {
    end: Totals,
    /// Mean share of dirty pages in the page cache.
    dirty_share: f64,
}

/// Slices of a run, for what happens round a wake-up of the flushers.
const SLICES: u64 = 1000;
/// Slices before a wake-up, and after it.
const ROUND: usize = 20;

/// A thousandth of the run.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Wake-ups and windows of read-ahead started by dirty pages, at its end.
    wakeups: i64,
    dirty_windows: i64,
}

/// Collects the windows of a run.
#[derive(Debug)]
pub struct Windows {
    memcg: MemcgId,
    size: u64,
    slice: u64,
    slices: Vec<Slice>,
    operations: u64,
    /// Sum over the operations of the present window.
    dirty_share: f64,
    done: Vec<Window>,
}

impl Windows {
    /// Of a run of so many operations in a memcg.
    pub fn new(memcg: MemcgId, operations: u64) -> Self {
        Self {
            memcg,
            size: (operations / WINDOWS).max(1),
            slice: (operations / SLICES).max(1),
            slices: Vec::new(),
            operations: 0,
            dirty_share: 0.0,
            done: Vec::new(),
        }
    }

    /// An operation has ended.
    pub fn operation(&mut self, machine: &Machine) {
        self.operations += 1;
        let w = machine.world();
        let live = |c| w.engine.memcgs.live(self.memcg, c);
        let dirty = live(Counter::FileDirty) as f64;
        self.dirty_share += dirty / live(Counter::FilePages).max(1) as f64;
        if self.operations.is_multiple_of(self.slice) {
            self.slices.push(Slice {
                wakeups: live(Counter::FlusherWakeups),
                dirty_windows: live(Counter::AsyncWindowsDirty),
            });
        }
        if self.operations.is_multiple_of(self.size) && (self.done.len() as u64) < WINDOWS {
            self.done.push(Window {
                end: Totals {
                    operations: self.operations,
                    kib_read: w.engine.vmstat().get(Counter::Pgpgin),
                    refaults: live(Counter::RefaultFile),
                    wakeups: live(Counter::FlusherWakeups),
                },
                dirty_share: std::mem::take(&mut self.dirty_share) / self.size as f64,
            });
        }
    }

    /// Names and values of each window: blocks and refaults an operation, dirty share, wake-ups.
    pub fn each(&self, set: &mut impl FnMut(&str, f64)) {
        for (nr, window) in (1..).zip(&self.done) {
            let (start, end) = self.edges(nr - 1);
            let operations = (end.operations - start.operations) as f64;
            let refaults = (end.refaults - start.refaults) as f64 / operations;
            let wakeups = (end.wakeups - start.wakeups) as f64;
            set(&format!("window{nr}.blocks_per_op"), self.blocks(nr - 1));
            set(&format!("window{nr}.refaults_per_op"), refaults);
            set(&format!("window{nr}.dirty_share"), window.dirty_share);
            set(&format!("window{nr}.flusher_wakeups"), wakeups);
        }
    }

    /// Names and values of the whole run.
    pub fn totals(&self, set: &mut impl FnMut(&str, f64)) {
        let shares = self.done.iter().map(|w| w.dirty_share);
        let mean = shares.sum::<f64>() / self.done.len().max(1) as f64;
        set("dirty_share", mean);
        set("reads_follow_dirty_share", self.reads_follow_dirty_share());
        let (before, after) = self.round_wakeups();
        set("dirty_windows_before_wakeups", before as f64);
        set("dirty_windows_after_wakeups", after as f64);
    }

    /// Totals at the start and at the end of a window, counted from 0.
    fn edges(&self, at: usize) -> (Totals, Totals) {
        let start = at.checked_sub(1).map(|before| self.done[before].end);
        (start.unwrap_or_default(), self.done[at].end)
    }

    /// Blocks read for an operation of a window.
    fn blocks(&self, at: usize) -> f64 {
        let (start, end) = self.edges(at);
        let kib = (end.kib_read - start.kib_read) as f64;
        kib / BLOCK_KIB / (end.operations - start.operations) as f64
    }

    /// Correlation of what a window reads with its dirty share. The first one, which starts cold, does
    /// not count.
    fn reads_follow_dirty_share(&self) -> f64 {
        let windows = 1..self.done.len();
        let n = windows.len().max(1) as f64;
        let pair = |at: usize| (self.done[at].dirty_share, self.blocks(at));
        let pairs = windows.map(pair).collect::<Vec<_>>();
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            pairs.iter().map(|p| of(p.0 - x, p.1 - y)).sum()
        };
        let spread = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
        sum(&|x, y| x * y) / spread.max(f64::MIN_POSITIVE)
    }

    /// Windows of read-ahead started by dirty pages in the fiftieth of the run before each wake-up,
    /// and after it.
    fn round_wakeups(&self) -> (i64, i64) {
        let (mut before, mut after) = (0, 0);
        for at in ROUND..self.slices.len().saturating_sub(ROUND) {
            if self.slices[at].wakeups > self.slices[at - 1].wakeups {
                let windows = |at: usize| self.slices[at].dirty_windows;
                before += windows(at - 1) - windows(at - ROUND);
                after += windows(at + ROUND) - windows(at);
            }
        }
        (before, after)
    }
}
