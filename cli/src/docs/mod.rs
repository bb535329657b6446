//! What this command says of itself: completions for shells, manual pages, and the reference part of
//! the documentation. All of it comes from the parser's own tables and those of the crates, so it
//! cannot differ from what the command does.

mod help;
pub mod man;
pub mod reference;

use crate::args::{Cli, CompletionsArgs};
use crate::error::{Failure, Verdict};
use crate::output::print;
use clap::CommandFactory;
use std::fs;
use std::path::Path;

/// The command with all below it, every default filled in, without `help` commands.
fn tree() -> clap::Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

/// `coldset completions`.
///
/// # Errors
/// Standard output that cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "coldset", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Good)
}

/// Writes files into a folder.
fn write_all(dir: &Path, files: &[(String, String)]) -> Result<(), Failure> {
    let failed = |at: &Path, e| Failure::write(&at.display().to_string(), e);
    fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
    for (name, text) in files {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}
