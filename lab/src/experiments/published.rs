//! Where figures of more than one experiment were published.

/// The reclaim-loop series (`docs/rules/series.md`).
pub(super) const SERIES: &str = "\"mm/mglru: improve reclaim loop and dirty folio handling\", Kairui Song, linux-mm, version 5, 12 April 2026";
/// Measurements on phones, in its thread.
pub(super) const ANDROID: &str = "two replies to \"[PATCH v5 00/14] mm/mglru: improve reclaim loop and dirty folio handling\", linux-mm, April 2026";
