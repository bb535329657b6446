//! The `coldset` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(coldset_cli::run(std::env::args_os()))
}
