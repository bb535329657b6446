//! The groups of a run: the limited one, and one below it for each task, as a replay of the lab has them.

use super::{write, Cgroup, Limits, Version};
use crate::plan::{Cast, Plan, Tasks};
use crate::PlayError;
use std::path::PathBuf;

/// Groups of a run, which go with it. Those below go first.
#[derive(Debug)]
pub(crate) struct Tree {
    /// By worker; none: all are in the whole.
    workers: Vec<Cgroup>,
    /// A group of somebody else's in which we have allowed groups to have memory of their own.
    _allowed: Option<Allowed>,
    whole: Cgroup,
}

impl Tree {
    /// With these limits and otherwise as the plan has it, for processes by worker. They have groups of their own if there are several, or if
    /// protection is given to one.
    ///
    /// # Errors
    /// Groups that cannot be made, or values that the kernel does not take.
    pub fn make(plan: &Plan, limits: Limits, cast: &Cast) -> Result<Self, PlayError> {
        let mut whole = match &plan.cgroup {
            Some(path) => Cgroup::at(path)?,
            None => Cgroup::create()?,
        };
        whole.limit(limits)?;
        let mut tree = Self {
            workers: Vec::new(),
            _allowed: None,
            whole,
        };
        let processes = cast.workers();
        if plan.tasks != Tasks::Processes || (processes.len() == 1 && plan.low.is_empty()) {
            return Ok(tree);
        }
        tree._allowed = Allowed::below(&tree.whole)?;
        for number in processes.iter().filter_map(|(number, _)| *number) {
            let mut group = tree.whole.below(&format!("task-{number}"))?;
            let low = plan.low.iter().rfind(|(t, _)| *t == number);
            group.limit(Limits {
                low: low.map(|&(_, bytes)| bytes),
                ..Limits::default()
            })?;
            tree.workers.push(group);
        }
        if plan.cgroup.is_none() {
            tree.give_back();
        }
        Ok(tree)
    }

    /// Each CPU keeps some of what making the groups has charged, 256 KiB, which would be missing from the limit. It
    /// goes when the kernel is asked to free all that the group has, of which there is nothing yet.
    fn give_back(&self) {
        match self.whole.version() {
            Version::V1 => {
                let _ = self.whole.write("memory.force_empty", "0");
            }
            Version::V2 => {
                let file = "memory.high";
                let was = self.whole.read(file).unwrap_or_else(|| "max".into());
                let _ = self.whole.write(file, "0");
                let _ = self.whole.write(file, was.trim());
            }
        }
    }

    /// The limited group, whose counters have those of the groups below in them.
    pub fn whole(&self) -> &Cgroup {
        &self.whole
    }

    /// The groups below it, by worker. None: all are in the whole.
    pub fn workers(&self) -> &[Cgroup] {
        &self.workers
    }

    /// Where the process of a worker belongs.
    pub fn of_worker(&self, worker: usize) -> &Cgroup {
        self.workers.get(worker).unwrap_or(&self.whole)
    }
}

/// Groups below may have limits of their own, until it is dropped: a file, and what is written to it then.
#[derive(Debug)]
struct Allowed(PathBuf, &'static str);

impl Allowed {
    /// None: it has been so before.
    fn below(group: &Cgroup) -> Result<Option<Self>, PlayError> {
        match group.version() {
            Version::V1 => {
                // Kernels before 5.11 count what is below only if they are told to.
                const FILE: &str = "memory.use_hierarchy";
                let was = group.read(FILE).unwrap_or_default();
                let _ = group.write(FILE, "1");
                Ok((was.trim() == "0").then(|| Self(group.path().join(FILE), "0")))
            }
            Version::V2 => {
                const FILE: &str = "cgroup.subtree_control";
                let now = group.read(FILE).unwrap_or_default();
                if now.split_whitespace().any(|c| c == "memory") {
                    return Ok(None);
                }
                group.write(FILE, "+memory").map_err(|e| match e {
                    PlayError::Refused { .. } => PlayError::Plan(format!(
                        "{}: there are processes in it, so that tasks cannot have groups below; name an empty one, \
                         or play with --tasks one",
                        group.path().display()
                    )),
                    other => other,
                })?;
                Ok(Some(Self(group.path().join(FILE), "-memory")))
            }
        }
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let _ = write(&self.0, self.1);
    }
}
