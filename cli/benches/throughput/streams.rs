//! The accesses: one draw of pages for all rows but those of hits, done in different ways.

use coldset_lab::draw::{DrawError, Permutation, Stream, Zipf};
use coldset_lab::traces::{Op, OpKind};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Pages of the file or region.
pub const PAGES: u32 = 1_000_000;
/// Memory, pages.
pub const MEMORY: u64 = 100_000;
/// Pages of the stream that all fit.
const HOT: u32 = 10_000;

/// How pages are accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads from a mapped file.
    Mapped,
    /// The same as `pread`.
    Pread,
    /// Loads from a mapped file that is all in memory.
    Hits,
    /// Loads from a file that so many tasks have mapped, in turn.
    Tasks(u16),
    /// Loads and stores in turn, of anonymous memory, and a store first: what was never stored to takes none.
    Anonymous,
}

/// Pages in order of access, and their files.
pub struct Streams {
    zipf: Vec<u32>,
    hits: Vec<u32>,
    folder: PathBuf,
}

/// Zipf with exponent 0.99, hot pages scattered over the file.
fn draw(pages: u32, accesses: usize) -> Result<Vec<u32>, DrawError> {
    let mut stream = Stream::new(1, "replay-bench", 0);
    let zipf = Zipf::new(pages.into(), 0.99)?;
    let place = Permutation::shuffled(pages.into(), &mut stream)?;
    let mut page = || place.map(zipf.draw(&mut stream)) as u32;
    Ok((0..accesses).map(|_| page()).collect())
}

impl Streams {
    /// Streams of so many accesses, to be written into a folder.
    ///
    /// # Errors
    /// None that is due to the caller.
    pub fn new(accesses: usize, folder: &Path) -> Result<Self, DrawError> {
        Ok(Self {
            zipf: draw(PAGES, accesses)?,
            hits: draw(HOT, accesses)?,
            folder: folder.to_owned(),
        })
    }

    /// The pages, in order.
    pub fn pages(&self, access: Access) -> &[u32] {
        match access {
            Access::Hits => &self.hits,
            _ => &self.zipf,
        }
    }

    /// The accesses, in order.
    pub fn ops(&self, access: Access) -> impl Iterator<Item = Op> + '_ {
        let pages = self.pages(access).iter().enumerate();
        let mut stored = vec![false; PAGES as usize];
        let mut first = move |page: u32| !std::mem::replace(&mut stored[page as usize], true);
        pages.map(move |(i, &page)| Op {
            kind: match access {
                Access::Pread => OpKind::Pread,
                Access::Anonymous if first(page) || i % 2 == 0 => OpKind::AnonWrite,
                Access::Anonymous => OpKind::AnonRead,
                _ => OpKind::MappedRead,
            },
            object: 0,
            task: match access {
                Access::Tasks(n) => (i % usize::from(n)) as u16,
                _ => 0,
            },
            page,
        })
    }

    /// Their trace, written when it is first asked for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn trace(&self, access: Access) -> io::Result<PathBuf> {
        let path = self.folder.join(format!("{access:?}.pageops"));
        if !path.exists() {
            write(&path, self.ops(access).map(Op::to_bytes))?;
        }
        Ok(path)
    }

    /// The same pages as oracleGeneral records: all of one byte, the next reference unknown.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn oracle_general(&self, access: Access) -> io::Result<PathBuf> {
        let path = self.folder.join(format!("{access:?}.oracleGeneral"));
        let record = |(i, &page): (usize, &u32)| {
            let mut bytes = [0; 24];
            bytes[..4].copy_from_slice(&(i as u32).to_le_bytes());
            bytes[4..12].copy_from_slice(&(u64::from(page) + 1).to_le_bytes());
            bytes[12..16].copy_from_slice(&1u32.to_le_bytes());
            bytes[16..].copy_from_slice(&(-2i64).to_le_bytes());
            bytes
        };
        if !path.exists() {
            write(&path, self.pages(access).iter().enumerate().map(record))?;
        }
        Ok(path)
    }
}

/// Writes records to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write<const N: usize>(
    path: &Path,
    records: impl Iterator<Item = [u8; N]>,
) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for record in records {
        out.write_all(&record)?;
    }
    out.flush()
}
