//! Objects as the tasks of a trace see them, and one access to a page of one.

use super::Orders;
use crate::files::stamp;
use crate::sys::{Map, PAGE};
use coldset_traces::{Op, OpKind};
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
    page: Vec<u8>,
}

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

/// The access goes through a page table.
pub(super) fn is_mapped(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Pread | OpKind::Pwrite | OpKind::WholeWrite)
}

impl Views {
    /// With mappings for each task.
    pub fn by_task(objects: Objects) -> Self {
        Self::new(objects.into(), Spaces::ByTask(Vec::new()))
    }

    /// Of one address space, whatever the task.
    pub fn of_one(shared: Shared) -> Self {
        Self::new(shared.objects, Spaces::One(shared.space))
    }

    fn new(objects: Arc<Objects>, spaces: Spaces) -> Self {
        Self {
            objects,
            spaces,
            page: vec![0; PAGE],
        }
    }

    /// Does it, and checks what it reads.
    pub fn access(&mut self, op: Op) -> io::Result<()> {
        let (task, object) = (usize::from(op.task), usize::from(op.object));
        let objects = &*self.objects;
        let offset = u64::from(op.page) * PAGE as u64;
        let expected = stamp(op.object, op.page);
        let mut byte = [expected];
        match (op.kind, &objects.files[object]) {
            (OpKind::Pread, Some(file)) => {
                file.read_exact_at(&mut byte, offset)?;
            }
            // The byte that is there, so that contents can be checked however often a page is written.
            (OpKind::Pwrite, Some(file)) => file.write_all_at(&byte, offset)?,
            (OpKind::WholeWrite, Some(file)) => {
                self.page.fill(op.object);
                self.page[0] = expected;
                file.write_all_at(&self.page, offset)?;
            }
            (kind, _) => {
                let map = self.spaces.map(objects, task, object)?;
                let page = op.page as usize;
                match kind {
                    OpKind::AnonWrite | OpKind::MappedWrite => map.store(page, 0, expected),
                    OpKind::AnonRead => {
                        // Zero where nothing was stored yet.
                        let held = map.load(page, 0);
                        byte = [if held == 0 { expected } else { held }];
                    }
                    _ => byte = [map.load(page, 0)],
                }
            }
        }
        match byte[0] == expected {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "object {object}, page {} holds {}, and {expected} was stored",
                op.page, byte[0]
            ))),
        }
    }
}

/// The trace says itself what is read: no read-ahead for reads.
fn open(orders: &Orders, object: usize) -> io::Result<File> {
    let path = orders.folder.join(format!("object-{object}"));
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    fadvise(&file, 0, None, Advice::Random)?;
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
            objects: vec![(8, true)],
        };
        let objects = || Objects::open(&orders).unwrap();
        let shared = Shared::new(objects());
        let mut other = Views::of_one(shared.clone());
        assert_eq!(held(&mut other, 1), 0);
        Views::of_one(shared).access(store).unwrap();
        assert_eq!(held(&mut other, 1), stamp(0, 3));
        let mut all = Views::by_task(objects());
        all.access(store).unwrap();
        assert_eq!((held(&mut all, 0), held(&mut all, 1)), (stamp(0, 3), 0));
    }
}
