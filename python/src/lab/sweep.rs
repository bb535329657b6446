//! Grids, cells and the folder of results.

use super::errors;
use coldset_lab::report::Style;
use coldset_lab::sweep::{
    means, render_means, supervise, version, work, Cell, Claim, Done, Grid, Row, Runner, Store,
    SweepError, Tally,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One configuration under one seed.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct LabCell {
    cell: Cell,
}

#[pymethods]
impl LabCell {
    /// Hash of all that decides the result.
    #[getter]
    fn key(&self) -> &str {
        &self.cell.key
    }

    /// Experiment, or "replay".
    #[getter]
    fn experiment(&self) -> &str {
        self.cell.experiment()
    }

    /// Settings as they were written.
    fn settings(&self) -> Vec<(String, String)> {
        self.cell.settings().into_iter().collect()
    }

    /// In one line.
    fn describe(&self) -> String {
        self.cell.describe()
    }

    /// For a worker.
    fn json(&self) -> String {
        serde_json::to_string(&self.cell).unwrap_or_default()
    }
}

/// All cells of a grid in TOML or JSON. Traces are looked for from `base`.
#[pyfunction]
pub fn lab_cells(
    py: Python<'_>,
    name: &str,
    text: &str,
    toml: bool,
    base: PathBuf,
) -> PyResult<Vec<LabCell>> {
    let done = py.detach(|| {
        let grid = match toml {
            true => Grid::from_toml(name, text, &base)?,
            false => Grid::from_json(name, text, &base)?,
        };
        grid.cells()
    });
    let cells = done.map_err(|e| errors::sweep(py, &e))?;
    Ok(cells.into_iter().map(|cell| LabCell { cell }).collect())
}

/// The trace of the last cell stays loaded.
static RUNNER: Mutex<Option<Runner>> = Mutex::new(None);

fn with_runner<T>(
    cell: &str,
    call: impl FnOnce(&mut Runner, &Cell) -> Result<T, SweepError>,
) -> Result<T, SweepError> {
    let cell: Cell = serde_json::from_str(cell).map_err(|e| SweepError::Cell(e.to_string()))?;
    let mut kept = RUNNER.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Threads of a worker compute side by side; one of them finds the trace.
    let runner = kept.get_or_insert_with(Runner::new);
    let done = call(runner, &cell);
    *RUNNER.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    done
}

/// Computes a cell into a folder. Returns "computed", "found", "busy" or "failed", and why it failed.
#[pyfunction]
pub fn lab_work(py: Python<'_>, dir: PathBuf, cell: &str) -> PyResult<(&'static str, String)> {
    let done = py.detach(|| {
        let store = Store::look(&dir);
        with_runner(cell, |runner, cell| work(&store, runner, cell))
    });
    match done {
        Ok(Done::Computed) => Ok(("computed", String::new())),
        Ok(Done::Found) => Ok(("found", String::new())),
        Ok(Done::Busy) => Ok(("busy", String::new())),
        Ok(Done::Failed(why)) => Ok(("failed", why)),
        Err(e) => Err(errors::sweep(py, &e)),
    }
}

/// Computes a cell. Returns its row, for `LabStore.append`.
#[pyfunction]
pub fn lab_compute(py: Python<'_>, cell: &str) -> PyResult<String> {
    let done = py.detach(|| with_runner(cell, |runner, cell| runner.run(cell)));
    let row = done.map_err(|e| errors::sweep(py, &e))?;
    Ok(serde_json::to_string(&row).unwrap_or_default())
}

/// Cell, key, reason, whether its worker was killed.
type Failed = (String, String, String, bool);

/// Computes the cells that are to do on processes of this machine, which `worker` starts.
/// `look(done, cells)` is called several times a second; if it raises, the workers are killed. Returns
/// how many were computed, how many found, and those that failed.
#[pyfunction]
pub fn lab_supervise(
    py: Python<'_>,
    dir: PathBuf,
    cells: Vec<PyRef<'_, LabCell>>,
    jobs: Option<usize>,
    worker: Vec<OsString>,
    look: Py<PyAny>,
) -> PyResult<(usize, usize, Vec<Failed>)> {
    let cells: Vec<Cell> = cells.iter().map(|c| c.cell.clone()).collect();
    let mut raised = None;
    let start = || {
        let mut command = Command::new(&worker[0]);
        command
            .args(&worker[1..])
            .args(["lab", "sweep-worker", "--out"])
            .arg(&dir);
        command
    };
    let mut go_on = |tally: &Tally| {
        let looked = Python::attach(|py| {
            py.check_signals()?;
            let done = tally.finished() + tally.failed.len();
            look.call1(py, (done, tally.cells))
        });
        raised = looked.err();
        raised.is_none()
    };
    let done = py.detach(|| supervise(&Store::look(&dir), &cells, jobs, &start, &mut go_on));
    if let Some(error) = raised {
        return Err(error);
    }
    let tally = done.map_err(|e| errors::sweep(py, &e))?;
    let failed = tally
        .failed
        .into_iter()
        .map(|f| (f.cell, f.key, f.why, f.killed));
    Ok((tally.computed, tally.found, failed.collect()))
}

/// Version that is part of every key.
#[pyfunction]
pub fn lab_version() -> &'static str {
    version()
}

