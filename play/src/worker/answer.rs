//! What a worker answers: how far it is, and how long accesses took.

use coldset_traces::OpKind;
use hdrhistogram::Histogram;
use std::io::{self, Read, Write};

/// Kinds of accesses.
pub const KINDS: usize = OpKind::ALL.len();

/// Figures of one kind: `u64`s of an answer.
const FIGURES: usize = 6;

/// How long the accesses of one kind took, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// Accesses.
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
pub struct Latencies {
    by_kind: Vec<Histogram<u64>>,
    sums: [u64; KINDS],
}

/// The longest that is told apart: a minute.
const LONGEST: u64 = 60_000_000_000;

impl Latencies {
    /// None yet.
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, 2).expect("fixed bounds");
        Self {
            by_kind: (0..KINDS).map(|_| histogram()).collect(),
            sums: [0; KINDS],
        }
    }

    #[inline]
    pub(super) fn add(&mut self, kind: OpKind, ns: u64) {
        self.by_kind[kind as usize].saturating_record(ns);
        self.sums[kind as usize] += ns;
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
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Accesses done.
    pub done: u64,
    /// By the number of their kind.
    pub latencies: [Latency; KINDS],
}

impl Answer {
    /// The first: the worker is there, with all the memory it needs itself.
    pub fn ready() -> Self {
        Self::default()
    }

    pub(super) fn done(done: u64, latencies: &Latencies) -> Self {
        Self {
            done,
            latencies: std::array::from_fn(|kind| latencies.latency(kind)),
        }
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; (1 + KINDS * FIGURES) * 8];
        let figures = self
            .latencies
            .iter()
            .flat_map(|l| [l.count, l.sum, l.p50, l.p99, l.p999, l.max]);
        for (bytes, figure) in bytes
            .chunks_exact_mut(8)
            .zip([self.done].into_iter().chain(figures))
        {
            bytes.copy_from_slice(&figure.to_le_bytes());
        }
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Reads the next answer.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; (1 + KINDS * FIGURES) * 8];
        input.read_exact(&mut bytes)?;
        let mut figures = bytes
            .chunks_exact(8)
            .map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
        let mut next = || figures.next().expect("as many as were written");
        Ok(Self {
            done: next(),
            latencies: std::array::from_fn(|_| Latency {
                count: next(),
                sum: next(),
                p50: next(),
                p99: next(),
                p999: next(),
                max: next(),
            }),
        })
    }
}
