//! What the compile jobs are: sizes, times, order (`docs/reference/experiments.md#kernel-build`).

use crate::draw::{DrawError, Quantiles, Stream};

/// Anonymous memory of a compiler, MiB, by rank in thousandths.
const ANON_MIB: [(u64, u64); 6] = [
    (0, 15),
    (100, 27),
    (500, 51),
    (900, 92),
    (990, 126),
    (1000, 191),
];
/// Its CPU time, ms.
const CPU_MS: [(u64, u64); 6] = [
    (0, 80),
    (100, 160),
    (500, 400),
    (900, 1100),
    (990, 2300),
    (1000, 3600),
];
/// Headers it reads.
const HEADERS: [(u64, u64); 5] = [(0, 300), (100, 405), (500, 570), (900, 794), (1000, 1000)];
/// Object it writes, KiB.
const OBJECT_KIB: [(u64, u64); 5] = [(0, 2), (500, 15), (900, 84), (990, 300), (1000, 1000)];

/// A compile job at scale 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Number of its source.
    pub source: u64,
    /// The directory it is in.
    pub directory: u64,
    /// Anonymous memory of the compiler, KiB.
    pub anon_kib: u64,
    /// CPU time of the compiler, us.
    pub cpu_us: u64,
    /// Headers read.
    pub headers: u64,
    /// Size of the object, bytes.
    pub object: u64,
}

/// The jobs in the order in which they are started: directory by directory in random order, in
/// each the longest first.
///
/// # Errors
/// Never with the tables above.
pub fn jobs(units: u64, directories: u64, draw: &mut Stream) -> Result<Vec<Unit>, DrawError> {
    let (anon, cpu) = (Quantiles::new(&ANON_MIB)?, Quantiles::new(&CPU_MS)?);
    let (headers, object) = (Quantiles::new(&HEADERS)?, Quantiles::new(&OBJECT_KIB)?);
    let mut all: Vec<Unit> = (0..units)
        .map(|source| {
            // Size and time correlate closely: one rank for both.
            let rank = draw.bits();
            Unit {
                source,
                directory: draw.below(directories.max(1)),
                anon_kib: anon.at(rank) * 1024,
                cpu_us: cpu.at(rank) * 1000,
                headers: headers.at(draw.bits()),
                object: object.at(draw.bits()) * 1024,
            }
        })
        .collect();
    all.sort_by_key(|u| (u.directory, std::cmp::Reverse(u.cpu_us), u.source));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_means_and_order() {
        let all = jobs(2800, 160, &mut Stream::new(1, "jobs", 0)).unwrap();
        assert_eq!(all.len(), 2800);
        let mean = |f: fn(&Unit) -> u64| all.iter().map(f).sum::<u64>() as f64 / 2800.0;
        let anon = mean(|u| u.anon_kib) / 1024.0;
        assert!((52.0..60.0).contains(&anon), "{anon} MiB");
        let cpu = mean(|u| u.cpu_us) / 1e6;
        assert!((0.48..0.62).contains(&cpu), "{cpu} s");
        let headers = mean(|u| u.headers);
        assert!((560.0..610.0).contains(&headers), "{headers}");
        let object = mean(|u| u.object) / 1024.0;
        assert!((34.0..44.0).contains(&object), "{object} KiB");
        for pair in all.windows(2) {
            assert!(pair[0].directory <= pair[1].directory);
            if pair[0].directory == pair[1].directory {
                assert!(pair[0].cpu_us >= pair[1].cpu_us);
            }
        }
    }
}
