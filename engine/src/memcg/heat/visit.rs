//! What a visit of a memcg has brought.

/// What a visit of a memcg has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct VisitStats {
    /// LRU pages scanned.
    pub scanned: u64,
    /// LRU pages freed.
    pub reclaimed: u64,
    /// The visit opened a new generation.
    pub aged: bool,
}
