//! The memory of a machine that runs short of it, as a run has found it.

use coldset_machine::Marks;
use serde_json::{json, Value};

/// What a trace could have of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Pages: what the group uses, what its compressed contents take, and what is free, but for what CPUs never give away of
    /// what they keep for themselves. A kernel takes and gives back memory of its own meanwhile, so this is the mean over the
    /// points at which memory was short.
    pub pages: u64,
    /// Watermarks of its zone.
    pub marks: Marks,
}

impl Room {
    /// Of these runs; none, if they say nothing of zones, or have several.
    pub fn of(played: &Value) -> Option<Self> {
        let runs = played["runs"].as_array()?;
        let number = |value: &Value, name: &str| value[name].as_u64();
        let zone = |value: &Value| match value["zones"].as_array()?.as_slice() {
            [zone] => Some(zone.clone()),
            _ => None,
        };
        let first = zone(runs.first()?)?;
        let marks = Marks {
            min: number(&first, "min")?,
            low: number(&first, "low")?,
            high: number(&first, "high")?,
        };
        let of_run = |run: &Value| -> Option<Vec<u64>> {
            let points = run["points"].as_array()?;
            let kept = |point: &Value| number(&zone(point)?, "kept");
            let stuck = points.iter().filter_map(kept).min().unwrap_or(0);
            let of_point = |point: &Value| {
                let (zone, counters) = (zone(point)?, &point["counters"]);
                let free = number(&zone, "free")? + number(&zone, "kept")? - stuck;
                // A file of a recording from before they were counted has none.
                let compressed = number(&zone, "compressed").unwrap_or(0);
                let short = number(counters, "pgscan")? > 0;
                short.then_some(free + compressed + number(counters, "used_pages")?)
            };
            Some(points.iter().filter_map(of_point).collect())
        };
        let rooms = runs.iter().filter_map(of_run).flatten();
        let rooms: Vec<u64> = rooms.collect();
        let pages = rooms.iter().sum::<u64>().checked_div(rooms.len() as u64)?;
        Some(Self { pages, marks })
    }

    /// For a file.
    pub fn json(self) -> Value {
        let Marks { min, low, high } = self.marks;
        json!({"pages": self.pages, "min": min, "low": low, "high": high})
    }

    /// Of a file.
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        Some(Self {
            pages: number("pages")?,
            marks: Marks {
                min: number("min")?,
                low: number("low")?,
                high: number("high")?,
            },
        })
    }
}

/// Zones of the machine of these runs.
pub fn zones(played: &Value) -> usize {
    played["runs"][0]["zones"].as_array().map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_what_is_used_and_what_is_free_while_memory_is_short() {
        let zone = |free: u64| {
            let mut zone = json!({"compressed": 100, "min": 8, "low": 10, "high": 12});
            (zone["free"], zone["kept"]) = (free.into(), (63 + free).into());
            json!([zone])
        };
        let point = |free: u64, used: u64, scanned: u64| {
            let counters = json!({"used_pages": used, "pgscan": scanned});
            json!({"zones": zone(free), "counters": counters})
        };
        let run = json!({"zones": zone(900), "points": [point(500, 100, 0), point(20, 700, 5), point(10, 730, 9)]});
        let room = Room::of(&json!({"runs": [run, run]})).unwrap();
        // 10 pages of a CPU's were never used.
        assert_eq!((room.pages, room.marks.low), (835, 10));
        assert_eq!(Room::from_json(&room.json()), Some(room));
        let two = json!({"zones": [zone(1)[0], zone(2)[0]], "points": []});
        let two = json!({"runs": [two]});
        assert_eq!((Room::of(&two), zones(&two)), (None, 2));
    }
}
