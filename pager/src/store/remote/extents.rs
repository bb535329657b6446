//! What has been fetched lately, in runs of blocks, and how much to fetch next.

use std::sync::{Arc, Condvar, Mutex};

/// A run of blocks, on its way or here.
#[derive(Debug)]
struct Extent {
    first: u64,
    blocks: u64,
    bytes: Option<Arc<Vec<u8>>>,
}

impl Extent {
    fn has(&self, block: u64) -> bool {
        (self.first..self.first + self.blocks).contains(&block)
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// Those fetched last come last.
    extents: Vec<Extent>,
    /// The block after the last request, and how many that had.
    next: u64,
    window: u64,
}

/// The runs of one object.
#[derive(Debug)]
pub(super) struct Extents {
    inner: Mutex<Inner>,
    changed: Condvar,
    most: u64,
    keep: usize,
}

/// What to do for a block.
pub(super) enum Look {
    /// The run that has it, and blocks of it before this one.
    Here {
        /// Contents of the run.
        bytes: Arc<Vec<u8>>,
        /// Blocks to skip.
        skip: u64,
    },
    /// The caller fetches so many blocks, and says so with [`Extents::arrived`].
    Fetch(u64),
    /// Look again.
    Again,
}

impl Extents {
    /// At most `most` blocks a request; about `keep` bytes are kept.
    pub(super) fn new(most: u64, keep: usize) -> Self {
        Self {
            inner: Mutex::default(),
            changed: Condvar::new(),
            most,
            keep,
        }
    }

    /// Finds a block, or what to do about it; waits if it is on its way.
    pub(super) fn look(&self, block: u64, last: u64) -> Look {
        let mut inner = self.inner.lock().expect("extents");
        if let Some(e) = inner.extents.iter().find(|e| e.has(block)) {
            return match &e.bytes {
                Some(bytes) => Look::Here {
                    bytes: bytes.clone(),
                    skip: block - e.first,
                },
                None => {
                    drop(self.changed.wait(inner).expect("extents"));
                    Look::Again
                }
            };
        }
        let window = match inner.next == block && block > 0 {
            true => (inner.window * 2).min(self.most),
            false => 1,
        };
        // Not what is here already, nor beyond the end.
        let known = inner.extents.iter().filter(|e| e.first > block);
        let end = known.map(|e| e.first).min().unwrap_or(last + 1);
        let blocks = window.max(1).min(end - block).min(last + 1 - block);
        inner.next = block + blocks;
        inner.window = window.max(1);
        inner.extents.push(Extent {
            first: block,
            blocks,
            bytes: None,
        });
        Look::Fetch(blocks)
    }

    /// A run that this caller fetches is here, or failed. Old ones go.
    pub(super) fn arrived(&self, first: u64, bytes: Option<Vec<u8>>, block: usize) {
        let mut inner = self.inner.lock().expect("extents");
        let at = inner.extents.iter().position(|e| e.first == first);
        let at = at.expect("a run on its way stays");
        match bytes {
            None => drop(inner.extents.remove(at)),
            Some(bytes) => inner.extents[at].bytes = Some(Arc::new(bytes)),
        }
        let mut kept = 0;
        // From the newest to the oldest, and back.
        inner.extents.reverse();
        inner.extents.retain(|e| {
            kept += e.blocks as usize * block;
            e.bytes.is_none() || kept <= self.keep || e.first == first
        });
        inner.extents.reverse();
        self.changed.notify_all();
    }
}
