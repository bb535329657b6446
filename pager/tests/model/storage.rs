//! A storage of the test's own: a file of which pages can be made to refuse writes.

use coldset_pager::store::Storage;
use coldset_pager::PAGE_SIZE;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Mutex;

#[derive(Debug)]
pub struct Breakable {
    file: File,
    broken: Mutex<BTreeSet<usize>>,
    /// Times that pages have been broken.
    pub breaks: AtomicU64,
    /// Writes that were refused.
    pub refused: AtomicU64,
}

impl Breakable {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::options().read(true).write(true).open(path)?,
            broken: Mutex::default(),
            breaks: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    pub fn set_broken(&self, pages: &[usize], broken: bool) {
        let mut set = self.broken.lock().unwrap();
        for p in pages {
            match broken {
                true => set.insert(*p),
                false => set.remove(p),
            };
        }
        self.breaks.fetch_add(broken.into(), SeqCst);
    }

    /// Pages that refuse now, and times that any were made to.
    pub fn faults(&self) -> (usize, u64) {
        let set = self.broken.lock().unwrap();
        (set.len(), self.breaks.load(SeqCst))
    }
}

impl Storage for Breakable {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let first = offset as usize / PAGE_SIZE;
        let end = (offset as usize + buf.len()).div_ceil(PAGE_SIZE);
        let refused = self
            .broken
            .lock()
            .unwrap()
            .range(first..end)
            .next()
            .is_some();
        if refused {
            self.refused.fetch_add(1, SeqCst);
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
