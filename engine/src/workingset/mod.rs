//! Workingset detection: what is remembered about an evicted folio and how a refault is judged
//! (`workingset.md`).

pub mod refault;
pub mod shadow;
#[cfg(test)]
mod tests;

pub use shadow::Shadow;
