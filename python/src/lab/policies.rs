//! Policies written in Python: as policies of a simulated machine, and the references of a trace as the lab counts
//! them for caches that run in Python alone.

use super::errors;
use super::start::Source;
use coldset_engine::policies::desk::{Decides, Failure, Makes, Say};
use coldset_engine::policies::outside::OutsideKind;
use coldset_lab::bounds::{Count, Sequence};
use coldset_lab::replay::OutsidePolicy;
use coldset_lab::runner::{Progress, RunnerError, Variant};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A class that makes policies, by its `coldset.lab._outside.Maker`.
#[derive(Debug)]
pub(crate) struct PythonPolicy {
    maker: Py<PyAny>,
    name: String,
    kind: OutsideKind,
    told_of_removals: bool,
    takes_due: bool,
    /// Whether the job has been stopped.
    progress: OnceLock<Progress>,
}

/// One policy.
struct Instance {
    policy: Py<PyAny>,
    progress: Option<Progress>,
}

/// The number by which `coldset.lab._outside` knows what is said.
fn code(say: Say) -> u64 {
    match say {
        Say::Insert => 0,
        Say::Hit => 1,
        Say::PutBack => 2,
        Say::PutBackUsed => 3,
        Say::Due => 4,
        Say::Remove => 5,
    }
}

/// Calls Python. The thread holds nothing of the lab that another one waits for with the GIL.
fn in_python<T>(call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, Failure> {
    match Python::try_attach(call) {
        Some(done) => done.map_err(Failure::from),
        None => Err("Python has ended".into()),
    }
}

impl PythonPolicy {
    pub(crate) fn new(maker: &Bound<'_, PyAny>) -> PyResult<Self> {
        let flag = |name: &str| maker.getattr(name)?.extract::<bool>();
        Ok(Self {
            name: maker.getattr("name")?.extract()?,
            kind: OutsideKind {
                uses: flag("uses")?,
                moves: flag("moves")?,
                file_first: flag("files_first")?,
            },
            told_of_removals: flag("removes")?,
            takes_due: flag("due")?,
            maker: maker.clone().unbind(),
            progress: OnceLock::new(),
        })
    }
}

impl Makes for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> OutsideKind {
        self.kind
    }

    fn is_told_of_removals(&self) -> bool {
        self.told_of_removals
    }

    fn takes_due(&self) -> bool {
        self.takes_due
    }

    fn make(&self, frames: u64) -> Result<Box<dyn Decides>, Failure> {
        let policy = in_python(|py| self.maker.call_method1(py, "make", (frames,)))?;
        let progress = self.progress.get().cloned();
        Ok(Box::new(Instance { policy, progress }))
    }
}

impl Decides for Instance {
    fn tell(&mut self, at: u64, said: &[(Say, u64)]) -> Result<(), Failure> {
        if self.progress.as_ref().is_some_and(Progress::is_stopped) {
            return Err(Failure::from(RunnerError::Stopped));
        }
        let said: Vec<u64> = said.iter().flat_map(|&(s, page)| [code(s), page]).collect();
        in_python(|py| self.policy.call_method1(py, "tell", (at, said))).map(drop)
    }

    fn evict(&mut self, at: u64) -> Result<u64, Failure> {
        in_python(|py| self.policy.call_method1(py, "evict", (at,))?.extract(py))
    }

    fn refuse(&mut self, at: u64, page: u64) -> Failure {
        let refused = in_python(|py| self.policy.call_method1(py, "refuse", (page, at)));
        refused
            .err()
            .unwrap_or_else(|| "a page that is not in memory".into())
    }
}

/// Variants by name, and policies written in Python, in their order.
pub(super) struct Variants {
    pub given: Vec<Variant>,
    own: Vec<Arc<PythonPolicy>>,
}

impl Variants {
    pub fn of(
        variants: &[Bound<'_, PyAny>],
        set: &[String],
    ) -> PyResult<Result<Self, RunnerError>> {
        let (mut given, mut own): (Vec<Variant>, _) = (Vec::new(), Vec::new());
        for v in variants {
            let variant = match v.extract::<String>() {
                Ok(name) => Variant::parse(&name, set),
                Err(_) => {
                    let policy = Arc::new(PythonPolicy::new(v)?);
                    own.push(policy.clone());
                    Variant::of_outside(OutsidePolicy(policy), set)
                }
            };
            let variant = match variant {
                Ok(variant) => variant,
                Err(error) => return Ok(Err(error)),
            };
            if given.iter().any(|v| v.label == variant.label) {
                let (what, name) = ("variant", variant.label);
                return Ok(Err(RunnerError::Twice { what, name }));
            }
            given.push(variant);
        }
        Ok(Ok(Self { given, own }))
    }

    /// Policies go on no longer than this.
    pub fn watch(&self, progress: &Progress) {
        for policy in &self.own {
            policy.progress.get_or_init(|| progress.clone());
        }
    }
}

/// The references of a trace in order: numbers of pages, from 0 in the order of their first use, as
/// little-endian 32-bit integers; a byte each, 1 if its miss costs nothing; and the pages that are gone for good, each
/// after the position of the next reference, as integers likewise.
#[pyfunction]
#[pyo3(signature = (path, records, *, count, format))]
pub fn lab_sequence<'py>(
    py: Python<'py>,
    path: Option<PathBuf>,
    records: Option<&[u8]>,
    count: &str,
    format: Option<&str>,
) -> PyResult<[Bound<'py, PyBytes>; 3]> {
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
    let mut leaving = sequence.leaving();
    let gone: Vec<u8> = (0..sequence.len() as u32)
        .flat_map(|at| leaving.before(at as usize).map(move |page| [at, page]))
        .flat_map(|pair| pair.map(u32::to_le_bytes).concat())
        .collect();
    Ok([keys, free, gone].map(|bytes| PyBytes::new(py, &bytes)))
}
