//! System calls that fail, one here and one there, as `strace` makes them: from outside, whatever the pager calls.
//!
//! A program (`program.rs`) uses a pool and knows what must be where. `strace` gives a call of each of its threads an error:
//! the first, the third, the tenth, or every fiftieth. What must hold then is the same for all of them: no wrong byte, no
//! panic, no hang, nothing lost that a sync has acknowledged; where the program cannot go on, a line that says why, and
//! nothing at all where the error passes.
//!
//! `COLDSET_INJECT=all` tries all calls and errors and prints what came of each; `COLDSET_INJECT=splice:EINTR:3` one.
#![allow(unsafe_code, reason = "threads share words of a region")]

mod program;

use crate::common::*;
use program::{Truth, PAGES, REFUSED, WRONG};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "calls_that_fail_are_told_and_lose_nothing";
const DIR: &str = "COLDSET_INJECT_DIR";
/// A program that is not done by then hangs. `strace` stops it at every call.
const PATIENCE: Duration = Duration::from_secs(60);
/// Errors of each call that are tried: those that the kernel knows, and some that no caller should expect.
const ALL: &[(&str, &[&str])] = &[
    ("pread64", &["EIO", "EINTR", "EAGAIN", "ENOMEM"]),
    ("pwrite64", &["EIO", "ENOSPC", "EINTR", "EAGAIN", "ENOMEM"]),
    ("io_uring_enter", &["EINTR", "EAGAIN", "EBUSY", "ENOMEM"]),
    ("io_uring_setup", &["EMFILE", "ENOMEM", "EPERM"]),
    ("fallocate", &["ENOSPC", "EIO", "EINTR", "EAGAIN", "ENOMEM"]),
    ("ftruncate", &["EIO", "ENOSPC", "EINTR"]),
    ("fdatasync", &["EIO", "ENOSPC", "EINTR", "EAGAIN"]),
    ("ioctl", &["EIO", "EINTR", "EAGAIN", "ENOMEM", "ENOSPC"]),
    ("mmap", &["ENOMEM", "EAGAIN"]),
    ("munmap", &["ENOMEM", "EINTR"]),
    ("madvise", &["EIO", "EINTR", "EAGAIN", "ENOMEM"]),
    ("mremap", &["ENOMEM", "EAGAIN"]),
    ("msync", &["EIO", "EINTR", "ENOMEM"]),
    ("mprotect", &["ENOMEM"]),
    ("memfd_create", &["EMFILE", "ENOMEM"]),
    ("userfaultfd", &["EMFILE", "ENOMEM", "EINTR"]),
    ("eventfd2", &["EMFILE", "ENOMEM"]),
    ("pipe2", &["EMFILE", "ENOMEM"]),
    ("splice", &["EIO", "EINTR", "EAGAIN", "ENOMEM"]),
    ("read", &["EIO", "EINTR", "EAGAIN"]),
    ("clone3", &["EAGAIN", "ENOMEM"]),
    ("poll", &["EINTR", "EAGAIN", "ENOMEM"]),
    ("openat", &["EMFILE", "EIO", "ENOMEM", "EINTR"]),
    ("fcntl", &["EMFILE", "EINVAL", "EAGAIN"]),
    ("statx", &["EINTR", "EAGAIN", "ENOMEM", "EIO"]),
    ("fstat", &["EINTR", "ENOMEM", "EIO"]),
    ("lseek", &["EINTR", "EAGAIN"]),
    ("fadvise64", &["EIO", "EINTR"]),
    ("fstatfs", &["EIO", "EINTR"]),
    ("getrandom", &["EAGAIN", "EINTR"]),
    ("rt_sigaction", &["EAGAIN"]),
    ("sched_getaffinity", &["EINTR"]),
];
const WHEN: [&str; 4] = ["1", "3", "10", "50+50"];
/// Those of `make test`.
const FEW: [(&str, &str, &str); 6] = [
    ("fallocate", "EINTR", "3"),
    ("pread64", "EINTR", "3"),
    ("pwrite64", "ENOSPC", "3"),
    ("ioctl", "EAGAIN", "50+50"),
    ("msync", "EIO", "3"),
    ("statx", "EIO", "3"),
];
/// What passes, and is not worth a word.
const PASSES: [&str; 2] = ["EINTR", "EAGAIN"];
/// But of these calls: a thread or a mapping for which the system has no means may not be had for long, a sync that has failed
/// is never tried again, a lock says by it that somebody else has it, and a journal is made by the standard library.
const TOLD: [&str; 8] = [
    "clone3",
    "mmap",
    "mremap",
    "fdatasync",
    "rt_sigaction",
    "fcntl",
    "statx",
    "lseek",
];

