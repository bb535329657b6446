//! How the marks and reserves of zones follow from their sizes (`docs/rules/zones.md`,
//! `docs/rules/zones.md#watermarks`).

use super::{Zone, ZoneClass};
use crate::ids::Pages;
use serde::Serialize;

/// Pages of a page block.
pub const PAGEBLOCK: Pages = 512;

/// Settings of the marks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "state", derive(serde::Deserialize))]
pub struct WatermarkConfig {
    /// min_free_kbytes; `None` = computed.
    pub min_free_kbytes: Option<u64>,
    /// Transparent huge pages are on: the computed reserve is raised.
    pub thp: bool,
    /// watermark_scale_factor: distance of the marks, ten-thousandths of the zone.
    pub scale_factor: u64,
    /// lowmem_reserve_ratio of each class; 0 = no reserve.
    pub lowmem_reserve_ratio: [u64; ZoneClass::COUNT],
}

impl Default for WatermarkConfig {
    fn default() -> Self {
        Self {
            min_free_kbytes: None,
            thp: false,
            scale_factor: 10,
            lowmem_reserve_ratio: [256, 256, 32, 0, 0],
        }
    }
}

/// Settings that cannot work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WatermarkError {
    /// Scale factor outside of 1..=3000.
    #[error("watermark_scale_factor is {0}: give 1 to 3000 ten-thousandths")]
    Scale(u64),
    /// Reserve above all memory.
    #[error("min_free_kbytes is {kbytes} KiB, the machine has {have} KiB outside of highmem and movable zones: give less")]
    TooMuch {
        /// What it was set to.
        kbytes: u64,
        /// What there is.
        have: u64,
    },
}

/// min_free_kbytes for so much low memory, without huge pages.
pub fn min_free_kbytes(lowmem_kbytes: u64) -> u64 {
    lowmem_kbytes.saturating_mul(16).isqrt().clamp(128, 262_144)
}

/// Managed pages of zones the kernel uses for itself.
fn lowmem_pages(zones: &[Zone]) -> Pages {
    zones
        .iter()
        .filter(|z| !z.class.is_high_or_movable())
        .map(|z| z.managed)
        .sum()
}

/// Sets the marks of all zones of the machine; returns the min_free_kbytes they follow from.
pub fn set_watermarks(zones: &mut [Zone], config: &WatermarkConfig) -> Result<u64, WatermarkError> {
    if !(1..=3000).contains(&config.scale_factor) {
        return Err(WatermarkError::Scale(config.scale_factor));
    }
    let lowmem = lowmem_pages(zones);
    let kbytes = match config.min_free_kbytes {
        Some(kbytes) if kbytes > lowmem * 4 => {
            return Err(WatermarkError::TooMuch {
                kbytes,
                have: lowmem * 4,
            })
        }
        Some(kbytes) => kbytes,
        None => {
            let plain = min_free_kbytes(lowmem * 4);
            let populated = zones.iter().filter(|z| z.managed > 0).count() as u64;
            let thp = (PAGEBLOCK * populated * (2 + 9)).min(lowmem / 20) * 4;
            if config.thp {
                plain.max(thp)
            } else {
                plain
            }
        }
    };
    let pages_min = kbytes / 4;
    for zone in zones {
        let base = u128::from(pages_min) * u128::from(zone.managed) / u128::from(lowmem.max(1));
        let base = base as u64;
        zone.min = if zone.class.is_high_or_movable() {
            (zone.managed / 1024).clamp(32, 128)
        } else {
            base
        };
        let step = (base / 4).max(zone.managed * config.scale_factor / 10_000);
        zone.low = zone.min + step;
        zone.high = zone.low + step;
        zone.promo = zone.high + step;
    }
    Ok(kbytes)
}

/// Sets what each zone holds back from requests of higher classes: the managed pages of the zones
/// of its node between, by the zone's ratio.
pub fn set_lowmem_reserves(zones: &mut [Zone], config: &WatermarkConfig) {
    for i in 0..zones.len() {
        let (node, class) = (zones[i].node, zones[i].class);
        let ratio = config.lowmem_reserve_ratio[class.idx()];
        let mut above = 0;
        for request in class.idx() + 1..ZoneClass::COUNT {
            let of_class = zones
                .iter()
                .filter(|z| z.node == node && z.class.idx() == request);
            above += of_class.map(|z| z.managed).sum::<Pages>();
            let reserve = if ratio == 0 || zones[i].managed == 0 {
                0
            } else {
                above / ratio
            };
            zones[i].lowmem_reserve[request] = reserve;
        }
    }
}

