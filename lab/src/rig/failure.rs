//! The first thing that went wrong.

use coldset_machine::sim::Sim;
use coldset_machine::OpError;
use std::cell::Cell;
use std::rc::Rc;

/// Shared by the tasks of a run: the first failed operation.
#[derive(Clone)]
pub struct Failure {
    first: Rc<Cell<Option<OpError>>>,
    sim: Sim,
}

impl Failure {
    pub(super) fn new(sim: &Sim) -> Self {
        Self {
            first: Rc::default(),
            sim: sim.clone(),
        }
    }

    /// Reports a failure; the run goes on.
    pub fn note(&self, error: OpError) {
        self.first.set(self.first.get().or(Some(error)));
    }

    /// Reports a failure and ends the run.
    pub fn stop(&self, error: OpError) {
        self.note(error);
        self.sim.stop();
    }

    pub(super) fn get(&self) -> Option<OpError> {
        self.first.get()
    }
}
