//! The kernel's side: thin layers over the calls that a pager needs.
//!
//! | file | what |
//! |---|---|
//! | `again.rs` | calls that are worth another try |
//! | `memory.rs` | mappings that own themselves, page buffers, zeroed tables |
//! | `records.rs` | what is kept of each page, where pages are used |
//! | `fd.rs` | descriptors that lie high, and are looked at before they are used |
//! | `memfd.rs`, `ranges.rs` | the file in memory that holds the pages of all regions |
//! | `userfaultfd.rs` | misses and write protection of regions |
//! | `pagemap.rs` | which pages are mapped, which have been written |
//! | `maps.rs` | which file is mapped at an address |
//! | `cachestat.rs` | how much of a file the page cache has, and how far the kernel reads ahead |
//! | `pipe.rs` | the pipe that pins pages while they are punched out |
//! | `lock.rs` | locks of open files |
//! | `ring.rs` | many transfers at once |
//! | `shortage.rs` | which limit of the process an error comes from |
//! | `sigbus.rs` | the handler that brings a miss to the pager, and chaining |
//! | `signals.rs` | no other handler runs while a lock of the pager is held |
//! | `bell.rs` | wakes a thread that works now and then |
//! | `fuse.rs` | a panic inside the pager ends the process |
//! | `quiet.rs` | a panic as a line of text |
//! | `futex.rs` | waiting for a page word |
//! | `cgroup.rs` | what memory the process may have, and pressure on it |
//! | `clock.rs` | time |
//! | `exit.rs` | the end of the process |
//! | `fork.rs` | forks, noticed without a system call; the addresses of regions in a child |
//! | `probe.rs` | which of all this the running kernel offers |
#![allow(unsafe_code)]

pub(crate) mod again;
pub(crate) mod bell;
pub(crate) mod cachestat;
pub mod cgroup;
pub mod clock;
pub mod exit;
pub mod fd;
pub(crate) mod fork;
pub(crate) mod fuse;
pub mod futex;
pub mod lock;
pub(crate) mod maps;
pub mod memfd;
pub mod memory;
pub mod pagemap;
pub mod pipe;
pub mod probe;
pub(crate) mod quiet;
pub mod ranges;
pub mod records;
pub mod ring;
pub mod shortage;
pub mod sigbus;
pub mod signals;
pub mod userfaultfd;

/// Bytes of a page. Other page sizes are refused by the probe.
pub const PAGE: usize = 4096;

/// Why the system call before has failed.
fn last_error() -> rustix::io::Errno {
    let e = std::io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO)
}
