//! Programs over the pager's public interface, and how they are drawn.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Threads of a program, at most.
pub const THREADS: usize = 8;
/// Pages that belong together to one thread, or to all.
pub const BLOCK: usize = 8;

/// How misses reach the pager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mode {
    Sigbus,
    Thread,
    Explicit,
}

/// Where anonymous pages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SwapPlan {
    Temporary,
    Lz4AndTemporary,
    /// Recompressed with Zstandard as soon as the thread looks.
    Lz4ZstdAndTemporary,
    ZstdAndTemporary,
    /// What goes to the file is encrypted.
    Encrypted,
    /// A storage that fails now and then.
    Faulty,
}

/// A pool to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoolPlan {
    pub budget_pages: usize,
    pub policy: String,
    pub swap: SwapPlan,
    pub background: bool,
    pub read_ahead: usize,
    /// The flusher looks every few milliseconds.
    pub busy_flusher: bool,
}

/// What a region maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    Anonymous,
    /// A file by its path, for stores.
    File,
    /// A file by its path, which has contents of its own.
    ReadOnly,
    /// A storage of the test's, which fails when it is told to.
    Storage,
}

/// A region to be made whenever its slot is empty and somebody wants to use it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionPlan {
    pub pool: usize,
    pub kind: Kind,
    pub pages: usize,
    /// In a group of its own, below the pool's root.
    pub grouped: bool,
    /// Misses are handled by threads, whatever the pool does.
    pub handler_threads: bool,
}

/// What a sync covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reach {
    Own,
    Region,
    Pool,
}

/// Which limit of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Which {
    Min,
    Low,
    High,
    Max,
}

/// How a region ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum End {
    Drop,
    Close,
    /// A page of it cannot be written: `close` has to say so.
    CloseFailing,
}

/// Advice of the pager's, with what the model knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Hint {
    Normal,
    Random,
    Sequential,
    WillNeed,
}

/// One operation of a thread. `slot` is a region's, `seed` draws pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Loads and stores here and there, `stores` percent of them stores.
    Touch {
        slot: usize,
        seed: u32,
        n: u32,
        stores: u8,
    },
    /// In order, from `from` percent of the region on.
    Scan {
        slot: usize,
        from: u8,
        n: u32,
        stores: u8,
    },
    Advise {
        slot: usize,
        hint: Hint,
        from: u8,
        n: u32,
    },
    /// `DontNeed`.
    Discard {
        slot: usize,
        seed: u32,
        blocks: u32,
    },
    /// System calls on a pinned block, with `n` accesses elsewhere meanwhile.
    Pin {
        slot: usize,
        seed: u32,
        n: u32,
        shared: bool,
    },
    /// In explicit mode: guards that are held over `n` other accesses.
    Fix {
        slot: usize,
        seed: u32,
        n: u32,
    },
    /// In percent of the budget.
    Limit {
        slot: usize,
        which: Which,
        share: u8,
    },
    /// The region's group asks for pages to be evicted.
    Reclaim {
        slot: usize,
        pages: u32,
    },
    Sync {
        slot: usize,
        reach: Reach,
        seed: u32,
    },
    /// A page of the storage cannot be written for a while: sync has to say so, and only then.
    Break {
        slot: usize,
        seed: u32,
    },
    /// Every so manieth write to the swap fails.
    SwapFaults {
        pool: usize,
        every: u32,
    },
    Record {
        pool: usize,
    },
    StopRecording {
        pool: usize,
    },
    Mprotect {
        slot: usize,
        seed: u32,
        none: bool,
    },
    /// The kernel's advice, of the harmless kind.
    Madvise {
        slot: usize,
        seed: u32,
    },
    Fork {
        slot: usize,
        calls: bool,
    },
    End {
        slot: usize,
        how: End,
    },
    /// The pool's handle is dropped; regions go on using the pool; another one is made.
    NewPool {
        pool: usize,
    },
    /// A file that is mapped for stores is mapped once more: refused.
    MapAgain {
        slot: usize,
    },
    /// Up to twice the plan's budget, and down to it.
    Resize {
        pool: usize,
        percent: u8,
    },
    /// Statistics and a snapshot.
    Look {
        pool: usize,
    },
    /// All invariants.
    Check {
        pool: usize,
    },
}

/// A program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// What it has found, if it was kept.
    #[serde(default)]
    pub why: String,
    pub mode: Mode,
    pub pools: Vec<PoolPlan>,
    pub regions: Vec<RegionPlan>,
    /// Each thread does its operations that often.
    pub rounds: u32,
    pub threads: Vec<Vec<Op>>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.why.is_empty() {
            writeln!(f, "{}", self.why)?;
        }
        writeln!(f, "misses: {:?}; {} round(s)", self.mode, self.rounds)?;
        for (i, p) in self.pools.iter().enumerate() {
            writeln!(
                f,
                "pool {i}: {} pages, {}, swap {:?}, background {}, read-ahead {}, busy flusher {}",
                p.budget_pages, p.policy, p.swap, p.background, p.read_ahead, p.busy_flusher
            )?;
        }
        for (i, r) in self.regions.iter().enumerate() {
            writeln!(
                f,
                "slot {i}: {:?} of {} pages in pool {}{}{}",
                r.kind,
                r.pages,
                r.pool,
                if r.grouped { ", in a group" } else { "" },
                if r.handler_threads {
                    ", with handler threads"
                } else {
                    ""
                }
            )?;
        }
        for (t, ops) in self.threads.iter().enumerate() {
            writeln!(f, "thread {t}:")?;
            for op in ops {
                writeln!(f, "  {op:?}")?;
            }
        }
        Ok(())
    }
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![5 => Just(Mode::Sigbus), 2 => Just(Mode::Explicit), 2 => Just(Mode::Thread)]
}

