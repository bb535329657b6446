//! What is known of a trace as a whole.

use std::collections::{BTreeSet, HashMap};

use super::op::{Op, OpKind, MAX_PAGES};
use super::step::{Event, StepKind};

/// A file or an anonymous region of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectInfo {
    /// Size in pages: one more than the highest page referenced. 0 for an object number
    /// that the trace passes over.
    pub pages: u32,
    /// Different pages referenced.
    pub used: u32,
    /// Anonymous region (otherwise a file).
    pub is_anon: bool,
}

impl ObjectInfo {
    /// Pages of a [scattered](Self::is_scattered) object for each that is used.
    pub const SCATTERED: u64 = 16;

    /// So few of its pages are used that those between them are worth neither memory nor room on a disk: a page number in a
    /// trace is no reason to take it. Objects of 1024 pages never are.
    pub fn is_scattered(&self) -> bool {
        u64::from(self.pages) > Self::SCATTERED * u64::from(self.used) + 1024
    }
}

/// A trace without its references: how many there are, to what and by whom, and the steps between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// References.
    pub accesses: u64,
    /// Steps between them, in order.
    pub events: Vec<Event>,
    /// Different pages referenced, of all objects.
    pub unique_pages: u64,
    /// Objects by number.
    pub objects: Vec<ObjectInfo>,
    /// Number of tasks: one more than the highest task number.
    pub tasks: u32,
    /// References that make their page dirty.
    pub writes: u64,
    /// Kinds that occur, a bit each.
    kinds: u32,
    /// Tasks that reference something, by number.
    acting: Vec<bool>,
}

impl About {
    /// Whether references of this kind occur.
    pub fn occurs(&self, kind: OpKind) -> bool {
        self.kinds & bit(kind) != 0
    }

    /// It advises how its files are read: it says what programs asked for, and the kernel's read-ahead comes on top.
    pub fn has_advice(&self) -> bool {
        let mut steps = self.events.iter().map(|e| e.step.kind);
        steps.any(|kind| kind == StepKind::Advise)
    }

    /// It says what programs asked for, and so which accesses were one call: those that a step announces, and no others.
    pub fn has_calls(&self) -> bool {
        let mut steps = self.events.iter().map(|e| e.step.kind);
        steps.any(|kind| matches!(kind, StepKind::Call | StepKind::Advise))
    }

    /// Whether they do anything, of all tasks up to the highest number.
    pub fn present(&self) -> Vec<bool> {
        let mut present = self.acting.clone();
        present.resize(self.tasks.max(1) as usize, false);
        for event in &self.events {
            present[usize::from(event.step.task)] = true;
        }
        present
    }

    /// How many tasks do anything.
    pub fn acting(&self) -> usize {
        self.present().into_iter().filter(|&acts| acts).count()
    }

    /// Processes of the tasks that do anything.
    pub fn acting_processes(&self) -> BTreeSet<u16> {
        let of_task = self.present().into_iter().zip(self.processes());
        of_task
            .filter_map(|(acts, of)| acts.then_some(of))
            .collect()
    }

    /// By task: the number of its process, which is the task's own unless a step says otherwise. Threads are told apart
    /// only where they were asked for ([`crate::TraceOptions::threads`]).
    pub fn processes(&self) -> Vec<u16> {
        let mut processes: Vec<u16> = (0..=u16::MAX).take(self.tasks as usize).collect();
        for Event { step, .. } in &self.events {
            if step.kind == StepKind::Process {
                processes[usize::from(step.task)] = step.value as u16;
            }
        }
        processes
    }

    /// With these steps, which are in the order of their places.
    #[must_use]
    pub fn with_events(mut self, events: Vec<Event>) -> About {
        for Event { step, .. } in &events {
            self.tasks = self.tasks.max(u32::from(step.task) + 1);
            let objects = usize::from(step.object) + 1;
            if step.kind.is_of_file() && self.objects.len() < objects {
                self.objects.resize_with(objects, Default::default);
            }
        }
        About { events, ..self }
    }

    /// All of it done by task 0.
    pub(super) fn by_one_task(&mut self) {
        self.tasks = 1;
        self.acting = vec![self.accesses > 0];
        self.events.iter_mut().for_each(|e| e.step.task = 0);
    }
}

