//! Completions, manual pages, reference: what this command says of itself.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset completions bash > coldset.bash
  coldset completions zsh > _coldset
  coldset completions fish > coldset.fish

Put the file where the shell looks: ~/.local/share/bash-completion/completions/coldset, a folder of
zsh's fpath, ~/.config/fish/completions. make install does it for all users.")]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset man --dir man1")]
pub struct ManArgs {
    /// Folder for the pages, one a command; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
}

/// Arguments of `reference`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset reference --dir docs/reference
  coldset reference --dir docs/reference --check

Exit code 1: with --check, a page is not what the code generates.")]
pub struct ReferenceArgs {
    /// Folder for the pages; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "docs/reference")]
    pub dir: PathBuf,
    /// Write nothing; compare
    #[arg(long)]
    pub check: bool,
}
