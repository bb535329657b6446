//! Regions of explicit mode: pages that are fixed, used and let go.

use crate::errors::raise;
use crate::held::Held;
use coldset_pager::{SharedFix, PAGE_SIZE};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// Memory of a pool in explicit mode.
#[pyclass(frozen, weakref, module = "coldset._coldset")]
pub struct Pages {
    region: Held<Arc<coldset_pager::Region>>,
    len: usize,
    /// Pages cannot be fixed for writing.
    #[pyo3(get)]
    read_only: bool,
}

impl Pages {
    pub fn new(py: Python<'_>, region: coldset_pager::Region) -> PyResult<Self> {
        if !region.is_explicit() {
            let text = "regions are for pools with fault_mode=\"explicit\"; make an array";
            return Err(raise(py, coldset_pager::Error::Mode(text)));
        }
        Ok(Self {
            len: region.len(),
            read_only: region.is_read_only(),
            region: Held::new(Arc::new(region)),
        })
    }
}

#[pymethods]
impl Pages {
    /// Bytes.
    fn __len__(&self) -> usize {
        self.len
    }

    /// Fixes a page: waits until it is in memory and free for this use.
    fn fix(&self, py: Python<'_>, page: usize, write: bool) -> PyResult<Fix> {
        let region = self.region.get(py)?;
        let fix = py.detach(|| region.fix_shared(page, write));
        let fix = fix.map_err(|e| raise(py, e))?;
        Ok(Fix {
            address: fix.as_ptr() as usize,
            len: PAGE_SIZE.min(self.len - page * PAGE_SIZE),
            read_only: !fix.is_for_writing(),
            fix: Held::new(fix),
        })
    }

    /// Writes the dirty pages of a byte range.
    fn sync(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<()> {
        let region = self.region.get(py)?;
        let done = py.detach(|| region.sync(start..end));
        done.map_err(|e| raise(py, e))
    }

    /// Bytes of it that are in memory, in whole pages.
    fn resident(&self, py: Python<'_>) -> PyResult<usize> {
        let region = self.region.get(py)?;
        let pages = py.detach(|| region.resident(0..self.len));
        Ok(pages.map_err(|e| raise(py, e))? * PAGE_SIZE)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Fixed still: the last guard unmaps it.
        if let Some(region) = self.region.take().and_then(Arc::into_inner) {
            crate::region::close(region);
        }
    }
}

/// A page that stays, for one user, until this and all arrays over it have gone.
#[pyclass(frozen, weakref, module = "coldset._coldset")]
pub struct Fix {
    fix: Held<SharedFix>,
    address: usize,
    len: usize,
    read_only: bool,
}

#[pymethods]
impl Fix {
    /// Where the bytes are, for numpy.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let d = PyDict::new(py);
        d.set_item("version", 3)?;
        d.set_item("typestr", "|u1")?;
        d.set_item("shape", (self.len,))?;
        d.set_item("data", (self.address, self.read_only))?;
        Ok(d)
    }
}

impl Drop for Fix {
    fn drop(&mut self) {
        // It may be the last of its region, which is written then.
        let fix = self.fix.take();
        Python::try_attach(|py| py.detach(|| drop(fix)));
    }
}
