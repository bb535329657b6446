//! References and tiers, as far as all kernels agree (`docs/rules/generations.md`).

use crate::folio::flags::FlagWord;
use crate::folio::Flags;

/// Smallest `t` with `1 << t >= n`; 0 for 0 and 1.
#[inline]
pub(crate) const fn ceil_log2(n: u32) -> usize {
    match n {
        0 | 1 => 0,
        n => 32 - (n - 1).leading_zeros() as usize,
    }
}

/// Forgets all references (deactivation).
pub fn clear_refs(w: &mut FlagWord) {
    w.set_refs(0);
    w.clear(Flags::REFERENCED.union(Flags::WORKINGSET));
}
