//! `coldset lab compare`.

use super::style;
use crate::args::CompareArgs;
use crate::error::{Failure, Verdict};
use crate::output::{command_line, Outputs};
use coldset_lab::compare::{
    compare, compare_replays, comparison_json, read, render_comparison, render_replay_comparison,
    replay_comparison_json, CompareError, ReadFile,
};
use coldset_lab::pages;
use coldset_lab::report::Table;
use coldset_lab::runner::{claims_of, RunnerError};
use std::path::Path;

fn file(path: &Path) -> Result<ReadFile, Failure> {
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
/// Files that cannot be read, or are not two of the same kind; output that cannot be written.
pub fn run(args: &CompareArgs) -> Result<Verdict, Failure> {
    let files = (file(&args.before)?, file(&args.after)?);
    let style = style(args.form.markdown);
    let read = [
        ("the result before", &*args.before),
        ("the result after", &*args.after),
    ];
    let open = || Outputs::open(args.page.wanted(&args.form).beside(read));
    match files {
        (ReadFile::Experiment(before), ReadFile::Experiment(after)) => {
            let c = compare(&before, &after, claims_of).map_err(lab)?;
            open()?.write(
                || render_comparison(&c, style),
                || comparison_json(&c),
                Table::default,
                || pages::compare(&c, &command_line()),
            )?;
        }
        (ReadFile::Replays(before), ReadFile::Replays(after)) => {
            let c = compare_replays(&before, &after).map_err(lab)?;
            open()?.write(
                || render_replay_comparison(&c, style),
                || replay_comparison_json(&c),
                Table::default,
                || pages::compare_replays(&c, &command_line()),
            )?;
        }
        (ReadFile::Experiment(experiment), ReadFile::Replays(replay))
        | (ReadFile::Replays(replay), ReadFile::Experiment(experiment)) => {
            return Err(lab(CompareError::Kinds {
                experiment: experiment.name,
                replay: replay.name,
            }))
        }
    }
    Ok(Verdict::Good)
}
