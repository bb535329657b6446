//! References and tiers (`mglru.md` 3, `workingset.md` 2.2).

use crate::folio::flags::{FlagWord, REFS_MAX};
use crate::folio::Flags;

/// Times a folio was used through descriptors, 0..=4.
#[inline]
pub fn refs(w: FlagWord, v612: bool) -> u32 {
    if v612 {
        w.refs() + u32::from(w.has(Flags::WORKINGSET))
    } else if w.has(Flags::REFERENCED) {
        w.refs() + 1
    } else {
        0
    }
}

/// Smallest `t` with `1 << t >= n`; 0 for 0 and 1.
#[inline]
const fn ceil_log2(n: u32) -> usize {
    match n {
        0 | 1 => 0,
        n => 32 - (n - 1).leading_zeros() as usize,
    }
}

/// Tier from refs and workingset.
#[inline]
pub fn tier_of(refs: u32, workingset: bool, v612: bool) -> usize {
    if v612 {
        ceil_log2(refs + 1)
    } else if workingset {
        3
    } else {
        ceil_log2(refs)
    }
}

/// Tier of a folio, 0..=3.
#[inline]
pub fn tier(w: FlagWord, v612: bool) -> usize {
    tier_of(refs(w, v612), w.has(Flags::WORKINGSET), v612)
}

/// The fifth access has happened: the scan protects the folio whatever the tier limit.
#[inline]
pub fn lazily_promoted(w: FlagWord, v612: bool) -> bool {
    if v612 {
        refs(w, true) == REFS_MAX + 1
    } else {
        refs(w, false) + u32::from(w.has(Flags::WORKINGSET)) == REFS_MAX + 2
    }
}

/// An access through a descriptor.
#[inline]
pub fn accessed(w: &mut FlagWord, v612: bool) {
    if w.any(Flags::UNEVICTABLE) {
        return;
    }
    if !w.has(Flags::REFERENCED) {
        w.set(Flags::REFERENCED);
        if !v612 {
            w.set_refs(0);
        }
    } else if v612 {
        if !w.has(Flags::WORKINGSET) {
            w.set(Flags::WORKINGSET);
        } else if w.refs() < REFS_MAX {
            w.set_refs(w.refs() + 1);
        }
    } else if w.refs() < REFS_MAX {
        w.set_refs(w.refs() + 1);
    } else {
        w.set(Flags::WORKINGSET);
    }
}

/// An accessed bit found by the reverse map (6.14+). True: activate.
pub fn set_refs(w: &mut FlagWord) -> bool {
    if !w.any(Flags::REFERENCED.union(Flags::WORKINGSET)) {
        w.set(Flags::REFERENCED);
        w.set_refs(0);
        return false;
    }
    w.clear(Flags::REFERENCED);
    w.set_refs(0);
    w.set(Flags::WORKINGSET);
    true
}

/// Forgets all references (deactivation).
pub fn clear_refs(w: &mut FlagWord) {
    w.set_refs(0);
    w.clear(Flags::REFERENCED.union(Flags::WORKINGSET));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (refs, workingset, tier, lazily promoted) after each of `n` reads.
    fn reads(n: usize, v612: bool) -> Vec<(u32, bool, usize, bool)> {
        let mut w = FlagWord::default();
        (0..n)
            .map(|_| {
                accessed(&mut w, v612);
                (
                    refs(w, v612),
                    w.has(Flags::WORKINGSET),
                    tier(w, v612),
                    lazily_promoted(w, v612),
                )
            })
            .collect()
    }

    #[test]
    fn e2_tiers() {
        assert_eq!(
            reads(5, false),
            [
                (1, false, 0, false),
                (2, false, 1, false),
                (3, false, 2, false),
                (4, false, 2, false),
                (4, true, 3, true)
            ]
        );
        assert_eq!(
            reads(6, true),
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

    #[test]
    fn second_accessed_bit_activates() {
        let mut w = FlagWord::default();
        assert!(!set_refs(&mut w));
        assert!(w.has(Flags::REFERENCED));
        assert!(set_refs(&mut w));
        assert!(w.has(Flags::WORKINGSET) && !w.has(Flags::REFERENCED));
        clear_refs(&mut w);
        assert_eq!(w, FlagWord::default());
    }
}
