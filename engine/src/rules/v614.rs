//! Generations since Linux 6.14, before and after the series (`docs/rules/kernels.md`).

use super::kernel::{Fate, Kernel, Refaulted, Standing, Survivor};
use crate::folio::flags::{FlagWord, REFS_MAX};
use crate::folio::Flags;
use crate::ids::LruType;
use crate::mglru::controller::refaults_no_more;
use crate::mglru::refs::ceil_log2;
use crate::mglru::{MultiGen, MAX_NR_GENS, MIN_NR_GENS};
use crate::reclaim::work::References;
use crate::workingset::shadow::SEQ_MASK;

/// The rules of 6.14 to 7.1 (`v618`, `base`).
pub const KERNEL: Kernel = Kernel {
    entry,
    entered_active: |_| {},
    added_in_fault: |w| w.set(Flags::ACTIVE),
    accessed,
    standing,
    walk_found,
    neighbour_found: |w, youngest| second_use(w) && below(w, youngest),
    walks_on_lists: false,
    looks_around_on_lists: true,
    commands_need_room: false,
    referenced: |w, r, _t| fate(w, r, second_use),
    executable_joins: [false; 2],
    kept_unasked: |_| false,
    forced_out: LruType::ALL,
    level_min_seq,
    wants_aging: |m, types| m.min_seq_of(types) + MIN_NR_GENS == m.max_seq,
    ttl_seq: MultiGen::min_seq_of,
    protect: |w| {
        w.set_refs(0);
        w.clear(Flags::REFERENCED);
    },
    batch_within_budget: true,
    protected_to_tail: false,
    counts_protected: |_by, lazily_promoted| !lazily_promoted,
    survivor,
    tier_gains: (2, 3),
    type_to_scan,
    refaulted,
};

/// Anonymous memory that is not in the swap cache.
pub(super) fn fresh_anon(w: FlagWord, t: LruType) -> bool {
    t == LruType::Anon && !w.has(Flags::SWAPCACHE)
}

/// To be rotated to the cold end when its writeback ends.
pub(super) fn coming_clean(w: FlagWord) -> bool {
    w.has(Flags::RECLAIM) && w.any(Flags::DIRTY.union(Flags::WRITEBACK))
}

fn entry(m: &MultiGen, w: FlagWord, t: LruType, reclaiming: bool) -> u64 {
    entry_of(m, w, t, reclaiming, w.has(Flags::WORKINGSET))
}

/// Counted from the youngest. The working set enters one generation younger, as do folios on probation
/// that are `wanted`.
pub(super) fn entry_of(
    m: &MultiGen,
    w: FlagWord,
    t: LruType,
    reclaiming: bool,
    wanted: bool,
) -> u64 {
    let distance = if w.has(Flags::ACTIVE) {
        2 - u64::from(w.has(Flags::WORKINGSET))
    } else if reclaiming {
        4
    } else if fresh_anon(w, t) || coming_clean(w) {
        2
    } else {
        4 - u64::from(wanted)
    };
    let seq = (m.max_seq + 1).saturating_sub(distance);
    seq.max(m.min_seq[t.idx()])
}

/// Four uses are counted, the fifth makes a folio part of the working set.
pub(super) fn accessed(w: &mut FlagWord) {
    if w.any(Flags::UNEVICTABLE) {
        return;
    }
    if !w.has(Flags::REFERENCED) {
        w.set(Flags::REFERENCED);
        w.set_refs(0);
    } else if w.refs() < REFS_MAX {
        w.set_refs(w.refs() + 1);
    } else {
        w.set(Flags::WORKINGSET);
    }
}

fn standing(w: FlagWord) -> Standing {
    let workingset = w.has(Flags::WORKINGSET);
    let refs = if w.has(Flags::REFERENCED) {
        w.refs() + 1
    } else {
        0
    };
    Standing {
        refs: refs as u8,
        tier: tier(refs, workingset),
        lazily_promoted: refs + u32::from(workingset) == REFS_MAX + 2,
        workingset,
    }
}

/// The working set has the highest tier to itself.
fn tier(refs: u32, workingset: bool) -> u8 {
    if workingset {
        3
    } else {
        ceil_log2(refs) as u8
    }
}

/// The first accessed bit marks, the second promotes a folio that is on a list.
fn walk_found(w: &mut FlagWord) -> bool {
    if !w.any(Flags::REFERENCED | Flags::WORKINGSET) {
        w.set(Flags::REFERENCED);
        return false;
    }
    if w.gen().is_none() {
        return false;
    }
    join_workingset(w);
    true
}

/// An accessed bit that the reverse map or a look-around found. The first marks, the second makes the
/// folio part of the working set. True: activate.
fn second_use(w: &mut FlagWord) -> bool {
    if !w.any(Flags::REFERENCED | Flags::WORKINGSET) {
        w.set(Flags::REFERENCED);
        w.set_refs(0);
        return false;
    }
    join_workingset(w);
    true
}

