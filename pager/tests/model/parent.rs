//! Drawing programs, running each in a process of its own, shrinking what fails.

use super::program::{programs, Program};
use super::tree::{ProgramTree, Programs};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    tree(seed).current()
}

fn tree(seed: u64) -> ProgramTree {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    Programs(programs())
        .new_tree(&mut runner)
        .expect("a program")
}

/// What children are told beside the program.
#[derive(Clone, Debug, Default)]
pub struct Child {
    /// A bug that is planted.
    pub plant: Option<String>,
}

impl Child {
    /// Runs a program in a process of its own.
    pub fn run(&self, program: &Program) -> Outcome {
        static N: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "coldset-model-{}-{}",
            std::process::id(),
            N.fetch_add(1, SeqCst)
        );
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).expect("a folder for the test");
        let file = dir.join("program.json");
        std::fs::write(&file, serde_json::to_vec(program).expect("JSON")).expect("a file");
        let outcome = self.run_in(&dir, &file);
        std::fs::remove_dir_all(&dir).expect("the folder of the test");
        outcome
    }

    fn run_in(&self, dir: &Path, file: &Path) -> Outcome {
        let mut c = Command::new(std::env::current_exe().expect("this program"));
        c.args(["--exact", "one_program", "--nocapture", "--test-threads=1"])
            .env(super::PROGRAM, file)
            .env(super::DIR, dir)
            .env("RUST_BACKTRACE", "0")
            .env_remove("COLDSET_JOURNAL")
            .stdin(Stdio::null());
        if let Some(plant) = &self.plant {
            c.env("COLDSET_PLANT", plant);
        }
        let out = c.output().expect("this program runs");
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        if !out.status.success() {
            let how = match out.status.signal() {
                Some(n) => format!("killed by signal {n}"),
                None => format!("{}", out.status),
            };
            let noise = |l: &&str| !l.trim().is_empty() && !l.starts_with("running 1 test");
            let lines: Vec<&str> = text.lines().filter(noise).collect();
            let last = &lines[lines.len().saturating_sub(24)..];
            return Outcome::Failed(format!("{how}\n{}", last.join("\n")));
        }
        if let Some(line) = text.lines().find_map(|l| l.split_once("skipped: ")) {
            return Outcome::Skipped(line.1.into());
        }
        compare_files(dir)
    }
}

/// Files as this process sees them, against what the child says that they must be.
fn compare_files(dir: &Path) -> Outcome {
    let Ok(expected) = std::fs::read_to_string(dir.join("expected")) else {
        return Outcome::Failed("the child has said nothing of its files".into());
    };
    for line in expected.lines() {
        let (path, digest) = line.rsplit_once(' ').expect("a path and a digest");
        let found = std::fs::read(path).expect("a file of the child's");
        if format!("{:016x}", super::digest(&found)) != digest {
            return Outcome::Failed(format!("{path} is not what the child has stored in it"));
        }
    }
    Outcome::Passed
}

/// What a search came to.
#[derive(Debug, Default)]
pub struct Search {
    pub programs: u64,
    pub skipped: Option<String>,
    /// The seed and how it ended.
    pub found: Option<(u64, String)>,
    pub after: Duration,
}

/// Runs the programs of these seeds, two at a time, until one fails or `end` says so.
pub fn search(
    child: &Child,
    seeds: impl Iterator<Item = u64> + Send,
    end: impl Fn() -> bool + Sync,
) -> Search {
    let start = Instant::now();
    let seeds = Mutex::new(seeds);
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let result = Mutex::new(Search::default());
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get().min(4)) {
            s.spawn(|| {
                while !stop.load(SeqCst) && !end() {
                    let Some(seed) = seeds.lock().unwrap().next() else {
                        return;
                    };
                    let outcome = child.run(&program(seed));
                    done.fetch_add(1, SeqCst);
                    match outcome {
                        Outcome::Passed => {}
                        Outcome::Skipped(why) => result.lock().unwrap().skipped = Some(why),
                        Outcome::Failed(how) => {
                            stop.store(true, SeqCst);
                            let mut r = result.lock().unwrap();
                            r.found.get_or_insert((seed, how));
                        }
                    }
                }
            });
        }
    });
    let mut result = result.into_inner().unwrap();
    result.programs = done.into_inner();
    result.after = start.elapsed();
    result
}

/// Makes a failing program smaller. It counts as failing if one of some runs fails, for threads do
/// not run the same way twice. Returns the smallest, and how it ended.
pub fn shrink(child: &Child, seed: u64, how: String, limit: Duration) -> (Program, String) {
    let end = Instant::now() + limit;
    let mut tree = tree(seed);
    let mut smallest = (tree.current(), how);
    // Rare failures need more runs before a smaller program counts as good.
    let again = (0..20).position(|_| matches!(child.run(&smallest.0), Outcome::Failed(_)));
    let repeats = again.map_or(20, |n| (2 * n + 3).min(20));
    let mut more = tree.simplify();
    while more && Instant::now() < end {
        let candidate = tree.current();
        let failed = (0..repeats).find_map(|_| match child.run(&candidate) {
            Outcome::Failed(how) => Some(how),
            _ => None,
        });
        match failed {
            Some(how) => {
                smallest = (candidate, how);
                more = tree.simplify();
            }
            None => more = tree.complicate(),
        }
    }
    smallest
}

/// The report of a failure: seed, the smallest program, how to repeat it.
pub fn report(child: &Child, seed: u64, how: &str) -> String {
    let limit = std::env::var("COLDSET_MODEL_SHRINK").ok();
    let limit = limit.and_then(|s| s.parse().ok()).unwrap_or(120);
    let (small, small_how) = shrink(child, seed, how.into(), Duration::from_secs(limit));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("model-{seed}.json"));
    std::fs::write(&path, serde_json::to_vec_pretty(&small).expect("JSON")).expect("a file");
    format!(
        "the program of seed {seed} fails: {how}\n\nthe smallest that fails:\n{small}\nhow it fails: \
         {small_how}\n\nrepeat it with\n  {}={} COLDSET_MODEL_REPEAT=50 cargo test -p coldset-pager --test \
         model one_program -- --nocapture\nand the whole program with\n  COLDSET_MODEL_SEED={seed} cargo test \
         -p coldset-pager --test model random_programs -- --nocapture\n",
        super::PROGRAM,
        path.display(),
    )
}
