//! What a guest is told.

use crate::file_system::FileSystem;
use serde::{Deserialize, Serialize};

/// A job: how the machine is set up, and the command that runs then. It is in the initramfs as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Modules to load, in this order: files of [`MODULES`].
    pub modules: Vec<String>,
    /// The multi-gen LRU on or off; none: as the kernel has it.
    pub multi_gen: Option<bool>,
    /// Bytes mapped round a fault.
    pub fault_around: u64,
    /// Read-ahead of the disk, KiB.
    pub read_ahead_kb: u32,
    /// What the files are on.
    pub file_system: FileSystem,
    /// vm.swappiness.
    pub swappiness: u16,
    /// The kernel limits and flushes everybody's dirty pages together, as where the io controller is not in the hierarchy
    /// of the memory controller.
    pub dirty_limits_of_host: bool,
    /// MiB of swap on zram; 0: none.
    pub zram_mib: u64,
    /// Files on a disk inside the guest, of so many MiB, that takes so many ns a request; none: on the virtual disk.
    pub disk_inside: Option<(u64, u64)>,
    /// The command's arguments. It runs in [`FOLDER`], where the files are.
    pub arguments: Vec<String>,
}

/// Where the job is in the initramfs.
pub const JOB: &str = "/job.json";
/// Where modules are.
pub const MODULES: &str = "/modules";
/// The disk is mounted here.
pub const FOLDER: &str = "/mnt";
/// The port that the result goes to; the console is the other.
pub const RESULT: &str = "/dev/ttyS1";
/// The result ends with this line: without it, the guest was cut off.
pub const END: &str = "@END";
