//! Rounds of all rows over both arms, and the table.

use crate::arm::{Arm, Job, Outcome};
use crate::host::{drop_cache, read_ahead, Data};
use crate::limit::Limit;
use crate::rows::{self, Backing, Pattern, Row};
use crate::zram::Zram;
use crate::Options;
use comfy_table::{presets, CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Outcomes of a row, a round each. The kernel's arm may be missing.
struct Measured {
    name: String,
    goal: f64,
    ops: usize,
    kernel: Vec<Outcome>,
    pager: Vec<Outcome>,
}

/// What the cgroup of the kernel's arm gets beyond the budget: page tables and the program are charged
/// to it.
fn extra_mib(o: &Options) -> usize {
    4 + o.mib / 256
}

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
        "{} MiB of data, {} MiB budget, {} operations of 64 bytes, policy {}; kernel {}, memory \
         cgroup v{} of {} MiB; read-ahead of the device {} (off in both arms where a row does not say \
         'no advice')",
        o.mib,
        o.budget_mib,
        o.ops,
        o.policy,
        rustix::system::uname().release().to_string_lossy(),
        version.map_or("-".into(), |v| v.to_string()),
        o.budget_mib + extra_mib(o),
        read_ahead(&data.0),
    );
    let zram = rows.iter().any(|r| r.backing == Backing::Anonymous) && version.is_some();
    let zram = zram.then(|| Zram::new((o.mib as u64) << 20)).transpose();
    if let Err(e) = &zram {
        println!("the kernel's anonymous arms are skipped: {e}");
    }
    let steps = (rows.len() + usize::from(columns)) * o.rounds;
    let bar = progress(steps as u64);
    let mut all: Vec<Measured> = Vec::new();
    for round in 0..o.rounds {
        for (i, row) in rows.iter().enumerate() {
            bar.set_message(row.name);
            if round == 0 {
                all.push(Measured::new(row.name, row.goal, o.ops_of(row)));
            }
            let kernel = version.is_some()
                && row.backing.beside_kernel()
                && (row.backing == Backing::File || zram.is_ok());
            // Turn about, so that neither always runs on what the other left behind.
            let mut arms = vec![Arm::Kernel, Arm::Pager];
            if round % 2 == 1 {
                arms.reverse();
            }
            for arm in arms {
                match arm {
                    Arm::Kernel if !kernel => {}
                    Arm::Kernel => all[i].kernel.push(one(o, row, arm, &data.0)?),
                    Arm::Pager => all[i].pager.push(one(o, row, arm, &data.0)?),
                }
            }
            bar.inc(1);
        }
    }
    if columns {
        bar.set_message(COLUMNS);
        match column_sums(o, version.is_some(), &bar) {
            Ok(m) => all.push(m),
            Err(e) => println!("{COLUMNS}: skipped: {e}"),
        }
    }
    bar.finish_and_clear();
    println!("{}", table(&all));
    println!(
        "Medians of {} rounds. Pairs: the kernel's, then the pager's. \
         again: misses of pages that had been in memory before, which a better choice avoids; p99 of a miss: of the \
         slowest operations, as many as missed. TLB: interrupts that flush translations, a page \
         taken out. Peak: the most that the pager's cgroup held, without any limit.",
        o.rounds
    );
    if rows.iter().any(|r| !r.backing.beside_kernel()) {
        println!("{}", crate::seals::costs()?);
    }
    if let Some(path) = &o.json {
        std::fs::write(path, json(&all, o))?;
    }
    Ok(())
}

impl Options {
    /// Hits are too short to be timed by as many operations as misses.
    fn ops_of(&self, row: &Row) -> usize {
        match row.pattern {
            Pattern::Resident => self.ops * 20,
            _ => self.ops,
        }
    }
}

impl Measured {
    fn new(name: &str, goal: f64, ops: usize) -> Self {
        Self {
            name: name.into(),
            goal,
            ops,
            kernel: Vec::new(),
            pager: Vec::new(),
        }
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

fn one(o: &Options, row: &Row, arm: Arm, file: &Path) -> Result<Outcome> {
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
    };
    let mut c = Command::new(std::env::current_exe()?);
    c.arg("--child").arg(serde_json::to_string(&job)?);
    let mut outcome: Outcome = serde_json::from_str(&output(c, row.name)?)?;
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
fn column_sums(o: &Options, kernel: bool, bar: &ProgressBar) -> Result<Measured> {
    let python = o.python.as_ref();
    let python = python.ok_or("give a Python with coldset and numpy: --python PATH")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace");
    let script = root.join("python/examples/column_sums.py");
    let mut m = Measured::new(COLUMNS, 1.0, o.mib * 256);
    for _ in 0..o.rounds {
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
                Arm::Pager => m.pager.push(outcome),
            }
        }
        bar.inc(1);
    }
    Ok(m)
}

/// The median of a figure; none without measurements.
fn median(all: &[Outcome], f: impl Fn(&Outcome) -> f64) -> Option<f64> {
    let mut v: Vec<f64> = all.iter().map(f).collect();
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied()
}

fn table(all: &[Measured]) -> Table {
    let mut t = Table::new();
    t.load_preset(presets::ASCII_MARKDOWN);
    t.set_header([
        "work",
        "kernel op/s",
        "pager op/s",
        "ratio",
        "goal",
        "misses/op",
        "again/op",
        "p99 of a miss, us",
        "CPU s per M op",
        "TLB/page",
        "peak MiB",
    ]);
    for m in all {
        let n = m.ops as f64;
        let text = |v: Option<f64>, digits: usize| match v {
            Some(v) if v.is_finite() => format!("{v:.digits$}"),
            _ => "-".to_string(),
        };
        let both = |digits: usize, f: &dyn Fn(&Outcome) -> f64| {
            let (k, p) = (median(&m.kernel, f), median(&m.pager, f));
            format!("{} / {}", text(k, digits), text(p, digits))
        };
        let speed = |c: &[Outcome]| median(c, |c| n / c.wall);
        let (k, p) = (speed(&m.kernel), speed(&m.pager));
        t.add_row([
            m.name.clone(),
            text(k, 0),
            text(p, 0),
            text(p.zip(k).map(|(p, k)| p / k), 2),
            format!("{:.2}", m.goal),
            both(3, &|c| c.misses as f64 / n),
            both(3, &|c| c.again as f64 / n),
            both(0, &|c| c.miss_p99_us),
            both(2, &|c| c.cpu / n * 1e6),
            both(2, &|c| c.shootdowns as f64 / c.evicted as f64),
            text(median(&m.pager, |c| c.peak as f64 / (1u64 << 20) as f64), 0),
        ]);
    }
    for i in 1..11 {
        let column = t.column_mut(i).expect("a column");
        column.set_cell_alignment(CellAlignment::Right);
    }
    t
}

fn json(all: &[Measured], o: &Options) -> String {
    let rows: Vec<_> = all
        .iter()
        .map(|m| {
            serde_json::json!({
                "name": m.name, "operations": m.ops, "goal": m.goal,
                "kernel": m.kernel, "pager": m.pager,
            })
        })
        .collect();
    serde_json::json!({
        "mib": o.mib, "budget_mib": o.budget_mib, "policy": o.policy, "rows": rows,
    })
    .to_string()
}
