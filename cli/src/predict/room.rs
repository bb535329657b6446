//! The memory of a machine that runs short of it, as a run has found it.

use coldset_lab::replay::Limit;
use coldset_machine::{Marks, ZoneSpec};
use serde_json::{json, Value};

/// What a trace could have of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// Its zones, node by node, lowest first. Pages of each: what the group uses there, what its compressed contents take, and what is free,
    /// but for what CPUs never give away of what they keep for themselves. A kernel takes and gives back memory of its own
    /// meanwhile, so this is the mean over the points at which memory was short.
    pub zones: Vec<ZoneSpec>,
}

impl Room {
    /// Of these runs, on average; none, if they say nothing of zones.
    pub fn of(played: &Value) -> Option<Self> {
        Self::of_runs(played["runs"].as_array()?)
    }

    /// Of each of these runs: how much of it is in which zone differs from boot to boot. None, if one of them never was
    /// short of memory, or says nothing of zones.
    pub fn of_each(played: &Value) -> Option<Vec<Self>> {
        let runs = played["runs"].as_array()?.iter();
        runs.map(|run| Self::of_runs(std::slice::from_ref(run)))
            .collect()
    }

    fn of_runs(runs: &[Value]) -> Option<Self> {
        let zones = runs.first()?["zones"].as_array()?;
        if zones.is_empty() {
            return None;
        }
        let of_runs = runs.iter().filter_map(|run| short_points(run, zones.len()));
        let points: Vec<Vec<u64>> = of_runs.flatten().collect();
        let zones = zones.iter().enumerate().map(|(i, z)| {
            let sum: u64 = points.iter().map(|zones| zones[i]).sum();
            Some(ZoneSpec {
                node: node(z),
                pages: sum.checked_div(points.len() as u64)?,
                marks: marks(z)?,
                // A file of a recording from before several zones were predicted has none.
                reserve: number(z, "reserve").unwrap_or(0),
                // Nor has one from before they were read.
                batch: number(z, "batch"),
            })
        });
        zones.collect::<Option<_>>().map(|zones| Self { zones })
    }

    /// Of all zones.
    pub fn pages(&self) -> u64 {
        self.zones.iter().map(|z| z.pages).sum()
    }

    /// It limits a replay.
    pub(super) fn limit(self) -> Limit {
        Limit::Machine { zones: self.zones }
    }

    /// For a file.
    pub fn json(&self) -> Value {
        let zone = |z: &ZoneSpec| {
            let Marks { min, low, high } = z.marks;
            let mut zone = json!({"pages": z.pages, "min": min, "low": low, "high": high});
            if z.reserve > 0 {
                zone["reserve"] = z.reserve.into();
            }
            if z.node > 0 {
                zone["node"] = z.node.into();
            }
            if let Some(batch) = z.batch {
                zone["batch"] = batch.into();
            }
            zone
        };
        match self.zones.as_slice() {
            [only] => zone(only),
            zones => {
                json!({"pages": self.pages(), "zones": zones.iter().map(zone).collect::<Vec<_>>()})
            }
        }
    }

    /// Of a file.
    pub fn from_json(value: &Value) -> Option<Self> {
        let zone = |z: &Value| {
            Some(ZoneSpec {
                node: node(z),
                pages: number(z, "pages")?,
                marks: marks(z)?,
                reserve: number(z, "reserve").unwrap_or(0),
                batch: number(z, "batch"),
            })
        };
        let zones = match value["zones"].as_array() {
            Some(zones) => zones.iter().map(zone).collect::<Option<_>>()?,
            None => vec![zone(value)?],
        };
        Some(Self { zones })
    }
}

