//! Replay throughput as a whole-program figure: accesses per second of CPU time, and memory.
//!
//! `replay_bench [--accesses N] [--pages N] [--percent N] [--runs N] [--variants A,B] [--export FILE]`
//!
//! The stream is held in memory before the clock starts; only the replay is measured. `--export`
//! also writes the stream as oracleGeneral records, for other simulators, and the last line of
//! output gives the figures as JSON, for `scripts/bench-libcachesim`.

#[path = "../benches/replay/stream.rs"]
mod stream;

use coldset_lab::replay::{replay, ReplayOptions};
use coldset_lab::traces::Trace;
use cpu_time::ProcessTime;
use serde_json::json;
use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};

struct Settings {
    accesses: usize,
    pages: u32,
    percent: u64,
    runs: usize,
    variants: Vec<String>,
    export: Option<String>,
}

impl Settings {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut s = Self {
            accesses: 10_000_000,
            pages: 1_000_000,
            percent: 10,
            runs: 5,
            variants: ["classic", "v5", "fifo"].map(String::from).to_vec(),
            export: None,
        };
        while let Some(option) = words.next() {
            let value = words
                .next()
                .ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--accesses" => s.accesses = value.parse()?,
                "--pages" => s.pages = value.parse()?,
                "--percent" => s.percent = value.parse()?,
                "--runs" => s.runs = value.parse::<usize>()?.max(1),
                "--variants" => s.variants = value.split(',').map(String::from).collect(),
                "--export" => s.export = Some(value),
                _ => {
                    return Err(
                        format!("unknown option {option}; see the head of the source").into(),
                    )
                }
            }
        }
        Ok(s)
    }
}

/// The stream as oracleGeneral records: all objects of one byte, the next reference unknown.
fn export(trace: &Trace, file: &str) -> std::io::Result<()> {
    let mut out = BufWriter::new(fs::File::create(file)?);
    for (i, op) in trace.ops.iter().enumerate() {
        out.write_all(&(i as u32).to_le_bytes())?;
        out.write_all(&(u64::from(op.page) + 1).to_le_bytes())?;
        out.write_all(&1u32.to_le_bytes())?;
        out.write_all(&(-2i64).to_le_bytes())?;
    }
    out.flush()
}

/// A figure of `/proc/self/status` in bytes (Linux).
fn memory(what: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(what))?;
    Some(
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()?
            * 1024,
    )
}

/// Peak growth of resident memory over `work`, bytes, where the system tells.
fn growth(
    work: impl FnOnce() -> Result<(), Box<dyn Error>>,
) -> Result<Option<u64>, Box<dyn Error>> {
    // Begins a new peak.
    let told = fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = memory("VmRSS");
    work()?;
    let peak = memory("VmHWM");
    Ok(told
        .then_some(())
        .and(before.zip(peak))
        .map(|(b, p)| p.saturating_sub(b)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let s = Settings::read(std::env::args().skip(1))?;
    let trace = stream::zipf_reads(s.pages, s.accesses)?;
    if let Some(file) = &s.export {
        export(&trace, file)?;
    }
    let mut options = ReplayOptions::new(u64::from(s.pages) * s.percent / 100);
    options.kernel_memory = false;
    println!(
        "zipf 0.99: {} accesses, {} pages, budget {} %, median of {}",
        s.accesses, s.pages, s.percent, s.runs
    );
    println!(
        "{:<14} {:>10} {:>10} {:>9}",
        "variant", "M access/s", "ns/access", "misses"
    );
    let mut figures = Vec::new();
    for variant in &s.variants {
        let mut seconds = Vec::new();
        let mut misses = 0;
        for _ in 0..s.runs {
            let begin = ProcessTime::now();
            let result = replay(&trace, variant, &options)?;
            seconds.push(begin.elapsed().as_secs_f64());
            misses = result.get("misses");
        }
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        let n = s.accesses as f64;
        let ratio = misses as f64 / n;
        println!(
            "{variant:<14} {:>10.2} {:>10.1} {:>8.2} %",
            n / median / 1e6,
            median * 1e9 / n,
            ratio * 100.0
        );
        figures.push(json!({ "variant": variant, "seconds": median, "miss_ratio": ratio }));
    }
    // Everything fits: every page of the file has a folio.
    let mut all = options.clone();
    all.memory = u64::from(s.pages) + 4096;
    for variant in &s.variants {
        let bytes = growth(|| Ok(replay(&trace, variant, &all).map(drop)?))?;
        match bytes {
            Some(b) => println!(
                "{variant:<14} {:>10.1} bytes a page in memory ({} pages)",
                b as f64 / trace.unique_pages as f64,
                trace.unique_pages
            ),
            None => println!("{variant:<14} memory not measured: it needs /proc/self/clear_refs"),
        }
    }
    println!(
        "{}",
        json!({ "accesses": s.accesses, "budget_pages": options.memory, "runs": figures })
    );
    Ok(())
}
