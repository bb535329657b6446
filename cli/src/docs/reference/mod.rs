//! `coldset reference`: the reference part of the documentation, in Markdown.

mod cli;
mod lab;
mod markdown;
mod pager;
mod policies;
mod workloads;

use super::write_all;
use crate::args::ReferenceArgs;
use crate::error::{Failure, Verdict};
use crate::output::print;
use markdown::Page;
use std::fs;

/// Writes the pages, or compares them with what is there.
///
/// # Errors
/// A folder or file that cannot be written.
pub fn run(args: &ReferenceArgs) -> Result<Verdict, Failure> {
    let files = files()?;
    if !args.check {
        write_all(&args.dir, &files)?;
        return Ok(Verdict::Good);
    }
    let mut differing = Vec::new();
    for (name, text) in &files {
        let path = args.dir.join(name);
        if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            differing.push(path.display().to_string());
        }
    }
    for path in &differing {
        print(&format!(
            "{path} is not what the code generates; run: make reference\n"
        ))?;
    }
    Ok(Verdict::of(differing.is_empty()))
}

/// File names and texts.
fn files() -> Result<Vec<(String, String)>, Failure> {
    let mut pages = vec![
        cli::page(),
        lab::experiments(),
        workloads::page(),
        policies::variants()?,
        policies::switches()?,
        lab::parameters(),
        policies::counters(),
        lab::formats(),
        pager::settings(),
        pager::metrics(),
    ];
    pages.insert(0, index(&pages));
    Ok(pages.into_iter().map(Page::finish).collect())
}

fn index(pages: &[Page]) -> Page {
    let mut page = Page::new(
        "README.md",
        "Reference",
        "Generated from the tables of the code, so it says what this version does.",
    );
    for other in pages {
        page.line(&format!(
            "- [{}]({}): {}",
            other.title, other.file, other.about
        ));
    }
    page
}
