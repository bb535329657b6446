//! Work that goes on in threads of its own while Python waits, shows progress, and may stop it.

use super::errors;
use super::result::{LabResult, Outcome};
use coldset_lab::runner::{with_jobs, Progress, RunnerError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Answer = Result<Outcome, RunnerError>;

/// A run or a replay under way. Stopped when nobody holds it any more.
#[pyclass(frozen, module = "coldset._coldset")]
pub struct LabJob {
    progress: Progress,
    total: Arc<AtomicU64>,
    state: Mutex<State>,
}

struct State {
    receiver: Receiver<Answer>,
    answer: Option<Answer>,
    ended: bool,
}

impl LabJob {
    /// Starts work, with `jobs` threads or one for each CPU. The work says how many steps there are.
    pub fn start(
        jobs: Option<usize>,
        work: impl FnOnce(&Progress, &AtomicU64) -> Answer + Send + 'static,
    ) -> PyResult<Self> {
        let progress = Progress::silent();
        let total = Arc::new(AtomicU64::new(0));
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let (p, t) = (progress.clone(), Arc::clone(&total));
        std::thread::Builder::new()
            .name("coldset-lab".into())
            .spawn(move || {
                let done = with_jobs(jobs, || work(&p, &t)).and_then(|done| done);
                // Nobody may be waiting any more.
                let _ = sender.send(done);
            })?;
        Ok(Self {
            progress,
            total,
            state: Mutex::new(State {
                receiver,
                answer: None,
                ended: false,
            }),
        })
    }
}

#[pymethods]
impl LabJob {
    /// Waits at most this long for the end. True if the job has ended.
    fn wait(&self, py: Python<'_>, milliseconds: u64) -> bool {
        py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !state.ended {
                let limit = Duration::from_millis(milliseconds);
                match state.receiver.recv_timeout(limit) {
                    Ok(answer) => {
                        state.answer = Some(answer);
                        state.ended = true;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => state.ended = true,
                }
            }
            state.ended
        })
    }

    /// Steps done, and all of them; 0 as long as that is not known.
    fn progress(&self) -> (u64, u64) {
        (
            self.progress.steps_done(),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Begins nothing new. What is being computed is thrown away.
    fn stop(&self) {
        self.progress.stop();
    }

    /// The result, once, after the end.
    fn result(&self, py: Python<'_>) -> PyResult<LabResult> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.answer.take() {
            Some(Ok(outcome)) => Ok(LabResult::new(outcome)),
            Some(Err(e)) => Err(errors::runner(py, &e)),
            None => Err(PyRuntimeError::new_err(
                "the run ended without a result: it crashed; see standard error",
            )),
        }
    }
}

impl Drop for LabJob {
    fn drop(&mut self) {
        self.progress.stop();
    }
}
