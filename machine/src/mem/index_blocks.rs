//! The blocks of a file's index, and the buffers of blocks that CPUs hold (`docs/rules/index-blocks.md`).

use coldset_engine::ObjectId;
use std::collections::VecDeque;
use std::ops::Range;

/// Extents that an inode has room for, and entries for blocks of the index if there are more.
pub const EXTENTS_IN_INODE: u32 = 4;
/// Extents, or entries for further blocks, that a block of the index has room for: 12 bytes each, behind a header.
pub const EXTENTS_IN_BLOCK: u32 = 340;
/// Buffers that a CPU remembers.
const BUFFERS: usize = 16;

/// The blocks of a file's index.
#[derive(Debug)]
pub(crate) struct IndexBlocks {
    /// The page cache of the device, and the place of the first block there.
    cache: ObjectId,
    first: u32,
    /// Blocks with extents; those behind them have entries for these.
    leaves: u32,
    /// Pages of the file when they were made, which its leaves share evenly.
    pages: u32,
    /// Blocks that have been read: what they say is remembered with the inode, and never looked up again.
    read: Vec<bool>,
}

impl IndexBlocks {
    /// The index of a file of `pages` pages in `extents` runs, behind what there is in `cache`; none if its inode has
    /// room for them.
    pub(crate) fn of(extents: u32, pages: u32, cache: ObjectId, first: u32) -> Option<Self> {
        let (leaves, above) = Self::needed(extents);
        (leaves > 0).then(|| Self {
            cache,
            first,
            leaves,
            pages,
            read: vec![false; (leaves + above) as usize],
        })
    }

    /// Blocks.
    pub(crate) fn len(&self) -> u32 {
        self.read.len() as u32
    }

    /// A block has been read.
    pub(crate) fn set_read(&mut self, block: u32) {
        self.read[block as usize] = true;
    }

    /// Where a block is: in the page cache of its device.
    pub(crate) fn place(&self, block: u32) -> (ObjectId, u32) {
        (self.cache, self.first + block)
    }

    /// Blocks with extents, and blocks with entries for those.
    fn needed(extents: u32) -> (u32, u32) {
        if extents <= EXTENTS_IN_INODE {
            return (0, 0);
        }
        let leaves = extents.div_ceil(EXTENTS_IN_BLOCK);
        let above = match leaves {
            0..=EXTENTS_IN_INODE => 0,
            _ => leaves.div_ceil(EXTENTS_IN_BLOCK),
        };
        (leaves, above)
    }

    /// The leaf with the place of a page.
    fn leaf_of(&self, page: u32) -> u32 {
        let leaf = u64::from(page) * u64::from(self.leaves) / u64::from(self.pages.max(1));
        (leaf as u32).min(self.leaves - 1)
    }

    /// The first block that is still to be read for these pages: from the top down.
    pub(crate) fn unread(&self, pages: &Range<u32>) -> Option<u32> {
        let mut leaves = self.leaf_of(pages.start)..=self.leaf_of(pages.end - 1);
        let leaf = leaves.find(|&leaf| !self.read[leaf as usize])?;
        let above = self.leaves + leaf / EXTENTS_IN_BLOCK;
        let top = self.read.get(above as usize) == Some(&false);
        Some(if top { above } else { leaf })
    }
}

/// The buffers that each CPU has looked up last. A page with one of them cannot leave memory.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// By CPU, the last one first; none: other blocks push them out before memory is short.
    cpus: Option<Vec<VecDeque<(ObjectId, u32)>>>,
}

impl Buffers {
    /// Buffers do not stay.
    pub(crate) const PASSING: Self = Self { cpus: None };

    /// Buffers stay, for nobody else looks any up.
    pub(crate) fn staying(cpus: u16) -> Self {
        let cpus = vec![VecDeque::new(); usize::from(cpus)];
        Self { cpus: Some(cpus) }
    }

    /// They do.
    pub(crate) fn stay(&self) -> bool {
        self.cpus.is_some()
    }

    /// A buffer has been looked up. Returns one that no CPU remembers any more.
    pub(crate) fn used(&mut self, cpu: u16, block: (ObjectId, u32)) -> Option<(ObjectId, u32)> {
        let cpus = self.cpus.as_mut()?;
        let last = &mut cpus[usize::from(cpu)];
        last.retain(|&b| b != block);
        last.push_front(block);
        let out = (last.len() > BUFFERS).then(|| last.pop_back()).flatten()?;
        (!cpus.iter().any(|c| c.contains(&out))).then_some(out)
    }
}
