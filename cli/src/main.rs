//! The `coldset` command.

mod args;
mod error;
mod lab;
mod output;
mod top;

use args::{Command, LabCommand};
use error::{Failure, Verdict};
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = match args::parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let done = match parsed.command {
        Command::Lab { command } => match command {
            LabCommand::List(a) => lab::list::run(&a),
            LabCommand::Run(a) => lab::run::run(&a),
            LabCommand::Verify(a) => lab::verify::run(&a),
            LabCommand::Ablate(a) => lab::ablate::run(&a),
            LabCommand::Compare(a) => lab::compare::run(&a),
            LabCommand::Replay(a) => lab::replay::run(&a),
            LabCommand::Fidelity(a) => lab::fidelity::run(&a),
            LabCommand::Params(a) => lab::params::run(&a),
            LabCommand::Convert(a) => lab::convert::run(&a),
            LabCommand::Fuzz(a) => lab::fuzz::run(&a),
            LabCommand::Inspect(a) => lab::inspect::run(&a),
            LabCommand::Races(a) => lab::races::run(&a),
        },
        Command::Top(a) => top::run(&a),
    };
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Out) => ExitCode::from(1),
        // Whoever read our output has seen enough.
        Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("coldset: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
