//! The pages of `--report`: each fills a [`Page`](coldset_report::html::Page) from a result.

mod ablation;
mod advice;
mod experiment;
mod mrc;
mod played;
mod replay;
mod variants;
mod verify;

pub use ablation::ablation;
pub use advice::advice;
pub use coldset_report::html::{compare, compare_replays};
pub use experiment::experiment;
pub use mrc::mrc;
pub use played::Played;
pub use replay::replay;
pub use variants::{costs, switches};
pub use verify::verify;

#[cfg(test)]
mod tests;
