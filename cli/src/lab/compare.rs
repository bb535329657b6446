//! `coldset lab compare`.

use super::style;
use crate::args::CompareArgs;
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::compare::{
    compare, comparison_json, read, render_comparison, CompareError, ReadResult,
};
use coldset_lab::pages;
use coldset_lab::report::Table;
use coldset_lab::runner::{claims_of, RunnerError};
use std::path::Path;

fn file(path: &Path) -> Result<ReadResult, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
        // It is a file, but no text.
        std::io::ErrorKind::InvalidData => lab(CompareError::NotJson {
            name: name.clone(),
            problem: "not even text".into(),
        }),
        _ => Failure::Read {
            name: name.clone(),
            source,
        },
    })?;
    read(&name, &text).map_err(lab)
}

fn lab(error: CompareError) -> Failure {
    RunnerError::from(error).into()
}

/// Runs the command.
///
/// # Errors
/// Files that cannot be read or are no results of one experiment, output that cannot be written.
pub fn run(args: &CompareArgs) -> Result<Verdict, Failure> {
    let (before, after) = (file(&args.before)?, file(&args.after)?);
    let comparison = compare(&before, &after, claims_of).map_err(lab)?;
    let outputs = Outputs::open(args.page.wanted(&args.form))?;
    outputs.write(
        || render_comparison(&comparison, style(args.form.markdown)),
        || comparison_json(&comparison),
        Table::default,
        || pages::compare(&comparison, &command_line()),
    )?;
    Ok(Verdict::Good)
}
