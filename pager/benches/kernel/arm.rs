//! One measurement, in a process of its own.

use crate::floor::{Floor, Source};
use crate::host::{shootdowns, usage};
use crate::rows::{Backing, Pattern};
use crate::work::{fill_one_in, sweep, Work};
use crate::zram;
use coldset_pager::{Advice, Pool, PoolConfig, Region, SwapConfig, PAGE_SIZE};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Who gives pages up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Arm {
    Kernel,
    Pager,
    /// The least a pager outside of the kernel does.
    Floor,
}

/// What a child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub arm: Arm,
    pub backing: Backing,
    pub pattern: Pattern,
    pub threads: usize,
    pub stores: u32,
    /// The program says that its accesses are random.
    pub advice: bool,
    pub mib: usize,
    pub budget_mib: usize,
    pub ops: usize,
    pub file: PathBuf,
    pub policy: String,
    /// The cgroup to join before any data is mapped.
    pub procs: Option<PathBuf>,
    /// What is limited with zram's own memory in it.
    pub inside: Option<Inside>,
}

/// How the kernel's arm takes zram's memory, which no cgroup is charged for, out of its limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inside {
    /// Where the limit is set.
    pub limit: PathBuf,
    /// What zram takes.
    pub stat: PathBuf,
    /// Both together, bytes.
    pub together: u64,
}

impl Inside {
    /// A lower limit makes zram larger: step by step, until both together are what they may be.
    fn settle(&self) -> Result<()> {
        let mut limit = 0;
        for _ in 0..50 {
            let next = self.together.saturating_sub(zram::takes(&self.stat)?);
            if limit > 0 && next.abs_diff(limit) < self.together / 200 {
                return Ok(());
            }
            limit = next;
            fs::write(&self.limit, limit.to_string())?;
        }
        Err("compressed memory and pages do not settle inside the budget".into())
    }
}

/// What it came to. The clock runs during the operations only.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Seconds.
    pub wall: f64,
    /// Seconds, user and system.
    pub cpu: f64,
    /// Operations that had to wait for contents.
    pub misses: u64,
    /// Those of them for a page that had been in memory before.
    pub again: u64,
    /// Pages taken out of memory.
    pub evicted: u64,
    /// Interrupts to flush translations, of the whole machine.
    pub shootdowns: u64,
    /// Median, 99th percentile and 99.9th of the slowest `misses` operations, microseconds.
    pub miss_us: [Option<f64>; 3],
    /// CPU seconds that others took in each second of the whole process, of a machine with one CPU.
    pub others: f64,
    /// The most the process's cgroup has held, bytes.
    pub peak: u64,
}

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs a job; prints its outcome.
pub fn child(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job)?;
    let outcome = job.run()?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// Counts around the timed part.
struct Before {
    cpu: f64,
    faults: u64,
    steals: u64,
    shootdowns: u64,
}

impl Before {
    fn now() -> Self {
        let (cpu, faults) = usage();
        Self {
            cpu,
            faults,
            steals: steals(),
            shootdowns: shootdowns(),
        }
    }

    fn outcome(&self, wall: f64, misses: Option<u64>, evicted: Option<u64>) -> Outcome {
        let now = Self::now();
        Outcome {
            wall,
            cpu: now.cpu - self.cpu,
            misses: misses.unwrap_or(now.faults - self.faults),
            evicted: evicted.unwrap_or(now.steals - self.steals),
            shootdowns: now.shootdowns - self.shootdowns,
            ..Outcome::default()
        }
    }
}

