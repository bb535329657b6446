//! What a replay plays on: the memcgs of its tasks, the objects of its trace, their mappings.

use super::{Inodes, Limit, ReplayOptions, ReplaySettings};
use crate::traces::{About, ObjectInfo};
use coldset_engine::memcg::{CounterKind, MemcgError};
use coldset_engine::{MemcgId, MmId, ObjectId};
use coldset_machine::{Machine, MappingFlags, MappingId, OpenFile};
use std::collections::btree_map::{BTreeMap, Entry};

/// The limited memcg, and one below it for each process if they are to be told apart.
pub(super) struct Memcgs {
    pub limited: MemcgId,
    /// By task of the trace; none: the task does not occur.
    of_task: Vec<Option<MemcgId>>,
    /// With the number of the process, in the order of their first tasks.
    of_process: Vec<(u16, MemcgId)>,
    /// Every process has its own.
    pub apart: bool,
}

impl Memcgs {
    pub fn create(machine: &Machine, trace: &About, o: &ReplayOptions) -> Result<Self, MemcgError> {
        let mut w = machine.world_mut();
        let w = &mut *w;
        let limited = w.engine.memcg_create(MemcgId::ROOT)?;
        let tree = &mut w.engine.memcgs;
        if o.settings.limit == Limit::Cgroup {
            tree.set_max(limited, CounterKind::Memory, o.memory)?;
        }
        let named = || o.low.iter().chain(&o.max);
        let present = present(trace, named().map(|&(task, _)| task));
        let processes = trace.processes();
        let acting = trace.present();
        let mut busy = acting
            .iter()
            .zip(&processes)
            .filter(|(p, _)| **p)
            .map(|(_, of)| *of);
        let first = busy.next();
        let apart = named().next().is_some() || busy.any(|p| Some(p) != first);
        let (mut of_task, mut all) = (Vec::new(), Vec::new());
        let mut of_process = BTreeMap::new();
        for (present, process) in present.into_iter().zip(processes) {
            of_task.push(match (present, apart) {
                (false, _) => None,
                (true, false) => Some(limited),
                (true, true) => Some(match of_process.entry(process) {
                    Entry::Occupied(there) => *there.get(),
                    Entry::Vacant(new) => {
                        let memcg = w.engine.memcg_create(limited)?;
                        all.push((process, memcg));
                        *new.insert(memcg)
                    }
                }),
            });
        }
        let of = |task: u16| of_process[&task];
        let tree = &mut w.engine.memcgs;
        for &(task, pages) in &o.low {
            tree.set_low(of(task), pages)?;
        }
        for &(task, pages) in &o.max {
            tree.set_max(of(task), CounterKind::Memory, pages)?;
        }
        if apart && o.groups_charged {
            w.charge_kernel_base(limited);
        }
        Ok(Self {
            limited,
            of_task,
            of_process: match apart {
                true => all,
                false => vec![(0, limited)],
            },
            apart,
        })
    }

    /// By task of the trace.
    pub fn by_task(&self) -> &[Option<MemcgId>] {
        &self.of_task
    }

    /// Each of them once, with the number of its process.
    pub fn of_processes(&self) -> impl Iterator<Item = (u16, MemcgId)> + '_ {
        self.of_process.iter().copied()
    }
}

/// Which tasks get a memcg and an address space: those that occur, or are `named`.
fn present(trace: &About, named: impl Iterator<Item = u16>) -> Vec<bool> {
    let mut present = trace.present();
    for task in named {
        present[usize::from(task)] = true;
    }
    // A trace of nothing has a task as well.
    let any = present.contains(&true);
    present[0] |= !any;
    present
}

/// Objects and mappings of a replay. Mappings are made when they are first used.
pub(super) struct Places {
    objects: Vec<ObjectInfo>,
    /// What the objects are called in the machine.
    pub ids: Vec<ObjectId>,
    /// Entries that may still be arrays.
    whole: u64,
}

impl Places {
    pub fn create(machine: &Machine, trace: &About, on: &ReplaySettings) -> Self {
        let (extents, inodes) = (&on.extents, on.inodes);
        let create = |info: &ObjectInfo| match (info.is_anon, info.is_scattered()) {
            (true, false) => machine.create_anon(info.pages),
            (true, true) => machine.create_scattered_anon(info.pages),
            (false, false) => machine.create_file(0, info.pages),
            (false, true) => machine.create_scattered_file(0, info.pages),
        };
        let ids: Vec<_> = trace.objects.iter().map(create).collect();
        let mut w = machine.world_mut();
        for (number, &id) in ids.iter().enumerate() {
            w.set_extents(id, extents.number(number));
        }
        if inodes == Inodes::Root {
            let files = trace
                .objects
                .iter()
                .zip(&ids)
                .filter(|(info, _)| !info.is_anon);
            files.for_each(|(_, &id)| w.owned_by_root(id));
        }
        if extents.held {
            w.keep_buffers();
        }
        Self {
            objects: trace.objects.clone(),
            ids,
            whole: ObjectInfo::SCATTERED * trace.accesses + (1 << 20),
        }
    }

    /// By an open file, if it is one.
    pub fn map(&mut self, machine: &Machine, mm: MmId, n: u8, file: &OpenFile) -> MappingId {
        let mapping = self.place(machine, mm, n);
        machine.world_mut().follow_advice(mapping, file);
        mapping
    }

    fn place(&mut self, machine: &Machine, mm: MmId, n: u8) -> MappingId {
        let (info, object) = (&self.objects[usize::from(n)], self.ids[usize::from(n)]);
        let left = self.whole.checked_sub(info.pages.into());
        match left.filter(|_| !info.is_scattered()) {
            Some(left) => {
                self.whole = left;
                machine.mmap(mm, object, 0, info.pages, MappingFlags::empty())
            }
            None => machine.mmap_scattered(mm, object, MappingFlags::empty()),
        }
    }
}