pub(super) fn join_workingset(w: &mut FlagWord) {
    w.clear(Flags::REFERENCED);
    w.set_refs(0);
    w.set(Flags::WORKINGSET);
}

/// On a list, and not the youngest.
pub(super) fn below(w: &FlagWord, youngest: usize) -> bool {
    w.gen().is_some_and(|slot| slot != youngest)
}

/// `again` is told of an accessed bit and says whether to activate.
pub(super) fn fate(w: &mut FlagWord, r: References, again: fn(&mut FlagWord) -> bool) -> Fate {
    if r.accessed == 0 {
        Fate::Reclaim
    } else if again(w) {
        Fate::Activate
    } else {
        Fate::Keep
    }
}

/// If both types can be evicted, none keeps four generations while the other is down to two.
fn level_min_seq(m: &MultiGen, min: &mut [u64; 2], swappiness: u16) {
    if !(1..=200).contains(&swappiness) {
        return;
    }
    let middle = m.max_seq - MIN_NR_GENS;
    if min[0] > middle && min[1] < middle {
        min[0] = middle;
    } else if min[1] > middle && min[0] < middle {
        min[1] = middle;
    }
}

/// Clean and unused folios may have missed their rotation: they are tried again. Of the rest, those
/// that would enter the oldest generation again go back as active.
fn survivor(w: &mut FlagWord, s: Survivor) -> bool {
    let busy = Flags::ACTIVE | Flags::DIRTY | Flags::WRITEBACK;
    if !s.retried && !s.mapped && !w.any(busy) {
        return true;
    }
    if s.enters_oldest {
        w.set_refs(0);
        w.clear(Flags::REFERENCED);
        w.set(Flags::ACTIVE);
    }
    false
}

/// All tiers of a type together, weighed by swappiness.
fn type_to_scan(m: &MultiGen, swappiness: u16, _io: bool) -> (LruType, Option<usize>) {
    let s = u64::from(swappiness);
    let [anon, file] = &m.ctrl;
    let t = if s <= 1 || (s < 200 && refaults_no_more(anon.all(s), file.all(200 - s))) {
        LruType::File
    } else {
        LruType::Anon
    };
    (t, None)
}

/// Evicted within the window of the four youngest generations.
pub(super) fn recent(m: &MultiGen, _t: LruType, seq: u64) -> bool {
    (m.max_seq & SEQ_MASK).abs_diff(seq) < MAX_NR_GENS as u64
}

/// The working set is restored; other folios get their uses back.
pub(super) fn refaulted(w: &mut FlagWord, low: u32, workingset: bool, in_fault: bool) -> Refaulted {
    if workingset {
        w.set(Flags::WORKINGSET);
    } else {
        w.set_refs(low);
    }
    Refaulted {
        tier: tier(low + 1, workingset),
        activate: in_fault,
        restore: workingset,
    }
}

/// (refs, workingset, tier, lazily promoted) after each of `n` reads.
#[cfg(test)]
pub(super) fn reads(k: &Kernel, n: usize) -> Vec<(u8, bool, u8, bool)> {
    let mut w = FlagWord::default();
    let mut read = || {
        (k.accessed)(&mut w);
        let s = (k.standing)(w);
        (s.refs, w.has(Flags::WORKINGSET), s.tier, s.lazily_promoted)
    };
    (0..n).map(|_| read()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mglru::controller::Tiers;

    #[test]
    fn e2_tiers() {
        assert_eq!(
            reads(&KERNEL, 5),
            [
                (1, false, 0, false),
                (2, false, 1, false),
                (3, false, 2, false),
                (4, false, 2, false),
                (4, true, 3, true)
            ]
        );
    }

    #[test]
    fn second_accessed_bit_activates() {
        let mut w = FlagWord::default();
        assert!(!second_use(&mut w));
        assert!(w.has(Flags::REFERENCED));
        assert!(second_use(&mut w));
        assert!(w.has(Flags::WORKINGSET) && !w.has(Flags::REFERENCED));
        crate::mglru::refs::clear_refs(&mut w);
        assert_eq!(w, FlagWord::default());
    }

    #[test]
    fn e4_type_to_scan() {
        let tiers = |(refaulted, evicted)| Tiers {
            refaulted: [refaulted, 0, 0, 0],
            evicted: [evicted, 0, 0, 0],
            ..Tiers::default()
        };
        let scan = |anon: (u64, u64), file: (u64, u64)| {
            let mut m = MultiGen::new(0);
            m.ctrl = [tiers(anon), tiers(file)];
            type_to_scan(&m, 60, true).0
        };
        assert_eq!(scan((50, 1000), (500, 4000)), LruType::Anon);
        assert_eq!(scan((100, 1000), (500, 4000)), LruType::File);
        assert_eq!(scan((0, 1), (63, 1)), LruType::File);
    }
}