/// Classic lists, generations, and two of the literature's.
const POLICIES: [&str; 6] = ["v5", "v5", "classic", "classic", "s3fifo", "sieve"];

fn pool() -> impl Strategy<Value = PoolPlan> {
    let swap = prop_oneof![
        2 => Just(SwapPlan::Temporary),
        3 => Just(SwapPlan::Lz4AndTemporary),
        2 => Just(SwapPlan::Lz4ZstdAndTemporary),
        1 => Just(SwapPlan::ZstdAndTemporary),
        1 => Just(SwapPlan::Encrypted),
        1 => Just(SwapPlan::Faulty),
    ];
    let pages = prop_oneof![2 => Just(256usize), 1 => 256usize..1024];
    let ahead = prop_oneof![3 => Just(32usize), 1 => Just(1), 1 => 2usize..32];
    (
        pages,
        0..POLICIES.len(),
        swap,
        prop::bool::weighted(0.7),
        ahead,
        any::<bool>(),
    )
        .prop_map(
            |(budget_pages, policy, swap, background, read_ahead, busy_flusher)| PoolPlan {
                budget_pages,
                policy: POLICIES[policy].into(),
                swap,
                background,
                read_ahead,
                busy_flusher,
            },
        )
}

fn region(pools: usize, kinds: &'static [(u32, Kind)]) -> impl Strategy<Value = RegionPlan> {
    let kind = prop::strategy::Union::new_weighted(
        kinds.iter().map(|&(w, k)| (w, Just(k).boxed())).collect(),
    );
    // Temporaries, and what is larger than the budget.
    let pages = prop_oneof![1 => 16usize..200, 2 => 300usize..1500];
    (
        0..pools,
        kind,
        pages,
        any::<bool>(),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(pool, kind, pages, grouped, handler_threads)| RegionPlan {
            pool,
            kind,
            pages,
            grouped,
            handler_threads,
        })
}

/// What a program is mostly about: a mixture of everything finds rare pairs rarely.
#[derive(Clone, Copy, Debug)]
enum Flavour {
    Everything,
    /// Memory comes and goes beside reclaim.
    Life,
    /// Files: stores, syncs, faults.
    Files,
    /// Loads and stores.
    Paging,
}

const KINDS: &[(u32, Kind)] = &[
    (4, Kind::Anonymous),
    (2, Kind::File),
    (1, Kind::ReadOnly),
    (2, Kind::Storage),
];
const FILES: &[(u32, Kind)] = &[(1, Kind::Anonymous), (3, Kind::File), (3, Kind::Storage)];
const MEMORY: &[(u32, Kind)] = &[(6, Kind::Anonymous), (1, Kind::File), (1, Kind::ReadOnly)];