/// Pages that reclaim has taken on the whole machine.
fn steals() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines()
        .filter(|l| l.starts_with("pgsteal_anon ") || l.starts_with("pgsteal_file "))
        .filter_map(|l| l.split_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

impl Job {
    fn run(&self) -> Result<Outcome> {
        let work = Work {
            pattern: self.pattern,
            pages: self.bytes() / PAGE_SIZE,
            budget: (self.budget_mib << 20) / PAGE_SIZE,
            ops: self.ops,
            threads: self.threads,
            stores: self.stores,
        };
        let sequences = work.sequences();
        if let Some(procs) = &self.procs {
            fs::write(procs, std::process::id().to_string())?;
        }
        let (mut outcome, mut took) = match self.arm {
            Arm::Kernel => self.kernel(&work, &sequences)?,
            Arm::Pager => self.pager(&work, &sequences)?,
            Arm::Floor => self.floor(&work, &sequences)?,
        };
        let first = match self.backing {
            Backing::File if !self.pattern.is_warmed() => work.distinct(&sequences),
            // All of it has been filled, or used by the warm-up.
            _ => 0,
        };
        outcome.again = outcome.misses.saturating_sub(first);
        took.sort_unstable();
        for (to, part) in outcome.miss_us.iter_mut().zip([2, 100, 1000]) {
            let nth = (outcome.misses / part) as usize;
            let ns = took.len().checked_sub(nth + 1).map(|i| took[i]);
            *to = ns.map(|ns| f64::from(ns) / 1e3);
        }
        if self.pattern == Pattern::Sort {
            // An operation is not timed by itself.
            outcome.miss_us = [None; 3];
        }
        Ok(outcome)
    }

    fn bytes(&self) -> usize {
        match self.pattern {
            Pattern::Resident => self.budget_mib << 19,
            Pattern::Sort => self.budget_mib << 22,
            _ if self.backing == Backing::Inside => self.budget_mib << 21,
            _ => self.mib << 20,
        }
    }

    fn fill_all(&self, bytes: &mut [u8]) {
        let one_in = if self.backing == Backing::Inside {
            8
        } else {
            2
        };
        for (i, block) in bytes.chunks_mut(1 << 20).enumerate() {
            fill_one_in(block, i as u64, one_in);
        }
    }

    /// All of it once, with read-ahead; then `random` says what the program would; then some of the work.
    fn warm_up(&self, work: &Work, base: usize, random: impl FnOnce() -> Result<()>) -> Result<()> {
        let warm = self.pattern.is_warmed();
        if warm && self.backing == Backing::File {
            sweep(base, work.pages);
        }
        if self.advice {
            random()?;
        }
        if warm {
            work.run(base, &work.warm_up());
        }
        Ok(())
    }

    fn kernel(&self, work: &Work, sequences: &[Vec<u32>]) -> Result<(Outcome, Vec<u32>)> {
        let early = (Before::now(), Instant::now());
        let mut map = match self.backing {
            Backing::File => Map::file(&self.file, self.bytes(), self.stores > 0)?,
            _ => {
                let map = Map::anonymous(self.bytes())?;
                // Single pages, as the pager has them.
                map.advise(libc::MADV_NOHUGEPAGE);
                map
            }
        };
        if self.backing != Backing::File {
            self.fill_all(map.bytes());
        }
        let settle = || self.inside.as_ref().map_or(Ok(()), Inside::settle);
        settle()?;
        self.warm_up(work, map.at as usize, || {
            map.advise(libc::MADV_RANDOM);
            Ok(())
        })?;
        settle()?;
        let before = Before::now();
        let (wall, took) = self.work(work, map.at as usize, sequences);
        if self.pattern == Pattern::Start {
            let wall = early.1.elapsed().as_secs_f64();
            return Ok((early.0.outcome(wall, None, None), took));
        }
        let outcome = before.outcome(wall, None, None);
        if self.pattern == Pattern::Sort {
            check(map.bytes())?;
        }
        Ok((outcome, took))
    }

    fn pager(&self, work: &Work, sequences: &[Vec<u32>]) -> Result<(Outcome, Vec<u32>)> {
        let early = (Before::now(), Instant::now());
        let config = PoolConfig::new((self.budget_mib as u64) << 20).policy(&self.policy)?;
        let temporary = SwapConfig::none().and_temporary(self.bytes() as u64);
        let config = match self.backing {
            Backing::File => config,
            Backing::Anonymous => {
                let swap = SwapConfig::lz4(self.bytes() as u64);
                config.swap(swap).store_outside_budget()
            }
            Backing::Inside => config.swap(SwapConfig::lz4(self.bytes() as u64)),
            Backing::SwapFile => config.swap(temporary),
            Backing::Encrypted => config.swap(temporary.encrypt(true)),
        };
        let copied = self.pattern == Pattern::CopiedScan;
        let pool = Pool::new(config.map_streams(!copied))?;
        let mut region = self.region(&pool)?;
        if self.backing != Backing::File {
            self.fill_all(region.bytes_mut());
        }
        self.warm_up(work, region.as_ptr() as usize, || {
            Ok(region.advise(0..region.len(), Advice::Random)?)
        })?;
        let (mut before, then) = (Before::now(), pool.stats());
        let (mut wall, took) = self.work(work, region.as_ptr() as usize, sequences);
        if self.pattern == Pattern::Start {
            wall = early.1.elapsed().as_secs_f64();
            before = early.0;
        }
        let now = pool.stats();
        if std::env::var_os("COLDSET_BENCH_VERBOSE").is_some() {
            eprintln!("{now:#?}");
        }
        let (misses, evicted) = (now.misses - then.misses, now.evicted - then.evicted);
        let outcome = before.outcome(wall, Some(misses), Some(evicted));
        if self.pattern == Pattern::Sort {
            check(region.bytes_mut())?;
        }
        Ok((outcome, took))
    }

    fn floor(&self, work: &Work, sequences: &[Vec<u32>]) -> Result<(Outcome, Vec<u32>)> {
        let source = match self.backing {
            Backing::File => Source::file(&self.file)?,
            _ => Source::packed(self.bytes(), |bytes| self.fill_all(bytes)),
        };
        let unit = if self.pattern.is_in_order() { 256 } else { 1 };
        let floor = Floor::new(source, work, unit)?;
        if self.pattern.is_warmed() {
            work.run(floor.base(), &work.warm_up());
        }
        let (before, then) = (Before::now(), floor.counts());
        let (wall, took) = work.run(floor.base(), sequences);
        let now = floor.counts();
        let outcome = before.outcome(wall, Some(now.0 - then.0), Some(now.1 - then.1));
        floor.check()?;
        Ok((outcome, took))
    }

    /// What the clock runs for.
    fn work(&self, work: &Work, base: usize, sequences: &[Vec<u32>]) -> (f64, Vec<u32>) {
        if self.pattern != Pattern::Sort {
            return work.run(base, sequences);
        }
        let start = Instant::now();
        // SAFETY: a writable mapping of that many bytes at a page's address, which nobody else uses.
        unsafe { std::slice::from_raw_parts_mut(base as *mut u64, self.bytes() / 8) }
            .sort_unstable();
        (start.elapsed().as_secs_f64(), Vec::new())
    }

    fn region(&self, pool: &Pool) -> coldset_pager::Result<Region> {
        match self.backing {
            Backing::File if self.stores > 0 => pool.file(&self.file),
            Backing::File => pool.file_read_only(&self.file),
            _ => pool.anonymous(self.bytes()),
        }
    }
}

/// What has been sorted is in order.
fn check(bytes: &[u8]) -> Result<()> {
    let word = |w: &[u8]| u64::from_ne_bytes(w.try_into().expect("eight bytes"));
    if bytes.chunks_exact(8).map(word).is_sorted() {
        return Ok(());
    }
    Err("the array is not in order after sorting".into())
}

/// A mapping of the kernel's.
struct Map {
    at: *mut libc::c_void,
    len: usize,
}

impl Map {
    fn file(path: &Path, len: usize, writable: bool) -> Result<Self> {
        let f = OpenOptions::new().read(true).write(writable).open(path)?;
        let write = if writable { libc::PROT_WRITE } else { 0 };
        Self::new(len, write, libc::MAP_SHARED, f.as_raw_fd())
    }

    fn anonymous(len: usize) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::new(len, libc::PROT_WRITE, flags, -1)
    }

    fn new(len: usize, prot: i32, flags: i32, fd: i32) -> Result<Self> {
        let prot = prot | libc::PROT_READ;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(Self { at, len })
    }

    fn advise(&self, advice: i32) {
        // SAFETY: advice on a mapping of our own that does not change contents.
        unsafe { libc::madvise(self.at, self.len, advice) };
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is that long, writable where this is called, and has no other user yet.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.len) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: nobody uses the mapping any more.
        unsafe { libc::munmap(self.at, self.len) };
    }
}
