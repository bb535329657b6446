//! Sizes and scale of one engine.

use crate::batch::BATCH_MAX;
use crate::ids::Nanos;
use crate::memcg::MemcgError;

/// Zones a node can have.
pub const MAX_ZONES: usize = 4;

/// Values that a scaled-down run shrinks (`docs/reference/experiments.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Scale {
    /// Subtracted from the priority before list sizes are shifted by it: log2(1/s).
    pub shift: u8,
    /// Folios of one large eviction batch: 4096 at full size. At least 1.
    pub max_lru_batch: u64,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            shift: 0,
            max_lru_batch: 4096,
        }
    }
}

impl Scale {
    /// The scale 1/`denominator`: the shift loses log2, the large batch shrinks with the square
    /// root, never under 64.
    pub fn one_over(denominator: u64) -> Self {
        let d = denominator.max(1);
        Self {
            shift: d.ilog2() as u8,
            max_lru_batch: (4096.0 / (d as f64).sqrt()).floor().max(64.0) as u64,
        }
    }

    /// `size >> priority`, with the priority relaxed by the scale.
    #[inline]
    pub fn scan_share(&self, size: u64, priority: u8) -> u64 {
        size >> priority.saturating_sub(self.shift)
    }
}

/// Construction parameters of [`crate::Engine`].
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Config {
    /// NUMA nodes, 1..=64.
    pub nr_nodes: u32,
    /// CPUs, 1..=65535: one set of folio batches each.
    pub nr_cpus: u32,
    /// Zones a node has, 1..=4; folios name theirs.
    pub nr_zones: u8,
    /// Swappiness where a memcg sets none: 0..=200.
    pub swappiness: u16,
    /// Timer ticks a second, at least 1: waits of one tick last 1/hz.
    pub hz: u32,
    /// Folios a batch holds, 1..=31: those of each CPU, and those that reclaim frees together.
    pub batch_size: usize,
    /// Bytes of a cache line, for the density test of page-table walks.
    pub cacheline: u64,
    /// cgroup v2 semantics: reclaim of a limit throttles like global reclaim.
    pub cgroup_v2: bool,
    /// Unclaimed protection of a parent is shared by its children.
    pub recursive_protection: bool,
    /// Nanoseconds between folds of memcg statistics, at least 1.
    pub fold_interval: Nanos,
    /// Time of the first fold.
    pub fold_phase: Nanos,
    /// Swap devices finish their I/O inside the call (zram, ramdisk).
    pub swap_synchronous: bool,
    /// Reclaim lets others run between any two folios of a list. Off: a list is one piece of work,
    /// but where dirty folios wait for a flush.
    pub resched_in_lists: bool,
    /// How much smaller than the real one this machine is.
    pub scale: Scale,
    /// Denominator of the scale of time: intervals that switches give at full scale are divided by
    /// it. At least 1.
    pub time_scale: u64,
    /// Seed of the random bins of the memcg LRU.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nr_nodes: 1,
            nr_cpus: 1,
            nr_zones: 1,
            swappiness: 60,
            hz: 1000,
            batch_size: BATCH_MAX,
            cacheline: 64,
            cgroup_v2: true,
            recursive_protection: true,
            fold_interval: 2_000_000_000,
            fold_phase: 2_000_000_000,
            swap_synchronous: true,
            resched_in_lists: false,
            scale: Scale::default(),
            time_scale: 1,
            seed: 1,
        }
    }
}

impl Config {
    /// Refuses values out of the ranges that the fields name. (Nodes, and the rest of what the memcg tree is made
    /// with, are checked there.)
    ///
    /// # Errors
    /// The first such field, and its range.
    pub(crate) fn check(&self) -> Result<(), MemcgError> {
        let positive = 1..=u64::MAX;
        let fields = [
            (
                "nr_cpus",
                self.nr_cpus.into(),
                1..=u16::MAX.into(),
                "1 to 65535",
            ),
            (
                "nr_zones",
                self.nr_zones.into(),
                1..=MAX_ZONES as u64,
                "1 to 4",
            ),
            ("swappiness", self.swappiness.into(), 0..=200, "0 to 200"),
            ("hz", self.hz.into(), positive.clone(), "1 or more"),
            (
                "batch_size",
                self.batch_size as u64,
                1..=BATCH_MAX as u64,
                "1 to 31",
            ),
            (
                "scale.max_lru_batch",
                self.scale.max_lru_batch,
                positive.clone(),
                "1 or more",
            ),
            ("time_scale", self.time_scale, positive, "1 or more"),
        ];
        for (field, value, range, allowed) in fields {
            if !range.contains(&value) {
                return Err(MemcgError::Config {
                    field,
                    value,
                    allowed,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{presets::preset, Engine};

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let tries: [(&str, &[u64], &[u64]); 9] = [
            ("nr_nodes", &[0, 65], &[1, 64]),
            ("nr_cpus", &[0, 65_536], &[1, 65_535]),
            ("nr_zones", &[0, 5], &[1, 4]),
            ("swappiness", &[201], &[0, 200]),
            ("hz", &[0], &[1]),
            ("batch_size", &[0, 32], &[1, 31]),
            ("fold_interval", &[0], &[1]),
            ("scale.max_lru_batch", &[0], &[1]),
            ("time_scale", &[0], &[1]),
        ];
        for (field, bad, good) in tries {
            for (&n, refused) in bad
                .iter()
                .map(|n| (n, true))
                .chain(good.iter().map(|n| (n, false)))
            {
                let mut cfg = Config::default();
                match field {
                    "nr_nodes" => cfg.nr_nodes = n as u32,
                    "nr_cpus" => cfg.nr_cpus = n as u32,
                    "nr_zones" => cfg.nr_zones = n as u8,
                    "swappiness" => cfg.swappiness = n as u16,
                    "hz" => cfg.hz = n as u32,
                    "batch_size" => cfg.batch_size = n as usize,
                    "fold_interval" => cfg.fold_interval = n,
                    "scale.max_lru_batch" => cfg.scale.max_lru_batch = n,
                    "time_scale" => cfg.time_scale = n,
                    _ => unreachable!(),
                }
                let made = Engine::new(cfg, preset("v5").unwrap()).map(drop);
                let error = made.as_ref().err().map(ToString::to_string);
                assert_eq!(made.is_err(), refused, "{field} = {n}: {error:?}");
                if let Some(error) = error {
                    assert!(
                        error.starts_with(&format!("configuration: {field} is {n}; use ")),
                        "{error}"
                    );
                }
            }
        }
    }
}
