//! Changes of lists that wait on a CPU (`docs/rules/batches.md`).

use super::model::Model;
use crate::host::{Name, BATCH};

/// The lists of a CPU that wait to be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wait {
    Add,
    Rotate,
    Activate,
    Lock,
    Unlock,
}

impl Wait {
    /// Changes that wait in the same batch.
    fn batch(self) -> Wait {
        match self {
            Wait::Unlock => Wait::Lock,
            wait => wait,
        }
    }
}

/// True if it waits in that batch of that CPU.
fn waits_in(b: &(usize, Wait, Name), cpu: usize, wait: Wait) -> bool {
    (b.0, b.1.batch()) == (cpu, wait.batch())
}

impl Model {
    pub(super) fn queue(&mut self, cpu: usize, wait: Wait, name: Name) {
        self.batches.push((cpu, wait, name));
        let of = |b: &&_| waits_in(b, cpu, wait);
        let large = self.pages[&name].order > 0;
        if large || self.batches.iter().filter(of).count() == BATCH {
            self.drain(cpu, wait);
        }
    }

    fn drain(&mut self, cpu: usize, wait: Wait) {
        let of = |b: &_| waits_in(b, cpu, wait);
        if !self.batches.iter().any(of) {
            return;
        }
        let (now, left): (Vec<_>, _) = std::mem::take(&mut self.batches).into_iter().partition(of);
        self.batches = left;
        for (_, wait, name) in now {
            // What has been isolated meanwhile is left alone.
            let moves = matches!(wait, Wait::Rotate | Wait::Activate);
            if moves && self.pages[&name].on.is_none() {
                continue;
            }
            let n = self.pages.get(&name).map_or(0, |p| p.size()) as i64;
            let counts = &mut self.groups[name.0].counts;
            match wait {
                Wait::Add if self.pages[&name].locked => self.cull(name),
                Wait::Add => self.insert(name, false),
                Wait::Rotate => {
                    counts.rotated += n;
                    self.pages.get_mut(&name).unwrap().active = false;
                    self.insert(name, true);
                }
                Wait::Activate => {
                    counts.activated += n;
                    self.pages.get_mut(&name).unwrap().active = true;
                    self.insert(name, false);
                }
                Wait::Lock | Wait::Unlock => self.lock_or_unlock(name, wait),
            }
        }
    }

    pub(super) fn drain_cpu(&mut self, cpu: usize) {
        for wait in [Wait::Add, Wait::Rotate, Wait::Activate, Wait::Lock] {
            self.drain(cpu, wait);
        }
    }
}
