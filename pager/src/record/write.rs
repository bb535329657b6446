//! Keeping a journal. Operations are gathered under the pool's lock; a thread compresses and writes
//! them, a frame at a time, at least every [`EVERY`].

use super::header::{begins_as_journal, header, PolicyConfig};
use super::ops::Op;
use crate::error::{copy_of, Error, Result};
use crate::store::claim::{Claim, Purpose};
use crate::store::open::{existing, new_private};
use crate::sys::fd::Kept;
use crate::sys::fuse::pool_thread;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes gathered that are worth a frame.
const CHUNK: usize = 64 << 10;
/// Operations reach the file after this time at the latest: what a kill loses.
const EVERY: Duration = Duration::from_millis(200);
/// Bytes of a frame at most, if a slow disk has let more come together. Only the first may be larger,
/// by the state in it.
const FRAME: usize = 4 << 20;
/// Bytes that may wait for a slow disk before the journal is given up.
const WAITING_MAX: usize = 256 << 20;
/// A light level: the stream must keep up with misses.
const LEVEL: i32 = 1;

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Where frames end within them.
    cuts: Vec<usize>,
    /// Nothing follows.
    end: bool,
    /// Why the journal is not continued.
    failed: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Pending {
    buffer: Mutex<Buffer>,
    changed: Condvar,
}

/// The end of the journal that the policy writes to.
#[derive(Debug)]
pub(crate) struct Recorder {
    pending: Arc<Pending>,
    writer: Option<JoinHandle<io::Result<()>>>,
    waiting_max: usize,
    pid: u32,
}

/// A journal's file, before anything is recorded.
pub(crate) struct NewJournal(JournalFile);

impl NewJournal {
    /// Creates it, readable by its owner only, or empties one that is a journal, or empty, and not being
    /// written.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        JournalFile::new(path)
            .map(Self)
            .map_err(Error::at("creating the journal"))
    }

    /// Begins with `state`, or with an empty policy. All of it is written by a thread.
    pub(crate) fn start(self, config: &PolicyConfig, state: Option<&[u8]>) -> io::Result<Recorder> {
        let bytes = header(config, state);
        let waiting_max = bytes.len() + WAITING_MAX;
        let pending = Arc::new(Pending {
            buffer: Mutex::new(Buffer {
                bytes,
                ..Buffer::default()
            }),
            changed: Condvar::new(),
        });
        let theirs = pending.clone();
        let writer = pool_thread("coldset-journal", move || write_all(self.0, &theirs))?;
        Ok(Recorder {
            pending,
            writer: Some(writer),
            waiting_max,
            pid: std::process::id(),
        })
    }
}

impl Recorder {
    /// One operation.
    pub(crate) fn write(&mut self, op: Op) {
        let mut b = self.pending.buffer.lock().expect("journal");
        if b.failed.is_some() {
            return;
        }
        let before = b.bytes.len();
        if before - b.cuts.last().copied().unwrap_or(0) >= FRAME {
            b.cuts.push(before);
        }
        op.encode(&mut b.bytes);
        if before < CHUNK && b.bytes.len() >= CHUNK {
            self.pending.changed.notify_one();
        }
        if b.bytes.len() > self.waiting_max {
            let what = "the disk is slower than the program misses";
            b.failed = Some(io::Error::other(what));
            self.pending.changed.notify_one();
        }
    }

    /// The journal ends here. An error: it is not complete; it has been said on standard error, too.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        if std::process::id() != self.pid {
            // A child of fork has neither the thread nor a claim to the file.
            std::mem::forget(writer);
            return Ok(());
        }
        {
            let mut b = self.pending.buffer.lock().expect("journal");
            Op::End().encode(&mut b.bytes);
            b.end = true;
            self.pending.changed.notify_one();
        }
        let panicked = |_| Err(io::Error::other("its thread has failed"));
        writer.join().unwrap_or_else(panicked)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Whatever is wrong has been said.
        let _ = self.end();
    }
}

/// The file.
struct JournalFile {
    file: Arc<Kept<File>>,
    _claim: Claim,
    path: PathBuf,
    zstd: zstd::bulk::Compressor<'static>,
    /// Bytes of whole frames.
    whole: u64,
}

impl JournalFile {
    fn new(path: &Path) -> Result<Self> {
        let named = |e| Error::file(path, e);
        let context = || {
            let mut zstd = zstd::bulk::Compressor::new(LEVEL)?;
            zstd.include_checksum(true)?;
            Ok(zstd)
        };
        let zstd = context().map_err(Error::io("compressing a journal"))?;
        let file = match new_private(path).map_err(named)? {
            Some(f) => f,
            None => existing(path, true, false)?,
        };
        let file = Arc::new(Kept::new(file).map_err(|e| named(e.into()))?);
        let _claim = Claim::new(path, file.clone(), Purpose::Journal)?;
        let foreign = file.metadata().map_err(named)?.len() > 0
            && !begins_as_journal(&file).map_err(named)?;
        if foreign {
            return Err(Error::File {
                what: "",
                path: path.into(),
                why: "it exists and is not a journal; give another path, or remove it if nobody needs it"
                    .into(),
                errno: libc::EEXIST,
            });
        }
        file.set_len(0).map_err(named)?;
        (&**file).rewind().map_err(named)?;
        Ok(Self {
            file,
            _claim,
            path: path.into(),
            zstd,
            whole: 0,
        })
    }

    /// Writes a frame; one that does not fit leaves no trace.
    fn frame(&mut self, bytes: &[u8]) -> io::Result<()> {
        let packed = self.zstd.compress(bytes)?;
        if !self.file.is_ours() {
            let text = "the program has closed its descriptor, or replaced it";
            return Err(io::Error::other(text));
        }
        let mut file: &File = &self.file;
        let done = file.write_all(&packed);
        if done.is_ok() {
            self.whole += packed.len() as u64;
        } else {
            // The journal ends here, and why is told. Should a part of a frame stay, then a replay finds that
            // it is not whole.
            let _ = file.set_len(self.whole);
        }
        done
    }
}

fn write_all(mut out: JournalFile, from: &Pending) -> io::Result<()> {
    let done = write_frames(&mut out, from);
    if let Err(e) = &done {
        let mut b = from.buffer.lock().expect("journal");
        b.bytes = Vec::new();
        b.cuts = Vec::new();
        b.failed.get_or_insert(copy_of(e));
        eprintln!(
            "coldset: the journal {} is not complete: {e}; the pool goes on without it",
            out.path.display()
        );
    }
    done
}

fn write_frames(out: &mut JournalFile, from: &Pending) -> io::Result<()> {
    let (mut bytes, mut cuts) = (Vec::new(), Vec::new());
    // The beginning is not kept waiting.
    let mut every = Duration::ZERO;
    loop {
        let end = {
            let b = from.buffer.lock().expect("journal");
            let wait = |b: &mut Buffer| b.bytes.len() < CHUNK && !b.end && b.failed.is_none();
            let waited = from.changed.wait_timeout_while(b, every, wait);
            let (mut b, _) = waited.expect("journal");
            if let Some(e) = &b.failed {
                return Err(copy_of(e));
            }
            bytes.clear();
            cuts.clear();
            std::mem::swap(&mut b.bytes, &mut bytes);
            std::mem::swap(&mut b.cuts, &mut cuts);
            b.end
        };
        every = EVERY;
        cuts.push(bytes.len());
        let mut from = 0;
        for &to in cuts.iter().filter(|&&to| to > 0) {
            out.frame(&bytes[from..to])?;
            from = to;
        }
        if end {
            return out.file.sync_data();
        }
    }
}
