//! Named sets of switches (`mglru.md` 12.4, `workloads.md` 1.6).

use super::patches::PATCHES;
use super::{
    nearest, BudgetFloor, MinSeqFlush, PolicyKind, RecentTest, RefsModel, SwapCheck, SwitchError,
    Switches,
};

/// A preset: its names (the first is canonical), what it stands for, and how it is made.
pub struct Preset {
    /// Canonical name, then aliases.
    pub names: &'static [&'static str],
    /// One line for `coldset lab list`.
    pub doc: &'static str,
    build: fn() -> Switches,
}

/// Every preset, in the order in which they are listed.
pub const PRESETS: &[Preset] = &[
    Preset {
        names: &["classic"],
        doc: "active and inactive lists",
        build: classic,
    },
    Preset {
        names: &["v612", "mglru-6.12"],
        doc: "multi-gen LRU of late stable 6.12 kernels",
        build: v612,
    },
    Preset {
        names: &["v612-early"],
        doc: "multi-gen LRU of the first 6.12 kernels",
        build: v612_early,
    },
    Preset {
        names: &["base", "mglru-7.0", "gen-before"],
        doc: "multi-gen LRU before the reclaim-loop series (6.14 to 7.0)",
        build: base,
    },
    Preset {
        names: &["v2", "series-v2"],
        doc: "the series as posted in version 2 (12 patches)",
        build: v2,
    },
    Preset {
        names: &["v5", "series-v5", "gen-after"],
        doc: "the series as posted in version 5 (14 patches)",
        build: v5,
    },
    Preset {
        names: &["merged"],
        doc: "the series as merged (7.2 development tree)",
        build: merged,
    },
    Preset {
        names: &["step4"],
        doc: "base and the patches of the series up to 4: restructured loop, fixed budget",
        build: || up_to(4),
    },
    Preset {
        names: &["step5"],
        doc: "base and the patches of the series up to 5: exact counts",
        build: || up_to(5),
    },
    Preset {
        names: &["step6"],
        doc: "base and the patches of the series up to 6: smaller batch",
        build: || up_to(6),
    },
    Preset {
        names: &["step7"],
        doc: "base and the patches of the series up to 7: no abort after aging",
        build: || up_to(7),
    },
    Preset {
        names: &["step8"],
        doc: "base and the patches of the series up to 8: no swap check at isolation",
        build: || up_to(8),
    },
    Preset {
        names: &["step9"],
        doc: "base and the patches of the series up to 9: common dirty reactivation",
        build: || up_to(9),
    },
    Preset {
        names: &["step10"],
        doc: "base and the patches of the series up to 10: flushers woken in the loop",
        build: || up_to(10),
    },
    Preset {
        names: &["step14"],
        doc: "base and the patches of the series up to 14: unified writeback throttling; the same as v5",
        build: || up_to(14),
    },
    Preset {
        names: &["fifo"],
        doc: "one list, no second chance: the floor to compare with",
        build: fifo,
    },
];

/// The preset called `name`, or any of its aliases.
///
/// # Errors
/// Unknown name; the message names the nearest one.
pub fn preset(name: &str) -> Result<Switches, SwitchError> {
    PRESETS
        .iter()
        .find(|p| p.names.contains(&name))
        .map(|p| (p.build)())
        .ok_or_else(|| SwitchError::Unknown {
            name: name.into(),
            nearest: nearest(name, PRESETS.iter().flat_map(|p| p.names.iter().copied())),
        })
}

/// 6.14 to 7.0, before the series.
fn base() -> Switches {
    Switches {
        policy: PolicyKind::MultiGen,
        refs_model: RefsModel::V614,
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
        unified_writeback_throttle: false,
        proportional_protection: true,
        strict_type_fallback: false,
        memcg_abort_on_target: false,
        retry_skips_writeback: false,
        recent_test: RecentTest::Window,
        page_table_walk: true,
        walk_resched_slots: 32_768,
        file_writeback_from_reclaim: false,
        counters_72: false,
        min_ttl_ms: 0,
        memcg_lru: true,
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

fn fifo() -> Switches {
    Switches {
        policy: PolicyKind::Fifo,
        ..base()
    }
}

fn v612_early() -> Switches {
    Switches {
        refs_model: RefsModel::V612,
        recent_test: RecentTest::MinSeq,
        proportional_protection: false,
        file_writeback_from_reclaim: true,
        ..base()
    }
}

/// `mglru.md` 0: the stable series took parts of patch 9.
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

fn v5() -> Switches {
    Switches {
        budget_floor: BudgetFloor::V5,
        rotate_on_empty_budget: true,
        min_seq_flush: MinSeqFlush::Both,
        isolate_swap_check: SwapCheck::Never,
        ..v2()
    }
}

/// Base with every patch of version 5 up to number `last` (`mglru.md` 12.1), to look at each alone.
fn up_to(last: u8) -> Switches {
    let (mut s, v5) = (base(), v5());
    for patch in PATCHES.iter().filter(|p| p.number <= last) {
        s.take(patch.switches, &v5);
    }
    s
}

fn merged() -> Switches {
    Switches {
        refs_model: RefsModel::V614Exec,
        budget_floor: BudgetFloor::None,
        rotate_on_empty_budget: false,
        unevictable_generic: true,
        strict_type_fallback: true,
        memcg_abort_on_target: true,
        retry_skips_writeback: true,
        counters_72: true,
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

    /// Each step has the switches of its own patch on top of the step before, and nothing else.
    #[test]
    fn steps_are_cumulative() {
        let mut before = base();
        for patch in PATCHES {
            let step = preset(&format!("step{}", patch.number)).unwrap();
            let mut own = patch.switches.to_vec();
            own.sort_unstable();
            let mut differing = before.differing(&step);
            differing.sort_unstable();
            assert_eq!(differing, own, "step{}", patch.number);
            before = step;
        }
        assert_eq!(before, v5());
    }
}
