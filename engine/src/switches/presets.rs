//! Named sets of switches (`docs/rules/series.md`, `docs/rules/kernels.md`).

use super::patches::{up_to, STEPS};
use super::{
    BudgetFloor, DirtyFlush, ExecutableJoins, HeatLevelsBy, HeatRule, MemcgHeat, MinSeqFlush,
    PolicyKind, RecentTest, RefaultKind, RefsModel, ShadowNodeLimit, SwapCheck, SwitchError,
    Switches,
};
use crate::policies::{list_policies, ListKind};
use coldset_nearest::did_you_mean;

/// A preset: its names (the first is canonical), what it stands for, and how it is made.
#[derive(Clone, Copy)]
pub struct Preset {
    /// Canonical name, then aliases.
    pub names: &'static [&'static str],
    /// One line for `coldset lab list`.
    pub doc: &'static str,
    /// Authors, venue and year, for a policy of the literature.
    pub paper: Option<&'static str>,
    pub(super) build: fn() -> Switches,
}

impl Preset {
    /// What it is and, for a policy of the literature, where it is from.
    pub fn what(&self) -> String {
        match self.paper {
            Some(paper) => format!("{} ({paper})", self.doc),
            None => self.doc.into(),
        }
    }
}

/// Every preset, in the order in which they are listed.
pub const PRESETS: &[Preset] = &joined();

/// A preset for each list policy.
macro_rules! of_lists {
    ($($module:ident $type:ident $name:literal $doc:literal $paper:literal;)*) => {
        [$(Preset {
            names: &[$name],
            doc: $doc,
            paper: Some($paper),
            build: || list(ListKind::$type),
        },)*]
    };
}
const LISTS: [Preset; ListKind::ALL.len()] = list_policies!(of_lists);

const ALL: usize = KERNELS.len() + STEPS.len() + LISTS.len();

/// [`KERNELS`], [`STEPS`] and [`LISTS`].
const fn joined() -> [Preset; ALL] {
    let mut all = [KERNELS[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < KERNELS.len() {
            KERNELS[at]
        } else if at < KERNELS.len() + STEPS.len() {
            STEPS[at - KERNELS.len()]
        } else {
            LISTS[at - KERNELS.len() - STEPS.len()]
        };
        at += 1;
    }
    all
}

/// The policies of kernels.
const KERNELS: &[Preset] = &[
    Preset {
        names: &["classic"],
        doc: "active and inactive lists",
        paper: None,
        build: classic,
    },
    Preset {
        names: &["v612", "mglru-6.12"],
        doc: "multi-gen LRU of late stable 6.12 kernels",
        paper: None,
        build: v612,
    },
    Preset {
        names: &["v612-early"],
        doc: "multi-gen LRU of the first 6.12 kernels",
        paper: None,
        build: v612_early,
    },
    Preset {
        names: &["v618"],
        doc: "multi-gen LRU of 6.14 to 6.19: base, zram past the swap cache",
        paper: None,
        build: v618,
    },
    Preset {
        names: &["base", "mglru-7.0", "gen-before"],
        doc: "multi-gen LRU before the reclaim-loop series (7.0 and 7.1)",
        paper: None,
        build: base,
    },
    Preset {
        names: &["v2", "series-v2"],
        doc: "the series as posted in version 2 (12 patches)",
        paper: None,
        build: v2,
    },
    Preset {
        names: &["v5", "series-v5", "gen-after"],
        doc: "the series as posted in version 5 (14 patches)",
        paper: None,
        build: v5,
    },
    Preset {
        names: &["merged"],
        doc: "the series as merged (7.2 development tree)",
        paper: None,
        build: merged,
    },
    Preset {
        names: &["v72"],
        doc: "multi-gen LRU of 7.2: the series as merged, and what else changed",
        paper: None,
        build: v72,
    },
    Preset {
        names: &["v73", "latest"],
        doc: "multi-gen LRU of 7.3: executable files join the working set at their first use, stores that swap in drain nothing",
        paper: None,
        build: v73,
    },
    Preset {
        names: &["android_backport", "gen-faulty"],
        doc: "the series ported to a 6.12 phone kernel with five faults (docs/rules/faults.md)",
        paper: None,
        build: android_backport,
    },
];

/// A change that goes with any preset, written behind it: `base+tlbbatch` (`docs/rules/kernels.md`).
pub struct Suffix {
    /// Its name, without the plus.
    pub name: &'static str,
    /// One line for `coldset lab list`.
    pub doc: &'static str,
    /// The switches it sets, and their values.
    pub set: &'static [(&'static str, &'static str)],
}

/// Every suffix, in the order in which they are listed.
pub const SUFFIXES: &[Suffix] = &[
    Suffix {
        name: "tlbbatch",
        doc: "dirty folios are written out in batches of 31 that share one TLB flush",
        set: &[("batched_dirty_flush", "v2")],
    },
    Suffix {
        name: "heat",
        doc: "heat levels of memcgs as posted, instead of the memcg LRU",
        set: &[("memcg_heat", "posted")],
    },
    Suffix {
        name: "wheel",
        doc: "lazy decay wheel over memcgs, instead of the memcg LRU",
        set: &[("memcg_heat", "wheel")],
    },
    Suffix {
        name: "deadfilter",
        doc: "freed folios are dropped when their add batch is drained",
        set: &[("drop_dead_on_drain", "on")],
    },
];

/// The suffix called `name`.
pub fn suffix(name: &str) -> Option<&'static Suffix> {
    SUFFIXES.iter().find(|s| s.name == name)
}

