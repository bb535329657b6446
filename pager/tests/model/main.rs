//! A model of the whole public interface: random programs of several threads, versions of all pages
//! outside of the pager, and a short program if they do not agree.
//!
//! Each program runs in a process of its own, so that an abort or a signal is a failure like any
//! other. What fails is shrunk and printed with its seed. `random_programs` runs a list of seeds and
//! one that nobody has seen before; for `COLDSET_SOAK_SECONDS` if that is set, new ones.
//!
//! | variable | what |
//! |---|---|
//! | `COLDSET_MODEL_SEED` | the only seed |
//! | `COLDSET_MODEL_PROGRAM` | the program of `one_program`, a file that a failure has left |
//! | `COLDSET_MODEL_REPEAT` | how often it is run |
//! | `COLDSET_MODEL_SHRINK` | seconds for shrinking, 120 by default |
#![allow(unsafe_code, reason = "threads share words of a region")]

#[path = "../common/mod.rs"]
mod common;
mod oracle;
mod parent;
mod process;
mod program;
mod run;
mod storage;
mod thread;
mod tree;
mod world;

use parent::{report, search, Child, Outcome};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PROGRAM: &str = "COLDSET_MODEL_PROGRAM";
const DIR: &str = "COLDSET_MODEL_DIR";

/// Ends the process: a failure of the program that runs in it.
fn fail(what: &str) -> ! {
    eprintln!("model: {what}");
    // SAFETY: ends the process, without handlers that might wait for what hangs.
    unsafe { libc::_exit(70) }
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
    })
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(v) => Some(v),
        Err(_) => panic!("{name} is {text:?}, which is not a number"),
    }
}

/// Runs one program, in this process if it is a child, else as often as was asked for.
#[test]
fn one_program() {
    let Some(path) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
        return;
    };
    let text = std::fs::read(&path).expect("a file with a program");
    let program: program::Program = serde_json::from_slice(&text).expect("a program");
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        let child = Child::default();
        for i in 0..variable("COLDSET_MODEL_REPEAT").unwrap_or(1) {
            if let Outcome::Failed(how) = child.run(&program) {
                panic!("run {i}: {how}\n{program}");
            }
        }
        return;
    };
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a limit of this process.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    // The first panic is the failure; what others meet after it is not of interest.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        // SAFETY: ends the process.
        unsafe { libc::_exit(71) }
    }));
    run::run(program, &dir, Duration::from_secs(30));
}

/// Programs that failed once, with what was wrong, and their names.
fn kept() -> Vec<(String, program::Program)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/kept");
    let entries = std::fs::read_dir(folder).expect("the folder of programs");
    let paths = entries.map(|e| e.expect("a file of it").path());
    let read = |path: PathBuf| {
        let text = std::fs::read(&path).expect("a file with a program");
        let name = path.file_stem().expect("a name").to_string_lossy();
        let program = serde_json::from_slice(&text).expect("a program");
        (name.into_owned(), program)
    };
    paths.map(read).collect()
}

#[test]
fn programs_that_failed_once() {
    for (name, program) in kept() {
        for _ in 0..2 {
            match Child::default().run(&program) {
                Outcome::Passed => {}
                Outcome::Skipped(why) => println!("{name}: skipped: {why}"),
                Outcome::Failed(how) => panic!("{name}: {how}\n{program}"),
            }
        }
    }
}

/// Programs of `make test`.
const SEEDS: u64 = 60;

#[test]
fn random_programs() {
    let fresh = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    let start = Instant::now();
    let child = Child::default();
    let result = if let Some(seed) = variable("COLDSET_MODEL_SEED") {
        let times = variable("COLDSET_MODEL_REPEAT").unwrap_or(10);
        search(&child, std::iter::repeat_n(seed, times), || false)
    } else if let Some(seconds) = variable("COLDSET_SOAK_SECONDS") {
        let end = Duration::from_secs_f64(seconds);
        println!("seeds from {fresh} on");
        search(&child, (fresh..).step_by(1), || start.elapsed() > end)
    } else {
        println!("a seed that nobody has seen before: {fresh}");
        search(&child, std::iter::once(fresh).chain(0..SEEDS), || false)
    };
    println!(
        "{} programs in {:.1} s",
        result.programs,
        result.after.as_secs_f64()
    );
    if let Some(why) = &result.skipped {
        println!("skipped in part: {why}");
    }
    if let Some((seed, how)) = result.found {
        panic!("{}", report(&child, seed, &how));
    }
}

/// Seeds that find a bug which others find late: every second program is of one of them.
#[cfg(feature = "plants")]
const EARLY: [(&str, &[u64]); 3] = [
    ("LastFreed", &[29, 100, 107]),
    ("ArmAfterCopy", &[35]),
    ("CountLate", &[34, 34, 41]),
];

/// Nothing is lent in budgets as small as those of these programs: `tests/pool/loans.rs` looks for it.
#[cfg(feature = "plants")]
const ELSEWHERE: &str = "LentUnseen";

/// Each bug that is planted is found: usually within seconds. Threads have to meet for some of them, and where
/// other work takes the CPUs they seldom do, so the search gives up late.
#[cfg(feature = "plants")]
#[test]
fn planted_bugs_are_found() {
    let seconds = variable("COLDSET_SOAK_SECONDS").unwrap_or(300.0);
    let most = Duration::from_secs_f64(seconds);
    let all = coldset_pager::plant::Plant::ALL.map(|p| format!("{p:?}"));
    let all = all.into_iter().filter(|p| p != ELSEWHERE);
    let only: Option<String> = variable("COLDSET_PLANT");
    for plant in all {
        if only.as_ref().is_some_and(|o| *o != plant) {
            continue;
        }
        let early = EARLY.iter().find(|(name, _)| *name == plant);
        let early = early.map_or(&[][..], |(_, seeds)| seeds);
        let seeds = (0..).flat_map(|n: u64| {
            let turn = n as usize % early.len().max(1);
            early.get(turn).copied().into_iter().chain([n])
        });
        let child = Child {
            plant: Some(plant.clone()),
        };
        let start = Instant::now();
        let result = search(&child, seeds, || start.elapsed() > most);
        let n = result.programs;
        let Some((seed, how)) = result.found else {
            panic!("{plant} was not found by {n} programs in {seconds} s");
        };
        let said = ["model: ", "coldset: ", "panicked"];
        let line = how.lines().find(|l| said.iter().any(|s| l.contains(s)));
        println!(
            "{plant}: found after {:.1} s by program {n} (seed {seed}): {}",
            result.after.as_secs_f64(),
            line.unwrap_or(&how)
                .trim_start_matches("test one_program ... ")
        );
    }
}
