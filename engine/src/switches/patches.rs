//! The patches of the reclaim-loop series, version 5, and what each sets (`docs/rules/series.md`).
//!
//! Patches that are refactorings set nothing and are not listed. A new one is a line here and a function
//! in `rules/series.rs`; its preset `stepN` comes by itself.

use super::presets::{preset, Preset};
use super::Switches;

/// A patch of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Number in version 5.
    pub number: u8,
    /// Its subject, shortened.
    pub subject: &'static str,
    /// Its switches, and what it sets them to.
    pub set: &'static [(&'static str, &'static str)],
}

/// `PATCHES` and `STEPS` of: number, subject, what the preset up to it adds, switches.
macro_rules! series {
    ($($number:literal $subject:literal, $adds:literal, $($switch:ident = $value:literal),+;)*) => {
        /// The patches of version 5 that change behaviour, in order.
        pub const PATCHES: &[Patch] = &[$(Patch {
            number: $number,
            subject: $subject,
            set: &[$((stringify!($switch), $value)),+],
        },)*];

        /// A preset for each patch: base and the series up to it, to look at each alone.
        pub(super) const STEPS: &[Preset] = &[$(Preset {
            names: &[concat!("step", $number)],
            doc: concat!("base and the patches of the series up to ", $number, ": ", $adds),
            paper: None,
            build: || up_to($number),
        },)*];
    };
}

series! {
    4 "restructure reclaim loop", "restructured loop, fixed budget",
        scan_budget = "on", budget_floor = "v5", rotate_on_empty_budget = "on";
    5 "scan and count exact folios", "exact counts",
        exact_scan_count = "on", min_seq_flush = "both";
    6 "smaller batch", "smaller batch",
        smaller_batch = "on";
    7 "don't abort right after aging", "no abort after aging",
        no_abort_after_aging = "on";
    8 "drop swap-constrained check", "no swap check at isolation",
        isolate_swap_check = "never";
    9 "common dirty/writeback reactivation", "common dirty reactivation",
        common_dirty_reactivation = "on", isolate_clears_reclaim = "off";
    10 "simplify dirty writeback handling", "flushers woken in the loop",
        flush_in_loop = "on";
    14 "unify writeback statistics and throttling", "unified writeback throttling; the same as v5",
        unified_writeback_throttle = "on";
}

impl Patch {
    /// Names of its switches.
    pub fn switches(&self) -> impl Iterator<Item = &'static str> {
        self.set.iter().map(|&(switch, _)| switch)
    }
}

/// Base with every patch up to number `last`.
pub(super) fn up_to(last: u8) -> Switches {
    let mut s = preset("base").expect("a preset");
    for patch in PATCHES.iter().filter(|p| p.number <= last) {
        for (switch, value) in patch.set {
            s.set(switch, value)
                .expect("a switch and one of its values");
        }
    }
    s
}

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
    use super::*;

    /// Each step has the switches of its own patch on top of the step before, and nothing else.
    #[test]
    fn steps_are_cumulative() {
        let mut before = preset("base").unwrap();
        for patch in PATCHES {
            let step = preset(&format!("step{}", patch.number)).unwrap();
            let mut own: Vec<_> = patch.switches().collect();
            own.sort_unstable();
            let mut differing = before.differing(&step);
            differing.sort_unstable();
            assert_eq!(differing, own, "step{}", patch.number);
            before = step;
        }
        assert_eq!(before, preset("v5").unwrap());
    }

    /// The two posted versions, by what the review of the series says of their difference.
    #[test]
    fn version_2_differs_where_it_is_known_to() {
        let (v2, v5) = (preset("v2").unwrap(), preset("v5").unwrap());
        let mut differing = v2.differing(&v5);
        differing.sort_unstable();
        let known = [
            "budget_floor",
            "isolate_swap_check",
            "min_seq_flush",
            "rotate_on_empty_budget",
        ];
        assert_eq!(differing, known);
    }
}
