//! A sequence of references over densely numbered pages.

use std::collections::HashMap;

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
        let mut seen = HashMap::new();
        let mut keys = Vec::new();
        for id in ids {
            if keys.len() as u64 >= u64::from(u32::MAX) - 1 {
                return Err(TooLong);
            }
            let next = seen.len() as u32;
            keys.push(*seen.entry(id).or_insert(next));
        }
        Ok(Sequence {
            keys,
            unique: seen.len() as u32,
        })
    }

    /// The references of a trace. All objects share the capacity; which task refers to a
    /// page is of no account.
    ///
    /// # Errors
    /// [`TooLong`]
    pub fn of_ops<'a>(ops: impl IntoIterator<Item = &'a Op>) -> Result<Sequence, TooLong> {
        Sequence::new(
            ops.into_iter()
                .map(|op| u64::from(op.object) << 32 | u64::from(op.page)),
        )
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
