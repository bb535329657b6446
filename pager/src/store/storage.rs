//! Something read and written at offsets, and transfers that are complete or an error.

use std::io;
use std::os::fd::BorrowedFd;

/// One of many reads.
#[derive(Debug)]
pub struct Read<'a> {
    /// To be filled.
    pub buf: &'a mut [u8],
    /// Where in the storage.
    pub offset: u64,
    /// Bytes read; set by [`Storage::read_many`].
    pub done: io::Result<usize>,
}

impl<'a> Read<'a> {
    /// A read that has not been done.
    pub fn new(buf: &'a mut [u8], offset: u64) -> Self {
        let done = Ok(0);
        Self { buf, offset, done }
    }
}

/// One of many writes.
#[derive(Debug)]
pub struct Write<'a> {
    /// To be written.
    pub buf: &'a [u8],
    /// Where in the storage.
    pub offset: u64,
    /// Bytes written; set by [`Storage::write_many`].
    pub done: io::Result<usize>,
}

impl<'a> Write<'a> {
    /// A write that has not been done.
    pub fn new(buf: &'a [u8], offset: u64) -> Self {
        let done = Ok(0);
        Self { buf, offset, done }
    }
}

/// Something read and written at byte offsets. Transfers may be short. Buffers are never managed
/// memory. All methods are called by whatever thread misses or evicts, inside a signal handler too:
/// they must not use managed memory, and not wait for a thread that does.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Reads into `buf`. 0 = the end of the storage.
    ///
    /// # Errors
    /// Those of the device.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `buf`.
    ///
    /// # Errors
    /// Those of the device.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Everything written so far is durable when this returns.
    ///
    /// # Errors
    /// Those of the device.
    fn sync(&self) -> io::Result<()>;

    /// The file behind it, if its bytes are the storage's, and what the page cache has of it may be mapped and dropped. Always
    /// the same.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// As [`Self::read_at`] for each, in any order; together where that is faster.
    fn read_many(&self, reads: &mut [Read<'_>]) {
        for r in reads {
            r.done = self.read_at(r.buf, r.offset);
        }
    }

    /// As [`Self::write_at`] for each, in any order; together where that is faster.
    fn write_many(&self, writes: &mut [Write<'_>]) {
        for w in writes {
            w.done = self.write_at(w.buf, w.offset);
        }
    }
}

/// Reads into all of `buf`, of which the first `have` bytes must exist; beyond them it is zeroed. All
/// of `buf` is offered to the storage, so that transfers stay aligned.
///
/// # Errors
/// Those of the storage; `UnexpectedEof` if it ends early, as a file that was truncated does.
pub fn read_exact(s: &dyn Storage, buf: &mut [u8], have: usize, offset: u64) -> io::Result<()> {
    read_rest(s, buf, have, offset, Ok(0))?;
    buf[have..].fill(0);
    Ok(())
}

/// Continues after a first try that had this result.
fn read_rest(
    s: &dyn Storage,
    buf: &mut [u8],
    have: usize,
    offset: u64,
    first: io::Result<usize>,
) -> io::Result<()> {
    let mut done = match first {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
        first => first.unwrap_or(0),
    };
    while done < have {
        match s.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => {
                let at = offset + done as u64;
                let text = format!("it ends at byte {at}: it has been truncated");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads into all of every buffer. `done` is the length of the buffer, or the error.
pub fn read_all(s: &dyn Storage, reads: &mut [Read<'_>]) {
    if let [one] = reads {
        one.done = Ok(0);
    } else {
        s.read_many(reads);
    }
    for r in reads {
        let (len, first) = (r.buf.len(), std::mem::replace(&mut r.done, Ok(0)));
        r.done = read_rest(s, r.buf, len, r.offset, first).map(|()| len);
    }
}

/// Writes all of `buf`.
///
/// # Errors
/// Those of the storage; a write that transfers nothing is `WriteZero`.
pub fn write_full(s: &dyn Storage, buf: &[u8], offset: u64) -> io::Result<()> {
    write_rest(s, buf, offset, 0)
}

fn write_rest(s: &dyn Storage, buf: &[u8], offset: u64, mut done: usize) -> io::Result<()> {
    while done < buf.len() {
        match s.write_at(&buf[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of every buffer. `done` is the length of the buffer, or the error.
pub fn write_all(s: &dyn Storage, writes: &mut [Write<'_>]) {
    if let [one] = writes {
        one.done = Ok(0);
    } else {
        s.write_many(writes);
    }
    for w in writes {
        let first = match std::mem::replace(&mut w.done, Ok(0)) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
            first => Ok(first.unwrap_or(0)),
        };
        let rest = first.and_then(|n| write_rest(s, w.buf, w.offset, n));
        w.done = rest.map(|()| w.buf.len());
    }
}
