//! The stream of accesses that the benchmarks share: Zipf, hot pages scattered over one file.

use coldset_lab::draw::{DrawError, Permutation, Stream, Zipf};
use coldset_lab::traces::{Op, OpKind, Trace};

/// `accesses` reads of a file of `pages` pages, Zipf with exponent 0.99.
pub fn zipf_reads(pages: u32, accesses: usize) -> Result<Trace, DrawError> {
    let mut stream = Stream::new(1, "replay-bench", 0);
    let zipf = Zipf::new(pages.into(), 0.99)?;
    let place = Permutation::shuffled(pages.into(), &mut stream)?;
    let ops = (0..accesses)
        .map(|_| Op {
            kind: OpKind::Pread,
            object: 0,
            task: 0,
            page: place.map(zipf.draw(&mut stream)) as u32,
        })
        .collect();
    Ok(Trace::from_ops(ops))
}
