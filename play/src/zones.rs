//! Zones of the machine: what is free in them, and at which marks the kernel reclaims.

use std::fs;

/// A zone of a node, in pages, as `/proc/zoneinfo` has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Zone {
    /// Node.
    pub node: u64,
    /// Name.
    pub name: String,
    /// What the allocator has been given.
    pub managed: u64,
    /// Free, without what CPUs keep for themselves.
    pub free: u64,
    /// Free pages that CPUs keep for themselves.
    pub kept: u64,
    /// Pages that move at once between the zone and a CPU's list.
    pub batch: u64,
    /// What compressed contents take.
    pub compressed: u64,
    /// What can be reclaimed: pages on the lists.
    pub listed: u64,
    /// What it holds back, beside the marks, from requests that any zone would do for.
    pub reserve: u64,
    /// Requests reclaim for themselves.
    pub min: u64,
    /// kswapd is woken.
    pub low: u64,
    /// kswapd stops.
    pub high: u64,
}

/// Those that have memory; none, where the kernel does not tell.
pub fn read() -> Vec<Zone> {
    parse(&fs::read_to_string("/proc/zoneinfo").unwrap_or_default())
}

fn parse(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["Node", node, "zone", name] = words.as_slice() {
            zones.push(Zone {
                node: node.trim_end_matches(',').parse().unwrap_or(0),
                name: (*name).to_owned(),
                ..Zone::default()
            });
            continue;
        }
        let Some(zone) = zones.last_mut() else {
            continue;
        };
        let (name, value) = match words.as_slice() {
            ["pages", "free", n] => ("free", *n),
            // From requests of each class, the highest last.
            [name @ "protection:", .., n] => (*name, n.trim_end_matches(')')),
            [name, n] => (*name, *n),
            _ => continue,
        };
        let Ok(pages) = value.parse() else { continue };
        match name {
            "free" => zone.free = pages,
            "min" => zone.min = pages,
            "low" => zone.low = pages,
            "high" => zone.high = pages,
            "managed" => zone.managed = pages,
            "nr_zspages" => zone.compressed = pages,
            "protection:" => zone.reserve = pages,
            "nr_zone_inactive_anon"
            | "nr_zone_active_anon"
            | "nr_zone_inactive_file"
            | "nr_zone_active_file" => zone.listed += pages,
            // One for each CPU.
            "count:" => zone.kept += pages,
            "batch:" => zone.batch = pages,
            _ => {}
        }
    }
    zones.retain(|z| z.managed > 0);
    zones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_without_memory_are_left_out() {
        let text = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 7
  pages free     200
        boost    0
        min      8
        low      11
        high     14
        managed  150
        protection: (0, 900, 900)
      nr_free_pages 200
      nr_zone_inactive_anon 40
      nr_zone_active_file 2
      nr_zone_unevictable 7
      nr_zspages   31
  pagesets
    cpu: 0
              count:    13
              high:     14
              batch:    1
              high_min: 14
    cpu: 1
              count:    2
              high:     14
Node 1, zone   Normal
  pages free     0
        min      0
        managed  0
";
        let zones = parse(text);
        let [zone] = zones.as_slice() else {
            panic!("{zones:?}")
        };
        assert_eq!((zone.node, zone.name.as_str()), (0, "DMA"));
        assert_eq!((zone.free, zone.kept, zone.managed), (200, 15, 150));
        assert_eq!(zone.batch, 1);
        assert_eq!((zone.compressed, zone.listed, zone.reserve), (31, 42, 900));
        assert_eq!((zone.min, zone.low, zone.high), (8, 11, 14));
        assert!(parse("").is_empty());
    }
}