/// One error of one call.
#[derive(Clone, Debug)]
struct Injection {
    call: String,
    error: String,
    when: String,
}

impl Injection {
    fn new(call: &str, error: &str, when: &str) -> Self {
        let [call, error, when] = [call, error, when].map(String::from);
        Self { call, error, when }
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.call, self.error, self.when)
    }
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    /// Calls that have failed.
    injected: usize,
    how: String,
    /// What it broke, if anything.
    broken: Option<String>,
}

fn injections() -> Vec<Injection> {
    match std::env::var("COLDSET_INJECT").as_deref() {
        Err(_) => FEW.map(|(c, e, w)| Injection::new(c, e, w)).to_vec(),
        Ok("all") => {
            let mut all = Vec::new();
            for (call, errors) in ALL {
                for error in *errors {
                    all.extend(WHEN.map(|w| Injection::new(call, error, w)));
                }
            }
            all
        }
        Ok(list) => list
            .split(',')
            .map(|one| {
                let parts: Vec<&str> = one.split(':').collect();
                let [call, error, when] = parts[..] else {
                    panic!("COLDSET_INJECT is {one:?}, not CALL:ERROR:WHEN");
                };
                Injection::new(call, error, when)
            })
            .collect(),
    }
}

#[test]
fn calls_that_fail_are_told_and_lose_nothing() {
    if let Some(dir) = std::env::var_os(DIR) {
        return program::run(Path::new(&dir));
    }
    let _one = alone();
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("skipped: strace is not installed");
    }
    let mut broken = Vec::new();
    for injection in injections() {
        let Some(o) = try_one(&injection) else {
            return println!("skipped: strace may not look at other processes here");
        };
        println!("{injection}: {} failed: {}", o.injected, o.how);
        broken.extend(o.broken.map(|b| format!("{injection}: {b}")));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

/// A folder with the program's files.
fn folder() -> PathBuf {
    let dir = temp("injected");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("truth"), vec![0; Truth::BYTES]).unwrap();
    std::fs::write(dir.join("data"), vec![0; PAGES * PAGE]).unwrap();
    let mut constants = vec![0; PAGES * PAGE];
    for w in 0..PAGES * 2 {
        constants[program::offset(w)..][..8].copy_from_slice(&program::constant(w).to_ne_bytes());
    }
    std::fs::write(dir.join("constant"), constants).unwrap();
    dir
}

/// Starts the program, and waits until it has all that it needs for itself.
fn start(dir: &Path) -> Child {
    let mut c = child::command(NAME, "program");
    // What it allocates comes from what it has at the beginning, so that only the pager's mappings fail.
    let malloc = "glibc.malloc.arena_max=1:glibc.malloc.top_pad=67108864:\
                  glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1073741824";
    c.env(DIR, dir)
        .env("GLIBC_TUNABLES", malloc)
        .env("TMPDIR", dir)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped());
    c.spawn().unwrap()
}

