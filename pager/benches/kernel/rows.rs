//! What is measured.

use serde::{Deserialize, Serialize};

/// What is behind the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Backing {
    /// A file, mapped shared.
    File,
    /// Anonymous memory: zram with lz4, or the pager's own lz4 store; neither counts to the limit.
    Anonymous,
    /// Anonymous memory, and a swap file of the pager's, whose pages carry checksums; no kernel's arm.
    SwapFile,
    /// The same, encrypted.
    Encrypted,
}

impl Backing {
    /// The kernel has an arm for it.
    pub fn beside_kernel(self) -> bool {
        matches!(self, Self::File | Self::Anonymous)
    }
}

/// Which pages are used, in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Pattern {
    /// Zipf 0.99 over pages that lie scattered.
    Zipf,
    /// Every page alike.
    Uniform,
    /// Half of the operations go to a hot set of half the budget, each page alike; the other half walks
    /// through all of the data in order.
    HotAndScan,
    /// Three quarters of the budget, each page alike; other pages after each quarter of the operations.
    Phases,
    /// All pages in order, over and over.
    Scan,
    /// Half the budget, each page alike, all of it in memory before the clock starts.
    Resident,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: &'static str,
    pub backing: Backing,
    pub pattern: Pattern,
    pub threads: usize,
    /// Percent of the operations that store.
    pub stores: u32,
    /// The program says that its accesses are random, so that nobody reads ahead.
    pub advice: bool,
    /// Throughput beside the kernel's that we want.
    pub goal: f64,
}

const fn row(
    name: &'static str,
    backing: Backing,
    pattern: Pattern,
    threads: usize,
    stores: u32,
    goal: f64,
) -> Row {
    Row {
        name,
        backing,
        pattern,
        threads,
        stores,
        advice: !matches!(pattern, Pattern::Scan),
        goal,
    }
}

/// All rows.
pub fn all() -> Vec<Row> {
    use Backing::{Anonymous, Encrypted, File, SwapFile};
    use Pattern::*;
    vec![
        row("file zipf, 1 thread", File, Zipf, 1, 0, 1.0),
        row("file zipf, 2 threads", File, Zipf, 2, 0, 1.0),
        row("file uniform, 1 thread", File, Uniform, 1, 0, 0.85),
        row("file zipf, 20 % stores", File, Zipf, 1, 20, 1.0),
        row("anonymous zipf, 1 thread", Anonymous, Zipf, 1, 0, 1.0),
        row("anonymous zipf, 2 threads", Anonymous, Zipf, 2, 0, 1.0),
        row("anonymous zipf, 20 % stores", Anonymous, Zipf, 1, 20, 1.0),
        row(
            "swap file, checksums, 20 % stores",
            SwapFile,
            Zipf,
            1,
            20,
            1.0,
        ),
        row(
            "swap file, encrypted, 20 % stores",
            Encrypted,
            Zipf,
            1,
            20,
            1.0,
        ),
        row("file hot set and scan", File, HotAndScan, 1, 0, 1.3),
        row("file phase change", File, Phases, 1, 0, 1.3),
        row("file scan in order, no advice", File, Scan, 1, 0, 1.0),
        row("all resident, 1 thread", Anonymous, Resident, 1, 20, 1.0),
    ]
}
