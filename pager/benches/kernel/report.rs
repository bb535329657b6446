//! Rounds of all rows over both arms.

use crate::arm::{Arm, Inside, Job, Outcome};
use crate::host::{busy, drop_cache, of_children, read_ahead, Data};
use crate::limit::Limit;
use crate::rows::{self, Backing, Pattern, Row};
use crate::tables::{self, Measured};
use crate::zram::Zram;
use crate::Options;
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the cgroup of the kernel's arm gets beyond the budget: page tables and the program are charged
/// to it.
fn extra_mib(o: &Options) -> usize {
    4 + o.mib / 256
}

/// How often the kernel's arm is tried in a round: its memory cgroup kills it now and then, with all pages
/// active.
const ATTEMPTS: u32 = 4;

/// Runs everything and prints the table.
pub fn run(o: &Options) -> Result<()> {
    let dir = o.dir.clone().unwrap_or_else(std::env::temp_dir);
    let wanted = |name: &str| o.only.as_ref().is_none_or(|t| name.contains(t.as_str()));
    let rows: Vec<Row> = rows::all().into_iter().filter(|r| wanted(r.name)).collect();
    let columns = wanted(COLUMNS);
    let limit = Limit::new(None);
    if let Err(e) = &limit {
        println!("the kernel's arms are skipped: no memory cgroup ({e})");
    }
    let version = limit.as_ref().map(Limit::version).ok();
    drop(limit);
    let data = Data::new(&dir, o.mib).map_err(|e| format!("a file in {}: {e}", dir.display()))?;
    println!(
        "{} MiB of data, {} MiB budget, {} operations of 64 bytes, policy {}.\n\
         Kernel {}, {}; memory cgroup v{} of {} MiB.\n\
         Read-ahead of the device: {}; off in both arms where a row does not say\n\
         'no advice', 'in order' or 'sort'. zram's memory and the pager's compressed\n\
         memory are outside of the budget, or inside where a row says so.",
        o.mib,
        o.budget_mib,
        o.ops,
        o.policy,
        rustix::system::uname().release().to_string_lossy(),
        lists(),
        version.map_or("-".into(), |v| v.to_string()),
        o.budget_mib + extra_mib(o),
        read_ahead(&data.0),
    );
    let zram = rows.iter().any(|r| r.backing.swaps()) && version.is_some();
    let zram = zram.then(|| Zram::new((o.mib as u64) << 21)).transpose();
    if let Err(e) = &zram {
        println!("the kernel's anonymous arms are skipped: {e}");
    }
    let steps = (rows.len() + usize::from(columns)) * o.rounds;
    let bar = progress(steps as u64);
    let mut all: Vec<Measured> = Vec::new();
    let start = Instant::now();
    let mut rounds = 0;
    for round in 0..o.rounds {
        // As long as a round has taken so far on average, the next will.
        let ends = start.elapsed().as_secs_f64() * (round + 1) as f64 / round.max(1) as f64;
        if round > 0 && ends > o.minutes * 60.0 {
            break;
        }
        rounds += 1;
        for (i, row) in rows.iter().enumerate() {
            bar.set_message(row.name);
            if round == 0 {
                let in_order = row.pattern.is_in_order();
                all.push(Measured::new(row.name, o.ops_of(row)).in_order(in_order));
            }
            let swap = zram.as_ref().ok().and_then(|z| z.as_ref());
            let kernel = version.is_some()
                && row.backing.beside_kernel()
                && (!row.backing.swaps() || zram.is_ok());
            // Turn about, so that neither always runs on what the other left behind.
            let mut arms = vec![Arm::Kernel, Arm::Pager];
            if row.has_floor() {
                arms.insert(1, Arm::Floor);
            }
            if round % 2 == 1 {
                arms.reverse();
            }
            let mut pair = Vec::new();
            for arm in arms {
                let swap = swap.filter(|_| arm == Arm::Kernel);
                if arm != Arm::Kernel || kernel {
                    let mut tried = 1;
                    let done = loop {
                        match one(o, row, arm, &data.0, swap) {
                            // Reclaim that gives up is a result, if it is the kernel's: it is told, and tried
                            // again for the pair's sake.
                            Err(e) if arm == Arm::Kernel => {
                                println!("round {round}, the kernel's arm: {e}");
                                if tried == ATTEMPTS {
                                    break None;
                                }
                                tried += 1;
                            }
                            done => break Some(done?),
                        }
                    };
                    match done {
                        Some(outcome) => pair.push((arm, outcome)),
                        None => {
                            pair.clear();
                            break;
                        }
                    }
                }
            }
            for (arm, outcome) in pair {
                match arm {
                    Arm::Kernel => all[i].kernel.push(outcome),
                    Arm::Pager => all[i].pager.push(outcome),
                    Arm::Floor => all[i].floor.push(outcome),
                }
            }
            bar.inc(1);
        }
    }
    if columns {
        bar.set_message(COLUMNS);
        match column_sums(o, rounds, version.is_some(), &bar) {
            Ok(m) => all.push(m),
            Err(e) => println!("{COLUMNS}: skipped: {e}"),
        }
    }
    bar.finish_and_clear();
    if rounds < o.rounds {
        println!(
            "{rounds} of {} rounds: {} minutes were over (--minutes).",
            o.rounds, o.minutes
        );
    }
    tables::print(&all, rounds);
    if rows.iter().any(|r| !r.backing.beside_kernel()) {
        println!("{}", crate::seals::costs()?);
    }
    if let Some(path) = &o.json {
        std::fs::write(path, tables::json(&all, o))?;
    }
    Ok(())
}

