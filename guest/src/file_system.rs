//! File systems a guest's disk can have.

use crate::packages::run;
use crate::GuestError;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// What the guest's files are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The fourth extended file system.
    Ext4,
    /// The flash-friendly file system, as phones have it. Debian's cloud kernels are built without it.
    F2fs,
}

impl FileSystem {
    /// As `mount` and the modules call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::F2fs => "f2fs",
        }
    }

    /// Its module, as [`crate::modules::NEEDED`] has them.
    pub fn modules(self) -> &'static [(&'static str, &'static str, bool)] {
        match self {
            Self::Ext4 => &[("ext4", "CONFIG_EXT4_FS", true)],
            Self::F2fs => &[("f2fs", "CONFIG_F2FS_FS", true)],
        }
    }

    /// Makes an empty one in the file or device at `path`.
    pub(crate) fn make(self, path: &Path) -> Result<(), GuestError> {
        let (program, package, options): (_, _, &[&str]) = match self {
            // No lazy work that would disturb a run.
            Self::Ext4 => (
                "mkfs.ext4",
                "e2fsprogs",
                &[
                    "-q",
                    "-F",
                    "-b",
                    "4096",
                    "-E",
                    "lazy_itable_init=0,lazy_journal_init=0",
                ],
            ),
            Self::F2fs => ("mkfs.f2fs", "f2fs-tools", &["-q", "-f"]),
        };
        let mut command = Command::new(program);
        command.args(options).arg(path);
        run(command, program, package).map(drop)
    }
}
