//! What a replay is made with, for its JSON: by option, as the option takes it.

use super::quantity::{show_device, show_scale, show_swap, Low, Size};
use super::zones::show_zones;
use super::{ReplayPlan, RunnerError};
use crate::replay::{Inodes, Limit};
use crate::traces::About;
use coldset_machine::{ReadAhead, Thp};
use serde_json::{json, Map, Value};

impl ReplayPlan {
    /// All that decides the counters of a replay of `trace` beside the trace and the variants, in a fixed order. `set`:
    /// the switches that are set in all variants.
    ///
    /// # Errors
    /// As [`Self::limits`], or a swap area that is none.
    pub fn made_with(&self, trace: &About, set: &[String]) -> Result<Value, RunnerError> {
        let on = &self.settings;
        let limits = self.limits(trace)?;
        let memory: Vec<String> = limits.iter().map(|limit| size(limit.size)).collect();
        let (read_ahead, read_ahead_kb) = match on.read_ahead {
            ReadAhead::Fixed(pages) => (Some(pages), None),
            ReadAhead::Windows { kb } => (None, Some(kb)),
        };
        let mut cost: Vec<_> = on.costs.rows_set().collect();
        cost.sort_unstable();
        let cost: Map<String, Value> = cost
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        // Of several for one switch the last holds.
        let mut switches: Vec<_> = set.iter().filter_map(|s| s.split_once('=')).collect();
        switches.sort_by_key(|(name, _)| name.trim());
        let switches: Map<String, Value> = switches
            .iter()
            .map(|(name, value)| (name.trim().to_owned(), value.trim().into()))
            .collect();
        Ok(json!({
            "memory": memory,
            "limit": match &on.limit {
                Limit::Cgroup => "cgroup",
                Limit::Machine { .. } => "machine",
            },
            "watermarks": match &on.limit {
                Limit::Machine { zones } if !zones.is_empty() => Some(show_zones(zones)),
                _ => None,
            },
            "swap": show_swap(&self.swap_config(trace)?),
            "swappiness": on.swappiness,
            "kernel_memory": on_off(on.kernel_memory),
            "own_pages": on.own_pages,
            "low": of_tasks(&self.low),
            "max": of_tasks(&self.max),
            "fault_around": pages(on.fault_around.into()),
            "read_ahead": read_ahead.map(|n| pages(n.into())),
            "read_ahead_kb": read_ahead_kb,
            "device": show_device(on.device),
            "file_system": on.file_system.to_string(),
            "large_folios": on_off(on.large_folios > 0),
            "extents": on.extents.others,
            "hold_blocks": on_off(on.extents.held),
            "thp": match on.thp {
                Thp::Always => "always",
                Thp::Never => "never",
            },
            "dirty_ratio": on.dirty.ratio,
            "dirty_background_ratio": on.dirty.background_ratio,
            "dirty_limits": if on.dirty.of_host { "host" } else { "memcg" },
            "inodes": match on.inodes {
                Inodes::FirstWriter => "first-writer",
                Inodes::Root => "root",
            },
            "clock": on.clock.as_ref().map(ToString::to_string),
            "pace": if on.pace { "trace" } else { "none" },
            "order": on.order.to_string(),
            "cpus": on.cpus,
            "scale": show_scale(on.scale),
            "fold_phases": self.fold_phases,
            "fold_every": self.fold_every.map(size),
            "set": switches,
            "cost": cost,
        }))
    }
}

fn on_off(on: bool) -> &'static str {
    match on {
        true => "on",
        false => "off",
    }
}

fn pages(number: u64) -> String {
    format!("{number}pages")
}

fn size(size: Size) -> String {
    match size {
        Size::Pages(number) => pages(number),
        Size::Percent(percent) => format!("{percent}%"),
    }
}

fn of_tasks(sizes: &[Low]) -> Map<String, Value> {
    let mut sizes = sizes.to_vec();
    sizes.sort_by_key(|of| of.task);
    let one = |of: &Low| (of.task.to_string(), size(of.size).into());
    sizes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Clock, ReplaySettings};
    use crate::runner::{parse_device, SwapSpec};
    use crate::traces::{Op, OpKind, Trace};

    fn trace() -> Trace {
        let op = |page| Op {
            kind: OpKind::AnonWrite,
            object: 0,
            task: 0,
            page,
        };
        Trace::from_ops((0..1000).map(op).collect())
    }

    /// What is said is what the options take: read again, it is the same.
    #[test]
    fn every_setting_is_as_its_option_takes_it() {
        let mut settings = ReplaySettings {
            kernel_memory: false,
            swappiness: 150,
            device: parse_device("delay:20ms").unwrap(),
            clock: Some(Clock::parse("0:0,100:1.5").unwrap()),
            ..ReplaySettings::default()
        };
        for (name, value) in [("nvme_write_lat_ns", 7), ("nvme_read_lat_ns", 5)] {
            settings.costs.set(name, value).unwrap();
        }
        let low = |text| Low::parse(text).unwrap();
        let plan = ReplayPlan {
            settings,
            swap: Some(SwapSpec::parse("nvme:1GiB").unwrap()),
            low: vec![low("3=1MiB"), low("0=12.5%")],
            ..ReplayPlan::new(Vec::new(), Size::Percent(25.0))
        };
        let made = plan
            .made_with(&trace(), &["smaller_batch=on".into()])
            .unwrap();
        for (name, expected) in [
            ("memory", json!(["25%"])),
            ("swap", json!("nvme:262144pages")),
            ("swappiness", json!(150)),
            ("kernel_memory", json!("off")),
            ("low", json!({"0": "12.5%", "3": "256pages"})),
            ("device", json!("delay:20ms")),
            ("clock", json!("0:0,100:1.5")),
            ("read_ahead", json!("0pages")),
            ("read_ahead_kb", Value::Null),
            ("set", json!({"smaller_batch": "on"})),
            (
                "cost",
                json!({"nvme_read_lat_ns": 5, "nvme_write_lat_ns": 7}),
            ),
        ] {
            assert_eq!(made[name], expected, "{name}");
        }
        for device in ["nvme", "hdd", "delay:1s", "delay:80us"] {
            assert_eq!(show_device(parse_device(device).unwrap()), device);
        }
        for swap in ["none", "zram:77pages:zstd", "hdd:5pages"] {
            let config = SwapSpec::parse(swap).unwrap().config(0).unwrap();
            assert_eq!(show_swap(&config), swap);
        }
    }

    #[test]
    fn what_nobody_has_asked_for_is_said_too() {
        let plan = ReplayPlan {
            memory: Vec::new(),
            ..ReplayPlan::new(Vec::new(), Size::Pages(0))
        };
        let made = plan.made_with(&trace(), &[]).unwrap();
        assert_eq!(made["memory"], json!(["25%", "50%"]), "10 % is too small");
        assert_eq!(made["swap"], "zram:1000pages:lz4");
    }
}
