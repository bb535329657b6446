//! The `coldset` command, as a library: the program and the Python package's entry point are a call
//! of [`run`] each.

mod args;
mod compared;
mod courses;
mod docs;
mod error;
mod kernel;
mod lab;
mod output;
mod play;
mod played;
mod predict;
mod scans;
mod scratch;
mod settings;
mod tasks;
mod this;
mod top;

use args::{Command, KernelCommand, LabCommand};
use error::{Failure, Verdict};
use std::ffi::OsString;
use std::io::Write as _;

/// Does what a command line asks for; the first argument is the program's name. What it has to say
/// goes to standard output and standard error.
///
/// Returns the exit code: 0 good, 1 a claim or a case is out of its band, 2 usage, 3 environment.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let parsed = match args::parse(arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let done = match parsed.command {
        Command::Lab { command } => match command {
            LabCommand::List(a) => lab::list::run(&a),
            LabCommand::Run(a) => lab::run::run(&a),
            LabCommand::Verify(a) => lab::verify::run(&a),
            LabCommand::Ablate(a) => lab::ablate::run(&a),
            LabCommand::Sweep(a) => lab::sweep::run(&a),
            LabCommand::SweepWorker(a) => lab::sweep::work(&a),
            LabCommand::Compare(a) => lab::compare::run(&a),
            LabCommand::Replay(a) => lab::replay::run(&a),
            LabCommand::Fidelity(a) => lab::fidelity::run(&a),
            LabCommand::Validate(a) => lab::validate::run(&a),
            LabCommand::Params(a) => lab::params::run(&a),
            LabCommand::Convert(a) => lab::convert::run(&a),
            LabCommand::Export(a) => lab::export::run(&a),
            LabCommand::Fuzz(a) => lab::fuzz::run(&a),
            LabCommand::Mrc(a) => lab::mrc::run(&a),
            LabCommand::Advise(a) => lab::advise::run(&a),
            LabCommand::Inspect(a) => lab::inspect::run(&a),
            LabCommand::Races(a) => lab::races::run(&a),
        },
        Command::Play(a) => play::run(&a),
        Command::PlayWorker(a) => play::work(&a),
        Command::Kernel { command } => match command {
            KernelCommand::Play(a) => kernel::play(&a),
            KernelCommand::List => kernel::list(),
        },
        Command::KernelGuest => kernel::inside(),
        Command::Top(a) => top::run(&a),
        Command::Completions(a) => docs::completions(&a),
        Command::Man(a) => docs::man::run(&a),
        Command::Reference(a) => docs::reference::run(&a),
    };
    match done {
        Ok(Verdict::Good) => 0,
        Ok(Verdict::Out) => 1,
        // The reader of our output has closed it.
        Err(Failure::PipeClosed) => 0,
        Err(failure) => {
            // A terminal that has gone is no reason to panic.
            let line = output::one_line(&failure.to_string());
            let _ = writeln!(std::io::stderr(), "coldset: {line}");
            failure.code()
        }
    }
}
