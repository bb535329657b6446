//! A process that computes cells: one a line on standard input, what became of it a line on
//! standard output.

use super::{work, Cell, Done, Runner, Store, SweepError};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::mpsc;

/// What became of a cell, as a worker sends it.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// Computed and on disk.
    Computed,
    /// On disk already.
    Found,
    /// Another sweep is computing it.
    Busy,
    /// It cannot be computed.
    Failed(String),
    /// This worker cannot compute any cell.
    Useless(String),
}

/// Computes cells into a folder until standard input ends. When the supervisor dies, the process exits at
/// once: nobody would read what it computes.
///
/// # Errors
/// Standard output is closed.
pub fn serve(dir: &Path) -> io::Result<()> {
    let (lines, cells) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    let store = Store::look(dir);
    let mut runner = Runner::new();
    for line in cells {
        let answer = match compute(&store, &mut runner, &line) {
            Ok(Done::Computed) => Answer::Computed,
            Ok(Done::Found) => Answer::Found,
            Ok(Done::Busy) => Answer::Busy,
            Ok(Done::Failed(why)) => Answer::Failed(why),
            Err(error) => Answer::Useless(error.to_string()),
        };
        let mut text = serde_json::to_string(&answer).expect("plain data");
        text.push('\n');
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())?;
    }
    Ok(())
}

fn compute(store: &Store, runner: &mut Runner, line: &str) -> Result<Done, SweepError> {
    let cell: Cell = serde_json::from_str(line).map_err(|e| SweepError::Cell(e.to_string()))?;
    work(store, runner, &cell)
}
