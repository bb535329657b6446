//! A process that computes cells: one a line on standard input, what became of it a line on
//! standard output.

use crate::args::SweepWorkerArgs;
use crate::error::{Failure, Verdict};
use crate::output::print;
use coldset_lab::sweep::{work as compute, Cell, Done, Runner, Store, SweepError};
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::sync::mpsc;

/// What became of a cell, as it is sent.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Computed and on disk.
    Computed,
    /// On disk already.
    Found,
    /// Somebody else has it.
    Busy,
    /// It cannot be computed.
    Failed(String),
    /// No cell can be computed.
    Useless(String),
}

/// Works until standard input ends. If the process that feeds it goes, so does this one, at once:
/// what it computes would be nobody's.
///
/// # Errors
/// Standard output is closed.
pub fn work(args: &SweepWorkerArgs) -> Result<Verdict, Failure> {
    let (lines, cells) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    let store = Store::look(&args.out);
    let mut runner = Runner::new();
    for line in cells {
        let answer = match one(&store, &mut runner, &line) {
            Ok(Done::Computed) => Answer::Computed,
            Ok(Done::Found) => Answer::Found,
            Ok(Done::Busy) => Answer::Busy,
            Ok(Done::Failed(why)) => Answer::Failed(why),
            Err(error) => Answer::Useless(error.to_string()),
        };
        let mut text = serde_json::to_string(&answer).expect("plain data");
        text.push('\n');
        print(&text)?;
    }
    Ok(Verdict::Good)
}

fn one(store: &Store, runner: &mut Runner, line: &str) -> Result<Done, SweepError> {
    let cell: Cell = serde_json::from_str(line).map_err(|e| SweepError::Cell(e.to_string()))?;
    compute(store, runner, &cell)
}