/// Pages never given to user data: for each zone its largest reserve and its high mark.
pub fn totalreserve(zones: &[Zone]) -> Pages {
    let of = |z: &Zone| {
        let reserve = z.lowmem_reserve.iter().copied().max().unwrap_or(0);
        (reserve + z.high).min(z.managed)
    };
    zones.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;

    fn zones(managed: &[(ZoneClass, Pages)]) -> Vec<Zone> {
        managed
            .iter()
            .map(|&(class, n)| Zone::new(NodeId(0), class, n))
            .collect()
    }

    fn marks(z: &Zone) -> [Pages; 4] {
        [z.min, z.low, z.high, z.promo]
    }

    #[test]
    fn machine_c1_watermarks() {
        let mut z = zones(&[(ZoneClass::Normal, 1_048_576)]);
        let mut config = WatermarkConfig::default();
        assert_eq!(set_watermarks(&mut z, &config), Ok(8192));
        assert_eq!(marks(&z[0]), [2048, 3096, 4144, 5192]);
        config.thp = true;
        assert_eq!(set_watermarks(&mut z, &config), Ok(5632 * 4));
        assert_eq!(marks(&z[0]), [5632, 7040, 8448, 9856]);
        let split = [
            (ZoneClass::Dma, 3840),
            (ZoneClass::Dma32, 500_000),
            (ZoneClass::Normal, 544_736),
        ];
        assert_eq!(set_watermarks(&mut zones(&split), &config), Ok(67_584));
    }

    #[test]
    fn entry_r1_watermarks() {
        let mut z = zones(&[(ZoneClass::Normal, 262_144)]);
        let config = WatermarkConfig::default();
        assert_eq!(set_watermarks(&mut z, &config), Ok(4096));
        assert_eq!(marks(&z[0]), [1024, 1286, 1548, 1810]);
        let mut z = zones(&[(ZoneClass::Normal, 4_194_304)]);
        let config = WatermarkConfig {
            min_free_kbytes: Some(67_584),
            ..config
        };
        set_watermarks(&mut z, &config).unwrap();
        assert_eq!(marks(&z[0])[..3], [16_896, 21_120, 25_344]);
    }

    #[test]
    fn movable_zones_get_a_small_min_and_do_not_count_as_low_memory() {
        let mut z = zones(&[(ZoneClass::Normal, 262_144), (ZoneClass::Movable, 65_536)]);
        assert_eq!(
            set_watermarks(&mut z, &WatermarkConfig::default()),
            Ok(4096)
        );
        // share 1024/4 = 256, a quarter of it 64; 65536/1000 = 65.
        assert_eq!(marks(&z[1]), [64, 64 + 65, 64 + 130, 64 + 195]);
    }

    #[test]
    fn reserves() {
        let (dma, normal) = (ZoneClass::Dma, ZoneClass::Normal);
        let mut z = zones(&[(dma, 4096), (normal, 1_024_000)]);
        let config = WatermarkConfig::default();
        set_watermarks(&mut z, &config).unwrap();
        set_lowmem_reserves(&mut z, &config);
        assert_eq!(z[0].lowmem_reserve, [0, 0, 4000, 4000, 4000]);
        assert_eq!(z[1].lowmem_reserve, [0; 5]);
        // Reserve and high mark of the small zone are more than it has.
        assert!(z[0].high > 0);
        assert_eq!(totalreserve(&z), (4000 + z[0].high).min(4096) + z[1].high);
        assert_eq!(totalreserve(&z[..1]), 4000 + z[0].high);
    }

    #[test]
    fn bad_settings() {
        let mut z = zones(&[(ZoneClass::Normal, 1000)]);
        let config = WatermarkConfig {
            scale_factor: 0,
            ..WatermarkConfig::default()
        };
        assert_eq!(
            set_watermarks(&mut z, &config),
            Err(WatermarkError::Scale(0))
        );
        let config = WatermarkConfig {
            min_free_kbytes: Some(4001),
            ..WatermarkConfig::default()
        };
        let e = set_watermarks(&mut z, &config).unwrap_err();
        assert_eq!(
            e,
            WatermarkError::TooMuch {
                kbytes: 4001,
                have: 4000
            }
        );
    }
}
