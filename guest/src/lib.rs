//! Kernels in virtual machines, with nothing inside but one program.
//!
//! | module | where | what |
//! |---|---|---|
//! | [`packages`] | host | Debian's kernels: listed, fetched into a folder, unpacked; nothing is installed |
//! | [`modules`] | host | the modules a guest needs, in the order of their dependencies |
//! | [`image`] | host | the initramfs: a program with its libraries, modules, files |
//! | `child` | host | a process that does not outlive us |
//! | [`vm`] | host | QEMU: started, waited for, what it wrote |
//! | [`file_system`] | both | what its files are on |
//! | [`job`] | both | what the guest is told |
//! | [`inside`] | guest | the first process: mounts, modules, disks, swap, settings |

mod child;
mod error;
pub mod file_system;
pub mod image;
pub mod inside;
pub mod job;
pub mod modules;
pub mod packages;
pub mod vm;

pub use error::GuestError;
