//! What a program sees of its pools, a file for each side of them.
//!
//! One program, since each would compile and link the whole pager once more. `make test` starts it once for each of
//! these files, so that their tests share no process. `cargo test` runs all of them in one: what a test changes of
//! the process as a whole, it changes in a child (`common/child.rs`), and whatever uses a pool in this one calls
//! `alone` or `together` first. What measures the program itself, or needs features, is a program of its own.

#[path = "../common/mod.rs"]
mod common;

mod ahead;
mod budget;
mod counted;
mod descriptors;
mod doors;
mod drops;
mod exit;
mod explicit;
mod file_locks;
mod files;
mod forks;
mod full_disk;
mod injected;
mod journal;
mod loans;
mod memory_errors;
mod messages;
mod misuse;
mod observe;
mod outside;
mod process;
mod ranges;
mod sizes;
mod slow_disk;
mod streams;
mod stress;
mod swap_damage;
mod swap_files;
mod sync_errors;
mod threads;
mod tiers;
mod tight_swap;
mod transfers;
mod witnesses;
