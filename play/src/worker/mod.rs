//! The process that does the accesses.
//!
//! It is started outside the cgroup, makes what it needs itself, moves into the group when it is told
//! to, and then does what comes through its standard input: accesses as `pageops` records, and [`Control`]
//! records between them. What it answers goes to its standard output. So the trace is in the memory of
//! the process that reads it, and the memory of the worker in the group does not depend on the trace.

mod answer;
mod views;

pub use answer::{Answer, Latencies, KINDS};

use crate::sys::Unseen;
use coldset_traces::Op;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Instant;
use views::Views;

/// A record that is no access. Kinds of accesses are below 128.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Control {
    /// Answer when everything before is done.
    Sync = 128,
    /// Answer with the latencies since the start, and end.
    End = 129,
}

impl Control {
    /// Its record.
    pub fn to_bytes(self) -> [u8; Op::BYTES] {
        let mut bytes = [0; Op::BYTES];
        bytes[0] = self as u8;
        bytes
    }
}

/// What a worker is told when it is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orders {
    /// Folder of the files.
    pub folder: PathBuf,
    /// Pages of each object, and whether it is anonymous.
    pub objects: Vec<(u32, bool)>,
    /// Flush the CPU's translations each so many mapped accesses; 0: never.
    pub exact_access: u32,
}

impl Orders {
    /// As one argument a piece, for the command line of the worker.
    pub fn to_arguments(&self) -> Vec<String> {
        let mut out = vec![
            self.folder.to_string_lossy().into_owned(),
            self.exact_access.to_string(),
        ];
        let object =
            |(pages, anon): &(u32, bool)| format!("{}{pages}", if *anon { "a" } else { "f" });
        out.extend(self.objects.iter().map(object));
        out
    }

    /// Back from the arguments.
    pub fn from_arguments(arguments: &[String]) -> Option<Self> {
        let [folder, exact, objects @ ..] = arguments else {
            return None;
        };
        let object = |text: &String| {
            let (kind, pages) = text.split_at_checked(1)?;
            let anon = ["f", "a"].iter().position(|&k| k == kind)? == 1;
            Some((pages.parse().ok()?, anon))
        };
        Some(Self {
            folder: folder.into(),
            exact_access: exact.parse().ok()?,
            objects: objects.iter().map(object).collect::<Option<_>>()?,
        })
    }
}

/// Records taken from standard input at once.
const BATCH: usize = 512;

/// The worker's life: until the input ends, or it is told to end.
///
/// # Errors
/// An access that fails, with its number; a page that holds what it should not.
pub fn work(orders: &Orders, mut input: impl Read, mut output: impl Write) -> Result<(), String> {
    // Whoever started it is gone: so is the run.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut views = Views::new(orders).map_err(|e| format!("opening the files: {e}"))?;
    let unseen = Unseen::new().map_err(|e| format!("memory for the worker: {e}"))?;
    let mut latencies = Latencies::new();
    let mut bytes = vec![0; BATCH * Op::BYTES];
    let (mut done, mut mapped) = (0u64, 0u32);
    let mut answer = |a: &Answer| a.write(&mut output).map_err(|e| format!("answering: {e}"));
    answer(&Answer::ready())?;
    loop {
        let filled = fill(&mut input, &mut bytes).map_err(|e| format!("reading the trace: {e}"))?;
        if filled == 0 {
            return Ok(());
        }
        let mut before = Instant::now();
        for record in bytes[..filled].chunks_exact(Op::BYTES) {
            let record: [u8; Op::BYTES] = record.try_into().expect("whole records");
            let Some(op) = Op::from_bytes(record) else {
                answer(&Answer::done(done, &latencies))?;
                if record[0] == Control::End as u8 {
                    return Ok(());
                }
                before = Instant::now();
                continue;
            };
            if orders.exact_access > 0 && views::is_mapped(op.kind) {
                mapped += 1;
                if mapped % orders.exact_access == 0 {
                    unseen
                        .flush()
                        .map_err(|e| format!("flushing translations: {e}"))?;
                }
            }
            views
                .access(op)
                .map_err(|e| format!("access {done}: {e}"))?;
            let now = Instant::now();
            latencies.add(op.kind, (now - before).as_nanos() as u64);
            before = now;
            done += 1;
        }
    }
}

/// Whole records, as many as are there and fit; none at the end.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = input.read(bytes)?;
    while filled % Op::BYTES != 0 {
        match input.read(&mut bytes[filled..filled.next_multiple_of(Op::BYTES)])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => filled += more,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;
    use coldset_traces::{OpKind, Trace};
    use std::fs;

    fn orders(files: &Files, trace: &Trace) -> Orders {
        Orders {
            folder: files.folder().into(),
            objects: trace.objects.iter().map(|o| (o.pages, o.is_anon)).collect(),
            exact_access: 4,
        }
    }

    fn trace() -> Trace {
        let kinds = [
            (OpKind::MappedRead, 0),
            (OpKind::Pread, 0),
            (OpKind::Pwrite, 1),
            (OpKind::AnonWrite, 2),
            (OpKind::AnonRead, 2),
            (OpKind::WholeWrite, 1),
            (OpKind::MappedWrite, 1),
        ];
        let op = |i: u32| {
            let (kind, object) = kinds[i as usize % kinds.len()];
            Op {
                kind,
                object,
                task: (i % 3) as u16,
                page: i * 7 % 50,
            }
        };
        Trace::from_ops((0..1000).map(op).collect())
    }

    fn bytes(trace: &Trace, last: Control) -> Vec<u8> {
        let mut bytes: Vec<u8> = trace.ops.iter().flat_map(|op| op.to_bytes()).collect();
        bytes.splice(800..800, Control::Sync.to_bytes());
        bytes.extend(last.to_bytes());
        bytes
    }

    #[test]
    fn it_does_every_kind_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace();
        let files = Files::make(dir.path(), &trace).unwrap();
        let mut out = Vec::new();
        let input = bytes(&trace, Control::End);
        work(&orders(&files, &trace), input.as_slice(), &mut out).unwrap();
        let mut out = out.as_slice();
        let mut next = || Answer::read(&mut out).unwrap();
        assert_eq!(next(), Answer::ready());
        assert_eq!(next().done, 100);
        let end = next();
        assert_eq!(end.done, 1000);
        let counted: u64 = end.latencies.iter().map(|l| l.count).sum();
        assert_eq!(counted, 1000);
    }

    #[test]
    fn a_page_that_is_not_as_it_was_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace();
        let files = Files::make(dir.path(), &trace).unwrap();
        let size = fs::metadata(files.path(0)).unwrap().len();
        fs::write(files.path(0), vec![0; size as usize]).unwrap();
        let input = bytes(&trace, Control::End);
        let error = work(&orders(&files, &trace), input.as_slice(), Vec::new()).unwrap_err();
        assert!(
            error.starts_with("access 0: object 0, page 0 holds 0"),
            "{error}"
        );
    }

    #[test]
    fn orders_survive_the_command_line() {
        let orders = Orders {
            folder: "/a b".into(),
            objects: vec![(7, false), (0, false), (9, true)],
            exact_access: 64,
        };
        let arguments = orders.to_arguments();
        assert_eq!(Orders::from_arguments(&arguments), Some(orders));
        assert_eq!(Orders::from_arguments(&["/a".into()]), None);
        assert_eq!(
            Orders::from_arguments(&["/a".into(), "1".into(), "x3".into()]),
            None
        );
    }
}