fn op(slots: usize, pools: usize, flavour: Flavour) -> impl Strategy<Value = Op> {
    let slot = move || 0..slots;
    let pool = move || 0..pools;
    let seed = any::<u32>;
    let percent = || 0u8..100;
    let stores = || prop_oneof![Just(0u8), 20u8..100];
    let hint = prop_oneof![
        1 => Just(Hint::Normal),
        1 => Just(Hint::Random),
        1 => Just(Hint::Sequential),
        2 => Just(Hint::WillNeed),
    ];
    let which = prop_oneof![
        Just(Which::Min),
        Just(Which::Low),
        Just(Which::High),
        Just(Which::Max),
    ];
    let reach = prop_oneof![
        3 => Just(Reach::Own),
        1 => Just(Reach::Region),
        1 => Just(Reach::Pool),
    ];
    let end = prop_oneof![
        3 => Just(End::Drop),
        2 => Just(End::Close),
        1 => Just(End::CloseFailing),
    ];
    let mut all: Vec<(u32, BoxedStrategy<Op>)> = Vec::new();
    // Weights: Everything, Life, Files, Paging.
    let mut add = |weights: [u32; 4], op: BoxedStrategy<Op>| {
        let weight = weights[flavour as usize];
        if weight > 0 {
            all.push((weight, op));
        }
    };
    let touch = (slot(), seed(), 16u32..400, stores());
    let touch = touch.prop_map(|(slot, seed, n, stores)| Op::Touch {
        slot,
        seed,
        n,
        stores,
    });
    add([16, 10, 16, 20], touch.boxed());
    let scan = (slot(), percent(), 16u32..400, stores());
    let scan = scan.prop_map(|(slot, from, n, stores)| Op::Scan {
        slot,
        from,
        n,
        stores,
    });
    add([5, 3, 5, 8], scan.boxed());
    let advise = (slot(), hint, percent(), 1u32..300);
    let advise = advise.prop_map(|(slot, hint, from, n)| Op::Advise {
        slot,
        hint,
        from,
        n,
    });
    add([5, 3, 2, 3], advise.boxed());
    let discard = (slot(), seed(), 1u32..40);
    let discard = discard.prop_map(|(slot, seed, blocks)| Op::Discard { slot, seed, blocks });
    add([5, 12, 2, 1], discard.boxed());
    let pin = (slot(), seed(), 16u32..400, any::<bool>());
    let pin = pin.prop_map(|(slot, seed, n, shared)| Op::Pin {
        slot,
        seed,
        n,
        shared,
    });
    add([4, 1, 2, 2], pin.boxed());
    let fix = (slot(), seed(), 8u32..200);
    let fix = fix.prop_map(|(slot, seed, n)| Op::Fix { slot, seed, n });
    add([3, 1, 2, 2], fix.boxed());
    let limit = (slot(), which, percent());
    let limit = limit.prop_map(|(slot, which, share)| Op::Limit { slot, which, share });
    add([4, 1, 1, 1], limit.boxed());
    let reclaim = (slot(), 1u32..200).prop_map(|(slot, pages)| Op::Reclaim { slot, pages });
    add([4, 6, 2, 1], reclaim.boxed());
    let sync = (slot(), reach, seed());
    let sync = sync.prop_map(|(slot, reach, seed)| Op::Sync { slot, reach, seed });
    add([5, 1, 14, 0], sync.boxed());
    let broken = (slot(), seed()).prop_map(|(slot, seed)| Op::Break { slot, seed });
    add([3, 0, 4, 0], broken.boxed());
    let faults = (pool(), prop_oneof![Just(0u32), 3u32..20]);
    let faults = faults.prop_map(|(pool, every)| Op::SwapFaults { pool, every });
    add([1, 0, 0, 1], faults.boxed());
    add(
        [1, 1, 1, 0],
        pool().prop_map(|pool| Op::Record { pool }).boxed(),
    );
    let stop = pool().prop_map(|pool| Op::StopRecording { pool });
    add([1, 1, 1, 0], stop.boxed());
    let protect = (slot(), seed(), any::<bool>());
    let protect = protect.prop_map(|(slot, seed, none)| Op::Mprotect { slot, seed, none });
    add([2, 0, 1, 0], protect.boxed());
    let madvise = (slot(), seed()).prop_map(|(slot, seed)| Op::Madvise { slot, seed });
    add([2, 0, 1, 1], madvise.boxed());
    let fork = (slot(), any::<bool>()).prop_map(|(slot, calls)| Op::Fork { slot, calls });
    add([1, 0, 0, 0], fork.boxed());
    let end = (slot(), end).prop_map(|(slot, how)| Op::End { slot, how });
    add([4, 10, 2, 1], end.boxed());
    let new = pool().prop_map(|pool| Op::NewPool { pool });
    add([1, 2, 0, 0], new.boxed());
    let resize = (pool(), percent()).prop_map(|(pool, percent)| Op::Resize { pool, percent });
    add([1, 1, 0, 1], resize.boxed());
    let again = slot().prop_map(|slot| Op::MapAgain { slot });
    add([1, 0, 1, 0], again.boxed());
    add(
        [1, 1, 1, 1],
        pool().prop_map(|pool| Op::Look { pool }).boxed(),
    );
    add(
        [1, 1, 1, 0],
        pool().prop_map(|pool| Op::Check { pool }).boxed(),
    );
    prop::strategy::Union::new_weighted(all)
}

/// Programs of 2 to 8 threads.
pub fn programs() -> BoxedStrategy<Program> {
    let flavour = prop_oneof![
        2 => Just(Flavour::Everything),
        2 => Just(Flavour::Life),
        1 => Just(Flavour::Files),
        1 => Just(Flavour::Paging),
    ];
    let shape = (
        flavour,
        mode(),
        1usize..=2,
        1usize..=4,
        2usize..=THREADS,
        1u32..=3,
    );
    shape
        .prop_flat_map(|(flavour, mode, pools, slots, threads, rounds)| {
            let kinds = match flavour {
                Flavour::Everything => KINDS,
                Flavour::Files => FILES,
                Flavour::Life | Flavour::Paging => MEMORY,
            };
            (
                Just(mode),
                prop::collection::vec(pool(), pools),
                prop::collection::vec(region(pools, kinds), slots),
                Just(rounds),
                prop::collection::vec(
                    prop::collection::vec(op(slots, pools, flavour), 4..=20),
                    threads,
                ),
            )
        })
        .prop_map(|(mode, pools, regions, rounds, threads)| Program {
            why: String::new(),
            mode,
            pools,
            regions,
            rounds,
            threads,
        })
        .boxed()
}
