//! The third host: the work of a trace on the kernel that runs here.
//!
//! The lab predicts what a kernel does with a trace; [`play`] has it done. Files are made with checkable contents, a worker
//! process in a memory cgroup of its own does each access as the trace says, and the kernel's counters
//! are read at points on the way and at the end.
//!
//! | module | what |
//! |---|---|
//! | [`cgroup`] | the memory cgroup: version 1 or 2, found, made, limited, removed |
//! | `files` | the files of a trace, and what each page of them holds |
//! | [`worker`] | the process that does the accesses |
//! | `play` | one run: files, cgroup, worker, points |
//! | [`counters`] | what the kernel counted, by the lab's names |
//! | [`lists`] | the generations of the group |
//! | [`disturbed`] | what other programs did to the run |
//! | [`machine`] | what is under the run: kernel, policy, huge pages, swap, device |
//! | `sys` | loads and stores in mapped memory |

pub mod cgroup;
pub mod counters;
pub mod disturbed;
mod error;
mod files;
pub mod lists;
pub mod machine;
mod play;
mod sys;
pub mod worker;

pub use error::PlayError;
pub use play::{play, Plan, Played, Point};
