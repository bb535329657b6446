//! What a program that uses a pool costs as a whole: pages, compressed memory, tables, buffers,
//! threads, and what the kernel keeps for it, as a memory cgroup of its own counts it.

mod common;

use coldset_pager::{Pool, PoolConfig, Region, SwapConfig};
use common::cgroup::Cgroup;
use common::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// What a child does, and what that may cost.
#[derive(Clone, Copy)]
struct Case {
    budget: u64,
    /// Bytes of the region.
    data: u64,
    threads: usize,
    swap: Swap,
    /// Random pages used in all; 0: all of them, then random ones.
    sparse: usize,
    /// Most bytes above the budget.
    above: u64,
}

#[derive(Clone, Copy)]
enum Swap {
    Text(&'static str),
    /// A read-only file.
    File,
}

/// The bound of the documentation: 5 % and 6 MiB, or 8 MiB of a small budget.
const fn above(budget: u64) -> u64 {
    let above = budget / 20 + 6 * MIB;
    if budget <= 16 * MIB {
        return 8 * MIB;
    }
    above
}

const fn case(budget: u64, data: u64, threads: usize, swap: Swap) -> Case {
    Case {
        budget: budget * MIB,
        data: data * MIB,
        threads,
        swap,
        sparse: 0,
        above: above(budget * MIB),
    }
}

const CASES: &[(&str, Case)] = &[
    (
        "4 MiB, 4 threads, temp",
        case(4, 16, 4, Swap::Text("temp:20MiB")),
    ),
    (
        "16 MiB, 1 thread, temp",
        case(16, 64, 1, Swap::Text("temp:64MiB")),
    ),
    (
        "16 MiB, 4 threads, temp",
        case(16, 64, 4, Swap::Text("temp:64MiB")),
    ),
    (
        "16 MiB, 8 threads, lz4+temp",
        case(16, 64, 8, Swap::Text("lz4:64MiB+temp:64MiB")),
    ),
    (
        "16 MiB, 4 threads, 1 GiB, temp",
        case(16, 1024, 4, Swap::Text("temp:1100MiB")),
    ),
    (
        "64 MiB, 8 threads, lz4+temp",
        case(64, 256, 8, Swap::Text("lz4:256MiB+temp:256MiB")),
    ),
    (
        "64 MiB, 8 threads, lz4+zstd",
        case(64, 256, 8, Swap::Text("lz4:256MiB+zstd+temp:256MiB")),
    ),
    (
        "64 MiB, 8 threads, zstd",
        case(64, 256, 8, Swap::Text("zstd:256MiB+temp:256MiB")),
    ),
    ("16 MiB, 4 threads, file", case(16, 64, 4, Swap::File)),
    (
        "16 MiB, 20,000 pages of 100 GiB",
        Case {
            sparse: 20_000,
            above: 16_000_000,
            ..case(16, 100 << 10, 1, Swap::Text("temp:100MiB"))
        },
    ),
];

/// A number of KiB in a process's status.
fn status(pid: u32, field: &str) -> u64 {
    let all = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = all.lines().find(|l| l.starts_with(field)).unwrap();
    let kib = line.split_ascii_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

struct Measured {
    peak: u64,
    page_tables: u64,
    told: String,
    more: String,
}

fn measure(test: &str, name: &str, case: &Case) -> Result<Measured, String> {
    let group = Cgroup::new()?;
    // Pages of the program are charged to whoever reads them first, and a read ahead may be of megabytes: they are the
    // parent's.
    std::fs::read(std::env::current_exe().unwrap()).map_err(|e| e.to_string())?;
    let file = matches!(case.swap, Swap::File).then(|| data_file(case.data));
    let mut command = group.command(test, name);
    command.stderr(Stdio::inherit());
    if let Some(f) = &file {
        command.env(FILE, f);
    }
    let mut child: Child = command.spawn().map_err(|e| e.to_string())?;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = loop {
        match lines.next() {
            Some(Ok(l)) if l.starts_with("done: ") => break l,
            Some(Ok(l)) if l.contains("skipped") => {
                child.wait().unwrap();
                return Err(l);
            }
            Some(Ok(_)) => {}
            _ => panic!("{name}: the child has failed: {:?}", child.wait()),
        }
    };
    let m = Measured {
        peak: group.read_peak().unwrap(),
        page_tables: status(child.id(), "VmPTE"),
        told,
        more: if std::env::var_os("COLDSET_MORE").is_some() {
            let stat = group.read("memory.stat").unwrap();
            let wanted = ["cache ", "rss ", "mapped_file ", "shmem "];
            let stat: Vec<_> = stat
                .lines()
                .filter(|l| wanted.iter().any(|w| l.starts_with(w)))
                .collect();
            let kmem = group.read("memory.kmem.usage_in_bytes");
            let slab = group.read("memory.kmem.slabinfo").unwrap_or_default();
            let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", child.id())).unwrap();
            format!("{stat:?} kmem {kmem:?}\n{slab}\n{}", big(&smaps))
        } else {
            String::new()
        },
    };
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let rest: Vec<_> = lines.map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    file.map(std::fs::remove_file);
    Ok(m)
}

/// The name of a file for the child.
const FILE: &str = "COLDSET_TEST_FILE";

/// A file that is not in the cgroup's page cache.
fn data_file(bytes: u64) -> PathBuf {
    let path = temp("whole");
    let f = std::fs::File::create(&path).unwrap();
    let mut page = vec![0; PAGE];
    for n in 0..bytes as usize / PAGE {
        fill(&mut page, n);
        f.write_at(&page, (n * PAGE) as u64).unwrap();
    }
    f.sync_all().unwrap();
    path
}

fn big(smaps: &str) -> String {
    let mut out = String::new();
    let mut head = "";
    let mut size = 0u64;
    for l in smaps.lines() {
        if l.contains('-') && !l.starts_with("Size") {
            head = l;
        }
        let kib = || {
            l.split_ascii_whitespace()
                .nth(1)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        if l.starts_with("Size:") {
            size = kib();
        }
        if l.starts_with("Rss:") && kib() >= 64 {
            out += &format!("{:>8} of {size} KiB {head}\n", kib());
        }
    }
    out
}

#[test]
fn a_process_costs_little_more_than_its_budget() {
    const NAME: &str = "a_process_costs_little_more_than_its_budget";
    if let Some(role) = child::role() {
        let case = CASES.iter().find(|c| c.0 == role).unwrap();
        return work(&case.1);
    }
    let _one = alone();
    let only = std::env::var("COLDSET_ONLY").unwrap_or_default();
    let mut wrong = Vec::new();
    for (name, case) in CASES.iter().filter(|c| c.0.contains(&only)) {
        let m = match measure(NAME, name, case) {
            Ok(m) => m,
            Err(why) => return println!("skipped: no memory cgroup can be made: {why}"),
        };
        let above = m.peak.saturating_sub(case.budget);
        let mib = |b: u64| b as f64 / MIB as f64;
        println!(
            "{name}: {:.1} MiB above the budget (at most {:.1}); page tables {:.1} MiB; {}\n{}",
            mib(above),
            mib(case.above),
            mib(m.page_tables),
            m.told,
            m.more,
        );
        if above > case.above {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "more than they may: {wrong:?}");
}

/// A page that compresses by a half, and says which it is.
fn fill(page: &mut [u8], n: usize) {
    let mut r = Random::new(n as u64 + 1);
    for w in page[..PAGE / 2].chunks_exact_mut(8) {
        w.copy_from_slice(&r.next().to_le_bytes());
    }
    page[..8].copy_from_slice(&(n as u64 + 1).to_le_bytes());
}

fn work(case: &Case) {
    let swap = match case.swap {
        Swap::Text(t) => SwapConfig::parse(t).unwrap(),
        Swap::File => SwapConfig::none(),
    };
    let config = PoolConfig::new(case.budget).swap(swap).background(true);
    let config = if case.sparse > 0 {
        config.overcommit(true)
    } else {
        config
    };
    let Some(pool) = faulting(config) else { return };
    let pages = (case.data / PAGE as u64) as usize;
    let mut region = match case.swap {
        Swap::Text(_) => pool.anonymous(case.data as usize).unwrap(),
        Swap::File => pool
            .file_read_only(std::env::var_os(FILE).unwrap())
            .unwrap(),
    };
    if case.sparse > 0 {
        sparse(&mut region, pages, case.sparse);
    } else {
        dense(&mut region, pages, case);
    }
    told(&pool, case);
}

fn sparse(region: &mut Region, pages: usize, used: usize) {
    for round in 0..2 {
        let mut r = Random::new(5);
        for _ in 0..used {
            let n = r.below(pages as u64) as usize;
            let page = &mut region.bytes_mut()[n * PAGE..n * PAGE + 8];
            if round == 0 {
                page.copy_from_slice(&(n as u64 + 1).to_le_bytes());
            } else {
                assert_eq!(page, (n as u64 + 1).to_le_bytes());
            }
        }
    }
}

fn dense(region: &mut Region, pages: usize, case: &Case) {
    let share = pages / case.threads * PAGE;
    if matches!(case.swap, Swap::Text(_)) {
        std::thread::scope(|s| {
            for (t, part) in region.bytes_mut().chunks_mut(share).enumerate() {
                let first = t * (share / PAGE);
                s.spawn(move || {
                    for (i, page) in part.chunks_mut(PAGE).enumerate() {
                        fill(page, first + i);
                    }
                });
            }
        });
    }
    let bytes = region.bytes();
    std::thread::scope(|s| {
        for t in 0..case.threads {
            s.spawn(move || {
                let mut r = Random::new(t as u64 + 7);
                for _ in 0..30_000 / case.threads {
                    let n = r.below(pages as u64) as usize;
                    let page = &bytes[n * PAGE..(n + 1) * PAGE];
                    assert_eq!(page[..8], (n as u64 + 1).to_le_bytes());
                }
            });
        }
    });
}

/// Says how it stands, and waits until it has been looked at.
fn told(pool: &Pool, case: &Case) {
    let s = pool.stats();
    println!(
        "\ndone: {} evicted, peak {} of {} pages",
        s.evicted, s.peak_pages, s.budget_pages
    );
    assert!(s.evicted > 1000, "{s:?}");
    let slack = 16 * (case.threads as u64 + 2);
    assert!(s.peak_pages <= s.budget_pages + slack, "{s:?}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
