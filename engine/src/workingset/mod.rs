//! Workingset detection: what is remembered about an evicted folio and how a refault is judged
//! (`docs/rules/workingset.md`).

mod nodes;
mod record;
pub mod refault;
pub mod shadow;
mod shrinker;
#[cfg(test)]
mod tests;

pub(crate) use nodes::ShadowNodes;
pub use record::WorkingSet;
pub use shadow::Shadow;
