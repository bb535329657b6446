//! What leaves together.

use crate::region::area::Area;
use std::ops::Range;
use std::sync::Arc;

/// A page the engine has given up. Its state is BUSY, and ours.
#[derive(Debug)]
pub(crate) struct Victim {
    pub(crate) area: Arc<Area>,
    pub(crate) page: usize,
    /// Its swap slot, for anonymous memory.
    pub(crate) slot: Option<u32>,
    /// The slot holds nothing yet.
    pub(crate) must_write: bool,
    pub(crate) shadow: Option<u64>,
}

impl Victim {
    /// A page of a file that the engine has forgotten already.
    pub(crate) fn of_file(area: Arc<Area>, page: usize) -> Self {
        Self {
            area,
            page,
            slot: None,
            must_write: false,
            shadow: None,
        }
    }

    /// Pages of a read-only file are what the file has: nobody can have stored to them.
    pub(super) fn contents_needed(&self) -> bool {
        !self.area.is_read_only()
    }

    /// Its slot has to be written whatever the written mark says.
    pub(super) fn slot_is_empty(&self) -> bool {
        self.slot.is_some() && self.must_write
    }

    /// `other` is the next page of the same region.
    fn is_before(&self, other: &Victim) -> bool {
        Arc::ptr_eq(&self.area, &other.area) && other.page == self.page + 1
    }
}

/// Runs of neighbours for which `same` holds; victims for which it does not are left out.
pub(super) fn runs_of<'a>(
    victims: &'a [Victim],
    same: impl Fn(usize) -> bool + 'a,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < victims.len() && !same(at) {
            at += 1;
        }
        if at == victims.len() {
            return None;
        }
        let start = at;
        at += 1;
        while at < victims.len() && same(at) && victims[at - 1].is_before(&victims[at]) {
            at += 1;
        }
        Some(start..at)
    })
}

/// Runs of neighbours.
pub(super) fn runs(victims: &[Victim]) -> impl Iterator<Item = Range<usize>> + '_ {
    runs_of(victims, |_| true)
}
