//! Memory accounting of a compressed swap device (`docs/rules/machine.md#devices`, "zram"). Only sizes are
//! here: what compression costs in time belongs to the machine.

use crate::ids::{Pages, PAGE_SIZE};
use crate::splitmix::splitmix64;
use serde::Serialize;

/// A compression algorithm with its published ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ZramAlgorithm {
    /// Name as users write it.
    pub name: &'static str,
    /// Compression ratio of an ordinary page, times 100.
    pub ratio_percent: u64,
}

/// The algorithms of the published table.
pub const ALGORITHMS: [ZramAlgorithm; 4] = [
    ZramAlgorithm {
        name: "lz4",
        ratio_percent: 263,
    },
    ZramAlgorithm {
        name: "lzo",
        ratio_percent: 277,
    },
    ZramAlgorithm {
        name: "lzo-rle",
        ratio_percent: 274,
    },
    ZramAlgorithm {
        name: "zstd",
        ratio_percent: 337,
    },
];

/// What a page is to the compressor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageClass {
    /// All words are equal: kept as one word.
    SameFilled,
    /// Compresses at the algorithm's ratio.
    Compressible,
    /// Does not compress: stored as it is.
    Incompressible,
}

/// Mix of a workload's pages, parts per million; the rest compresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PageMix {
    /// Same-filled pages.
    pub same_filled_ppm: u32,
    /// Share of pages that do not compress, millionths.
    pub incompressible_ppm: u32,
}

impl PageMix {
    /// Class of the page named by `key`: the same for the same seed and key, always.
    pub fn class(self, seed: u64, key: u64) -> PageClass {
        let draw = splitmix64(seed ^ splitmix64(key)) % 1_000_000;
        let same = u64::from(self.same_filled_ppm);
        if draw < same {
            PageClass::SameFilled
        } else if draw < same + u64::from(self.incompressible_ppm) {
            PageClass::Incompressible
        } else {
            PageClass::Compressible
        }
    }
}

/// Settings of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ZramParams {
    /// What compresses: decides ratio and time.
    pub algorithm: ZramAlgorithm,
    /// Mix of the pages written.
    pub mix: PageMix,
    /// Seed of the class of each page.
    pub seed: u64,
    /// Compressed sizes from here on are kept raw, bytes (about 3/4 of a page).
    pub huge_class: u64,
    /// Pool bytes per stored byte, in percent: rounding to size classes (105).
    pub overhead_percent: u64,
    /// Most pages of the pool; `None` = no limit.
    pub limit: Option<Pages>,
}

/// A device that cannot be, or cannot take a page.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZramError {
    /// Unknown algorithm.
    #[error("zram algorithm `{0}` is not known: use lz4, lzo, lzo-rle or zstd")]
    Algorithm(String),
    /// The mix is more than all pages.
    #[error("zram page mix is {0} parts per million: same-filled and incompressible pages together must not exceed 1000000")]
    Mix(u64),
    /// A ratio or overhead below 100 %.
    #[error("zram {name} is {value} %: give at least 100 %")]
    Percent {
        /// Name of the setting.
        name: &'static str,
        /// What it was set to.
        value: u64,
    },
    /// The pool is full: the write fails and the page stays where it was.
    #[error(
        "zram pool would need {needed} pages, its limit is {limit}: raise the limit or swap less"
    )]
    PoolFull {
        /// Pages it would have.
        needed: Pages,
        /// Most pages the pool may use.
        limit: Pages,
    },
    /// A slot outside of the device.
    #[error("zram slot {slot} is outside of the device of {slots} slots")]
    Slot {
        /// The slot that was used wrongly.
        slot: u32,
        /// Size of the device.
        slots: u32,
    },
}

impl ZramParams {
    /// Settings of the named algorithm, everything compressible, no limit.
    pub fn new(algorithm: &str) -> Result<Self, ZramError> {
        let found = ALGORITHMS.into_iter().find(|a| a.name == algorithm);
        let algorithm = found.ok_or_else(|| ZramError::Algorithm(algorithm.to_owned()))?;
        Ok(Self {
            algorithm,
            mix: PageMix::default(),
            seed: 0,
            huge_class: 3264,
            overhead_percent: 105,
            limit: None,
        })
    }

