//! `coldset lab fuzz`.

use crate::args::FuzzArgs;
use crate::error::{Failure, Verdict};
use crate::output::print;

/// Runs the command.
///
/// # Errors
/// Output that cannot be written.
pub fn run(args: &FuzzArgs) -> Result<Verdict, Failure> {
    let (text, good) = match coldset_fuzz::run(args.seed, args.ops) {
        Ok(report) => (report.to_string(), true),
        Err(failure) => (failure.to_string(), false),
    };
    print(&format!("{text}\n"))?;
    Ok(Verdict::of(good))
}
