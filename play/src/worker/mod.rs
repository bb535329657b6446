//! What does the accesses: a process for each task, threads of one, or one process for all tasks.
//!
//! A worker is started outside the cgroup, makes what it needs itself, is moved into the group, and then does what
//! comes through its input: `pageops` records, and [`Control`] records between them. What it
//! answers goes to its output. So the trace is in the memory of the process that reads it, and the memory
//! of the workers in the group does not depend on the trace.

mod answer;
mod call;
mod control;
mod line;
mod orders;
mod serve;
mod views;

pub use answer::{Answer, Latency, Timed};
pub use control::Control;
pub(crate) use line::Line;
pub use orders::{Orders, Seats};

use crate::sys::{inherited, Count, Counts, Unseen};
use coldset_traces::Record;
use rustix::mm::{mlockall, MlockAllFlags};
pub(crate) use serve::serve;
use std::io::{self, Read, Write};
use std::sync::mpsc::channel;
pub(crate) use views::{cut_off, is_mapped};
use views::{Objects, Shared, Views};

/// The worker's life: until its input ends.
///
/// # Errors
/// An access that fails, with its number; a page that holds what it should not.
pub fn work(orders: &Orders, input: impl Read, output: impl Write) -> Result<(), String> {
    // Whoever started it is gone: so is the run.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let objects = Objects::open(orders).map_err(|e| format!("opening the files: {e}"))?;
    let exact = orders.exact_access;
    let counts = inherited(orders.counts.0).and_then(Counts::shared);
    let counts = counts.map_err(|e| format!("counting accesses: {e}"))?;
    if orders.locked {
        // The objects are not mapped yet.
        let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
        locked.map_err(|e| format!("locking memory: {e}"))?;
    }
    match &orders.seats {
        Seats::Task => {
            let views = Views::of_one(Shared::new(objects), orders);
            let count = count(&counts, orders, 0)?;
            serve(input, output, accesses(views, exact, count)?)
        }
        Seats::All => {
            let views = Views::by_task(objects, orders);
            let count = count(&counts, orders, 0)?;
            serve(input, output, accesses(views, exact, count)?)
        }
        Seats::Threads(lines) => threads(&Shared::new(objects), lines, &counts, orders),
    }
}

/// Where one of its seats counts.
fn count(counts: &Counts, orders: &Orders, seat: usize) -> Result<Count, String> {
    let at = orders.counts.1.saturating_add(seat);
    counts
        .count(at)
        .map_err(|e| format!("counting accesses: {e}"))
}

/// A thread for each line, which all see the same. The first that fails ends the worker.
fn threads(
    shared: &Shared,
    lines: &[(i32, i32)],
    counts: &Counts,
    orders: &Orders,
) -> Result<(), String> {
    let (tell, ends) = channel();
    for (seat, &(input, output)) in lines.iter().enumerate() {
        let pipe = |n| inherited(n).map_err(|e| format!("descriptor {n}: {e}"));
        let (input, output) = (pipe(input)?, pipe(output)?);
        let views = Views::of_one(shared.clone(), orders);
        let count = count(counts, orders, seat)?;
        let mut access = accesses(views, orders.exact_access, count)?;
        let tell = tell.clone();
        let body = move || {
            let served = serve(&input, &output, &mut access);
            let failed = served.is_err();
            let _ = tell.send(served);
            if failed {
                // Its output stays open until the worker ends as a whole: by then its error has been told.
                loop {
                    std::thread::park();
                }
            }
        };
        let thread = std::thread::Builder::new().spawn(body);
        thread.map_err(|e| format!("starting a thread: {e}"))?;
    }
    drop(tell);
    ends.into_iter().collect()
}