/// Pages of each zone, at each point of a run at which memory was short.
fn short_points(run: &Value, zones: usize) -> Option<Vec<Vec<u64>>> {
    let points = run["points"].as_array()?;
    let of = |point: &Value, i: usize, name: &str| number(&point["zones"][i], name);
    let stuck: Vec<u64> = (0..zones)
        .map(|i| {
            let kept = points.iter().filter_map(|p| of(p, i, "kept"));
            kept.min().unwrap_or(0)
        })
        .collect();
    let of_point = |point: &Value| -> Option<Vec<u64>> {
        let used = number(&point["counters"], "used_pages")?;
        let listed = |i: usize| of(point, i, "listed").unwrap_or(0);
        let all: u64 = (0..zones).map(listed).sum();
        let of_zone = |i: usize| {
            let free = of(point, i, "free")? + of(point, i, "kept")? - stuck[i];
            // A file of a recording from before they were counted has none.
            let compressed = of(point, i, "compressed").unwrap_or(0);
            // What of it is where, is as with all that can be reclaimed.
            let used = match zones {
                1 => used,
                _ => used * listed(i) / all.max(1),
            };
            Some(free + compressed + used)
        };
        (0..zones).map(of_zone).collect()
    };
    let short = |p: &&Value| number(&p["counters"], "pgscan").is_some_and(|n| n > 0);
    Some(points.iter().filter(short).filter_map(of_point).collect())
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value[name].as_u64()
}

fn marks(zone: &Value) -> Option<Marks> {
    Some(Marks {
        min: number(zone, "min")?,
        low: number(zone, "low")?,
        high: number(zone, "high")?,
    })
}

/// Its node. A file that says none is of a machine with one.
fn node(zone: &Value) -> u32 {
    number(zone, "node").map_or(0, |node| node as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(free: u64, listed: u64) -> Value {
        json!({
            "node": 0, "free": free, "kept": 63 + free, "listed": listed,
            "compressed": 100, "min": 8, "low": 10, "high": 12, "reserve": 5, "batch": 31,
        })
    }

    fn point(zones: &[Value], used: u64, scanned: u64) -> Value {
        json!({"zones": zones, "counters": {"used_pages": used, "pgscan": scanned}})
    }

    fn played(zones: &[Value], points: &[Value]) -> Value {
        let run = json!({"zones": zones, "points": points});
        json!({"runs": [run, run]})
    }

    #[test]
    fn a_machine_has_what_is_used_and_what_is_free_while_memory_is_short() {
        let at = |free, used, scanned| point(&[zone(free, 0)], used, scanned);
        let points = [at(500, 100, 0), at(20, 700, 5), at(10, 730, 9)];
        let room = Room::of(&played(&[zone(900, 0)], &points)).unwrap();
        // 10 pages of a CPU's were never used.
        assert_eq!((room.pages(), room.zones[0].marks.low), (835, 10));
        assert_eq!(Room::from_json(&room.json()), Some(room));
    }

    #[test]
    fn runs_have_rooms_of_their_own() {
        let run =
            |free| json!({"zones": [zone(free, 0)], "points": [point(&[zone(free, 0)], 700, 5)]});
        let played = json!({"runs": [run(20), run(60)]});
        let pages = |rooms: Vec<Room>| rooms.iter().map(Room::pages).collect::<Vec<_>>();
        assert_eq!(pages(Room::of_each(&played).unwrap()), [820, 860]);
        assert_eq!(Room::of(&played).unwrap().pages(), 840);
        // One that was never short of memory says nothing.
        let mut idle = played.clone();
        idle["runs"][1]["points"][0]["counters"]["pgscan"] = 0.into();
        assert_eq!(Room::of_each(&idle), None);
        assert_eq!(Room::of(&idle).unwrap().pages(), 820);
    }

    #[test]
    fn what_is_used_is_where_the_lists_are() {
        let zones = [zone(20, 300), zone(40, 100)];
        let room = Room::of(&played(&zones, &[point(&zones, 800, 5)])).unwrap();
        let pages: Vec<u64> = room.zones.iter().map(|z| z.pages).collect();
        assert_eq!(pages, [20 + 100 + 600, 40 + 100 + 200]);
        assert_eq!(Room::from_json(&room.json()), Some(room));
        let mut elsewhere = zones.clone();
        elsewhere[1]["node"] = 1.into();
        let two = Room::of(&played(&elsewhere, &[point(&elsewhere, 800, 5)])).unwrap();
        assert_eq!(two.zones.iter().map(|z| z.node).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(Room::from_json(&two.json()), Some(two));
    }
}
