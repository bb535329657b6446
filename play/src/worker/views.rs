//! Objects as the tasks of a trace see them, and one access to a page of one.

use super::call::Call;
use super::Orders;
use crate::contents::{stamp, words};
use crate::sys::{Map, PAGE};
use coldset_traces::{self as traces, Op, OpKind, Step, StepKind};
use rustix::fs::{fadvise, Advice};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

/// All objects.
#[derive(Debug)]
pub(super) struct Objects {
    /// Pages of each.
    pages: Vec<u32>,
    /// By object; none: anonymous, or never used.
    files: Vec<Option<File>>,
}

impl Objects {
    /// Opens the files. What a descriptor reads ahead is decided here.
    pub fn open(orders: &Orders) -> io::Result<Self> {
        let numbered = orders.objects.iter().enumerate();
        let open = |(object, &(pages, anon)): (usize, &(u32, bool))| {
            let is_file = !anon && pages > 0;
            is_file.then(|| open(orders, object)).transpose()
        };
        Ok(Self {
            pages: orders.objects.iter().map(|o| o.0).collect(),
            files: numbered.map(open).collect::<io::Result<_>>()?,
        })
    }

    fn map(&self, object: usize) -> io::Result<Map> {
        let pages = self.pages[object] as usize;
        match &self.files[object] {
            Some(file) => Map::file(file, pages, true),
            None => Map::anonymous(pages),
        }
    }
}

/// Mappings of one address space, by object. They are made when they are first used.
#[derive(Debug)]
pub(super) struct Space(Vec<OnceLock<Map>>);

impl Space {
    /// None yet, of so many objects.
    fn new(objects: &Objects) -> Self {
        Self(objects.files.iter().map(|_| OnceLock::new()).collect())
    }

    fn map(&self, objects: &Objects, object: usize) -> io::Result<&Map> {
        if let Some(map) = self.0[object].get() {
            return Ok(map);
        }
        let map = objects.map(object)?;
        // If another thread was faster, its mapping counts.
        Ok(self.0[object].get_or_init(|| map))
    }
}

/// An address space that threads share, and what is mapped there.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    objects: Arc<Objects>,
    space: Arc<Space>,
}

impl Shared {
    /// With nothing mapped yet.
    pub fn new(objects: Objects) -> Self {
        Self {
            space: Space::new(&objects).into(),
            objects: objects.into(),
        }
    }
}

/// What somebody who does accesses sees.
pub(super) struct Views {
    objects: Arc<Objects>,
    spaces: Spaces,
    /// What is read and written: the pages of the largest call.
    buffer: Vec<u8>,
    call: Call,
    /// A page of a file may hold zeros.
    holes: bool,
}

/// Most pages of a call: 4 MiB.
const CALL_MAX: u32 = 1024;

enum Spaces {
    /// Every task has one: page tables of its own.
    ByTask(Vec<Option<Space>>),
    /// One, whatever the task.
    One(Arc<Space>),
}

impl Spaces {
    fn map(&mut self, objects: &Objects, task: usize, object: usize) -> io::Result<&Map> {
        let space = match self {
            Self::One(space) => &**space,
            Self::ByTask(all) => {
                if all.len() <= task {
                    all.resize_with(task + 1, || None);
                }
                all[task].get_or_insert_with(|| Space::new(objects))
            }
        };
        space.map(objects, object)
    }
}

impl Spaces {
    /// Of a task: a mapping is gone, or all are.
    fn unmap(&mut self, task: usize, object: Option<usize>) -> io::Result<()> {
        let space = match self {
            Self::ByTask(all) => match all.get_mut(task).and_then(Option::as_mut) {
                Some(space) => space,
                None => return Ok(()),
            },
            Self::One(space) => match Arc::get_mut(space) {
                Some(space) => space,
                // Other threads use the mappings: they are as new.
                None => {
                    let chosen = space.0.iter().enumerate();
                    let chosen = chosen.filter(|(at, _)| object.is_none_or(|o| o == *at));
                    return chosen
                        .filter_map(|(_, map)| map.get())
                        .try_for_each(Map::forget);
                }
            },
        };
        for (at, map) in space.0.iter_mut().enumerate() {
            if object.is_none_or(|o| o == at) {
                map.take();
            }
        }
        Ok(())
    }
}

/// What is said of an access that found the file cut off.
pub(crate) fn cut_off(op: &Op) -> String {
    let (task, object, page) = (op.task, op.object, op.page);
    format!(
        "task {task}, object {object}, page {page}: another task has truncated or removed the file meanwhile; play with \
         --order strict, where tasks take turns as the trace has it"
    )
}

/// The access goes through a page table.
pub(crate) fn is_mapped(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Pread | OpKind::Pwrite | OpKind::WholeWrite)
}

impl Views {
    /// With mappings for each task.
    pub fn by_task(objects: Objects, orders: &Orders) -> Self {
        Self::new(objects.into(), Spaces::ByTask(Vec::new()), orders)
    }

    /// Of one address space, whatever the task.
    pub fn of_one(shared: Shared, orders: &Orders) -> Self {
        Self::new(shared.objects, Spaces::One(shared.space), orders)
    }

    fn new(objects: Arc<Objects>, spaces: Spaces, orders: &Orders) -> Self {
        let pages = orders.largest_call.clamp(1, CALL_MAX) as usize;
        // Other than zero: its memory is there before the first access.
        let buffer = vec![1; pages * PAGE];
        Self {
            objects,
            spaces,
            buffer,
            call: Call::default(),
            holes: orders.holes,
        }
    }

