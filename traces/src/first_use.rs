//! Memory that is older than its trace.
//!
//! A recorder of addresses sees a load of memory and not who stored what is there: the program before the recording began, the
//! loader, a file that is mapped there. Such a page is not one of zeroes, which a kernel takes no memory for, so its first
//! load counts as the store that is missing.

use super::numbering::PageHashes;
use super::op::{Op, OpKind};
use std::collections::HashMap;

/// Pages of anonymous memory that have been used.
#[derive(Default)]
pub(super) struct FirstUse {
    /// By object and 64 pages: a bit each.
    used: HashMap<u64, u64, PageHashes>,
}

impl FirstUse {
    /// The reference as it is replayed: the first load from a page is a store.
    pub fn adapted(&mut self, op: Op) -> Op {
        if !op.kind.is_anon() {
            return op;
        }
        let group = u64::from(op.object) << 32 | u64::from(op.page / 64);
        let used = self.used.entry(group).or_default();
        let bit = 1 << (op.page % 64);
        let kind = match *used & bit {
            0 => OpKind::AnonWrite,
            _ => op.kind,
        };
        *used |= bit;
        Op { kind, ..op }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OpKind::{AnonRead, AnonWrite, MappedRead};

    #[test]
    fn the_first_load_of_a_page_is_a_store() {
        let mut first = FirstUse::default();
        for (object, page, kind, expected) in [
            (0, 7, AnonRead, AnonWrite),
            (0, 7, AnonRead, AnonRead),
            (0, 71, AnonRead, AnonWrite),
            (1, 7, AnonWrite, AnonWrite),
            (1, 7, AnonRead, AnonRead),
            (2, 7, MappedRead, MappedRead),
        ] {
            let op = Op {
                kind,
                object,
                task: 3,
                page,
            };
            assert_eq!(first.adapted(op).kind, expected, "{op:?}");
        }
    }
}
