//! Objects as the tasks of a trace see them, and one access to a page of one.

use super::Orders;
use crate::files::stamp;
use crate::sys::{Map, PAGE};
use coldset_traces::{Op, OpKind};
use rustix::fs::{fadvise, Advice};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// All objects: files are open from the start, mappings are made when they are first used.
pub(super) struct Views<'a> {
    orders: &'a Orders,
    /// By object; none: anonymous, or never used.
    files: Vec<Option<File>>,
    /// By task and object: page tables of their own.
    maps: Vec<Vec<Option<Map>>>,
    page: Vec<u8>,
}

/// The access goes through a page table.
pub(super) fn is_mapped(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Pread | OpKind::Pwrite | OpKind::WholeWrite)
}

impl<'a> Views<'a> {
    /// Opens the files. What a descriptor reads ahead is decided here.
    pub fn new(orders: &'a Orders) -> io::Result<Self> {
        let numbered = orders.objects.iter().enumerate();
        let open = |(object, &(pages, anon)): (usize, &(u32, bool))| {
            let is_file = !anon && pages > 0;
            is_file.then(|| open(orders, object)).transpose()
        };
        Ok(Self {
            orders,
            files: numbered.map(open).collect::<io::Result<_>>()?,
            maps: Vec::new(),
            page: vec![0; PAGE],
        })
    }

    /// Does it, and checks what it reads.
    pub fn access(&mut self, op: Op) -> io::Result<()> {
        let (task, object) = (usize::from(op.task), usize::from(op.object));
        if self.maps.len() <= task {
            self.maps.resize_with(task + 1, Vec::new);
        }
        let maps = &mut self.maps[task];
        if maps.len() <= object {
            maps.resize_with(object + 1, || None);
        }
        let offset = u64::from(op.page) * PAGE as u64;
        let expected = stamp(op.object, op.page);
        let mut byte = [expected];
        let file = self.files[object].as_ref();
        match (op.kind, file) {
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
            (kind, file) => {
                if maps[object].is_none() {
                    maps[object] = Some(map(self.orders, object, file)?);
                }
                let map = maps[object].as_ref().expect("just made");
                match kind {
                    OpKind::AnonWrite | OpKind::MappedWrite => {
                        map.store(op.page as usize, 0, expected)
                    }
                    OpKind::AnonRead => {
                        // Zero where nothing was stored yet.
                        let held = map.load(op.page as usize, 0);
                        byte = [if held == 0 { expected } else { held }];
                    }
                    _ => byte = [map.load(op.page as usize, 0)],
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

fn map(orders: &Orders, object: usize, file: Option<&File>) -> io::Result<Map> {
    let (pages, _) = orders.objects[object];
    match file {
        Some(file) => Map::file(file, pages as usize, true),
        None => Map::anonymous(pages as usize),
    }
}
