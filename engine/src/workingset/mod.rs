//! Workingset detection: what is remembered about an evicted folio and how a refault is judged
//! (`docs/rules/workingset.md`).

mod record;
pub mod refault;
pub mod shadow;
#[cfg(test)]
mod tests;

pub use record::WorkingSet;
pub use shadow::Shadow;
