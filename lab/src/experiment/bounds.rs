//! How large an experiment may be: the greatest value of a parameter, and the pages of a machine.

use std::fs;
use std::sync::OnceLock;

/// Bytes that a page of a simulated machine takes here once it is in memory: its slot, its bits, the record of its folio.
const PAGE_BYTES: u64 = 49;
/// Most pages on any computer, and of one whose memory is not known: their numbers have 32 bits.
const PAGES_MAX: u64 = 1 << 31;
/// Greatest time, s: eleven days, of which 64 bits have room for ten thousand in ns.
const SECONDS_MAX: u64 = 1_000_000;
/// Greatest number of anything else: the product of two has room in 64 bits.
const NUMBER_MAX: u64 = 1_000_000_000;

/// Greatest number of what takes memory of its own, pages or not: tasks, tables.
pub const MEMBERS_MAX: u64 = 100_000;

/// Pages that the files and regions of a machine may have together: so many have room in the memory of this computer.
pub fn most_pages() -> u64 {
    static PAGES: OnceLock<u64> = OnceLock::new();
    *PAGES.get_or_init(|| {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        memory(&text).map_or(PAGES_MAX, |bytes| (bytes / PAGE_BYTES).min(PAGES_MAX))
    })
}

/// Bytes of memory of the computer, from the text of /proc/meminfo.
fn memory(text: &str) -> Option<u64> {
    let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// The greatest value of a parameter, by the unit that its name ends in, where a machine at `scale` (its denominator) may
/// have so many `pages`.
pub fn most(name: &str, scale: u64, pages: u64) -> u64 {
    let bytes = || (u128::from(pages) * u128::from(scale) * 4096).min(u64::MAX.into()) as u64;
    match name.rsplit_once('_').map(|(_, unit)| unit) {
        Some("bytes") => bytes(),
        Some("kib" | "kb") => bytes() >> 10,
        Some("mib") => bytes() >> 20,
        Some("s") => SECONDS_MAX,
        Some("ms") => SECONDS_MAX * 1000,
        Some("us") => SECONDS_MAX * 1_000_000,
        _ => NUMBER_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_computer_bounds_pages() {
        let text = "MemFree:  1 kB\nMemTotal:       1024 kB\n";
        assert_eq!(memory(text), Some(1 << 20));
        assert_eq!(memory("MemFree: 1 kB"), None);
        assert!((1 << 10..=PAGES_MAX).contains(&most_pages()));
    }

    #[test]
    fn a_unit_bounds_a_value() {
        for (name, scale, most_of_it) in [
            ("limit_mib", 1, 4),
            ("limit_mib", 64, 256),
            ("thread_kib", 1, 4096),
            ("pool_bytes", 1, 4 << 20),
            ("duration_s", 64, SECONDS_MAX),
            ("pause_ms", 1, SECONDS_MAX * 1000),
            ("operations", 1, NUMBER_MAX),
            ("m", 1, NUMBER_MAX),
        ] {
            assert_eq!(most(name, scale, 1024), most_of_it, "{name}");
        }
        assert_eq!(most("pool_bytes", u64::MAX, PAGES_MAX), u64::MAX);
    }
}
