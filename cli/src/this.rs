//! This program: how it was started, to start it again, and whether it is to stop.

use crate::error::Failure;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// The command as it was started, up to the subcommand, one of `before`: a program, or an interpreter with a script, which
/// knows its environment by the name it was called by.
///
/// # Errors
/// The program cannot be found.
pub fn this_command(before: &[&str]) -> Result<Vec<OsString>, Failure> {
    let arguments = std::env::args_os();
    let words: Vec<OsString> = arguments
        .take_while(|a| !before.iter().any(|b| a == b))
        .collect();
    if words.len() > 1 {
        return Ok(words);
    }
    let program = std::env::current_exe();
    let program = program.map_err(|e| Failure::Surroundings(format!("this program: {e}")))?;
    Ok(vec![program.into()])
}

/// From now on Ctrl-C is for us: says whether it has come, and cleans up.
pub fn interrupted() -> impl Fn() -> bool {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Without it the program ends at once, and what it leaves goes at the next start.
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
    move || stop.load(Relaxed)
}
