//! `coldset lab convert`.

use super::list::pretty;
use super::reading::TraceReading;
use super::trace::{load, ReadAs};
use crate::args::ConvertArgs;
use crate::error::{Failure, Verdict};
use crate::output::{Outputs, Target};
use coldset_lab::report::human;
use coldset_lab::runner::RunnerError;
use coldset_lab::traces::{write_oracle_general, Format, PageOpsWriter, WritePacking};
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Level of zstd: small files, at a speed that is still bearable.
const LEVEL: i32 = 19;

/// What a file of this name is to be.
///
/// # Errors
/// The name of another format: what is in it would not be what its name says.
fn format_of(output: &Path) -> Result<Format, Failure> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    if output == Path::new("-") {
        let what =
            "convert writes to a file, and says on standard output what it wrote; name a file";
        return Err(Failure::Usage(what.into()));
    }
    let plain = name.strip_suffix(".zst").unwrap_or(&name);
    let plain = plain.strip_suffix(".bin").unwrap_or(plain);
    let extension = plain.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    match extension.as_deref() {
        None | Some("pageops") => Ok(Format::PageOps),
        Some("oraclegeneral") => Ok(Format::OracleGeneral),
        Some(other) => Err(Failure::Usage(format!(
            "{}: convert writes pageops and oracleGeneral, not {other}; name the file {name}.pageops, .pageops.zst, \
             .oracleGeneral or .oracleGeneral.zst",
            output.display(),
            name = plain.rsplit_once('.').map_or(plain, |(stem, _)| stem),
        ))),
    }
}

/// Runs the command.
///
/// # Errors
/// The trace cannot be read, or the file not be written.
pub fn run(args: &ConvertArgs) -> Result<Verdict, Failure> {
    let whole = ReadAs {
        threads: true,
        ..ReadAs::default()
    };
    let format = format_of(&args.output)?;
    // The output may be the input: it is read to its end before anything is written.
    let (trace, reading) = load(&args.input, &args.reading, whole)?;
    let name = args.output.display().to_string();
    let target = Target::open(&args.output).map_err(|e| Failure::write(&name, e))?;
    let besides = [("the trace", &*args.input), ("the output", &*args.output)];
    let outputs = Outputs::open_json(args.json.as_deref(), besides)?;
    let packed = args.output.extension().is_some_and(|e| e == "zst");
    let packing = if packed {
        WritePacking::Zstd(LEVEL)
    } else {
        WritePacking::Plain
    };
    let write = |to: Box<dyn Write + Send>| {
        if format == Format::OracleGeneral {
            write_oracle_general(&name, to, packing, trace.ops())?;
            return Ok(trace.accesses);
        }
        let mut writer = PageOpsWriter::new(&name, to, packing)?;
        for record in trace.file_records() {
            writer.push_record(record)?;
        }
        writer.finish()
    };
    let written = target.put_by(&name, |to| {
        write(to).map_err(|e| RunnerError::Trace(e).into())
    })?;
    // That format has no kinds of references.
    let as_reads = match format {
        Format::OracleGeneral => trace.writes,
        _ => 0,
    };
    outputs.write_text_or_json(
        || {
            let tasks = match (format, trace.acting()) {
                (Format::OracleGeneral, several @ 2..) => {
                    format!("oracleGeneral has no tasks: those of {several} are one in it; pageops keeps them\n")
                }
                _ => String::new(),
            };
            let lost = match as_reads {
                0 => String::new(),
                _ => "oracleGeneral has no writes: all references are reads in it, and those misses that writes of whole \
                      pages do not have are added; pageops keeps them\n"
                    .into(),
            };
            format!(
                "{}: {} references to {} pages, {} of them writes\n{lost}{tasks}",
                args.output.display(),
                human(written as f64),
                human(trace.unique_pages as f64),
                human(trace.writes as f64)
            )
        },
        || {
            let mut all = json!({
                "references": written,
                "pages": trace.unique_pages,
                "writes": trace.writes,
                "tasks": trace.acting(),
            });
            if as_reads > 0 {
                all["writes_as_reads"] = as_reads.into();
            }
            if let Some(reading) = reading.as_ref().and_then(TraceReading::json) {
                all["reading"] = reading;
            }
            pretty(&all)
        },
    )?;
    Ok(Verdict::Good)
}
