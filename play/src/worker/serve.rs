//! What comes through a worker's input is done.

use super::answer::{Latencies, Timed};
use super::Control;
use coldset_traces::{Op, Record, StepKind};
use std::io::{self, BufWriter, Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Records taken from the input at once.
const BATCH: usize = 512;

/// Does all work, by `act`, and answers, until the input ends.
pub(crate) fn serve(
    mut input: impl Read,
    output: impl Write,
    mut act: impl FnMut(Record) -> io::Result<()>,
) -> Result<(), String> {
    let answering = |e: io::Error| format!("answering: {e}");
    let mut output = BufWriter::with_capacity(4096, output);
    let mut latencies = Latencies::new();
    let mut bytes = vec![0; BATCH * Op::BYTES];
    let mut done = 0u64;
    // It is there, with all the memory that it needs.
    let ready = output.write_all(&done.to_le_bytes());
    ready.and_then(|()| output.flush()).map_err(answering)?;
    loop {
        let filled = fill(&mut input, &mut bytes).map_err(|e| format!("reading the trace: {e}"))?;
        if filled == 0 {
            return Ok(());
        }
        let mut before = Instant::now();
        for record in bytes[..filled].chunks_exact(Op::BYTES) {
            let record: [u8; Op::BYTES] = record.try_into().expect("whole records");
            let failed = |e: io::Error| format!("access {done}: {e}");
            let answered = match (Record::from_bytes(record), Control::from_bytes(record)) {
                (Some(Record::Access(op)), _) => {
                    act(Record::Access(op)).map_err(failed)?;
                    let now = Instant::now();
                    latencies.add(Timed::Access(op.kind), (now - before).as_nanos() as u64);
                    before = now;
                    done += 1;
                    continue;
                }
                (Some(Record::Step(step)), _) => {
                    match step.kind {
                        // As the program that was recorded did.
                        StepKind::Think => sleep(Duration::from_nanos(step.value.into())),
                        _ => act(Record::Step(step)).map_err(failed)?,
                    }
                    let now = Instant::now();
                    if step.kind == StepKind::Fsync {
                        latencies.add(Timed::Fsync, (now - before).as_nanos() as u64);
                    }
                    before = now;
                    continue;
                }
                (None, Some(Control::Sync)) => output.write_all(&done.to_le_bytes()),
                (None, Some(Control::Report)) => latencies.write(done, &mut output),
                (None, None) => {
                    return Err(format!("a record of an unknown kind, {}", record[0]));
                }
            };
            answered.and_then(|()| output.flush()).map_err(answering)?;
            before = Instant::now();
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
    use super::super::answer::{read_number, Answer, Report};
    use super::*;
    use coldset_traces::{OpKind, Step};

    fn op(page: u32) -> Op {
        Op {
            kind: OpKind::Pread,
            object: 0,
            task: 0,
            page,
        }
    }

    #[test]
    fn a_pause_takes_its_time_and_is_no_latency() {
        let pause = Duration::from_millis(30);
        let think = Step {
            kind: StepKind::Think,
            object: 0,
            task: 0,
            value: pause.as_nanos() as u32,
        };
        let input = [
            op(1).to_bytes(),
            Control::Sync.to_bytes(),
            think.to_bytes(),
            op(2).to_bytes(),
            Control::Report.to_bytes(),
        ];
        let (mut out, mut times) = (Vec::new(), Vec::new());
        serve(input.concat().as_slice(), &mut out, |record| {
            let Record::Access(op) = record else {
                panic!("{record:?}");
            };
            times.push((op.page, Instant::now()));
            Ok(())
        })
        .unwrap();
        let [(1, first), (2, second)] = times[..] else {
            panic!("{times:?}");
        };
        assert!(second - first >= pause);
        let mut out = out.as_slice();
        assert_eq!(read_number(&mut out).unwrap(), 0, "ready");
        assert_eq!(read_number(&mut out).unwrap(), 1);
        let report = Report::read(&mut out).unwrap();
        let latency = Answer::of([&report].into_iter()).latency(Timed::Access(OpKind::Pread));
        assert_eq!((report.done, latency.count), (2, 2));
        assert!(report.busy() < pause, "{latency:?}");
        assert!(out.is_empty());
    }

    #[test]
    fn what_it_cannot_read_is_named() {
        let mut unknown = op(1).to_bytes();
        unknown[0] = 200;
        let error = serve(&unknown[..], io::sink(), |_| Ok(())).unwrap_err();
        assert!(error.contains("kind, 200"), "{error}");
        let half = &op(1).to_bytes()[..5];
        assert!(serve(half, io::sink(), |_| Ok(())).is_err());
        let failing = |_| Err(io::Error::other("no such page"));
        let error = serve(&op(1).to_bytes()[..], io::sink(), failing).unwrap_err();
        assert_eq!(error, "access 0: no such page");
    }
}
