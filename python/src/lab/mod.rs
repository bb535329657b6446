//! The lab: runs, replays, sweeps, and lists of what there is.

mod errors;
mod job;
mod lists;
pub(crate) mod policies;
mod result;
mod start;
mod sweep;

use pyo3::prelude::*;

/// Adds all of it to the module.
pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<job::LabJob>()?;
    m.add_class::<result::LabResult>()?;
    m.add_class::<sweep::LabCell>()?;
    m.add_class::<sweep::LabStore>()?;
    m.add_class::<sweep::LabClaim>()?;
    m.add_function(wrap_pyfunction!(lists::lab_lists, m)?)?;
    m.add_function(wrap_pyfunction!(start::lab_run, m)?)?;
    m.add_function(wrap_pyfunction!(start::lab_is_journal, m)?)?;
    m.add_function(wrap_pyfunction!(start::lab_replay, m)?)?;
    m.add_function(wrap_pyfunction!(start::lab_mrc, m)?)?;
    m.add_function(wrap_pyfunction!(policies::lab_sequence, m)?)?;
    m.add_function(wrap_pyfunction!(sweep::lab_cells, m)?)?;
    m.add_function(wrap_pyfunction!(sweep::lab_work, m)?)?;
    m.add_function(wrap_pyfunction!(sweep::lab_compute, m)?)?;
    m.add_function(wrap_pyfunction!(sweep::lab_supervise, m)?)?;
    m.add_function(wrap_pyfunction!(sweep::lab_version, m)?)
}
