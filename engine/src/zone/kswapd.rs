//! Tests that kswapd and its waiters make on the zones of a node (`docs/rules/zones.md`).

use super::{Mark, ReserveRights, Zone, ZoneClass};
use crate::constants::{MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use crate::ids::{NodeId, Pages};

fn eligible(zones: &[Zone], node: NodeId, class: ZoneClass) -> impl Iterator<Item = &Zone> {
    zones
        .iter()
        .filter(move |z| z.node == node && z.class <= class && z.managed > 0)
}

/// True if the node needs no kswapd: **any one** managed zone up to `class` is above high (promo
/// with `tiering`), or there is none.
pub fn balanced(zones: &[Zone], node: NodeId, order: u32, class: ZoneClass, tiering: bool) -> bool {
    let mark = if tiering { Mark::Promo } else { Mark::High };
    let mut none = true;
    for z in eligible(zones, node, class) {
        if z.ok(order, mark, ReserveRights::default(), class) {
            return true;
        }
        none = false;
    }
    none
}

/// Pages kswapd wants of each round: not the deficit, but the high marks.
pub fn kswapd_target(zones: &[Zone], node: NodeId, class: ZoneClass) -> Pages {
    eligible(zones, node, class)
        .map(|z| z.mark(Mark::High).max(SWAP_CLUSTER_MAX))
        .sum()
}

/// Whether a sleeping kswapd is woken for a request. It is left asleep on a node that is hopeless or
/// balanced.
pub fn should_wake_kswapd(
    zones: &[Zone],
    node: NodeId,
    order: u32,
    class: ZoneClass,
    failures: u32,
) -> bool {
    let boosted = eligible(zones, node, class).any(|z| z.boost > 0);
    failures < MAX_RECLAIM_RETRIES && (boosted || !balanced(zones, node, order, class, false))
}

/// The reserve gate: true if a direct reclaimer may go on, false if it must wait for kswapd because
/// less than half of the reserves of the node's zones up to NORMAL is free. A zone without
/// reclaimable pages counts if it has free ones, or never with `skip_unreclaimable` (later kernels).
pub fn pfmemalloc_allowed(
    zones: &[Zone],
    node: NodeId,
    failures: u32,
    skip_unreclaimable: bool,
) -> bool {
    if failures >= MAX_RECLAIM_RETRIES {
        return true;
    }
    let (mut reserve, mut free) = (0, 0);
    for z in eligible(zones, node, ZoneClass::Normal) {
        let counts = z.reclaimable > 0 || (!skip_unreclaimable && z.free > 0);
        if counts {
            reserve += z.mark(Mark::Min);
            free += z.free;
        }
    }
    reserve == 0 || free > reserve / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(0);
    const NORMAL: ZoneClass = ZoneClass::Normal;

    fn zone(free: Pages) -> Zone {
        let z = Zone::new(NODE, NORMAL, 262_144);
        Zone {
            free,
            min: 1024,
            low: 1286,
            high: 1548,
            promo: 1810,
            reclaimable: 1,
            ..z
        }
    }

    #[test]
    fn entry_r2_kswapd() {
        let z = |free| [zone(free)];
        let plain = ReserveRights::default();
        assert!(
            !z(1286)[0].ok(0, Mark::Low, plain, NORMAL)
                && z(1287)[0].ok(0, Mark::Low, plain, NORMAL)
        );
        assert_eq!(kswapd_target(&z(0), NODE, NORMAL), 1548);
        assert!(!balanced(&z(1548), NODE, 0, NORMAL, false));
        assert!(balanced(&z(1549), NODE, 0, NORMAL, false));
    }

    #[test]
    fn any_zone_will_do() {
        let small = Zone {
            class: ZoneClass::Dma32,
            ..zone(0)
        };
        let zones = [small.clone(), zone(1549)];
        assert!(balanced(&zones, NODE, 0, NORMAL, false));
        assert!(
            !balanced(&zones, NODE, 0, NORMAL, true),
            "promo is asked for"
        );
        assert!(!balanced(&zones, NODE, 0, ZoneClass::Dma32, false));
        assert!(
            balanced(&zones, NodeId(1), 0, NORMAL, false),
            "no zone there"
        );
        let tiny = Zone { high: 3, ..small };
        assert_eq!(kswapd_target(&[tiny, zone(0)], NODE, NORMAL), 32 + 1548);
    }

    #[test]
    fn waking() {
        let wake = |z: Zone, failures| should_wake_kswapd(&[z], NODE, 0, NORMAL, failures);
        assert!(wake(zone(1000), 15) && !wake(zone(1000), 16));
        let boost = |boost| Zone {
            boost,
            ..zone(9000)
        };
        assert!(wake(boost(1), 0) && !wake(boost(0), 0));
    }

    #[test]
    fn gate() {
        let allowed = |z: Zone, failures, skip| pfmemalloc_allowed(&[z], NODE, failures, skip);
        assert!(!allowed(zone(512), 0, false));
        assert!(allowed(zone(513), 0, false));
        assert!(allowed(zone(0), 16, false));
        let unreclaimable = Zone {
            reclaimable: 0,
            ..zone(512)
        };
        assert!(
            !allowed(unreclaimable.clone(), 0, false),
            "free pages stand in"
        );
        assert!(allowed(unreclaimable.clone(), 0, true));
        assert!(
            allowed(
                Zone {
                    free: 0,
                    ..unreclaimable
                },
                0,
                false
            ),
            "skipped: no reserves left"
        );
    }
}
