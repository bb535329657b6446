//! Regions and pins.

use crate::errors::raise;
use crate::held::Held;
use coldset_pager::{Advice, SharedPin};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex};

/// Memory of a pool. Arrays over it keep it alive; it is written back and unmapped with the last one.
#[pyclass(frozen, weakref, module = "coldset._coldset")]
pub struct Region {
    region: Held<Arc<coldset_pager::Region>>,
    /// Address of the first byte.
    #[pyo3(get)]
    address: usize,
    len: usize,
    /// Stores are refused.
    #[pyo3(get)]
    read_only: bool,
}

impl Region {
    pub fn new(py: Python<'_>, region: coldset_pager::Region) -> PyResult<Self> {
        if region.is_explicit() {
            let text = "arrays need page faults, and this pool is in explicit mode: use region() or file_region()";
            return Err(raise(py, coldset_pager::Error::Mode(text)));
        }
        Ok(Self {
            address: region.as_ptr() as usize,
            len: region.len(),
            read_only: region.is_read_only(),
            region: Held::new(Arc::new(region)),
        })
    }

    fn slow<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Arc<coldset_pager::Region>) -> coldset_pager::Result<T> + Send,
    ) -> PyResult<T> {
        let region = self.region.get(py)?;
        let done = py.detach(|| call(region));
        done.map_err(|e| raise(py, e))
    }
}

#[pymethods]
impl Region {
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

    /// Bytes.
    fn __len__(&self) -> usize {
        self.len
    }

    /// Raises `ForkedError` in a child of fork, where its bytes must not be touched.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.region.get(py).map(|_| ())
    }

    /// Writes the dirty pages of a byte range.
    fn sync(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<()> {
        self.slow(py, |r| r.sync(start..end))
    }

    /// Says how a byte range will be used.
    fn advise(&self, py: Python<'_>, start: usize, end: usize, advice: &str) -> PyResult<()> {
        let advice = match advice {
            "normal" => Advice::Normal,
            "random" => Advice::Random,
            "sequential" => Advice::Sequential,
            "willneed" => Advice::WillNeed,
            "dontneed" => Advice::DontNeed,
            other => {
                let e = coldset_pager::Error::Setting {
                    what: "the advice",
                    value: format!("{other:?}"),
                    range: "use normal, random, sequential, willneed or dontneed",
                };
                return Err(raise(py, e));
            }
        };
        self.slow(py, |r| r.advise(start..end, advice))
    }

    /// Bytes of a byte range that are in memory, in whole pages.
    fn resident(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<usize> {
        self.slow(py, |r| {
            Ok(r.resident(start..end)? * coldset_pager::PAGE_SIZE)
        })
    }

    /// Keeps a byte range in memory.
    fn pin(&self, py: Python<'_>, start: usize, end: usize, write: bool) -> PyResult<Pin> {
        let pin = self.slow(py, |r| r.pin_shared(start..end, write))?;
        Ok(Pin {
            pin: Mutex::new(Some(Held::new(pin))),
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let Some(region) = self.region.take().and_then(Arc::into_inner) else {
            // Of another process, or pinned: the last pin unmaps it.
            return;
        };
        close(region);
    }
}

/// Closes a region that nobody has any more.
pub fn close(region: coldset_pager::Region) {
    let mut left = Some(region);
    // When the interpreter is going away there is no GIL to give up, and nobody to tell.
    Python::try_attach(|py| {
        let region = left.take()?;
        let before = PyErr::take(py);
        if let Err(e) = py.detach(|| region.close()) {
            raise(py, e).write_unraisable(py, None);
        }
        if let Some(e) = before {
            e.restore(py);
        }
        Some(())
    });
}

/// Pages that stay in memory until it is released.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct Pin {
    pin: Mutex<Option<Held<SharedPin>>>,
}

#[pymethods]
impl Pin {
    /// Lets the pages go. Again does nothing.
    fn release(&self, py: Python<'_>) {
        let pin = self.pin.lock().unwrap_or_else(|e| e.into_inner()).take();
        py.detach(|| drop(pin));
    }
}
