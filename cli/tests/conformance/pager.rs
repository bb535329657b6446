//! The pager on real memory, by guards or by faults.

use super::arm::{Arm, Limits, Plan};
use coldset_engine::Counter;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{
    self as pager, Error, FaultMode, FlushConfig, Group, Pool, PoolConfig, Region,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;

pub struct Pager {
    pool: Pool,
    groups: Vec<Group>,
    /// Region, and the file behind it.
    regions: Vec<(Option<Region>, Option<PathBuf>)>,
    plan: Arc<FaultPlan>,
    guards: bool,
    budget: u64,
}

/// Where the count lies in a page: pages differ, and all of them compress.
fn place(page: u32) -> usize {
    page as usize * 64 % PAGE as usize
}

fn bytes(limits: Limits) -> pager::Limits {
    // The largest number of pages there is means no limit.
    let max = limits.max.map_or(u64::MAX, |m| m * PAGE);
    pager::Limits::new().low(limits.low * PAGE).max(max)
}

impl Pager {
    fn make(plan: &Plan, mode: FaultMode) -> Option<Self> {
        let soon = Duration::from_millis(20);
        let config = PoolConfig::new(plan.budget * PAGE)
            .policy(plan.policy)
            .expect("a preset")
            .fault_mode(mode)
            .read_ahead(1)
            .batch(32)
            .background(false)
            .store_outside_budget()
            .flush(FlushConfig {
                interval: soon,
                expire: soon,
                ..FlushConfig::default()
            })
            .swap(pager::SwapConfig::lz4(256 << 20).memory_limit(128 << 20));
        let pool = match Pool::new(config) {
            Ok(pool) => pool,
            Err(Error::Missing(m)) => {
                println!("skipped, guards are tested instead: {m}");
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let group = |(i, &g): (usize, &Limits)| pool.group(&i.to_string(), bytes(g)).unwrap();
        let groups: Vec<Group> = plan.groups.iter().enumerate().map(group).collect();
        let faults = Arc::new(FaultPlan::default());
        let regions = plan
            .regions
            .iter()
            .map(|r| {
                let root = pool.root();
                let group = r.group.map_or(&root, |g| &groups[g]);
                let len = u64::from(r.pages) * PAGE;
                if r.anon {
                    return (Some(group.anonymous(len as usize).unwrap()), None);
                }
                let path = fresh_name();
                std::fs::File::create(&path).unwrap().set_len(len).unwrap();
                let file = Arc::new(FileStorage::open(&path, true).unwrap());
                let file = Arc::new(FaultyStorage::new(file, faults.clone()));
                (Some(group.storage(file, len, true).unwrap()), Some(path))
            })
            .collect();
        Some(Self {
            pool,
            groups,
            regions,
            plan: faults,
            guards: mode == FaultMode::Explicit,
            budget: plan.budget,
        })
    }

    fn region(&mut self, region: usize) -> &mut Region {
        self.regions[region].0.as_mut().expect("open")
    }
}

fn fresh_name() -> PathBuf {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("coldset-conformance-{}-{n}", std::process::id()))
}

fn count(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.plan.fail_writes.store(0, Relaxed);
        for (region, path) in &mut self.regions {
            drop(region.take());
            path.iter().for_each(|p| std::fs::remove_file(p).unwrap());
        }
    }
}

impl Arm for Pager {
    fn new(plan: &Plan) -> Option<Self> {
        Self::make(plan, FaultMode::Explicit)
    }

    fn load(&mut self, region: usize, page: u32) -> u32 {
        let at = place(page);
        if self.guards {
            return count(&self.region(region).fix(page as usize).unwrap(), at);
        }
        let at = page as usize * PAGE as usize + at;
        count(self.region(region).bytes(), at)
    }

    fn store(&mut self, region: usize, page: u32) {
        let at = place(page);
        let guards = self.guards;
        let r = self.region(region);
        let add = |bytes: &mut [u8], at: usize| {
            let next = count(bytes, at) + 1;
            bytes[at..at + 4].copy_from_slice(&next.to_le_bytes());
        };
        if guards {
            add(&mut r.fix_mut(page as usize).unwrap(), at);
        } else {
            add(r.bytes_mut(), page as usize * PAGE as usize + at);
        }
    }

    fn sync(&mut self, region: usize) -> bool {
        let r = self.region(region);
        r.sync(0..r.len()).is_ok()
    }

    fn durable(&self, region: usize, page: u32) -> u32 {
        let path = self.regions[region].1.as_ref().expect("a file");
        let at = page as usize * PAGE as usize + place(page);
        count(&std::fs::read(path).unwrap(), at)
    }

    fn fail_writes(&mut self, fail: bool) {
        self.plan.fail_writes.store(fail.into(), Relaxed);
    }

    fn let_flushers_try(&mut self) {
        let attempts = |p: &Self| p.plan.failed.load(Relaxed) + p.pool.stats().written_back;
        let before = attempts(self);
        let start = Instant::now();
        while attempts(self) == before {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "no flusher tries"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn set(&mut self, group: usize, limits: Limits) {
        self.groups[group].set(bytes(limits)).unwrap();
    }

    fn reclaim(&mut self, group: usize, pages: u64) {
        self.groups[group].reclaim(pages * PAGE).unwrap();
    }

    fn usage(&self, group: usize) -> u64 {
        self.groups[group].usage() / PAGE
    }

    fn resident(&self) -> u64 {
        let s = self.pool.stats();
        // As the gate counts them, not the engine.
        assert!(s.peak_pages <= self.budget, "{} pages", s.peak_pages);
        s.resident_pages
    }

    fn counter(&self, c: Counter) -> i64 {
        let counted = self.pool.root().counter(c);
        counted.unwrap_or_else(|| panic!("a pool does not count {}", c.name()))
    }

    fn misses(&self) -> u64 {
        let s = self.pool.stats();
        s.read_file + s.swapped_in
    }

    fn check(&mut self) {
        self.pool.check();
    }
}

/// The same by faults.
pub struct Faulting(Pager);

impl Arm for Faulting {
    fn new(plan: &Plan) -> Option<Self> {
        Pager::make(plan, FaultMode::Sigbus).map(Self)
    }
    fn load(&mut self, region: usize, page: u32) -> u32 {
        self.0.load(region, page)
    }
    fn store(&mut self, region: usize, page: u32) {
        self.0.store(region, page);
    }
    fn sync(&mut self, region: usize) -> bool {
        self.0.sync(region)
    }
    fn durable(&self, region: usize, page: u32) -> u32 {
        self.0.durable(region, page)
    }
    fn fail_writes(&mut self, fail: bool) {
        self.0.fail_writes(fail);
    }
    fn let_flushers_try(&mut self) {
        self.0.let_flushers_try();
    }
    fn set(&mut self, group: usize, limits: Limits) {
        self.0.set(group, limits);
    }
    fn reclaim(&mut self, group: usize, pages: u64) {
        self.0.reclaim(group, pages);
    }
    fn usage(&self, group: usize) -> u64 {
        self.0.usage(group)
    }
    fn resident(&self) -> u64 {
        self.0.resident()
    }
    fn counter(&self, c: Counter) -> i64 {
        self.0.counter(c)
    }
    fn misses(&self) -> u64 {
        self.0.misses()
    }
    fn check(&mut self) {
        self.0.check();
    }
}
