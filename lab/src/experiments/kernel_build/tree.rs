//! The files of the build: headers by popularity, sources, objects (`docs/reference/experiments.md#kernel-build`).

use crate::draw::Stream;
use std::ops::Range;

/// Headers that the build reads at all.
const HEADERS: u64 = 1950;
/// Mean number of headers a job reads.
const HEADERS_READ: u64 = 584;
/// (headers up to here, the most popular first; share of all reads, per cent). The rest of the
/// reads go to the rest of the headers.
const POPULARITY: [(u64, u64); 5] = [(100, 19), (300, 52), (500, 81), (900, 98), (HEADERS, 100)];
/// Headers up to here have the first number of pages together, all have the second.
const SIZES: [(u64, u64); 2] = [(900, 2304), (HEADERS, 4608)];
/// Bytes of a source.
pub const SOURCE_BYTES: u64 = 19 * 1024;

/// The headers at a scale: fewer of them, each as large and as popular as its like at scale 1.
#[derive(Clone, Debug)]
pub struct Headers {
    /// First page of each, and the end of the last.
    starts: Vec<u32>,
    /// Chance that the mean job reads it, millionths.
    chance: Vec<u64>,
}

impl Headers {
    /// Headers at scale `1 / scale`.
    pub fn new(scale: u64) -> Self {
        let count = (HEADERS / scale).max(1);
        let mut starts = vec![0];
        let mut chance = Vec::new();
        for h in 0..count {
            let like = h * HEADERS / count;
            let at = POPULARITY.partition_point(|&(end, _)| end <= like);
            let (from, below) = at.checked_sub(1).map_or((0, 0), |i| POPULARITY[i]);
            let (to, up_to) = POPULARITY[at];
            chance.push((up_to - below) * HEADERS_READ * 10_000 / (to - from));
            let at = SIZES.partition_point(|&(end, _)| end <= like);
            let (from, before) = at.checked_sub(1).map_or((0, 0), |i| SIZES[i]);
            let (to, all) = SIZES[at];
            // Pages as they accumulate over its likes at scale 1.
            let n = |like: u64| (like - from) * (all - before) / (to - from);
            let pages = (n(like + 1) - n(like)).max(1) as u32;
            starts.push(starts[h as usize] + pages);
        }
        Self { starts, chance }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.chance.len()
    }

    /// Pages of all.
    pub fn pages(&self) -> u32 {
        self.starts[self.count()]
    }

    /// Pages of one.
    pub fn range(&self, header: usize) -> Range<u32> {
        self.starts[header]..self.starts[header + 1]
    }

    /// The headers a job reads that reads `reads` at scale 1, each once.
    pub fn draw(&self, reads: u64, draw: &mut Stream) -> Vec<usize> {
        let chosen = |h: &usize, draw: &mut Stream| {
            draw.below(1_000_000) < self.chance[*h] * reads / HEADERS_READ
        };
        (0..self.count()).filter(|h| chosen(h, draw)).collect()
    }
}

/// Pages that hold the bytes `from..from + bytes` of a file, at least one.
pub fn pages_of(from: u64, bytes: u64) -> Range<u32> {
    (from / 4096) as u32..((from + bytes.max(1)).div_ceil(4096)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_popularity_and_sizes() {
        let all = Headers::new(1);
        assert_eq!(all.count(), 1950);
        // 9 MiB in the top 900, 18 MiB in all; a page at least is a header's.
        assert!(all.range(900).start.abs_diff(2304) < 3);
        assert!(all.pages().abs_diff(4608) < 6);
        let mut stream = Stream::new(1, "headers", 0);
        let mut reads = vec![0u64; 1950];
        for _ in 0..2000 {
            for h in all.draw(584, &mut stream) {
                reads[h] += 1;
            }
        }
        let total: u64 = reads.iter().sum();
        // No job reads a header twice: the most popular ones are read a little less than measured.
        for (top, share) in [(100, 19.0), (300, 52.0), (500, 81.0), (900, 98.0)] {
            let got = 100.0 * reads[..top].iter().sum::<u64>() as f64 / total as f64;
            assert!((got - share).abs() < 2.0, "top {top}: {got}");
        }
        assert!((550..=590).contains(&(total / 2000)), "{}", total / 2000);
    }

    #[test]
    fn a_scale_keeps_the_shape() {
        let part = Headers::new(16);
        assert_eq!(part.count(), 121);
        assert!((260..320).contains(&part.pages()), "{}", part.pages());
        let mut stream = Stream::new(1, "headers", 0);
        let mean = (0..2000)
            .map(|_| part.draw(584, &mut stream).len())
            .sum::<usize>() as f64
            / 2000.0;
        assert!((mean - 584.0 / 16.0).abs() < 2.5, "{mean}");
        assert_eq!(Headers::new(100_000).count(), 1);
    }

    #[test]
    fn files_lie_side_by_side() {
        assert_eq!(pages_of(0, 4096), 0..1);
        assert_eq!(pages_of(4000, 200), 0..2);
        assert_eq!(pages_of(8192, 0), 2..3);
    }
}
