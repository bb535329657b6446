//! Where the words of a region are.

use crate::sys::records::Records;
use std::sync::atomic::AtomicU32;
use std::sync::Arc;

/// The words among the records of a region.
#[derive(Clone, Debug)]
pub struct Words(Arc<Records>);

impl Words {
    /// Those of these records.
    pub fn new(records: Arc<Records>) -> Self {
        Self(records)
    }

    /// Pages of the region, whether they have a word or not.
    pub(super) fn len(&self) -> usize {
        self.0.pages()
    }

    /// The word of a page, if it has one.
    #[inline]
    pub(super) fn find(&self, page: usize) -> Option<&AtomicU32> {
        self.0.find(page).map(|r| r.word())
    }

    /// The word of a page.
    #[inline]
    pub(super) fn make(&self, page: usize) -> &AtomicU32 {
        self.0.make(page).word()
    }
}
