//! First in, first out: one list a type, no second chance. The floor to compare with, and the
//! smallest example of a policy.

use crate::folio::List;

/// One list a type; new folios at the head, victims at the tail.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct FifoLists {
    /// By type.
    pub lists: [List; 2],
}