/// A cell that this process computes.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct LabClaim {
    claim: Mutex<Option<Claim>>,
}

#[pymethods]
impl LabClaim {
    /// Gives it up.
    fn release(&self) {
        self.claim
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

/// A folder of results.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct LabStore {
    store: Store,
}

impl LabStore {
    fn slow<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Store) -> Result<T, SweepError> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| call(&self.store));
        done.map_err(|e| errors::sweep(py, &e))
    }
}

#[pymethods]
impl LabStore {
    /// Opens a folder, which is made if it is not there.
    #[new]
    fn new(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        let done = py.detach(|| Store::open(&dir));
        let store = done.map_err(|e| errors::sweep(py, &e))?;
        Ok(Self { store })
    }

    /// Keys of the finished cells.
    fn keys(&self, py: Python<'_>) -> PyResult<BTreeSet<String>> {
        self.slow(py, Store::keys)
    }

    /// True if a cell is finished.
    fn has(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        self.slow(py, |s| s.has(key))
    }

    /// Takes a cell for this process; None if another one has it.
    fn claim(&self, py: Python<'_>, key: &str) -> PyResult<Option<LabClaim>> {
        let claim = self.slow(py, |s| s.claim(key))?;
        Ok(claim.map(|claim| LabClaim {
            claim: Mutex::new(Some(claim)),
        }))
    }

    /// Stores a row of `lab_compute`.
    fn append(&self, py: Python<'_>, claim: &LabClaim, row: &str) -> PyResult<()> {
        self.slow(py, |s| {
            let row: Row =
                serde_json::from_str(row).map_err(|e| SweepError::Cell(e.to_string()))?;
            let held = claim.claim.lock().unwrap_or_else(PoisonError::into_inner);
            match held.as_ref() {
                Some(claim) => s.append(claim, row),
                None => Err(SweepError::Cell("it has been given up".into())),
            }
        })
    }

    /// Puts small files together.
    fn merge(&self, py: Python<'_>) -> PyResult<()> {
        self.slow(py, Store::merge)
    }

    /// Counters of finished cells: columns key, counter, value.
    fn values<'py>(&self, py: Python<'py>, keys: BTreeSet<String>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.slow(py, |s| s.read(&keys))?;
        let (mut key, mut counter, mut value) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows.0 {
            for (name, number) in &row.counters {
                key.push(row.key.as_str());
                counter.push(name.as_str());
                value.push(*number);
            }
        }
        let columns = PyDict::new(py);
        columns.set_item("key", key)?;
        columns.set_item("counter", counter)?;
        columns.set_item("value", value)?;
        Ok(columns)
    }

    /// The table of means over the seeds.
    fn table(
        &self,
        py: Python<'_>,
        cells: Vec<PyRef<'_, LabCell>>,
        counters: Vec<String>,
        markdown: bool,
    ) -> PyResult<String> {
        let cells: Vec<Cell> = cells.iter().map(|c| c.cell.clone()).collect();
        self.slow(py, |s| {
            let rows = s.read(&cells.iter().map(|c| c.key.clone()).collect())?;
            let style = match markdown {
                true => Style::Markdown,
                false => Style::Plain,
            };
            Ok(render_means(&means(&cells, &rows), &counters, style))
        })
    }
}
