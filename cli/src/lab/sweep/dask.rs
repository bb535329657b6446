//! Sweeps on a Dask cluster: Python does them.

use crate::args::SweepArgs;
use crate::error::Failure;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Replaces this process by Python; returns only if that is not possible.
pub fn replace(args: &SweepArgs) -> Failure {
    let python = std::env::var_os("COLDSET_PYTHON").unwrap_or_else(|| "python3".into());
    let name = python.to_string_lossy().into_owned();
    let remedy = "pip install 'coldset[dask]' in the interpreter that $COLDSET_PYTHON names (python3 by default)";
    let probe = Command::new(&python)
        .args(["-c", "import coldset.lab, distributed"])
        .stdin(Stdio::null())
        .output();
    match probe {
        Ok(out) if out.status.success() => {}
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            let last = said.lines().rev().find(|l| !l.trim().is_empty());
            return Failure::Surroundings(format!(
                "--dask needs Python: {name}: {}; {remedy}",
                last.unwrap_or("it fails without a word").trim()
            ));
        }
        Err(error) => {
            return Failure::Surroundings(format!("--dask needs Python: {name}: {error}; {remedy}"))
        }
    }
    let mut command = Command::new(&python);
    command.args(["-m", "coldset.lab", "sweep"]).arg(&args.grid);
    if let Some(dir) = &args.out {
        command.arg("--out").arg(dir);
    }
    if let Some(address) = &args.dask {
        command.arg("--dask").arg(address);
    }
    if !args.counters.is_empty() {
        command.arg("--counters").arg(args.counters.join(","));
    }
    if let Some(file) = &args.json {
        command.arg("--json").arg(file);
    }
    if args.markdown {
        command.arg("--markdown");
    }
    Failure::Surroundings(format!("{name}: {}; {remedy}", command.exec()))
}