    /// Does it, and checks what it reads.
    pub fn access(&mut self, op: Op) -> io::Result<()> {
        if self.call.covers(op) {
            return Ok(());
        }
        let most = (self.buffer.len() / PAGE) as u32;
        let pages = self.call.begin(op, most);
        let (task, object) = (usize::from(op.task), usize::from(op.object));
        let objects = &*self.objects;
        let offset = u64::from(op.page) * PAGE as u64;
        let expected = stamp(op.object, op.page);
        match (op.kind, &objects.files[object]) {
            (OpKind::Pread, Some(file)) => {
                // Of one page a byte, of several all of them.
                let len = if pages == 1 { 1 } else { pages as usize * PAGE };
                let bytes = &mut self.buffer[..len];
                file.read_exact_at(bytes, offset)
                    .map_err(|e| match e.kind() {
                        // A file is as long as its objects, but for the moment in which it is cut.
                        io::ErrorKind::UnexpectedEof if self.holes => {
                            io::Error::other(cut_off(&op))
                        }
                        _ => e,
                    })?;
                for (page, bytes) in (op.page..).zip(self.buffer[..len].chunks(PAGE)) {
                    self.check(op.object, page, bytes[0])?;
                }
                Ok(())
            }
            // The byte that is there, so that contents can be checked however often a page is written.
            (OpKind::Pwrite, Some(file)) => file.write_all_at(&[expected], offset),
            (OpKind::WholeWrite, Some(file)) => {
                let bytes = &mut self.buffer[..pages as usize * PAGE];
                bytes.fill(op.object);
                for (page, bytes) in (op.page..).zip(bytes.chunks_mut(PAGE)) {
                    bytes[0] = stamp(op.object, page);
                }
                file.write_all_at(bytes, offset)
            }
            (kind, _) => {
                let map = self.spaces.map(objects, task, object)?;
                let page = op.page as usize;
                match kind {
                    OpKind::AnonWrite => {
                        map.store(page, 0, expected);
                        map.store_words(page, words(op.object, op.page));
                        Ok(())
                    }
                    OpKind::MappedWrite => {
                        map.store(page, 0, expected);
                        Ok(())
                    }
                    OpKind::AnonRead => {
                        // Zero where nothing was stored yet.
                        let held = map.load(page, 0);
                        let held = if held == 0 { expected } else { held };
                        self.check(op.object, op.page, held)
                    }
                    _ => {
                        let held = map.load(page, 0);
                        self.check(op.object, op.page, held)
                    }
                }
            }
        }
    }

    fn check(&self, object: u8, page: u32, held: u8) -> io::Result<()> {
        let expected = stamp(object, page);
        match held == expected || (held == 0 && self.holes) {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "object {object}, page {page} holds {held}, and {expected} was stored"
            ))),
        }
    }

    /// Does what is no access.
    pub fn step(&mut self, step: Step) -> io::Result<()> {
        let (task, object) = (usize::from(step.task), usize::from(step.object));
        let file = self.objects.files.get(object).and_then(Option::as_ref);
        match (step.kind, file) {
            (StepKind::Fsync, Some(file)) => file.sync_all()?,
            (StepKind::Advise, Some(file)) => {
                let advice = match traces::Advice::from_u32(step.value) {
                    Some(traces::Advice::Random) => Advice::Random,
                    Some(traces::Advice::Sequential) => Advice::Sequential,
                    Some(traces::Advice::Normal) | None => Advice::Normal,
                };
                fadvise(file, 0, None, advice)?;
            }
            // A file keeps its length, so that mappings of it stay whole: what was cut off is a hole. One that is removed
            // is a new one, of the same length.
            (StepKind::Truncate | StepKind::Unlink, Some(file)) => {
                let pages = match step.kind {
                    StepKind::Truncate => step.value.min(self.objects.pages[object]),
                    _ => 0,
                };
                file.set_len(u64::from(pages) * PAGE as u64)?;
                file.set_len(u64::from(self.objects.pages[object]) * PAGE as u64)?;
            }
            (StepKind::Unmap, _) => self.spaces.unmap(task, Some(object))?,
            (StepKind::Exit, _) => self.spaces.unmap(task, None)?,
            (StepKind::Call, _) => self.call.announce(step.value),
            // A file that no access uses; what is not for a worker.
            _ => {}
        }
        Ok(())
    }
}

fn open(orders: &Orders, object: usize) -> io::Result<File> {
    let path = orders.folder.join(format!("object-{object}"));
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if !orders.read_ahead {
        fadvise(&file, 0, None, Advice::Random)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::Seats;
    use super::*;

    /// What the byte of page 3 is for a task.
    fn held(views: &mut Views, task: usize) -> u8 {
        let map = views.spaces.map(&views.objects, task, 0).unwrap();
        map.load(3, 0)
    }

    #[test]
    fn threads_see_the_same_memory_and_tasks_of_one_process_do_not() {
        let store = Op {
            kind: OpKind::AnonWrite,
            object: 0,
            task: 0,
            page: 3,
        };
        let orders = Orders {
            folder: "/".into(),
            exact_access: 0,
            seats: Seats::All,
            counts: (-1, 0),
            largest_call: 1,
            holes: false,
            locked: false,
            read_ahead: false,
            objects: vec![(8, true)],
        };
        let objects = || Objects::open(&orders).unwrap();
        let shared = Shared::new(objects());
        let mut other = Views::of_one(shared.clone(), &orders);
        assert_eq!(held(&mut other, 1), 0);
        Views::of_one(shared, &orders).access(store).unwrap();
        assert_eq!(held(&mut other, 1), stamp(0, 3));
        let mut all = Views::by_task(objects(), &orders);
        all.access(store).unwrap();
        assert_eq!((held(&mut all, 0), held(&mut all, 1)), (stamp(0, 3), 0));
    }
}