    fn validate(&self) -> Result<(), ZramError> {
        let mix = u64::from(self.mix.same_filled_ppm) + u64::from(self.mix.incompressible_ppm);
        if mix > 1_000_000 {
            return Err(ZramError::Mix(mix));
        }
        let percents = [
            ("ratio_percent", self.algorithm.ratio_percent),
            ("overhead_percent", self.overhead_percent),
        ];
        match percents.into_iter().find(|&(_, value)| value < 100) {
            Some((name, value)) => Err(ZramError::Percent { name, value }),
            None => Ok(()),
        }
    }

    /// Bytes a page of the class takes in the pool, before rounding to size classes.
    pub fn stored_bytes(&self, class: PageClass) -> u64 {
        match class {
            PageClass::SameFilled => 0,
            PageClass::Incompressible => PAGE_SIZE,
            PageClass::Compressible => match PAGE_SIZE * 100 / self.algorithm.ratio_percent {
                bytes if bytes >= self.huge_class => PAGE_SIZE,
                bytes => bytes,
            },
        }
    }
}

/// A compressed swap device: which class of page each slot holds, and the size of its pool. The
/// pool is taken from RAM and charged to nobody.
#[derive(Clone, Debug)]
pub struct Zram {
    params: ZramParams,
    slots: Vec<Option<PageClass>>,
    bytes: u64,
    stored: Pages,
}

impl Zram {
    /// An empty device of `slots` slots.
    pub fn new(params: ZramParams, slots: u32) -> Result<Self, ZramError> {
        params.validate()?;
        Ok(Self {
            params,
            slots: vec![None; slots as usize],
            bytes: 0,
            stored: 0,
        })
    }

    /// Size, algorithm and mix of contents.
    pub fn params(&self) -> &ZramParams {
        &self.params
    }

    /// Stores the page named by `key` (its contents decide its class, so the key should change with
    /// them); an earlier page of the slot is replaced. On error the slot is as before.
    pub fn store(&mut self, slot: u32, key: u64) -> Result<PageClass, ZramError> {
        let class = self.params.mix.class(self.params.seed, key);
        self.store_as(slot, class)?;
        Ok(class)
    }

    /// Stores a page of a known class.
    pub fn store_as(&mut self, slot: u32, class: PageClass) -> Result<(), ZramError> {
        let slots = self.slots.len() as u32;
        let old = *self
            .slots
            .get(slot as usize)
            .ok_or(ZramError::Slot { slot, slots })?;
        let freed = old.map_or(0, |c| self.params.stored_bytes(c));
        let bytes = self.bytes - freed + self.params.stored_bytes(class);
        let needed = self.pages_of(bytes);
        if let Some(limit) = self.params.limit {
            if needed > limit && bytes > self.bytes {
                return Err(ZramError::PoolFull { needed, limit });
            }
        }
        self.bytes = bytes;
        self.stored += u64::from(old.is_none());
        self.slots[slot as usize] = Some(class);
        Ok(())
    }

    /// Class of the page in a slot: whether reading it decompresses, copies or fills.
    pub fn class(&self, slot: u32) -> Option<PageClass> {
        self.slots.get(slot as usize).copied().flatten()
    }

