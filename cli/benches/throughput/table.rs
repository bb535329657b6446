//! The table, and the same as JSON.

use super::memory::Memory;
use super::noise::{verdict, Noise};
use super::rounds::{Rounds, Times};
use super::rows::{MANY, ROWS};
use super::streams::{MEMORY, PAGES};
use super::summary::Summary;
use serde_json::{json, Value};
use std::fmt::Write;

/// `12345678` as `12,345,678`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Accesses a CPU second with their range, and how much faster than libCacheSim that is.
fn rate(accesses: f64, seconds: &[f64], theirs: &[f64]) -> [String; 3] {
    let Some(s) = Summary::of(seconds.iter().map(|s| accesses / s / 1e6)) else {
        return ["-".into(), String::new(), String::new()];
    };
    let theirs = Summary::of(theirs.iter().map(|s| accesses / s / 1e6));
    let ratio = theirs.map_or("-".into(), |t| format!("{:.2}", s.median / t.median));
    [
        format!("{:.2}", s.median),
        format!("{:.2}-{:.2}", s.least, s.most),
        ratio,
    ]
}

fn spreads(done: &Rounds) -> Vec<f64> {
    let all = done.rows.iter().flat_map(|t| [&t.process, &t.call]);
    let summaries = all.filter_map(|s| Summary::of(s.iter().copied()));
    summaries.map(|s| s.spread()).collect()
}

/// The table as text.
pub fn text(
    accesses: u32,
    rounds: u32,
    done: &Rounds,
    memory: &Memory,
    noise: Option<&Noise>,
) -> String {
    let n = f64::from(accesses);
    let mut out = format!(
        "zipf 0.99: {} accesses to {} pages, {} pages of memory; hits: to 10,000 pages.\n\
         M accesses a CPU second, medians and ranges of {rounds} rounds; ratio: to libCacheSim's LRU of this run,\n\
         which reads its records as it goes. ns: CPU time an access, of the loop. misses: what had to be read.\n\n",
        grouped(accesses.into()),
        grouped(PAGES.into()),
        grouped(MEMORY),
    );
    let mut line = |name: &str, process: [&str; 3], call: [&str; 3], ns: &str, misses: &str| {
        let _ = writeln!(
            out,
            "{name:<31} {:>7} {:>13} {:>6}   {:>7} {:>13} {:>6} {ns:>6} {misses:>8}",
            process[0], process[1], process[2], call[0], call[1], call[2]
        );
    };
    line(
        "",
        ["", "whole process", ""],
        ["", "loop alone", ""],
        "",
        "",
    );
    let columns = ["M/s", "range", "ratio"];
    line("", columns, columns, "ns", "misses");
    for (row, times) in ROWS.iter().zip(&done.rows) {
        let theirs = done.theirs(row);
        let [process, call] = [&times.process, &times.call].map(|seconds| rate(n, seconds, theirs));
        let ns =
            Summary::of(times.call.iter().copied()).map(|s| format!("{:.1}", s.median / n * 1e9));
        let misses = times
            .misses
            .map(|m| format!("{:.2} %", m as f64 / n * 100.0));
        line(
            row.name,
            process.each_ref().map(String::as_str),
            call.each_ref().map(String::as_str),
            ns.as_deref().unwrap_or("-"),
            misses.as_deref().unwrap_or("-"),
        );
    }
    out.push('\n');
    for (policy, multiples) in MANY.iter().zip(&done.many_sizes) {
        let [cpu, time] = [0, 1].map(|i| Summary::of(multiples.iter().map(|m| m[i])));
        if let (Some(cpu), Some(time)) = (cpu, time) {
            let _ = writeln!(
                out,
                "mrc, 16 sizes on 2 CPUs, {policy}: {:.1} ({:.1}-{:.1}) times the CPU time of one size, \
                 {:.1} ({:.1}-{:.1}) times its time",
                cpu.median, cpu.least, cpu.most, time.median, time.least, time.most
            );
        }
    }
    let _ = writeln!(
        out,
        "memory of a replay, mapped, v5: {:.1} bytes a page in memory, and {:.1} bytes an access ({:.1} with --stream)",
        memory.page,
        memory.access,
        memory.streamed.max(0.0)
    );
    let _ = writeln!(out, "{}", verdict(noise, &spreads(done)));
    out
}

/// Every measurement.
pub fn json(accesses: u32, done: &Rounds, memory: &Memory, noise: Option<&Noise>) -> Value {
    let row = |(row, times): (&super::rows::Row, &Times)| {
        json!({
            "name": row.name,
            "process_seconds": times.process,
            "call_seconds": times.call,
            "misses": times.misses,
        })
    };
    let many = |(policy, multiples): (&&str, &Vec<[f64; 2]>)| {
        json!({
            "policy": policy,
            "cpu_multiples": multiples.iter().map(|m| m[0]).collect::<Vec<_>>(),
            "time_multiples": multiples.iter().map(|m| m[1]).collect::<Vec<_>>(),
        })
    };
    json!({
        "accesses": accesses,
        "pages": PAGES,
        "memory_pages": MEMORY,
        "rows": ROWS.iter().zip(&done.rows).map(row).collect::<Vec<_>>(),
        "sixteen_sizes": MANY.iter().zip(&done.many_sizes).map(many).collect::<Vec<_>>(),
        "bytes_a_page": memory.page,
        "bytes_an_access": memory.access,
        "bytes_an_access_streamed": memory.streamed,
        "noise": noise.map(|n| json!({ "others": n.others, "stolen": n.stolen })),
    })
}
