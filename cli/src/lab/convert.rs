//! `coldset lab convert`.

use super::trace::load;
use crate::args::ConvertArgs;
use crate::error::{Failure, Verdict};
use crate::output::print;
use coldset_lab::report::human;
use coldset_lab::runner::RunnerError;
use coldset_lab::traces::{PageOpsWriter, WritePacking};

/// Level of zstd: small files, at a speed that is still bearable.
const LEVEL: i32 = 19;

/// Runs the command.
///
/// # Errors
/// The trace cannot be read, or the file not be written.
pub fn run(args: &ConvertArgs) -> Result<Verdict, Failure> {
    // The output may be the input: it is read to its end first.
    let trace = load(&args.input, &args.reading)?;
    let packed = args.output.extension().is_some_and(|e| e == "zst");
    let packing = if packed { WritePacking::Zstd(LEVEL) } else { WritePacking::Plain };
    let write = || {
        let mut writer = PageOpsWriter::create(&args.output, packing)?;
        for &op in &trace.ops {
            writer.push(op)?;
        }
        writer.finish()
    };
    let written = write().map_err(RunnerError::Trace)?;
    print(&format!(
        "{}: {} references to {} pages, {} of them writes\n",
        args.output.display(),
        human(written as f64),
        human(trace.unique_pages as f64),
        human(trace.writes as f64)
    ))?;
    Ok(Verdict::Good)
}
