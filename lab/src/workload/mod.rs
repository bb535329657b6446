//! Workloads of users: experiments that are described in TOML, without Rust (`docs/how-to/own-workload.md`).
//!
//! A text becomes a tree that knows its lines, the tree a description at one scale and set of parameters, and
//! the description is run over the same rig as the built-in experiments. `keys` lists every key there is.

mod choice;
mod claims;
mod description;
mod error;
mod fields;
mod formula;
mod keys;
mod load;
mod machine;
mod measure;
mod places;
mod results;
mod run;
mod task;
mod tasks;
mod tree;

pub use error::WorkloadError;
pub use keys::{Key, KEYS, SECTIONS};
pub use load::{fingerprint, of_json, of_toml, read};
pub use results::{Quantity, OF_GROUP, OF_MACHINE, SUMS};

#[cfg(test)]
mod tests;
