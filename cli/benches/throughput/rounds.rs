//! Rounds, each of which runs every row once: what disturbs the machine meets all of them.

use super::libcachesim::LibCacheSim;
use super::rows::{self, Measured, Row, MANY, ROWS};
use super::streams::Streams;
use super::Failure;

/// What a row came to, a value a round.
#[derive(Default)]
pub struct Times {
    /// CPU time of the whole command, s; empty where there is none.
    pub process: Vec<f64>,
    /// CPU time of the library's call alone, s; empty if the library is not there.
    pub call: Vec<f64>,
    /// Where something can miss.
    pub misses: Option<u64>,
}

impl Times {
    fn note(&mut self, row: &Row, measured: Measured) -> Result<f64, Failure> {
        let misses = self.misses.or(measured.misses);
        if misses != measured.misses {
            // They did not do the same work.
            let (a, b) = (misses.unwrap_or(0), measured.misses.unwrap_or(0));
            return Err(format!("{}: {a} misses in one run and {b} in another", row.name).into());
        }
        self.misses = misses;
        Ok(measured.cpu)
    }
}

/// All rounds.
#[derive(Default)]
pub struct Rounds {
    /// By row.
    pub rows: [Times; ROWS.len()],
    /// By policy: a curve with many sizes as a multiple of one with one, CPU time and time.
    pub many_sizes: [Vec<[f64; 2]>; MANY.len()],
}

impl Rounds {
    /// One more round.
    ///
    /// # Errors
    /// Something cannot be run, or has not done the same work as before.
    pub fn add(&mut self, streams: &Streams, theirs: Option<&LibCacheSim>) -> Result<(), Failure> {
        for (row, times) in ROWS.iter().zip(&mut self.rows) {
            if let Some(m) = row.process(streams)? {
                let cpu = times.note(row, m)?;
                times.process.push(cpu);
            }
            if let Some(m) = row.call(streams, theirs)? {
                let cpu = times.note(row, m)?;
                times.call.push(cpu);
            }
        }
        for (policy, multiples) in MANY.iter().zip(&mut self.many_sizes) {
            multiples.push(rows::many_sizes(streams, policy)?);
        }
        Ok(())
    }

    /// CPU time of libCacheSim on the stream of a row.
    pub fn theirs(&self, row: &Row) -> &[f64] {
        let same = |r: &Row| r.work == rows::Work::LibCacheSim && r.is_hits() == row.is_hits();
        let at = ROWS.iter().position(same);
        at.map_or(&[], |at| &self.rows[at].call)
    }
}
