//! What memory.min and memory.low leave of a scan budget (`docs/rules/memcg.md`).

use super::scan_control::ScanControl;
use crate::engine::Engine;
use crate::ids::MemcgId;
use crate::memcg::scale_by_protection;

/// The part of `n` pages that may be scanned. The target of a limit is not protected from itself.
pub(super) fn protected_share(eng: &Engine, sc: &mut ScanControl, memcg: MemcgId, n: u64) -> u64 {
    if !eng.rules.series.protection_scales_budget || sc.target == Some(memcg) {
        return n;
    }
    let c = eng.memcgs[memcg].memory();
    let (min, low) = (c.emin(), c.elow());
    if min == 0 && low == 0 {
        return n;
    }
    let (scaled, low_skipped) = scale_by_protection(n, c.usage(), min, low, sc.low_reclaim);
    sc.low_skipped |= low_skipped;
    scaled
}
