//! This program: how it was started, to start it again, and whether it is to stop.

use crate::error::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

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

/// What signals do that end a program.
struct Signals {
    /// One has come.
    stop: Arc<AtomicBool>,
    /// Nobody asks whether one has: it ends the program at once.
    unasked: Arc<AtomicBool>,
}

fn signals() -> Signals {
    let signals = Signals {
        stop: Arc::default(),
        unasked: Arc::default(),
    };
    // Who started us with nohup wants us to outlive the terminal.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!is_ignored(&status, SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // Without it the program ends at once, and what it leaves goes at the next start.
        let (unasked, stop) = (signals.unasked.clone(), signals.stop.clone());
        let _ = signal_hook::flag::register_conditional_default(signal, unasked);
        let _ = signal_hook::flag::register(signal, stop);
    }
    signals
}

/// Whether a process with this `/proc/PID/status` ignores the signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}

/// As long as what it returns lives, Ctrl-C is for us, and so are a request to end and the end of the terminal: it says
/// whether one of them has come, and the caller cleans up. Not to be called again before that is dropped.
pub fn interrupted() -> impl Fn() -> bool {
    static SIGNALS: OnceLock<Signals> = OnceLock::new();
    let signals = SIGNALS.get_or_init(signals);
    signals.stop.store(false, Relaxed);
    signals.unasked.store(false, Relaxed);
    let asking = Asking(&signals.unasked);
    move || {
        let _ = &asking;
        signals.stop.load(Relaxed)
    }
}

/// Somebody asks whether a signal has come.
struct Asking<'a>(&'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_ignores_is_told() {
        let status = |mask: &str| format!("Name:\tx\nSigIgn:\t{mask}\nSigCgt:\t0000000000000001\n");
        assert!(is_ignored(&status("0000000000000001"), SIGHUP));
        assert!(!is_ignored(&status("0000000000001002"), SIGHUP));
        assert!(is_ignored(&status("0000000000001002"), SIGINT));
        assert!(!is_ignored("", SIGHUP));
    }

    #[test]
    fn the_end_of_a_terminal_is_noticed() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if is_ignored(&status, SIGHUP) {
            eprintln!("SKIPPED: started with nohup");
            return;
        }
        let stop = interrupted();
        assert!(!stop());
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert!(stop());
    }
}
