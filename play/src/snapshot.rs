//! Counters of the whole run, and of the groups of its tasks, at one moment.

use crate::cgroup::Tree;
use crate::counters::Counters;
use crate::disturbed::Disturbance;
use crate::plan::Cast;
use std::collections::BTreeMap;
use std::path::Path;

/// Most tasks of which counters are kept, as in a replay of the lab.
const TASKS_COUNTED: usize = 16;

/// Counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub whole: Counters,
    /// Of tasks that have groups of their own.
    tasks: Vec<Counters>,
}

impl Snapshot {
    /// Reads them. `workers`: the processes that do the accesses; `dir`: where the files are.
    pub fn read(tree: &Tree, workers: &[u32], dir: &Path) -> Self {
        let mut whole = Counters::read(tree.whole(), workers[0], dir);
        let each = tree.workers().iter().zip(workers);
        let tasks: Vec<_> = each
            .map(|(group, &pid)| Counters::read(group, pid, dir))
            .collect();
        if !tasks.is_empty() {
            whole.worker_read = tasks.iter().map(|t| t.worker_read).sum();
            whole.faults_of_all(&tasks);
        }
        Self { whole, tasks }
    }

    /// What has come since `before`; and which of the names are the machine's.
    pub fn since(&self, before: &Self) -> (BTreeMap<String, u64>, Vec<String>) {
        self.whole.since(&before.whole)
    }

    /// What other programs did meanwhile.
    pub fn disturbed_since(&self, before: &Self) -> Vec<Disturbance> {
        self.whole.disturbed_since(&before.whole)
    }

    /// What has come of each task's, by the names that the lab has for them: `task0.pgfault`.
    pub fn of_tasks(&self, before: &Self, cast: &Cast) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        if self.tasks.len() > TASKS_COUNTED {
            return all;
        }
        let processes = cast.workers().iter().map(|(number, _)| number);
        for ((now, old), task) in self.tasks.iter().zip(&before.tasks).zip(processes) {
            let Some(task) = task else { continue };
            let (counters, of_machine) = now.since(old);
            let own = counters
                .into_iter()
                .filter(|(n, _)| !of_machine.contains(n));
            all.extend(own.map(|(name, n)| (format!("task{task}.{name}"), n)));
        }
        all
    }
}