/// The preset called `name`, or any of its aliases, with the suffixes behind it.
///
/// # Errors
/// Unknown name; the message names the nearest one.
pub fn preset(name: &str) -> Result<Switches, SwitchError> {
    let unknown = |names: &mut dyn Iterator<Item = &'static str>, name: &str| SwitchError::Preset {
        name: name.into(),
        hint: did_you_mean(name, names),
    };
    let mut parts = name.split('+');
    let plain = parts.next().unwrap_or_default();
    let found = PRESETS.iter().find(|p| p.names.contains(&plain));
    let mut switches = found.map(|p| (p.build)()).ok_or_else(|| {
        let mut names = PRESETS.iter().flat_map(|p| p.names.iter().copied());
        unknown(&mut names, plain)
    })?;
    for part in parts {
        let found = suffix(part);
        let found = found.ok_or_else(|| unknown(&mut SUFFIXES.iter().map(|s| s.name), part))?;
        for (switch, value) in found.set {
            switches.set(switch, value)?;
        }
    }
    Ok(switches)
}

/// 7.0 and 7.1, before the series.
fn base() -> Switches {
    Switches {
        policy: PolicyKind::MultiGen,
        refs_model: RefsModel::V614,
        entry_by_reference: false,
        fault_marks_accessed: false,
        second_use_activates: false,
        restore_only_activate: false,
        walk_on_lists: false,
        executable_joins: ExecutableJoins::Never,
        scan_budget: false,
        budget_floor: BudgetFloor::None,
        rotate_on_empty_budget: false,
        exact_scan_count: false,
        min_seq_flush: MinSeqFlush::After,
        smaller_batch: false,
        no_abort_after_aging: false,
        isolate_swap_check: SwapCheck::DirtyOrAnon,
        common_dirty_reactivation: false,
        isolate_clears_reclaim: true,
        unevictable_generic: false,
        flush_in_loop: false,
        mut_budget_clobber: false,
        mut_no_decrement: false,
        mut_no_defprio_return: false,
        mut_no_protection: false,
        mut_counters_dropped: false,
        mut_aging_hook: false,
        unified_writeback_throttle: false,
        proportional_protection: true,
        strict_type_fallback: false,
        anon_only_strict: false,
        memcg_abort_on_target: false,
        retry_skips_writeback: false,
        recent_test: RecentTest::Window,
        charge_stocks: 1,
        shadow_nodes: ShadowNodeLimit::Lists,
        page_table_walk: true,
        file_writeback_from_reclaim: false,
        swap_cache_always: true,
        kswapd_stays_down: false,
        counters_72: false,
        min_ttl_ms: 0,
        memcg_lru: true,
        batched_dirty_flush: DirtyFlush::Off,
        memcg_heat: MemcgHeat::Off,
        heat_interval_ms: 1000,
        heat_warm: 4,
        heat_hot: 8,
        heat_max: 12,
        heat_rule: HeatRule::Relative,
        heat_levels: HeatLevelsBy::Heat,
        heat_refaults: RefaultKind::Activate,
        drop_dead_on_drain: false,
        stale_stats: true,
    }
}

