//! `coldset top`: pools of running processes.
//!
//! | file | what |
//! |---|---|
//! | `change.rs` | what two looks at a pool differ by: rates and latencies |
//! | `text.rs` | the same as text: sizes, times, tables |
//! | `live.rs` | the terminal, keys, the clock |
//! | `draw.rs` | a screen |

mod change;
mod draw;
mod live;
mod text;

use crate::args::TopArgs;
use crate::error::{Failure, Verdict};
use crate::output::{print, tell};
use change::Change;
use coldset_pager::observe::{processes, read, ObserveError, ProcessSnapshot};
use std::io::IsTerminal;

/// Runs the command.
///
/// # Errors
/// No such process, or it cannot be looked at; the terminal.
pub fn run(args: &TopArgs) -> Result<Verdict, Failure> {
    let pid = match args.pid {
        Some(pid) => pid,
        None => {
            let all = all_processes()?;
            if args.json {
                let text = serde_json::to_string_pretty(&all).expect("a snapshot is plain data");
                print(&(text + "\n"))?;
                return Ok(Verdict::Good);
            }
            match &all[..] {
                [] => return Err(Failure::NobodyObserved),
                [one] => one.pid,
                many => {
                    print(&text::processes(many))?;
                    return Ok(Verdict::Good);
                }
            }
        }
    };
    let first = read(pid)?;
    if args.json {
        let text = serde_json::to_string_pretty(&first).expect("a snapshot is plain data");
        print(&(text + "\n"))?;
    } else if args.once || !std::io::stdout().is_terminal() {
        std::thread::sleep(args.interval);
        let next = read(pid)?;
        print(&once(&first, &next))?;
    } else {
        live::run(first, args.interval)?;
    }
    Ok(Verdict::Good)
}

/// What can be read of all processes of this user. One that ends meanwhile is left out, and so is one that cannot be looked
/// at, which is said, unless there is no other.
fn all_processes() -> Result<Vec<ProcessSnapshot>, Failure> {
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for pid in processes() {
        match read(pid) {
            Ok(p) => all.push(p),
            Err(ObserveError::NoProcess { .. } | ObserveError::Ended { .. }) => {}
            Err(e) => refused.push(e),
        }
    }
    if all.is_empty() && !refused.is_empty() {
        return Err(refused.swap_remove(0).into());
    }
    refused.iter().for_each(|e| tell(&format!("left out: {e}")));
    Ok(all)
}

/// All pools of a process, one after the other.
fn once(first: &ProcessSnapshot, next: &ProcessSnapshot) -> String {
    let mut out = format!("{} ({})\n", text::shown(&next.program), next.pid);
    if next.pools.is_empty() {
        out += "no pools at the moment\n";
    }
    for pool in &next.pools {
        let before = first.pools.iter().find(|p| p.pool == pool.pool);
        out += &text::pool(pool, &Change::between(before, pool));
    }
    out
}
