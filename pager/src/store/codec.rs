//! Compressors and what they need: LZ4 needs nothing, Zstandard contexts that are kept for the next.

use super::entry::HARDLY;
use crate::sys::PAGE;
use std::io;
use std::sync::Mutex;
use zstd::bulk::{Compressor, Decompressor};

/// `pager.md` 7: better than LZ4 on every corpus, at twice the time.
pub const LEVEL: i32 = -1;

/// Contexts of Zstandard, one for each that is at work; some are kept.
#[derive(Default)]
pub struct Zstd {
    into: Mutex<Vec<Compressor<'static>>>,
    from: Mutex<Vec<Decompressor<'static>>>,
}

impl std::fmt::Debug for Zstd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zstd").finish_non_exhaustive()
    }
}

/// Contexts that are kept for the next, of each kind: some 150 KiB each. More than so many at work at the
/// same time are made and given back.
const KEPT: usize = 4;

fn keep<T>(kept: &Mutex<Vec<T>>, context: T) {
    let mut kept = kept.lock().expect("contexts");
    if kept.len() < KEPT {
        kept.push(context);
    }
}

fn take<T>(kept: &Mutex<Vec<T>>) -> Option<T> {
    kept.lock().expect("contexts").pop()
}

impl Zstd {
    /// Compresses a page; none if that hardly makes it smaller.
    pub fn compress(&self, page: &[u8], to: &mut [u8]) -> Option<usize> {
        let mut c = match take(&self.into) {
            Some(c) => c,
            None => Compressor::new(LEVEL).ok()?,
        };
        let done = c.compress_to_buffer(page, to);
        keep(&self.into, c);
        done.ok().filter(|&n| n < HARDLY)
    }

    /// Brings a page back.
    ///
    /// # Errors
    /// Not a page; no memory for a context.
    pub fn decompress(&self, from: &[u8], page: &mut [u8]) -> io::Result<()> {
        let mut d = match take(&self.from) {
            Some(d) => d,
            None => Decompressor::new()?,
        };
        let done = d.decompress_to_buffer(from, page);
        keep(&self.from, d);
        whole(done?)
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
