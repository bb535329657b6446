//! Statistics as a dictionary.

use coldset_pager::{Latency, Stats};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// All of a snapshot by the names of its fields; the engine's counters below `engine`.
pub fn dict<'py>(py: Python<'py>, s: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    let page = coldset_pager::PAGE_SIZE as u64;
    for (name, value) in [
        ("budget_bytes", s.budget_pages * page),
        ("resident_bytes", s.resident_bytes()),
        ("peak_bytes", s.peak_pages * page),
        ("budget_pages", s.budget_pages),
        ("resident_pages", s.resident_pages),
        ("lent_pages", s.lent_pages),
        ("store_pages", s.store_pages),
        ("overhead_pages", s.overhead_pages),
        ("overhead_bytes", s.overhead_bytes),
        ("peak_pages", s.peak_pages),
        ("store_bytes", s.store_bytes),
        ("swap_slots_used", s.swap_slots.0),
        ("swap_slots", s.swap_slots.1),
        ("dirty_pages", s.dirty_pages),
    ] {
        d.set_item(name, value)?;
    }
    for (name, value) in s.counters() {
        d.set_item(name, value)?;
    }
    let swap = PyDict::new(py);
    for (name, value) in s.swap.named() {
        swap.set_item(name, value)?;
    }
    d.set_item("swap", swap)?;
    d.set_item("io_uring", s.io_uring)?;
    d.set_item("miss", latency(py, &s.miss)?)?;
    d.set_item("evict", latency(py, &s.evict)?)?;
    let engine = PyDict::new(py);
    for (name, value) in &s.engine {
        engine.set_item(name, value)?;
    }
    d.set_item("engine", engine)?;
    Ok(d)
}

fn latency<'py>(py: Python<'py>, l: &Latency) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("count", l.count)?;
    d.set_item("median_ns", l.median_ns)?;
    d.set_item("p99_ns", l.p99_ns)?;
    d.set_item("max_ns", l.max_ns)?;
    Ok(d)
}
