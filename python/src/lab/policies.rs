//! What policies written in Python run on: the references of a trace as the lab counts them.

use super::errors;
use super::start::Source;
use coldset_lab::bounds::{Count, Sequence};
use coldset_lab::runner::RunnerError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// The references of a trace in order: numbers of pages, from 0 in the order of their first use, as
/// little-endian 32-bit integers; and a byte each, 1 if its miss costs nothing.
#[pyfunction]
#[pyo3(signature = (path, records, *, count, format))]
pub fn lab_sequence<'py>(
    py: Python<'py>,
    path: Option<PathBuf>,
    records: Option<&[u8]>,
    count: &str,
    format: Option<&str>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let settings = || -> Result<_, RunnerError> {
        let count: Count = count
            .parse()
            .map_err(|_| RunnerError::value("count", count, "reads or absences"))?;
        Ok((count, format.map(str::parse).transpose()?))
    };
    let (count, format) = settings().map_err(|e| errors::runner(py, &e))?;
    let source = Source::of(py, path, records, format)?;
    let sequence = py.detach(move || -> Result<_, RunnerError> {
        let (_, trace) = source.load()?;
        Ok(Sequence::of_trace(&trace, count, true)?)
    });
    let sequence = sequence.map_err(|e| errors::runner(py, &e))?;
    let keys: Vec<u8> = sequence
        .keys()
        .iter()
        .flat_map(|k| k.to_le_bytes())
        .collect();
    let free: Vec<u8> = (0..sequence.len())
        .map(|at| u8::from(sequence.is_free(at)))
        .collect();
    Ok((PyBytes::new(py, &keys), PyBytes::new(py, &free)))
}
