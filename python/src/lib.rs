//! The native half of the Python package `coldset`: thin classes over `coldset-pager` and
//! `coldset-lab`. What users see is in `python/coldset/`.
//!
//! There is no `unsafe` here: a region tells its address by `__array_interface__`, and the array that
//! numpy makes of it keeps the region alive. Whatever may take long or wait runs without the GIL.

mod errors;
mod held;
mod lab;
mod pages;
mod pool;
mod region;
mod stats;

use pyo3::prelude::*;

/// Tries each kernel feature that arrays need.
#[pyfunction]
fn probe(py: Python<'_>) -> PyResult<Vec<&'static str>> {
    let tried = py.detach(|| coldset_pager::probe(&[]));
    tried.map_err(|e| errors::raise(py, e.into()))?;
    Ok(coldset_pager::Feature::ALL
        .iter()
        .map(|f| f.name())
        .collect())
}

/// Installs the pager's handler of SIGBUS, or puts it on top of one that has come since.
#[pyfunction]
fn install_handler(py: Python<'_>) -> PyResult<()> {
    coldset_pager::install_handler().map_err(|e| errors::raise(py, e))
}

/// Whose handler SIGBUS has: "ours", "nobody" (none, or it is ignored) or "other".
#[pyfunction]
fn whose_handler() -> &'static str {
    use coldset_pager::sys::sigbus::{whose, Whose};
    match whose() {
        Ok(Whose::Nobody) => "nobody",
        Ok(Whose::Other) => "other",
        // If the kernel does not say, there is nothing to complain of.
        Ok(Whose::Ours) | Err(_) => "ours",
    }
}

/// Bytes of a size such as "2GiB".
#[pyfunction]
#[pyo3(signature = (text, /))]
fn parse_size(py: Python<'_>, text: &str) -> PyResult<u64> {
    coldset_pager::parse_size(text).map_err(|e| errors::raise(py, e))
}

/// Runs the command `coldset` with these arguments, the program's name first. Returns its exit code.
#[pyfunction]
#[pyo3(signature = (arguments, /))]
fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| coldset_cli::run(arguments))
}

#[pymodule]
fn _coldset(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("PAGE_SIZE", coldset_pager::PAGE_SIZE)?;
    m.add_function(wrap_pyfunction!(probe, m)?)?;
    m.add_function(wrap_pyfunction!(install_handler, m)?)?;
    m.add_function(wrap_pyfunction!(whose_handler, m)?)?;
    m.add_function(wrap_pyfunction!(parse_size, m)?)?;
    m.add_function(wrap_pyfunction!(command, m)?)?;
    m.add_class::<pool::Pool>()?;
    m.add_class::<pool::Group>()?;
    m.add_class::<region::Region>()?;
    m.add_class::<region::Pin>()?;
    m.add_class::<pages::Pages>()?;
    m.add_class::<pages::Fix>()?;
    lab::add(m)
}
