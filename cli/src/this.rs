//! How this program was started, to start it again.

use crate::error::Failure;
use std::ffi::OsString;

/// The command as it was started, up to the subcommand `before`: a program, or an interpreter with a script, which
/// knows its environment by the name it was called by.
///
/// # Errors
/// The program cannot be found.
pub fn this_command(before: &str) -> Result<Vec<OsString>, Failure> {
    let words: Vec<OsString> = std::env::args_os().take_while(|a| a != before).collect();
    if words.len() > 1 {
        return Ok(words);
    }
    let program = std::env::current_exe();
    let program = program.map_err(|e| Failure::Surroundings(format!("this program: {e}")))?;
    Ok(vec![program.into()])
}
