//! Where the blocks of the data file are: a written block goes to another place, the old place is
//! free again after the next checkpoint (`docs/reference/experiments.md#mongodb`).

/// Records of a block (`docs/reference/experiments.md#mongodb`).
pub(in crate::experiments) const RECORDS_PER_BLOCK: u64 = 27;

/// Places of blocks, in blocks.
#[derive(Debug)]
pub struct Layout {
    place: Vec<u32>,
    free: Vec<u32>,
    pending: Vec<u32>,
    end: u32,
}

impl Layout {
    /// Every block at its own number.
    pub fn new(blocks: u32) -> Self {
        Self {
            place: (0..blocks).collect(),
            free: Vec::new(),
            pending: Vec::new(),
            end: blocks,
        }
    }

    /// Where a block is.
    pub fn place(&self, block: u32) -> u32 {
        self.place[block as usize]
    }

    /// Gives a block a new place to be written to.
    pub fn relocate(&mut self, block: u32) -> u32 {
        let new = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        self.pending
            .push(std::mem::replace(&mut self.place[block as usize], new));
        new
    }

    /// A checkpoint is complete: places left before it may be used again. Lowest places first.
    pub fn checkpoint(&mut self, left_before: usize) {
        self.free.extend(self.pending.drain(..left_before));
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Places left since the last checkpoint.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}
