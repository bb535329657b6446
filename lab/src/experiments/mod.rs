//! The published experiments (`docs/reference/experiments.md`), one file each.
//!
//! An experiment is a generator, its parameters and its acceptance rows. It knows nothing of
//! variants: the runner hands it switches, and the rows name "before" and "after" only.

pub mod aging_oom;
pub mod android_cold_start;
pub mod android_heavy;
pub mod browser;
pub mod dead_folios;
pub mod fairness;
pub mod fio_mmap;
pub mod kernel_build;
pub mod memcg_heat;
pub mod mongodb;
pub mod mysql;
pub mod phone;
mod published;
mod read_ahead;
pub mod slow_io;
pub mod throttling_oom;
pub mod tlb_stress;

pub use read_ahead::{read_ahead_otherwise, READ_AHEAD_OTHERWISE};

use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed.
pub const EXPERIMENTS: &[Experiment] = &[
    mongodb::EXPERIMENT,
    fairness::EXPERIMENT,
    aging_oom::EXPERIMENT,
    throttling_oom::EXPERIMENT,
    mysql::EXPERIMENT,
    fio_mmap::EXPERIMENT,
    kernel_build::EXPERIMENT,
    slow_io::EXPERIMENT,
    tlb_stress::EXPERIMENT,
    android_cold_start::EXPERIMENT,
    android_heavy::EXPERIMENT,
    memcg_heat::EXPERIMENT,
    dead_folios::EXPERIMENT,
];
