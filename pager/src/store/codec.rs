//! Compressors and what they need: LZ4 needs nothing, Zstandard contexts that are kept for the next.

use super::entry::HARDLY;
use crate::sys::PAGE;
use std::io;
use std::sync::{Condvar, Mutex};
use zstd::bulk::{Compressor, Decompressor};

/// Smaller than LZ4 on every corpus that was measured, at twice the time.
pub const LEVEL: i32 = -1;

/// Contexts of one kind: made when first needed, and not given back. There are no more than processors:
/// a thread that finds none waits for the microseconds that a page takes.
struct Contexts<T> {
    /// Those that nobody uses, and how many there are in all.
    idle: Mutex<(Vec<T>, usize)>,
    back: Condvar,
}

impl<T> Default for Contexts<T> {
    fn default() -> Self {
        Self {
            idle: Mutex::new((Vec::new(), 0)),
            back: Condvar::new(),
        }
    }
}

impl<T> Contexts<T> {
    fn with<R>(
        &self,
        make: impl FnOnce() -> io::Result<T>,
        work: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let most = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
        let idle = self.idle.lock().expect("contexts");
        let wait = |i: &mut (Vec<T>, usize)| i.0.is_empty() && i.1 >= most;
        let mut idle = self.back.wait_while(idle, wait).expect("contexts");
        let mut context = match idle.0.pop() {
            Some(c) => c,
            None => {
                let made = make()?;
                idle.1 += 1;
                made
            }
        };
        drop(idle);
        let done = work(&mut context);
        self.idle.lock().expect("contexts").0.push(context);
        self.back.notify_one();
        done
    }
}

/// Contexts of Zstandard, both ways.
#[derive(Default)]
pub struct Zstd {
    into: Contexts<Compressor<'static>>,
    from: Contexts<Decompressor<'static>>,
}

impl std::fmt::Debug for Zstd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zstd").finish_non_exhaustive()
    }
}

impl Zstd {
    /// Compresses a page; none if that hardly makes it smaller.
    pub fn compress(&self, page: &[u8], to: &mut [u8]) -> Option<usize> {
        let done = self.into.with(
            || Compressor::new(LEVEL),
            |c| c.compress_to_buffer(page, to),
        );
        done.ok().filter(|&n| n < HARDLY)
    }

    /// Brings a page back.
    ///
    /// # Errors
    /// Not a page; no memory for a context.
    pub fn decompress(&self, from: &[u8], page: &mut [u8]) -> io::Result<()> {
        let unpack = |d: &mut Decompressor<'_>| d.decompress_to_buffer(from, page);
        whole(self.from.with(Decompressor::new, unpack)?)
    }
}

/// Compresses a page by LZ4; none if that hardly makes it smaller.
pub fn lz4(page: &[u8], to: &mut [u8]) -> Option<usize> {
    let done = lz4_flex::block::compress_into(page, to);
    done.ok().filter(|&n| n < HARDLY)
}

/// Brings a page back from LZ4.
///
/// # Errors
/// Not a page.
pub fn unlz4(from: &[u8], page: &mut [u8]) -> io::Result<()> {
    let done = lz4_flex::block::decompress_into(from, page);
    whole(done.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?)
}

fn whole(bytes: usize) -> io::Result<()> {
    match bytes {
        PAGE => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The word a page repeats, if it does.
pub fn same_filled(page: &[u8]) -> Option<u64> {
    let mut words = page
        .chunks_exact(8)
        .map(|w| u64::from_ne_bytes(w.try_into().expect("8 bytes")));
    let first = words.next()?;
    words.all(|w| w == first).then_some(first)
}
