//! What is measured: each row as a process and as the call of a library.

use super::child;
use super::libcachesim::LibCacheSim;
use super::streams::{Access, Streams, MEMORY};
use super::Failure;
use coldset_lab::bounds::Count;
use coldset_lab::mrc::{curves, MrcPlan};
use coldset_lab::replay::{replay, ReplayOptions};
use coldset_lab::runner::{Progress, Size, SwapSpec};
use coldset_lab::traces::{self, Trace, TraceOptions};
use cpu_time::ProcessTime;
use quick_cache::unsync;
use std::ffi::OsString;
use std::hint::black_box;

/// Whose work it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// libCacheSim's LRU.
    LibCacheSim,
    /// The crate quick_cache.
    QuickCache,
    /// Our replay over a variant.
    Replay(&'static str),
    /// Our miss-ratio curve of a policy, one size.
    Mrc(&'static str),
    /// Reading the trace, no more.
    Read,
}

/// A row of the table.
pub struct Row {
    /// As the table has it.
    pub name: &'static str,
    /// Its stream.
    pub access: Access,
    /// What is done with it.
    pub work: Work,
}

/// CPU time and misses.
#[derive(Clone, Copy)]
pub struct Measured {
    /// s.
    pub cpu: f64,
    /// None where nothing can miss.
    pub misses: Option<u64>,
}

const fn row(name: &'static str, access: Access, work: Work) -> Row {
    Row { name, access, work }
}

/// All rows, competitors between ours.
pub const ROWS: [Row; 15] = [
    row("libCacheSim, LRU", Access::Mapped, Work::LibCacheSim),
    row("replay, mapped, v5", Access::Mapped, Work::Replay("v5")),
    row(
        "replay, mapped, classic",
        Access::Mapped,
        Work::Replay("classic"),
    ),
    row("replay, pread, v5", Access::Pread, Work::Replay("v5")),
    row(
        "replay, pread, classic",
        Access::Pread,
        Work::Replay("classic"),
    ),
    row("quick_cache", Access::Mapped, Work::QuickCache),
    row("mrc, one size, v5", Access::Pread, Work::Mrc("v5")),
    row("mrc, one size, lru", Access::Pread, Work::Mrc("lru")),
    row(
        "4 tasks, one file mapped, v5",
        Access::Tasks(4),
        Work::Replay("v5"),
    ),
    row(
        "16 tasks, one file mapped, v5",
        Access::Tasks(16),
        Work::Replay("v5"),
    ),
    row(
        "anonymous with zram, v5",
        Access::Anonymous,
        Work::Replay("v5"),
    ),
    row("reading the trace", Access::Mapped, Work::Read),
    row("libCacheSim, LRU, hits", Access::Hits, Work::LibCacheSim),
    row("replay, mapped, hits, v5", Access::Hits, Work::Replay("v5")),
    row(
        "replay, mapped, hits, classic",
        Access::Hits,
        Work::Replay("classic"),
    ),
];

impl Row {
    /// Its stream is the one that fits into memory.
    pub fn is_hits(&self) -> bool {
        self.access == Access::Hits
    }

    /// The whole command, where there is one.
    ///
    /// # Errors
    /// It fails.
    pub fn process(&self, streams: &Streams) -> Result<Option<Measured>, Failure> {
        let memory = format!("{MEMORY}pages");
        let words: &[&str] = match self.work {
            Work::Replay(v) => &[
                "replay",
                "--bounds=none",
                "--variants",
                v,
                "--memory",
                &memory,
            ],
            Work::Mrc(policy) => &["mrc", "--policies", policy, "--sizes", &memory],
            Work::LibCacheSim | Work::QuickCache | Work::Read => return Ok(None),
        };
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words.extend(["--jobs=1".into(), streams.trace(self.access)?.into()]);
        let (done, json) = child::lab(&words)?;
        let misses = match self.work {
            Work::Replay(v) => &json["variants"][v]["misses"]["mean"],
            _ => &json["curves"][0]["points"][0]["misses"],
        };
        Ok(Some(Measured {
            cpu: done.cpu,
            misses: misses.as_f64().map(|m| m as u64),
        }))
    }

    /// The library's call alone. None: the library is not there.
    ///
    /// # Errors
    /// It fails.
    pub fn call(
        &self,
        streams: &Streams,
        theirs: Option<&LibCacheSim>,
    ) -> Result<Option<Measured>, Failure> {
        match self.work {
            Work::LibCacheSim => theirs
                .map(|l| l.lru(&streams.oracle_general(self.access)?))
                .transpose(),
            Work::QuickCache => Ok(Some(quick_cache(streams.pages(self.access)))),
            Work::Replay(variant) => self.replay(variant, streams).map(Some),
            Work::Mrc(policy) => {
                let file = streams.trace(self.access)?;
                let trace = traces::load(file, None, &traces::TraceOptions::default())?;
                let plan = MrcPlan {
                    policies: MrcPlan::policies(&[policy.to_owned()], None, Count::Reads)?,
                    sizes: vec![Size::Pages(MEMORY)],
                    points: 1,
                    sample: None,
                    count: Count::Reads,
                    kernel_memory: true,
                };
                let curve = || Ok(curves(&trace, &plan, |_| Progress::silent())?);
                timed(curve, |c| Some(c.curves[0].points[0].misses)).map(Some)
            }
            Work::Read => {
                let file = streams.trace(self.access)?;
                let load = || Ok(traces::load(file, None, &TraceOptions::default())?);
                timed(load, |_| None).map(Some)
            }
        }
    }

    fn replay(&self, variant: &str, streams: &Streams) -> Result<Measured, Failure> {
        let trace = Trace::from_ops(streams.ops(self.access).collect());
        let mut options = ReplayOptions::new(MEMORY);
        if self.access == Access::Anonymous {
            // As the command has it for such a trace.
            options.swap = SwapSpec::parse("zram:100%")?.config(trace.unique_pages)?;
        }
        let call = || Ok(replay(&trace, variant, &options)?);
        timed(call, |r| Some(r.get("misses") as u64))
    }
}

fn timed<T>(
    call: impl FnOnce() -> Result<T, Failure>,
    misses: impl FnOnce(&T) -> Option<u64>,
) -> Result<Measured, Failure> {
    let begin = ProcessTime::now();
    let result = black_box(call()?);
    Ok(Measured {
        cpu: begin.elapsed().as_secs_f64(),
        misses: misses(&result),
    })
}

fn quick_cache(pages: &[u32]) -> Measured {
    let begin = ProcessTime::now();
    let mut cache = unsync::Cache::new(MEMORY as usize);
    let mut misses = 0;
    for &page in pages {
        if cache.get(&page).is_none() {
            misses += 1;
            cache.insert(page, ());
        }
    }
    Measured {
        cpu: begin.elapsed().as_secs_f64(),
        misses: Some(misses),
    }
}

/// Policies of which there is a curve with many sizes, too.
pub const MANY: [&str; 2] = ["v5", "lru"];
/// How many.
const SIZES: &str = "16";

/// CPU time and time of a curve with many sizes on two CPUs, as multiples of one size's.
///
/// # Errors
/// The command fails.
pub fn many_sizes(streams: &Streams, policy: &str) -> Result<[f64; 2], Failure> {
    let file = streams.trace(Access::Pread)?;
    let mrc = |options: &[&str]| -> Result<child::Done, Failure> {
        let policy = ["mrc", "--policies", policy];
        let words = policy.iter().chain(options);
        let words = words.map(OsString::from).chain([file.clone().into()]);
        Ok(child::lab(&words.collect::<Vec<_>>())?.0)
    };
    let one = mrc(&["--jobs=1", &format!("--sizes={MEMORY}pages")])?;
    let many = mrc(&["--jobs=2", "--points", SIZES])?;
    Ok([many.cpu / one.cpu, many.elapsed / one.elapsed])
}