fn classic() -> Switches {
    Switches {
        policy: PolicyKind::Classic,
        ..base()
    }
}

fn list(kind: ListKind) -> Switches {
    Switches {
        policy: PolicyKind::List(kind),
        ..base()
    }
}

/// Since 6.16 (`docs/rules/memcg.md#charging`).
const CHARGE_STOCKS: u64 = 7;

/// 6.14 to 6.19.
fn v618() -> Switches {
    Switches {
        swap_cache_always: false,
        charge_stocks: CHARGE_STOCKS,
        ..base()
    }
}

fn v612_early() -> Switches {
    Switches {
        refs_model: RefsModel::V612,
        recent_test: RecentTest::MinSeq,
        proportional_protection: false,
        file_writeback_from_reclaim: true,
        charge_stocks: 1,
        ..v618()
    }
}

/// `docs/rules/kernels.md`: the stable series took parts of patch 9.
fn v612() -> Switches {
    Switches {
        common_dirty_reactivation: true,
        isolate_clears_reclaim: false,
        unevictable_generic: true,
        isolate_swap_check: SwapCheck::DirtyAnon,
        ..v612_early()
    }
}

fn v2() -> Switches {
    Switches {
        scan_budget: true,
        budget_floor: BudgetFloor::V2,
        exact_scan_count: true,
        min_seq_flush: MinSeqFlush::Before,
        smaller_batch: true,
        no_abort_after_aging: true,
        common_dirty_reactivation: true,
        isolate_clears_reclaim: false,
        flush_in_loop: true,
        unified_writeback_throttle: true,
        ..base()
    }
}

/// Version 5: every patch.
fn v5() -> Switches {
    up_to(u8::MAX)
}

fn merged() -> Switches {
    Switches {
        executable_joins: ExecutableJoins::ReverseMap,
        budget_floor: BudgetFloor::None,
        rotate_on_empty_budget: false,
        unevictable_generic: true,
        strict_type_fallback: true,
        anon_only_strict: true,
        memcg_abort_on_target: true,
        retry_skips_writeback: true,
        counters_72: true,
        ..v5()
    }
}

/// Of what was merged, 7.2 has all but the rules for executable files and for requests for anonymous memory
/// only.
fn v72() -> Switches {
    Switches {
        executable_joins: ExecutableJoins::Never,
        anon_only_strict: false,
        entry_by_reference: true,
        fault_marks_accessed: true,
        second_use_activates: true,
        restore_only_activate: true,
        walk_on_lists: true,
        charge_stocks: CHARGE_STOCKS,
        kswapd_stays_down: true,
        shadow_nodes: ShadowNodeLimit::Slab,
        ..merged()
    }
}

fn v73() -> Switches {
    Switches {
        executable_joins: ExecutableJoins::Always,
        anon_only_strict: true,
        // Measured (`docs/rules/kernels.md`): stores that swap in come to what loads come to.
        swap_cache_always: false,
        shadow_nodes: ShadowNodeLimit::Lists,
        ..v72()
    }
}

/// `docs/rules/series.md`, `docs/rules/faults.md`: v5 on a base without proportional protection that still writes single
/// file folios; the vendor's hook was off in their test.
fn android_backport() -> Switches {
    Switches {
        proportional_protection: false,
        file_writeback_from_reclaim: true,
        swap_cache_always: false,
        mut_budget_clobber: true,
        mut_no_decrement: true,
        mut_no_defprio_return: true,
        mut_no_protection: true,
        mut_counters_dropped: true,
        ..v5()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_resolve() {
        let mut names: Vec<_> = PRESETS.iter().flat_map(|p| p.names).collect();
        for n in &names {
            preset(n).unwrap();
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(preset("v6").is_err());
    }

    #[test]
    fn suffixes_are_unique_and_change_every_preset() {
        for (i, s) in SUFFIXES.iter().enumerate() {
            assert!(SUFFIXES[..i].iter().all(|t| t.name != s.name));
            for p in PRESETS {
                let before = preset(p.names[0]).unwrap();
                let mut after = before.clone();
                for (name, value) in suffix(s.name).unwrap().set {
                    after.set(name, value).unwrap();
                }
                assert_ne!(after, before, "{} on {}", s.name, p.names[0]);
            }
        }
        assert!(suffix("tlbbatches").is_none());
    }
}
