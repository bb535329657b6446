//! The commands of the lab.

pub mod ablate;
mod assign;
pub mod convert;
pub mod fidelity;
pub mod fuzz;
pub mod inspect;
pub mod list;
pub mod params;
pub mod races;
pub mod replay;
pub mod run;
mod trace;
pub mod verify;

use coldset_lab::report::Style;

/// How tables look.
fn style(markdown: bool) -> Style {
    if markdown {
        Style::Markdown
    } else {
        Style::Plain
    }
}
