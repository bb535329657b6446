//! Keeping a journal. Operations are gathered under the pool's lock; a thread compresses and writes
//! them.

use super::{Op, MAGIC};
use crate::policy::PolicyConfig;
use crate::sys::signals::Shield;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;

/// Bytes handed over at a time.
const CHUNK: usize = 64 << 10;
/// A light level: the stream must keep up with misses.
const LEVEL: i32 = 1;

/// The end of the journal that the policy writes to.
#[derive(Debug)]
pub(crate) struct Recorder {
    buffer: Vec<u8>,
    to: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    pid: u32,
}

impl Recorder {
    /// A journal in a new file.
    pub(crate) fn new(path: &Path, config: &PolicyConfig) -> io::Result<Self> {
        let file = File::create(path)?;
        let mut buffer = Vec::with_capacity(CHUNK + 64);
        writeln!(buffer, "{MAGIC}")?;
        writeln!(buffer, "budget {}", config.budget)?;
        writeln!(buffer, "slots {}", config.slots)?;
        for s in config.switches.describe() {
            writeln!(buffer, "switch {}={}", s.name, s.value)?;
        }
        writeln!(buffer)?;
        let (to, from) = channel();
        let writer = std::thread::Builder::new()
            .name("coldset-journal".into())
            .spawn(move || {
                let _shield = Shield::new();
                write_all(file, &from)
            })?;
        Ok(Self {
            buffer,
            to: Some(to),
            writer: Some(writer),
            pid: std::process::id(),
        })
    }

    /// One operation.
    pub(crate) fn write(&mut self, op: Op, args: &[u64]) {
        debug_assert_eq!(args.len(), op.args(), "{op:?}");
        self.buffer.push(op as u8);
        for &a in args {
            put(&mut self.buffer, a);
        }
        if self.buffer.len() >= CHUNK {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK + 64));
        // A writer that failed has said so when it is waited for; the pool goes on without.
        if let Some(to) = &self.to {
            let _ = to.send(chunk);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // A child of fork has neither the thread nor a claim to the file.
            std::mem::forget((self.to.take(), self.writer.take()));
            return;
        }
        self.hand_over();
        self.to = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(Err(e))) => eprintln!("coldset: the journal is not complete: {e}"),
            Some(Err(_)) => eprintln!("coldset: the journal is not complete"),
            _ => {}
        }
    }
}

fn write_all(file: File, from: &Receiver<Vec<u8>>) -> io::Result<()> {
    let mut z = zstd::Encoder::new(file, LEVEL)?;
    for chunk in from {
        z.write_all(&chunk)?;
    }
    z.finish()?.sync_data()
}

/// A number in seven-bit groups, lowest first.
fn put(to: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        to.push(v as u8 | 0x80);
        v >>= 7;
    }
    to.push(v as u8);
}