/// Does accesses and steps, counts the accesses, and flushes the CPU's translations each so many mapped ones.
fn accesses(
    mut views: Views,
    exact_access: u32,
    count: Count,
) -> Result<impl FnMut(Record) -> io::Result<()> + Send, String> {
    let unseen = Unseen::new().map_err(|e| format!("memory for the worker: {e}"))?;
    let mut mapped = 0u32;
    Ok(move |record| {
        let op = match record {
            Record::Access(op) => op,
            Record::Step(step) => return views.step(step),
        };
        if exact_access > 0 && is_mapped(op.kind) {
            mapped = mapped.wrapping_add(1);
            if mapped.is_multiple_of(exact_access) {
                unseen.flush()?;
            }
        }
        views.access(op)?;
        count.add();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::answer::{read_number, Report};
    use super::*;
    use crate::files::Files;
    use coldset_traces::{Event, Op, OpKind, Step, StepKind, Trace};
    use std::fs;
    use std::io::Cursor;
    use std::os::fd::IntoRawFd;

    /// With numbers to count in, which are somebody else's to close.
    fn orders(files: &Files, trace: &Trace, seats: Seats) -> Orders {
        let (_, file) = Counts::make(1).unwrap();
        Orders {
            counts: (file.into_raw_fd(), 0),
            folder: files.folder().into(),
            exact_access: 4,
            seats,
            largest_call: 1,
            holes: false,
            locked: false,
            read_ahead: false,
            objects: trace.objects.iter().map(|o| (o.pages, o.is_anon)).collect(),
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

    fn bytes(trace: &Trace) -> Vec<u8> {
        let mut bytes: Vec<u8> = trace.ops().iter().flat_map(|op| op.to_bytes()).collect();
        bytes.splice(800..800, Control::Sync.to_bytes());
        bytes.extend(Control::Report.to_bytes());
        bytes
    }

    #[test]
    fn it_does_every_kind_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace();
        let files = Files::make(dir.path(), &trace).unwrap();
        for seats in [Seats::Task, Seats::All] {
            let mut out = Vec::new();
            let orders = orders(&files, &trace, seats);
            work(&orders, bytes(&trace).as_slice(), &mut out).unwrap();
            let mut out = Cursor::new(out);
            assert_eq!(read_number(&mut out).unwrap(), 0, "ready");
            assert_eq!(read_number(&mut out).unwrap(), 100);
            let answer = Answer::of([Report::read(&mut out).unwrap()].iter());
            assert_eq!(answer.done, 1000);
            let counted: u64 = answer.latencies().map(|(_, l)| l.count).sum();
            assert_eq!(counted, 1000);
        }
    }

    /// Steps: a call of several pages, what is cut off and comes back as zeros, memory that is given back.
    #[test]
    fn it_does_what_is_no_access() {
        let dir = tempfile::tempdir().unwrap();
        let op = |kind, object, page| Op {
            kind,
            object,
            task: 0,
            page,
        };
        let mut ops: Vec<Op> = (0..8).map(|p| op(OpKind::Pread, 0, p)).collect();
        ops.push(op(OpKind::AnonWrite, 1, 3));
        ops.extend((4..8).map(|p| op(OpKind::WholeWrite, 0, p)));
        ops.push(op(OpKind::Pread, 0, 7));
        ops.push(op(OpKind::MappedRead, 0, 6));
        ops.push(op(OpKind::AnonRead, 1, 3));
        let step = |at, kind, object, value| {
            let task = 0;
            let step = Step {
                kind,
                object,
                task,
                value,
            };
            Event { at, step }
        };
        let trace = Trace::from_ops(ops).with_events(vec![
            step(0, StepKind::Advise, 0, 2),
            step(0, StepKind::Call, 0, 8),
            step(9, StepKind::Call, 0, 4),
            step(13, StepKind::Fsync, 0, 0),
            step(13, StepKind::Truncate, 0, 7),
            step(15, StepKind::Unmap, 1, 0),
            step(16, StepKind::Exit, 0, 0),
        ]);
        let files = Files::make(dir.path(), &trace).unwrap();
        let input: Vec<u8> = trace.records().flat_map(|r| r.to_bytes()).collect();
        for (seats, holes) in [
            (Seats::Task, true),
            (Seats::All, true),
            (Seats::Task, false),
        ] {
            files.fill(&trace).unwrap();
            let orders = Orders {
                largest_call: 8,
                holes,
                read_ahead: holes,
                ..orders(&files, &trace, seats)
            };
            let done = work(&orders, input.as_slice(), io::sink());
            // What was cut off holds zeros, and is noticed where nothing is cut off.
            match holes {
                true => done.unwrap(),
                false => assert!(done
                    .unwrap_err()
                    .starts_with("access 13: object 0, page 7 holds 0")),
            }
            let bytes = fs::read(files.path(0)).unwrap();
            assert_eq!((bytes.len(), bytes[7 * 4096]), (8 * 4096, 0));
            assert_eq!(bytes[6 * 4096], crate::contents::stamp(0, 6));
        }
    }

    #[test]
    fn a_file_that_somebody_has_cut_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace();
        let files = Files::make(dir.path(), &trace).unwrap();
        let file = fs::File::options().write(true).open(files.path(0));
        file.unwrap().set_len(4096).unwrap();
        let read = Op {
            kind: OpKind::Pread,
            object: 0,
            task: 2,
            page: 7,
        };
        for (holes, said) in [
            (true, "access 0: task 2, object 0, page 7: another task has"),
            (false, "access 0: failed to fill"),
        ] {
            let orders = Orders {
                holes,
                ..orders(&files, &trace, Seats::Task)
            };
            let error = work(&orders, &read.to_bytes()[..], Vec::new()).unwrap_err();
            assert!(error.starts_with(said), "{error}");
            assert_eq!(error.contains("--order strict"), holes);
        }
    }

    #[test]
    fn a_page_that_is_not_as_it_was_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace();
        let files = Files::make(dir.path(), &trace).unwrap();
        let size = fs::metadata(files.path(0)).unwrap().len();
        fs::write(files.path(0), vec![0; size as usize]).unwrap();
        let orders = orders(&files, &trace, Seats::Task);
        let error = work(&orders, bytes(&trace).as_slice(), Vec::new()).unwrap_err();
        assert!(
            error.starts_with("access 0: object 0, page 0 holds 0"),
            "{error}"
        );
    }
}