fn bit(kind: OpKind) -> u32 {
    1 << kind as u32
}

/// What is totalled up of references while they come.
#[derive(Default)]
pub(super) struct Totals {
    about: About,
    seen: Vec<PageSet>,
}

impl Totals {
    pub fn add(&mut self, ops: &[Op]) {
        for run in ops.chunk_by(|a, b| a.is_like(*b)) {
            self.add_run(run[0], run);
        }
    }

    /// References of one kind by one task to one object, of which `first` is one.
    fn add_run(&mut self, first: Op, run: &[Op]) {
        let about = &mut self.about;
        let (object, task) = (usize::from(first.object), usize::from(first.task));
        if about.objects.len() <= object {
            about.objects.resize_with(object + 1, Default::default);
            self.seen.resize_with(object + 1, Default::default);
        }
        let (info, seen) = (&mut about.objects[object], &mut self.seen[object]);
        info.is_anon = first.kind.is_anon();
        let last = run.iter().map(|op| op.page).max().unwrap_or(0);
        info.pages = info.pages.max(last + 1);
        info.used += run
            .iter()
            .map(|op| u32::from(seen.insert(op.page)))
            .sum::<u32>();
        if about.acting.len() <= task {
            about.acting.resize(task + 1, false);
        }
        about.acting[task] = true;
        about.kinds |= bit(first.kind);
        let references = run.len() as u64;
        about.accesses += references;
        about.writes += references * u64::from(first.kind.is_write());
    }

    /// References added.
    pub fn accesses(&self) -> u64 {
        self.about.accesses
    }

    /// What has been added.
    pub fn about(self) -> About {
        let used = self.about.objects.iter().map(|o| u64::from(o.used));
        About {
            unique_pages: used.sum(),
            tasks: self.about.acting.len() as u32,
            ..self.about
        }
    }
}

/// Pages of one object; memory follows the pages present, not their highest number.
#[derive(Default)]
struct PageSet {
    /// One bit a page, of the first pages in chunks.
    near: Vec<Option<Box<[u64; PageSet::WORDS]>>>,
    /// Of the others in words, by number.
    far: HashMap<usize, u64>,
}

impl PageSet {
    const WORDS: usize = 64;
    const PAGES: usize = Self::WORDS * 64;
    /// Chunks found by index: 16 GiB of 4 KiB pages.
    const NEAR: usize = 1024;

    /// Adds a page; true if it is new.
    #[inline]
    fn insert(&mut self, page: u32) -> bool {
        debug_assert!(u64::from(page) < MAX_PAGES);
        let page = page as usize;
        let word = match self.near.get_mut(page / Self::PAGES) {
            Some(Some(words)) => &mut words[page / 64 % Self::WORDS],
            _ => self.place(page),
        };
        let bit = 1 << (page % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// The word of a page, made if there is none.
    #[inline(never)]
    fn place(&mut self, page: usize) -> &mut u64 {
        let chunk = page / Self::PAGES;
        if chunk >= Self::NEAR {
            return self.far.entry(page / 64).or_default();
        }
        if self.near.len() <= chunk {
            self.near.resize_with(chunk + 1, || None);
        }
        let words = self.near[chunk].get_or_insert_with(|| Box::new([0; Self::WORDS]));
        &mut words[page / 64 % Self::WORDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tasks_are_those_that_occur() {
        let op = |task| Op {
            kind: OpKind::Pread,
            object: 0,
            task,
            page: 0,
        };
        let mut totals = Totals::default();
        totals.add(&[op(4), op(2), op(4)]);
        let about = totals.about();
        assert_eq!((about.tasks, about.acting()), (5, 2));
        assert_eq!(Vec::from_iter(about.acting_processes()), [2, 4]);
        assert_eq!(About::default().acting(), 0);
    }

    proptest! {
        #[test]
        fn page_set_is_a_set(pages in prop::collection::vec(prop_oneof![0u32..200, any::<u32>().prop_map(|p| p >> 1)], 0..200)) {
            let mut set = PageSet::default();
            let mut model = BTreeSet::new();
            for page in pages {
                prop_assert_eq!(set.insert(page), model.insert(page));
            }
        }
    }
}
