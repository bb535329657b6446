//! A command as a process of its own: what it says, and what it takes.

use super::Failure;
use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;
use wait4::Wait4;

/// A process that has ended well.
pub struct Done {
    /// User and system time, of all its threads, s.
    pub cpu: f64,
    /// Time that passed, s.
    pub elapsed: f64,
    /// Most resident memory, bytes.
    pub peak: u64,
    /// What it has written.
    pub output: String,
}

/// Runs a program to its end.
///
/// # Errors
/// It cannot be started, or fails.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<Done, Failure> {
    let begin = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot run {program}: {e}"))?;
    let mut output = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut output)?;
    }
    let end = child.wait4()?;
    if !end.status.success() {
        return Err(format!("{command:?} failed: {}", end.status).into());
    }
    Ok(Done {
        cpu: (end.rusage.utime + end.rusage.stime).as_secs_f64(),
        elapsed: begin.elapsed().as_secs_f64(),
        peak: end.rusage.maxrss,
        output,
    })
}

/// Runs `coldset lab` and reads its JSON.
///
/// # Errors
/// As [`run`], or what comes out is no JSON.
pub fn lab<A: AsRef<OsStr>>(arguments: &[A]) -> Result<(Done, serde_json::Value), Failure> {
    let fixed = ["--json", "-"].map(OsStr::new);
    let given = arguments.iter().map(AsRef::as_ref);
    let all: Vec<&OsStr> = [OsStr::new("lab")]
        .into_iter()
        .chain(given)
        .chain(fixed)
        .collect();
    let done = run(env!("CARGO_BIN_EXE_coldset"), &all)?;
    let json = serde_json::from_str(&done.output)?;
    Ok((done, json))
}
