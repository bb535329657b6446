//! Pools and groups.

use crate::errors::raise;
use crate::held::Held;
use crate::lab::policies::PythonPolicy;
use crate::pages::Pages;
use crate::region::Region;
use crate::stats;
use coldset_pager::{Limits, MapOptions, PoolConfig};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// A pool of the pager.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct Pool {
    pool: Held<coldset_pager::Pool>,
}

#[pymethods]
impl Pool {
    /// Settings are pairs of a name and its text, as `PoolConfig::set` takes them.
    /// `policy` makes policies in Python: a `coldset.lab._outside.Maker`.
    #[new]
    #[pyo3(signature = (settings, policy=None))]
    fn new(
        py: Python<'_>,
        settings: Vec<(String, OsString)>,
        policy: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let policy = policy.map(|p| PythonPolicy::new(&p)).transpose()?;
        let made = py.detach(|| {
            let mut config = PoolConfig::new(0);
            if let Some(policy) = policy {
                config = config.decided_by(Arc::new(policy));
            }
            for (name, value) in &settings {
                config = match name.as_str() {
                    // A path, which need not be text.
                    "journal" => config.journal(value),
                    _ => config.set(name, &value.to_string_lossy())?,
                };
            }
            coldset_pager::Pool::new(config)
        });
        match made {
            Ok(pool) => Ok(Self {
                pool: Held::new(pool),
            }),
            Err(e) => Err(raise(py, e)),
        }
    }

    /// Bytes that pages in memory and compressed contents may take together.
    #[getter]
    fn budget(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.pool.anywhere(py)?.budget())
    }

    /// Changes the budget.
    fn resize(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        let pool = self.pool.get(py)?;
        let done = py.detach(|| pool.resize(bytes));
        done.map_err(|e| raise(py, e))
    }

    /// The group that everything belongs to.
    fn root(&self, py: Python<'_>) -> PyResult<Group> {
        Ok(Group {
            group: Held::new(self.pool.get(py)?.root()),
        })
    }

    /// Writes all dirty pages of files.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let pool = self.pool.get(py)?;
        let done = py.detach(|| pool.sync());
        done.map_err(|e| raise(py, e))
    }

    /// Begins a journal in a new file.
    fn record(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let pool = self.pool.get(py)?;
        let done = py.detach(|| pool.record(&path));
        done.map_err(|e| raise(py, e))
    }

    /// Ends it.
    fn stop_recording(&self, py: Python<'_>) -> PyResult<()> {
        let pool = self.pool.get(py)?;
        let done = py.detach(|| pool.stop_recording());
        done.map_err(|e| raise(py, e))
    }

    /// Counters by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pool = self.pool.get(py)?;
        let s = py.detach(|| pool.stats());
        stats::dict(py, &s)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        without_the_gil(self.pool.take());
    }
}

/// The last handle of a pool waits for its threads.
fn without_the_gil<T: Send>(last: T) {
    Python::try_attach(|py| py.detach(|| drop(last)));
}

/// A group of the pager.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct Group {
    group: Held<coldset_pager::Group>,
}

impl Drop for Group {
    fn drop(&mut self) {
        without_the_gil(self.group.take());
    }
}

impl Group {
    /// Runs a call without the GIL.
    fn slow<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&coldset_pager::Group) -> coldset_pager::Result<T> + Send,
    ) -> PyResult<T> {
        let group = self.group.get(py)?;
        let done = py.detach(|| call(group));
        done.map_err(|e| raise(py, e))
    }
}

#[pymethods]
impl Group {
    /// A group below this one.
    #[pyo3(signature = (name, *, min=None, low=None, high=None, max=None))]
    fn group(
        &self,
        py: Python<'_>,
        name: &str,
        min: Option<u64>,
        low: Option<u64>,
        high: Option<u64>,
        max: Option<u64>,
    ) -> PyResult<Group> {
        let limits = Limits {
            min,
            low,
            high,
            max,
        };
        let group = self.slow(py, |g| g.group(name, limits))?;
        Ok(Group {
            group: Held::new(group),
        })
    }

    /// Changes limits.
    #[pyo3(signature = (*, min=None, low=None, high=None, max=None))]
    fn set(
        &self,
        py: Python<'_>,
        min: Option<u64>,
        low: Option<u64>,
        high: Option<u64>,
        max: Option<u64>,
    ) -> PyResult<()> {
        let limits = Limits {
            min,
            low,
            high,
            max,
        };
        self.slow(py, |g| g.set(limits))
    }

    /// Path of names from the pool's root.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<&str> {
        Ok(self.group.anywhere(py)?.name())
    }

    /// Bytes of pages of the group and below.
    #[getter]
    fn usage(&self, py: Python<'_>) -> PyResult<u64> {
        self.slow(py, |g| Ok(g.usage()))
    }

    /// Sequence number, anonymous and file pages of each generation, oldest first.
    fn generations(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64, u64)>> {
        let all = self.slow(py, |g| Ok(g.generations()))?;
        Ok(all.into_iter().map(|[s, a, f]| (s, a, f)).collect())
    }

    /// Evicts. Returns bytes evicted.
    #[pyo3(signature = (bytes, /))]
    fn reclaim(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        self.slow(py, |g| g.reclaim(bytes))
    }

    /// Zeroed memory.
    #[pyo3(signature = (bytes, /))]
    fn anonymous(&self, py: Python<'_>, bytes: usize) -> PyResult<Region> {
        let made = self.slow(py, |g| g.anonymous(bytes))?;
        Region::new(py, made)
    }

    /// Zeroed memory that is used page by page.
    #[pyo3(signature = (bytes, /))]
    fn anonymous_pages(&self, py: Python<'_>, bytes: usize) -> PyResult<Pages> {
        let made = self.slow(py, |g| g.anonymous(bytes))?;
        Pages::new(py, made)
    }

    /// A whole file that is used page by page. As `file`.
    #[pyo3(signature = (path, writable, *, empty=false, grow=0))]
    fn file_pages(
        &self,
        py: Python<'_>,
        path: PathBuf,
        writable: bool,
        empty: bool,
        grow: u64,
    ) -> PyResult<Pages> {
        let options = MapOptions::new().write(writable).empty(empty).grow_to(grow);
        let made = self.slow(py, |g| g.file_with(&path, options))?;
        Pages::new(py, made)
    }

    /// A map of a whole file. `empty`: which is created or emptied; `grow`: made at least as long.
    #[pyo3(signature = (path, writable, *, shared=false, empty=false, grow=0))]
    fn file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        writable: bool,
        shared: bool,
        empty: bool,
        grow: u64,
    ) -> PyResult<Region> {
        let options = MapOptions::new()
            .write(writable)
            .shared(shared)
            .empty(empty)
            .grow_to(grow);
        let made = self.slow(py, |g| g.file_with(&path, options))?;
        Region::new(py, made)
    }
}