    /// Frees a slot; true if it held a page.
    pub fn free(&mut self, slot: u32) -> bool {
        let Some(class) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return false;
        };
        self.bytes -= self.params.stored_bytes(class);
        self.stored -= 1;
        true
    }

    /// Stored bytes before rounding to size classes.
    pub fn stored_bytes(&self) -> u64 {
        self.bytes
    }

    /// Pages stored, those of equal words included.
    pub fn stored_pages(&self) -> Pages {
        self.stored
    }

    /// Pool bytes with rounding to size classes.
    pub fn pool_bytes(&self) -> u64 {
        (u128::from(self.bytes) * u128::from(self.params.overhead_percent) / 100) as u64
    }

    /// RAM pages the pool takes now.
    pub fn pool_pages(&self) -> Pages {
        self.pages_of(self.bytes)
    }

    fn pages_of(&self, bytes: u64) -> Pages {
        (u128::from(bytes) * u128::from(self.params.overhead_percent))
            .div_ceil(100 * u128::from(PAGE_SIZE)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn machine_c4_pool() {
        let mut z = Zram::new(ZramParams::new("lz4").unwrap(), 1000).unwrap();
        for slot in 0..1000 {
            let class = match slot {
                0..100 => PageClass::SameFilled,
                100..300 => PageClass::Incompressible,
                _ => PageClass::Compressible,
            };
            z.store_as(slot, class).unwrap();
        }
        assert_eq!(z.stored_bytes(), 1_909_100);
        assert_eq!(z.pool_bytes(), 2_004_555);
        assert_eq!(
            (z.pool_pages(), z.stored_pages() - z.pool_pages()),
            (490, 510)
        );
        (0..1000).for_each(|s| assert!(z.free(s)));
        assert_eq!((z.pool_pages(), z.stored_pages(), z.free(0)), (0, 0, false));
    }

    #[test]
    fn full_pool_refuses() {
        let params = ZramParams {
            limit: Some(2),
            ..ZramParams::new("zstd").unwrap()
        };
        let mut z = Zram::new(params, 10).unwrap();
        z.store_as(0, PageClass::Incompressible).unwrap();
        let full = z.store_as(1, PageClass::Incompressible).unwrap_err();
        assert_eq!(
            full,
            ZramError::PoolFull {
                needed: 3,
                limit: 2
            }
        );
        assert_eq!((z.class(1), z.stored_pages()), (None, 1));
        z.store_as(1, PageClass::SameFilled).unwrap();
        assert!(matches!(
            z.store_as(10, PageClass::SameFilled),
            Err(ZramError::Slot { .. })
        ));
    }

    #[test]
    fn settings_are_checked() {
        assert!(ZramParams::new("lz5")
            .unwrap_err()
            .to_string()
            .contains("`lz5`"));
        let mix = PageMix {
            same_filled_ppm: 600_000,
            incompressible_ppm: 600_000,
        };
        let params = ZramParams {
            mix,
            ..ZramParams::new("lzo").unwrap()
        };
        assert_eq!(Zram::new(params, 1).unwrap_err(), ZramError::Mix(1_200_000));
        // A poor ratio reaches the huge class and is kept raw.
        let mut poor = ZramParams::new("lzo-rle").unwrap();
        poor.algorithm.ratio_percent = 125;
        assert_eq!(poor.stored_bytes(PageClass::Compressible), 4096);
    }

    #[test]
    fn classes_follow_the_mix() {
        let mix = PageMix {
            same_filled_ppm: 100_000,
            incompressible_ppm: 200_000,
        };
        let count = |class| (0..100_000).filter(|&k| mix.class(42, k) == class).count();
        assert!((9_500..10_500).contains(&count(PageClass::SameFilled)));
        assert!((19_300..20_700).contains(&count(PageClass::Incompressible)));
        let other = (0..1000)
            .filter(|&k| mix.class(42, k) != mix.class(43, k))
            .count();
        assert!(other > 100, "the seed matters");
    }

    proptest! {
        #[test]
        fn the_pool_is_the_sum_of_its_pages(ops in prop::collection::vec((0u32..64, any::<u64>()), 0..300)) {
            let mix = PageMix { same_filled_ppm: 200_000, incompressible_ppm: 300_000 };
            let params = ZramParams { mix, limit: Some(30), ..ZramParams::new("lz4").unwrap() };
            let mut z = Zram::new(params.clone(), 64).unwrap();
            for (slot, key) in ops {
                if key % 4 == 0 {
                    z.free(slot);
                } else {
                    let _full = z.store(slot, key);
                }
                let classes = (0..64).filter_map(|s| z.class(s));
                let bytes: u64 = classes.clone().map(|c| params.stored_bytes(c)).sum();
                prop_assert_eq!((z.stored_bytes(), z.stored_pages()), (bytes, classes.count() as u64));
                prop_assert!(z.pool_pages() <= 30);
            }
        }
    }
}
