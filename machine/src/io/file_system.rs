//! What file systems do differently (`docs/rules/writeback.md#file-systems`).

use std::fmt;

/// What the files of a machine are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileSystem {
    /// The fourth extended file system, as most machines have it.
    #[default]
    Ext4,
    /// The flash-friendly file system, as phones have it.
    F2fs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Ext4, Self::F2fs];

    /// Its name, as `mount` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::F2fs => "f2fs",
        }
    }

    /// A write by call takes the mark of its page away, whichever it is: that of reclaim or that of read-ahead.
    pub(crate) fn write_takes_mark(self) -> bool {
        self == Self::F2fs
    }

    /// Each written page has memory of the kernel's.
    pub(crate) fn has_buffers(self) -> bool {
        self == Self::Ext4
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