/// Lets `strace` make calls of a process fail; None: it may not.
fn inject(injection: &Injection, pid: u32, log: &Path) -> Option<(Child, BufReader<ChildStderr>)> {
    let Injection { call, error, when } = injection;
    let mut strace = Command::new("strace")
        .args(["-f", "-o"])
        .arg(log)
        .args(["-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:error={error}:when={when}")])
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(strace.stderr.take().unwrap());
    let mut line = String::new();
    // One line for all threads that there are.
    while said.read_line(&mut line).is_ok_and(|n| n > 0) {
        if line.contains(" attached") {
            return Some((strace, said));
        }
    }
    let _ = strace.wait();
    println!("{line}");
    None
}

fn try_one(injection: &Injection) -> Option<Outcome> {
    let dir = folder();
    let log = dir.join("calls");
    let mut program = start(&dir);
    let (mut out, mut err) = (
        BufReader::new(program.stdout.take().unwrap()),
        program.stderr.take().unwrap(),
    );
    let mut text = String::new();
    while !text.ends_with("ready\n") {
        assert!(out.read_line(&mut text).unwrap() > 0, "{text}");
    }
    text.clear();
    let Some((mut strace, mut said)) = inject(injection, program.id(), &log) else {
        program.kill().unwrap();
        program.wait().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        return None;
    };
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut hangs = false;
    let status = std::thread::scope(|s| {
        s.spawn(|| drop(said.read_to_string(&mut String::new())));
        let out = s.spawn(|| {
            let mut t = String::new();
            let _ = out.read_to_string(&mut t);
            t
        });
        let err = s.spawn(|| {
            let mut t = String::new();
            let _ = err.read_to_string(&mut t);
            t
        });
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match program.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => {
                    hangs = true;
                    program.kill().unwrap();
                    break program.wait().unwrap();
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        text += &out.join().unwrap();
        text += &err.join().unwrap();
        status
    });
    let _ = strace.wait();
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    let injected = calls.matches("(INJECTED)").count();
    let lost = Truth::map(&dir.join("truth")).lost(&std::fs::read(dir.join("data")).unwrap());
    let (how, broken) = judge(injection, status, hangs, &text, &lost);
    if broken.is_none() {
        std::fs::remove_dir_all(dir).unwrap();
    } else {
        println!("kept: {}", dir.display());
    }
    Some(Outcome {
        injected,
        how,
        broken,
    })
}

/// How the program ended, and what it should not have done.
fn judge(
    injection: &Injection,
    status: std::process::ExitStatus,
    hangs: bool,
    text: &str,
    lost: &[String],
) -> (String, Option<String>) {
    let ours = text.lines().filter(|l| l.starts_with("coldset: "));
    let errors = text.lines().filter(|l| l.starts_with("error: "));
    let lines: Vec<&str> = errors.chain(ours.clone()).collect();
    let why_ended = ours.clone().next().is_some();
    let (how, good) = match (status.code(), status.signal()) {
        _ if hangs => ("hangs".into(), false),
        (Some(0), _) => ("done".into(), text.contains("done\n")),
        (Some(REFUSED), _) => ("refused".into(), !lines.is_empty()),
        (Some(WRONG), _) => ("wrong".into(), false),
        (Some(code), _) => (format!("exit code {code}"), false),
        (None, Some(libc::SIGBUS)) => ("SIGBUS".into(), why_ended),
        (None, Some(libc::SIGABRT)) => ("ends".into(), why_ended),
        (None, signal) => (format!("signal {signal:?}"), false),
    };
    let said = match lines[..] {
        [] => how,
        [first, ..] => format!("{how}, {} lines, {first}", lines.len()),
    };
    let passes = PASSES.contains(&injection.error.as_str());
    let told = TOLD.contains(&injection.call.as_str());
    let silent = !passes || told || (status.success() && lines.is_empty());
    // The program does nothing of the kind.
    let accused = text.contains("closed or replaced by the program");
    let good = good && silent && !accused && lost.is_empty() && !text.contains("panicked");
    let broken = (!good).then(|| format!("{said}\n{text}\n{}", lost.join("\n")));
    (said, broken)
}
