//! Per-page costs of zram (`docs/rules/swap.md`). It has no queue: the calling CPU does the work.

use std::str::FromStr;

use crate::params::Params;

const PAGE_BYTES: u64 = 4096;

/// A compression algorithm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ZramAlgorithm {
    /// lz4.
    Lz4,
    /// lzo with run-length encoding.
    LzoRle,
    /// lzo.
    Lzo,
    /// zstd.
    Zstd,
}

impl ZramAlgorithm {
    /// All algorithms, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Lz4, Self::LzoRle, Self::Lzo, Self::Zstd];

    /// The name used in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::LzoRle => "lzo-rle",
            Self::Lzo => "lzo",
            Self::Zstd => "zstd",
        }
    }

    /// The figures of the algorithm.
    #[must_use]
    pub const fn timing(self, p: &Params) -> ZramTiming {
        let (read_mean_ns, read_p99_ns, ratio_permille, compress_ns) = match self {
            Self::Lz4 => (
                p.zram_lz4_read_ns,
                p.zram_lz4_read_p99_ns,
                p.zram_lz4_ratio_permille,
                p.zram_lz4_compress_ns,
            ),
            Self::LzoRle => (
                p.zram_lzo_rle_read_ns,
                p.zram_lzo_rle_read_p99_ns,
                p.zram_lzo_rle_ratio_permille,
                p.zram_lzo_rle_compress_ns,
            ),
            Self::Lzo => (
                p.zram_lzo_read_ns,
                p.zram_lzo_read_p99_ns,
                p.zram_lzo_ratio_permille,
                p.zram_lzo_compress_ns,
            ),
            Self::Zstd => (
                p.zram_zstd_read_ns,
                p.zram_zstd_read_p99_ns,
                p.zram_zstd_ratio_permille,
                p.zram_zstd_compress_ns,
            ),
        };
        ZramTiming {
            read_mean_ns,
            read_p99_ns,
            ratio_permille,
            compress_ns,
            huge_class_bytes: p.zram_huge_class_bytes,
            pool_overhead_permille: p.zram_pool_overhead_permille,
        }
    }
}

/// No algorithm has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no zram algorithm is named `{0}`; the algorithms are lz4, lzo-rle, lzo, zstd")]
pub struct UnknownAlgorithm(pub String);

impl FromStr for ZramAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let found = Self::ALL.into_iter().find(|algo| algo.name() == name);
        found.ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

/// What a page costs with one algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZramTiming {
    /// Mean time to read a page, ns.
    pub read_mean_ns: u64,
    /// 99th percentile of it, ns.
    pub read_p99_ns: u64,
    /// Compression ratio of a compressible page, in thousandths.
    pub ratio_permille: u64,
    /// Time to compress a page, ns.
    pub compress_ns: u64,
    /// Compressed size from which a page is stored raw, bytes.
    pub huge_class_bytes: u64,
    /// Pool memory per stored byte, in thousandths.
    pub pool_overhead_permille: u64,
}

impl ZramTiming {
    /// The time to read a page, by a uniform draw: two pages in a hundred take the 99th
    /// percentile, the others what is left of the mean.
    #[must_use]
    pub fn read_ns(&self, draw: u64) -> u64 {
        if ((u128::from(draw) * 100) >> 64) < 2 {
            self.read_p99_ns
        } else {
            (self.read_mean_ns * 100).saturating_sub(self.read_p99_ns * 2) / 98
        }
    }

    /// Stored bytes of a page at a compression ratio in thousandths; the page is raw if it does
    /// not become smaller than the huge class.
    #[must_use]
    pub fn stored_bytes(&self, ratio_permille: u64) -> u64 {
        let compressed = PAGE_BYTES * 1000 / ratio_permille.max(1);
        if compressed >= self.huge_class_bytes.min(PAGE_BYTES) {
            PAGE_BYTES
        } else {
            compressed
        }
    }

    /// Pages of memory that the pool needs for this many stored bytes, rounded up.
    #[must_use]
    pub fn pool_pages(&self, stored_bytes: u64) -> u64 {
        (stored_bytes * self.pool_overhead_permille).div_ceil(1000 * PAGE_BYTES)
    }
}
