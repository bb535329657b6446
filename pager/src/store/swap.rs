//! Where anonymous pages go: compressed memory first, then a file.

use super::compressed::{Compressed, SCRATCH};
use super::storage::{read_exact, write_full, Storage};
use crate::sys::memory::{PageBuf, Table};
use crate::sys::PAGE;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::Arc;

const IN_MEMORY: u8 = 1;
const IN_FILE: u8 = 2;

/// Anonymous pages by slot. A slot is used by one caller at a time (the owner of the page).
#[derive(Debug)]
pub struct Swap {
    memory: Option<Compressed>,
    file: Option<Arc<dyn Storage>>,
    tier: Table<AtomicU8>,
    slots: u32,
}

/// Pages to store, and what became of each.
#[derive(Debug)]
pub struct Put {
    /// Slot.
    pub slot: u32,
    /// Page of the buffer.
    pub at: usize,
    /// Outcome.
    pub result: io::Result<()>,
}

impl Swap {
    /// A swap of `slots` pages. The file, if any, must have room for all of them.
    ///
    /// # Errors
    /// Address space for the tables.
    pub fn new(
        slots: u32,
        memory: Option<Compressed>,
        file: Option<Arc<dyn Storage>>,
    ) -> io::Result<Self> {
        Ok(Self {
            memory,
            file,
            tier: Table::new(slots as usize)?,
            slots,
        })
    }

    /// Slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, Compressed::bytes)
    }

    /// Bytes of memory it may take.
    pub fn limit(&self) -> u64 {
        self.memory.as_ref().map_or(0, Compressed::limit)
    }

    /// Stores pages of `buf`. `run` gathers pages whose slots follow each other for one write.
    pub fn put_all(&self, puts: &mut [Put], buf: &PageBuf, run: &mut PageBuf) {
        let mut to_file: Vec<usize> = Vec::new();
        for (i, p) in puts.iter_mut().enumerate() {
            p.result = match &self.memory {
                Some(m) => m.put(p.slot, buf.page(p.at), &mut run.bytes_mut()[..SCRATCH]),
                None => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            };
            if p.result.is_ok() {
                self.tier[p.slot as usize].store(IN_MEMORY, Relaxed);
            } else if self.file.is_some() {
                to_file.push(i);
            } else {
                self.tier[p.slot as usize].store(0, Relaxed);
            }
        }
        let Some(file) = &self.file else { return };
        to_file.sort_unstable_by_key(|&i| puts[i].slot);
        let most = run.bytes().len() / PAGE;
        let mut rest = &to_file[..];
        while let Some(&first) = rest.first() {
            let slot = puts[first].slot;
            let n = (1..rest.len().min(most))
                .take_while(|&k| puts[rest[k]].slot == slot + k as u32)
                .count()
                + 1;
            for (k, &i) in rest[..n].iter().enumerate() {
                run.page_mut(k).copy_from_slice(buf.page(puts[i].at));
            }
            let done = write_full(&**file, &run.bytes()[..n * PAGE], offset(slot));
            for &i in &rest[..n] {
                puts[i].result = match &done {
                    Ok(()) => Ok(()),
                    Err(e) => Err(clone(e)),
                };
                let tier = if done.is_ok() { IN_FILE } else { 0 };
                self.tier[puts[i].slot as usize].store(tier, Relaxed);
            }
            rest = &rest[n..];
        }
    }

    /// Brings a page back; the slot keeps it.
    ///
    /// # Errors
    /// The slot is empty, its contents are damaged, or the file cannot be read.
    pub fn get(&self, slot: u32, page: &mut [u8], scratch: &mut [u8]) -> io::Result<()> {
        match (
            self.tier[slot as usize].load(Relaxed),
            &self.memory,
            &self.file,
        ) {
            (IN_MEMORY, Some(m), _) => m.get(slot, page, scratch),
            (IN_FILE, _, Some(f)) => read_exact(&**f, page, PAGE, offset(slot)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("swap slot {slot} is empty"),
            )),
        }
    }

    /// Empties a slot.
    pub fn remove(&self, slot: u32) {
        if self.tier[slot as usize].swap(0, Relaxed) == IN_MEMORY {
            if let Some(m) = &self.memory {
                m.remove(slot);
            }
        }
    }
}

fn offset(slot: u32) -> u64 {
    u64::from(slot) * PAGE as u64
}

/// The same error once more: one failed write is the failure of each of its pages.
pub(crate) fn clone(e: &io::Error) -> io::Error {
    match e.raw_os_error() {
        Some(n) => io::Error::from_raw_os_error(n),
        None => e.kind().into(),
    }
}
