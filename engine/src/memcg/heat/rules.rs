//! What a visit means for heat (`docs/rules/heat.md#as-posted`, table and refault rule).

use super::config::HeatLevels;

/// Change of heat by the pages scanned and freed. `None`: nothing was scanned.
pub fn posted_delta(scanned: u64, reclaimed: u64) -> Option<i8> {
    match () {
        () if scanned == 0 => None,
        () if 2 * reclaimed >= scanned => Some(-2),
        () if 4 * reclaimed >= scanned => Some(-1),
        () => Some(1),
    }
}

/// The refault rule on top of a change `d`: more refaults than pages freed make a memcg hotter, none
/// at all take one from a rise.
pub fn refault_rule(d: i8, refaults: u64, reclaimed: u64) -> i8 {
    match () {
        () if refaults > reclaimed => d + 1,
        () if refaults == 0 && d > 0 => d - 1,
        () => d,
    }
}

/// Heat after a change, within 0 and the maximum.
pub fn adjusted(heat: u8, d: i8, levels: &HeatLevels) -> u8 {
    heat.saturating_add_signed(d).min(levels.max())
}