impl Options {
    /// Hits are too short to be timed by as many operations as misses.
    fn ops_of(&self, row: &Row) -> usize {
        match row.pattern {
            Pattern::Resident => self.ops * 20,
            Pattern::Scan | Pattern::CopiedScan | Pattern::ColdScan => self.mib * 256,
            Pattern::Cold => self.ops.min(self.mib * 256),
            Pattern::Start => self.mib * 256 / 100,
            Pattern::Sort => self.budget_mib * 4 * 256,
            _ => self.ops,
        }
    }
}

/// Which lists the kernel's arm has.
fn lists() -> &'static str {
    match std::fs::read_to_string("/sys/kernel/mm/lru_gen/enabled") {
        Ok(on) if on.trim() != "0x0000" => "multi-gen LRU",
        Ok(_) => "classic lists (multi-gen LRU off)",
        Err(_) => "classic lists (built without multi-gen LRU)",
    }
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    ProgressBar::new(steps).with_style(style.expect("a template"))
}

fn limit_for(o: &Options, arm: Arm) -> std::io::Result<Limit> {
    let bytes = ((o.budget_mib + extra_mib(o)) as u64) << 20;
    Limit::new((arm == Arm::Kernel).then_some(bytes))
}

/// `swap`: what the kernel's arm swaps to.
fn one(o: &Options, row: &Row, arm: Arm, file: &Path, swap: Option<&Zram>) -> Result<Outcome> {
    drop_cache(file)?;
    // Without cgroups the pager's arm runs nevertheless; only its peak is unknown.
    let limit = limit_for(o, arm).ok();
    let job = Job {
        arm,
        backing: row.backing,
        pattern: row.pattern,
        threads: row.threads,
        stores: row.stores,
        advice: row.advice,
        mib: o.mib,
        budget_mib: o.budget_mib,
        ops: o.ops_of(row),
        file: file.into(),
        policy: o.policy.clone(),
        procs: limit.as_ref().map(Limit::procs),
        inside: swap
            .filter(|_| row.backing == Backing::Inside)
            .zip(limit.as_ref())
            .map(|(zram, limit)| Inside {
                limit: limit.file(),
                stat: zram.stat(),
                together: ((o.budget_mib + extra_mib(o)) as u64) << 20,
            }),
    };
    let mut c = Command::new(std::env::current_exe()?);
    c.arg("--child").arg(serde_json::to_string(&job)?);
    let (start, busy_before, ours) = (Instant::now(), busy(), of_children());
    let mut outcome: Outcome = serde_json::from_str(&output(c, row.name)?)?;
    let others = (busy() - busy_before) - (of_children() - ours);
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    outcome.others = others.max(0.0) / start.elapsed().as_secs_f64() / cpus as f64;
    outcome.peak = limit.as_ref().and_then(Limit::peak).unwrap_or(0);
    Ok(outcome)
}

/// What a child printed.
fn output(mut c: Command, name: &str) -> Result<String> {
    let done = c.stderr(Stdio::inherit()).output()?;
    if !done.status.success() {
        return Err(format!("{name}: a child ended with {}", done.status).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

const COLUMNS: &str = "numpy column sums, file";

/// The Python example, beside `np.memmap` in a cgroup.
fn column_sums(o: &Options, rounds: usize, kernel: bool, bar: &ProgressBar) -> Result<Measured> {
    let python = o.python.as_ref();
    let python = python.ok_or("give a Python with coldset and numpy: --python PATH")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace");
    let script = root.join("python/examples/column_sums.py");
    let mut m = Measured::new(COLUMNS, o.mib * 256);
    for _ in 0..rounds {
        for arm in [Arm::Kernel, Arm::Pager] {
            if arm == Arm::Kernel && !kernel {
                continue;
            }
            let limit = limit_for(o, arm).ok();
            let mut c = Command::new("/bin/sh");
            // The shell joins the cgroup and becomes the script.
            let join = r#"[ -z "$0" ] || echo $$ > "$0"; exec "$@""#;
            let procs = limit.as_ref().map(Limit::procs).unwrap_or_default();
            c.arg("-c").arg(join).arg(procs).arg(python).arg(&script);
            c.args(["--passes", "1", "--mib", &o.mib.to_string()]);
            c.args(["--budget-mib", &o.budget_mib.to_string()]);
            c.args([
                "--arm",
                if arm == Arm::Kernel {
                    "memmap"
                } else {
                    "coldset"
                },
            ]);
            let v: serde_json::Value = serde_json::from_str(&output(c, COLUMNS)?)?;
            let number = |key: &str| {
                v[key]
                    .as_f64()
                    .ok_or(format!("the script printed no {key}"))
            };
            let outcome = Outcome {
                wall: number("wall_seconds")?,
                cpu: number("cpu_seconds")?,
                peak: limit.as_ref().and_then(Limit::peak).unwrap_or(0),
                ..Outcome::default()
            };
            match arm {
                Arm::Kernel => m.kernel.push(outcome),
                Arm::Pager | Arm::Floor => m.pager.push(outcome),
            }
        }
        bar.inc(1);
    }
    Ok(m)
}
