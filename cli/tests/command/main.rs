//! The command, and what the repository says of itself, a file for each part.
//!
//! One program, since each would link the lab and the pager once more. `make test` starts it once for each of these
//! files, so that their tests share no process.

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod checks;
mod convert;
mod docs;
mod export;
mod inspect;
mod journal;
mod kernel;
mod lists;
mod maps;
mod mistakes;
mod outputs;
mod play;
mod races;
mod replay;
mod report;
mod rules;
mod sizes;
mod structure;
mod sweep;
mod tasks;
mod top;
mod validation;
mod verify;
mod workload;
