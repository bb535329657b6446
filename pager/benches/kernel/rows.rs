//! What is measured.

use serde::{Deserialize, Serialize};

/// What is behind the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Backing {
    /// A file, mapped shared.
    File,
    /// Anonymous memory: zram with lz4, or the pager's own lz4 store; neither counts to the limit.
    Anonymous,
    /// The same, twice the budget of it, and in both arms compressed memory counts to the limit. Contents
    /// compress to about a quarter: what compresses to two thirds would not fit.
    Inside,
    /// Anonymous memory, and a swap file of the pager's, whose pages carry checksums; no kernel's arm.
    SwapFile,
    /// The same, encrypted.
    Encrypted,
}

impl Backing {
    /// The kernel has an arm for it.
    pub fn beside_kernel(self) -> bool {
        matches!(self, Self::File | Self::Anonymous | Self::Inside)
    }

    /// The kernel's arm swaps to zram.
    pub fn swaps(self) -> bool {
        matches!(self, Self::Anonymous | Self::Inside)
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
    /// The same, and the pager copies what it reads, also where it could map the file's own pages.
    CopiedScan,
    /// As many threads walk through all of the data in order as use a hot set of half the budget.
    Mixed,
    /// Scattered pages, each once, none of which has been in memory.
    Cold,
    /// All pages in order, once, none of which has been in memory.
    ColdScan,
    /// A program starts, and uses one scattered page in a hundred of a file, each once. The clock runs from
    /// before it opens the file.
    Start,
    /// The data is sorted as an array of integers, four times the budget; an operation is a page of it.
    Sort,
    /// Half the budget, each page alike, all of it in memory before the clock starts.
    Resident,
}

impl Pattern {
    /// Is replacement measured? Then all pages have been in memory when the clock starts, and the pattern
    /// has run for half as many operations.
    pub fn is_warmed(self) -> bool {
        !matches!(
            self,
            Self::Cold | Self::ColdScan | Self::Start | Self::Sort | Self::Resident
        )
    }

    /// Page after page.
    pub fn is_in_order(self) -> bool {
        matches!(self, Self::Scan | Self::CopiedScan | Self::ColdScan)
    }

    /// The program says that its accesses are random, so that nobody reads ahead.
    fn says_random(self) -> bool {
        !self.is_in_order() && !matches!(self, Self::Start | Self::Sort)
    }
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
}

impl Row {
    /// The floor has an arm for it: a pager's least work is known where nothing is stored, and what comes in at a miss
    /// follows from the row.
    pub fn has_floor(&self) -> bool {
        let known = !matches!(
            self.pattern,
            Pattern::Start | Pattern::Sort | Pattern::Resident | Pattern::Mixed
        );
        let backing = matches!(self.backing, Backing::File | Backing::Anonymous);
        known && backing && self.stores == 0
    }
}

fn row(name: &'static str, backing: Backing, pattern: Pattern, threads: usize, stores: u32) -> Row {
    Row {
        name,
        backing,
        pattern,
        threads,
        stores,
        advice: pattern.says_random(),
    }
}

/// All rows.
pub fn all() -> Vec<Row> {
    use Backing::{Anonymous, Encrypted, File, Inside, SwapFile};
    use Pattern::*;
    vec![
        row("file zipf", File, Zipf, 1, 0),
        row("file zipf, 2 threads", File, Zipf, 2, 0),
        row("file zipf, 4 threads", File, Zipf, 4, 0),
        row("file uniform", File, Uniform, 1, 0),
        row("file zipf, 20 % stores", File, Zipf, 1, 20),
        row("file hot set and scan", File, HotAndScan, 1, 0),
        row("file phase change", File, Phases, 1, 0),
        row("file mixed, 4 threads", File, Mixed, 4, 0),
        row("file in order, no advice", File, Scan, 1, 0),
        row("file in order, copied, no adv.", File, CopiedScan, 1, 0),
        row("file scattered, cold", File, Cold, 1, 0),
        row("file in order, cold, no advice", File, ColdScan, 1, 0),
        row("start, 1 % of a file, no advice", File, Start, 1, 0),
        Row {
            advice: true,
            ..row("start, 1 % of a file", File, Start, 1, 0)
        },
        row("anonymous zipf", Anonymous, Zipf, 1, 0),
        row("anonymous zipf, 2 threads", Anonymous, Zipf, 2, 0),
        row("anonymous zipf, 4 threads", Anonymous, Zipf, 4, 0),
        row("anonymous zipf, 20 % stores", Anonymous, Zipf, 1, 20),
        row("anonymous in order, no advice", Anonymous, CopiedScan, 1, 0),
        row("anonymous zipf, store inside", Inside, Zipf, 1, 20),
        row("sort of 4 times the budget", Anonymous, Sort, 1, 0),
        row("swap file, checksums, 20 % st.", SwapFile, Zipf, 1, 20),
        row("swap file, encrypted, 20 % st.", Encrypted, Zipf, 1, 20),
        row("all resident", Anonymous, Resident, 1, 20),
    ]
}
