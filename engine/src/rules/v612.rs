//! Generations of Linux 6.12 (`docs/rules/kernels.md`).

use super::kernel::{Fate, Kernel, ProtectedBy, Refaulted, Standing, Survivor};
use super::v614;
use crate::folio::flags::{FlagWord, REFS_MAX};
use crate::folio::Flags;
use crate::ids::LruType;
use crate::mglru::controller::{refaults_no_more, tier_limit};
use crate::mglru::refs::{ceil_log2, clear_refs};
use crate::mglru::{EvictableTypes, MultiGen, MIN_NR_GENS};
use crate::reclaim::work::References;
use crate::workingset::shadow::SEQ_MASK;

/// The rules of 6.12.
pub const KERNEL: Kernel = Kernel {
    entry,
    entered_active: |w| w.set_refs(0),
    added_in_fault: |w| w.set(Flags::ACTIVE),
    accessed,
    standing,
    walk_found,
    neighbour_found,
    walks_on_lists: false,
    looks_around_on_lists: false,
    commands_need_room: true,
    referenced,
    executable_joins: [false; 2],
    kept_unasked: |w| w.has(Flags::REFERENCED),
    forced_out: [LruType::File, LruType::Anon],
    level_min_seq,
    wants_aging,
    ttl_seq: |m, _types| m.min_seq[LruType::File.idx()],
    protect: clear_refs,
    batch_within_budget: false,
    protected_to_tail: true,
    counts_protected: |by, _lazily_promoted| by == ProtectedBy::Tier,
    survivor,
    tier_gains: (1, 2),
    type_to_scan,
    refaulted,
};

/// Active folios start in the youngest generation. Everything that came by a read starts one above the
/// oldest, as long as there is room between that and the youngest.
fn entry(m: &MultiGen, w: FlagWord, t: LruType, reclaiming: bool) -> u64 {
    let min = m.min_seq[t.idx()];
    if w.has(Flags::ACTIVE) {
        m.max_seq
    } else if v614::fresh_anon(w, t) || v614::coming_clean(w) {
        m.max_seq - 1
    } else if reclaiming || min + 2 >= m.max_seq {
        min
    } else {
        min + 1
    }
}

/// The second use makes a folio part of the working set; only then are uses counted.
fn accessed(w: &mut FlagWord) {
    if w.any(Flags::UNEVICTABLE) {
        return;
    }
    if !w.has(Flags::REFERENCED) {
        w.set(Flags::REFERENCED);
    } else if !w.has(Flags::WORKINGSET) {
        w.set(Flags::WORKINGSET);
    } else if w.refs() < REFS_MAX {
        w.set_refs(w.refs() + 1);
    }
}

fn standing(w: FlagWord) -> Standing {
    let refs = w.refs() + u32::from(w.has(Flags::WORKINGSET));
    Standing {
        refs: refs as u8,
        tier: ceil_log2(refs + 1) as u8,
        lazily_promoted: refs == REFS_MAX + 1,
        workingset: refs > 0,
    }
}

/// The first accessed bit promotes. An isolated folio is marked instead.
fn walk_found(w: &mut FlagWord) -> bool {
    if w.gen().is_none() {
        w.set(Flags::REFERENCED);
        return false;
    }
    clear_refs(w);
    true
}

fn neighbour_found(w: &mut FlagWord, youngest: usize) -> bool {
    match w.gen() {
        Some(slot) => slot != youngest,
        None => {
            w.set(Flags::REFERENCED);
            false
        }
    }
}

/// As for active and inactive lists.
fn referenced(w: &mut FlagWord, r: References, t: LruType) -> Fate {
    crate::classic::references::referenced(w, r, t)
}

/// Anonymous memory that can be swapped is never younger than files: its oldest generation is no later than theirs.
fn level_min_seq(m: &MultiGen, min: &mut [u64; 2], swappiness: u16) {
    if swappiness > 0 {
        min[0] = min[0].min(min[1]);
        min[1] = min[0].max(m.min_seq[1]);
    }
}

/// With three generations: when the youngest holds over half of all pages, or the oldest less than a
/// quarter.
fn wants_aging(m: &MultiGen, types: EvictableTypes) -> bool {
    let oldest = m.min_seq_of(types);
    if oldest + MIN_NR_GENS < m.max_seq {
        return false;
    }
    let total = m.evictable_pages(types);
    let (mut young, mut old) = (0, 0);
    for &t in types.list() {
        young += m.gen_pages(MultiGen::slot(m.max_seq), t);
        if m.min_seq[t.idx()] == oldest {
            old += m.gen_pages(MultiGen::slot(oldest), t);
        }
    }
    young * 2 > total || old * 4 < total
}

/// All but those that come clean soon go back as active and without references.
fn survivor(w: &mut FlagWord, s: Survivor) -> bool {
    let busy = Flags::DIRTY | Flags::WRITEBACK;
    if w.has(Flags::RECLAIM) && w.any(busy) {
        if w.has(Flags::WORKINGSET) {
            w.set(Flags::REFERENCED);
        }
        return false;
    }
    let used = s.mapped || w.any(Flags::ACTIVE | Flags::LOCKED | Flags::REFERENCED | busy);
    if s.retried || used {
        clear_refs(w);
        w.set(Flags::ACTIVE);
        return false;
    }
    true
}

/// The type whose oldest generation is behind goes first. Without such a lag the types compare by
/// their tiers 0, and the tier limit is taken against the other type.
fn type_to_scan(m: &MultiGen, swappiness: u16, io: bool) -> (LruType, Option<usize>) {
    let s = u64::from(swappiness);
    let fixed = if s == 0 {
        Some(LruType::File)
    } else if m.min_seq[0] < m.min_seq[1] {
        Some(LruType::Anon)
    } else if s == 1 {
        Some(LruType::File)
    } else if s >= 200 {
        Some(LruType::Anon)
    } else if !io {
        Some(LruType::File)
    } else {
        None
    };
    if let Some(t) = fixed {
        return (t, None);
    }
    let [anon, file] = &m.ctrl;
    let gain = [s, 200 - s];
    let t = if refaults_no_more(anon.tier(0, gain[0]), file.tier(0, gain[1])) {
        LruType::File
    } else {
        LruType::Anon
    };
    let other = t.other().idx();
    let reference = m.ctrl[other].tier(0, gain[other]);
    let limit = tier_limit(&m.ctrl[t.idx()], reference, gain[t.idx()]);
    (t, Some(limit))
}

/// Evicted from the generation that still is the oldest.
pub(super) fn recent(m: &MultiGen, t: LruType, seq: u64) -> bool {
    seq == m.min_seq[t.idx()] & SEQ_MASK
}

/// A fault always restores; so do reads of folios that had been used often.
fn refaulted(w: &mut FlagWord, low: u32, workingset: bool, in_fault: bool) -> Refaulted {
    let refs = low + u32::from(workingset);
    let restore = in_fault || refs >= 3;
    if restore {
        w.set(Flags::WORKINGSET);
        w.set_refs(REFS_MAX);
    }
    Refaulted {
        tier: ceil_log2(refs + 1) as u8,
        activate: true,
        restore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e2_tiers() {
        assert_eq!(
            v614::reads(&KERNEL, 6),
            [
                (0, false, 0, false),
                (1, true, 1, false),
                (2, true, 2, false),
                (3, true, 2, false),
                (4, true, 3, true),
                (4, true, 3, true)
            ]
        );
    }
}
