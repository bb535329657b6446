//! What workers answer: how far they are, and how long accesses took.

use coldset_traces::OpKind;
use hdrhistogram::Histogram;
use std::io::{self, Read, Write};
use std::time::Duration;

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timed {
    /// An access; of several pages in one call the first, and nothing for the others.
    Access(OpKind),
    /// `fsync`.
    Fsync,
}

/// How many there are.
const KINDS: usize = OpKind::ALL.len() + 1;

impl Timed {
    /// All of them, in the order of an [`Answer`].
    pub fn all() -> impl Iterator<Item = Self> {
        OpKind::ALL
            .into_iter()
            .map(Self::Access)
            .chain([Self::Fsync])
    }

    fn index(self) -> usize {
        match self {
            Self::Access(kind) => kind as usize,
            Self::Fsync => OpKind::ALL.len(),
        }
    }
}

/// How long what is of one kind took, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// How often.
    pub count: u64,
    /// All together.
    pub sum: u64,
    /// Half took less.
    pub p50: u64,
    /// All but a hundredth took less.
    pub p99: u64,
    /// All but a thousandth took less.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// Latencies by kind. They take all their memory at once.
pub(super) struct Latencies {
    by_kind: Vec<Histogram<u64>>,
    sums: [u64; KINDS],
}

/// The longest that is told apart: a minute.
const LONGEST: u64 = 60_000_000_000;

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        let histogram = || {
            let mut h = Histogram::new_with_bounds(1, LONGEST, 2).expect("fixed bounds");
            // Touches all of it.
            h.clear();
            h
        };
        Self {
            by_kind: (0..KINDS).map(|_| histogram()).collect(),
            sums: [0; KINDS],
        }
    }

    #[inline]
    pub fn add(&mut self, what: Timed, ns: u64) {
        let kind = what.index();
        self.by_kind[kind].saturating_record(ns);
        self.sums[kind] += ns;
    }

    fn merge(&mut self, report: &Report) {
        for (kind, recorded) in report.by_kind.iter().enumerate() {
            for &(ns, count) in &recorded.counts {
                self.by_kind[kind].saturating_record_n(ns, count);
            }
            self.sums[kind] += recorded.sum;
        }
    }

    fn latency(&self, kind: usize) -> Latency {
        let h = &self.by_kind[kind];
        Latency {
            count: h.len(),
            sum: self.sums[kind],
            p50: h.value_at_quantile(0.5),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            max: h.max(),
        }
    }

    /// Writes what [`Report::read`] reads. It takes no memory.
    pub fn write(&self, done: u64, out: &mut impl Write) -> io::Result<()> {
        let mut put = |n: u64| out.write_all(&n.to_le_bytes());
        put(done)?;
        for (h, &sum) in self.by_kind.iter().zip(&self.sums) {
            put(sum)?;
            put(h.iter_recorded().count() as u64)?;
            for step in h.iter_recorded() {
                put(step.value_iterated_to())?;
                put(step.count_at_value())?;
            }
        }
        Ok(())
    }
}

/// What a worker has done so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Report {
    pub(super) done: u64,
    by_kind: [Recorded; KINDS],
}

/// Latencies of one kind: of each that occurred, ns, how often.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Recorded {
    sum: u64,
    counts: Vec<(u64, u64)>,
}

impl Report {
    /// Reads the next one.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut next = || read_number(input);
        let mut report = Self {
            done: next()?,
            ..Self::default()
        };
        for recorded in &mut report.by_kind {
            recorded.sum = next()?;
            for _ in 0..next()? {
                recorded.counts.push((next()?, next()?));
            }
        }
        Ok(report)
    }

    /// Time that the accesses took.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.by_kind.iter().map(|r| r.sum).sum())
    }
}

/// A number of an answer.
pub(super) fn read_number(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// What the workers have done, together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Accesses done.
    pub done: u64,
    /// In the order of [`Timed::all`].
    latencies: [Latency; KINDS],
}

impl Answer {
    /// How long it took, of what occurred.
    pub fn latencies(&self) -> impl Iterator<Item = (Timed, Latency)> + '_ {
        let each = Timed::all().zip(self.latencies);
        each.filter(|(_, latency)| latency.count > 0)
    }

    /// How long what is of this kind took.
    pub fn latency(&self, what: Timed) -> Latency {
        self.latencies[what.index()]
    }

    /// Of all these: quantiles are those of all their accesses.
    pub(crate) fn of<'a>(reports: impl Iterator<Item = &'a Report>) -> Self {
        let mut all = Latencies::new();
        let mut done = 0;
        for report in reports {
            all.merge(report);
            done += report.done;
        }
        Self {
            done,
            latencies: std::array::from_fn(|kind| all.latency(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Through the pipe and together, several workers' latencies are what one worker's would be.
    #[test]
    fn quantiles_are_of_all_accesses() {
        let mut whole = Latencies::new();
        let mut parts = [(); 3].map(|()| Latencies::new());
        for i in 0..30_000u64 {
            let kind = OpKind::ALL[i as usize % 2];
            // The workers differ: one is fast, one slow, one hardly does anything.
            let part = if i % 100 == 0 {
                2
            } else {
                (i / 2 % 2) as usize
            };
            let ns = [300 + i % 50, 90_000 + 7 * i, LONGEST * 2][part];
            let what = Timed::Access(kind);
            whole.add(what, ns);
            parts[part].add(what, ns);
        }
        let reports = parts.map(|part| {
            let mut bytes = Vec::new();
            part.write(10_000, &mut bytes).unwrap();
            let mut bytes = bytes.as_slice();
            let report = Report::read(&mut bytes).unwrap();
            assert!(bytes.is_empty());
            report
        });
        let answer = Answer::of(reports.iter());
        let expected: [Latency; KINDS] = std::array::from_fn(|kind| whole.latency(kind));
        assert_eq!((answer.done, answer.latencies), (30_000, expected));
        assert!(expected[0].p50 > 300 && expected[0].p999 > LONGEST / 2);
        assert_eq!(expected[2], Latency::default());
        let busy: Duration = reports.iter().map(Report::busy).sum();
        assert_eq!(busy.as_nanos(), whole.sums.iter().sum::<u64>().into());
    }

    #[test]
    fn half_an_answer_is_an_error() {
        let mut bytes = Vec::new();
        Latencies::new().write(1, &mut bytes).unwrap();
        bytes.pop();
        assert!(Report::read(&mut bytes.as_slice()).is_err());
    }
}
