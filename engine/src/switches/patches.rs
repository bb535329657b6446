//! Which patch of the series carries which switches (`mglru.md` 12.1).
//!
//! Patches that are refactorings carry none and are not listed.

use super::Switches;

/// A patch of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Number in version 5.
    pub number: u8,
    /// Short subject.
    pub subject: &'static str,
    /// Its switches.
    pub switches: &'static [&'static str],
}

/// The patches of version 5 that change behaviour, in order.
pub const PATCHES: &[Patch] = &[
    Patch {
        number: 4,
        subject: "restructure reclaim loop",
        switches: &["scan_budget", "budget_floor", "rotate_on_empty_budget"],
    },
    Patch {
        number: 5,
        subject: "scan and count exact folios",
        switches: &["exact_scan_count", "min_seq_flush"],
    },
    Patch {
        number: 6,
        subject: "smaller batch",
        switches: &["smaller_batch"],
    },
    Patch {
        number: 7,
        subject: "don't abort right after aging",
        switches: &["no_abort_after_aging"],
    },
    Patch {
        number: 8,
        subject: "drop swap-constrained check",
        switches: &["isolate_swap_check"],
    },
    Patch {
        number: 9,
        subject: "common dirty/writeback reactivation",
        switches: &["common_dirty_reactivation", "isolate_clears_reclaim"],
    },
    Patch {
        number: 10,
        subject: "simplify dirty writeback handling",
        switches: &["flush_in_loop"],
    },
    Patch {
        number: 14,
        subject: "unify writeback statistics and throttling",
        switches: &["unified_writeback_throttle"],
    },
];

impl Switches {
    /// Takes the values of `names` from `other`.
    ///
    /// # Panics
    /// If a name is no switch.
    pub fn take(&mut self, names: &[&str], other: &Self) {
        for info in other.describe() {
            if names.contains(&info.name) {
                self.set(info.name, &info.value)
                    .expect("a switch and its own text");
            }
        }
    }

    /// Names of the switches in which two sets differ, in the order of declaration.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let (a, b) = (self.describe(), other.describe());
        a.iter()
            .zip(&b)
            .filter(|(a, b)| a.value != b.value)
            .map(|(a, _)| a.name)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::preset;
    use super::*;

    #[test]
    fn the_patches_together_are_the_series() {
        let (base, v5) = (preset("base").unwrap(), preset("v5").unwrap());
        let mut built = base.clone();
        for patch in PATCHES {
            let before = built.clone();
            built.take(patch.switches, &v5);
            assert_ne!(built, before, "patch {} changes nothing", patch.number);
        }
        assert_eq!(built, v5);
        let mut covered: Vec<_> = PATCHES.iter().flat_map(|p| p.switches).copied().collect();
        let mut differing = base.differing(&v5);
        covered.sort_unstable();
        differing.sort_unstable();
        assert_eq!(covered, differing);
    }
}
