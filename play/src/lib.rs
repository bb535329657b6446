//! The third host: the work of a trace on the kernel that runs here.
//!
//! The lab predicts what a kernel does with a trace; a [`Stage`] has it done. Files are made with checkable contents, worker
//! processes in a memory cgroup of their own do each access as the trace says, and the kernel's counters
//! are read at points on the way and at the end.
//!
//! | module | what |
//! |---|---|
//! | `plan` | how: order, what a task is, limits |
//! | `play` | one run: files, cgroups, workers, points |
//! | `conduct` | accesses to workers, in the order that is wanted |
//! | `crew` | the processes of the workers |
//! | `cut` | files that are cut while another task uses them |
//! | [`worker`] | what does the accesses |
//! | [`cgroup`] | the memory cgroup: version 1 or 2, found, made, limited, removed |
//! | `files`, `contents` | the files of a trace, and what the pages hold |
//! | [`lists`] | the generations of the group |
//! | `asleep` | how long the tasks slept |
//! | `folds` | when the kernel folds its statistics |
//! | `scans` | what the kernel scans for the workers, by its tracepoints |
//! | `trace` | a buffer of the kernel's trace |
//! | [`disturbed`] | what other programs did to the run |
//! | [`counters`], `snapshot` | what the kernel counted, by the lab's names; of the run and of each task |
//! | [`machine`] | what is under the run: kernel, policy, huge pages, swap, device |
//! | [`zones`], `balloon` | free memory of the machine, and how it is made little |
//! | `grouped` | numbers as people read them |
//! | [`leftovers`] | what killed runs have left |
//! | `sys` | loads and stores in mapped memory |

mod asleep;
mod balloon;
pub mod cgroup;
mod conduct;
mod contents;
pub mod counters;
mod crew;
mod cut;
pub mod disturbed;
mod error;
mod files;
mod folds;
mod grouped;
mod lead;
pub mod leftovers;
pub mod lists;
pub mod machine;
mod plan;
mod play;
mod scans;
mod snapshot;
mod sys;
mod trace;
pub mod worker;
pub mod zones;

pub use error::PlayError;
pub use plan::{check_tasks, Plan, Tasks};
pub use play::{Killed, Played, Point, Stage, TaskPlayed};
