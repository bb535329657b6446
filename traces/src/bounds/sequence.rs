//! A sequence of references over densely numbered pages.

use std::collections::HashMap;

use crate::numbering::PageHashes;
use crate::Op;

/// Pages in the order of their references, numbered from 0 by first appearance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    keys: Vec<u32>,
    unique: u32,
}

/// A sequence of 2^32 - 1 references or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sequence has 4294967295 references or more; cut it to compute a bound")]
pub struct TooLong;

impl Sequence {
    /// Numbers the pages of a sequence; equal ids are the same page.
    ///
    /// # Errors
    /// [`TooLong`]: positions must fit in 32 bits.
    pub fn new(ids: impl IntoIterator<Item = u64>) -> Result<Sequence, TooLong> {
        let mut seen: HashMap<u64, u32, PageHashes> = HashMap::default();
        Sequence::numbered(ids.into_iter(), 0, |id, next| {
            *seen.entry(id).or_insert(next)
        })
    }

    /// The references of a trace, which are gone through twice. All objects share the capacity; which task refers to a
    /// page is of no account.
    ///
    /// # Errors
    /// [`TooLong`]
    pub fn of_ops<'a, I>(ops: I) -> Result<Sequence, TooLong>
    where
        I: IntoIterator<Item = &'a Op, IntoIter: Clone>,
    {
        let ops = ops.into_iter();
        if let Some(mut table) = Table::of(ops.clone()) {
            let references = table.references;
            return Sequence::numbered(ops, references, |op, next| table.number(op, next));
        }
        Sequence::new(ops.map(|op| u64::from(op.object) << 32 | u64::from(op.page)))
    }

    /// `number` gives the number of a page, which is its second argument for a new one.
    fn numbered<T>(
        pages: impl Iterator<Item = T>,
        expected: usize,
        mut number: impl FnMut(T, u32) -> u32,
    ) -> Result<Sequence, TooLong> {
        let mut sequence = Sequence {
            keys: Vec::with_capacity(expected),
            unique: 0,
        };
        for page in pages {
            if sequence.keys.len() as u64 >= u64::from(u32::MAX) - 1 {
                return Err(TooLong);
            }
            let key = number(page, sequence.unique);
            sequence.unique += u32::from(key == sequence.unique);
            sequence.keys.push(key);
        }
        Ok(sequence)
    }

    /// Page numbers, each below [`Sequence::unique`].
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// Number of different pages.
    pub fn unique(&self) -> u32 {
        self.unique
    }

    /// Number of references.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no reference.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Entries of a [`Table`] for each reference, beside those of any table. More would be slower than hashing.
const ENTRIES_EACH: u64 = 4;
const ENTRIES: u64 = 1 << 12;

/// Numbers of pages, an array over all pages that the objects have room for.
struct Table {
    /// Where the pages of an object begin.
    starts: [usize; 256],
    /// One more than the number of a page; 0: it has none so far.
    numbers: Vec<u32>,
    /// How many there are to number.
    references: usize,
}

impl Table {
    /// None: the pages lie too far apart.
    fn of<'a>(ops: impl Iterator<Item = &'a Op>) -> Option<Table> {
        let mut pages = [0u32; 256];
        let mut references = 0;
        for op in ops {
            let pages = &mut pages[usize::from(op.object)];
            *pages = op.page.saturating_add(1).max(*pages);
            references += 1;
        }
        let mut entries = 0u64;
        let starts = pages.map(|pages| {
            let start = entries as usize;
            entries += u64::from(pages);
            start
        });
        let few = entries <= ENTRIES + ENTRIES_EACH * references as u64;
        few.then(|| Table {
            starts,
            numbers: vec![0; entries as usize],
            references,
        })
    }

    fn number(&mut self, op: &Op, next: u32) -> u32 {
        let number = &mut self.numbers[self.starts[usize::from(op.object)] + op.page as usize];
        if *number == 0 {
            *number = next + 1;
        }
        *number - 1
    }
}
