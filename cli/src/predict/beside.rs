//! What was measured, and what the lab predicts of it.

use super::near::{limits_near, LIMITS};
use super::setting::Setting;
use super::{Room, PAGE};
use crate::error::Failure;
use coldset_lab::replay::Limit;
use coldset_lab::report::{human, listed, CounterSummary, ReplayResult};
use coldset_lab::runner::{
    killed_after, show_pages, show_zones, Low, ReplayPlan, ReplayTable, Size, SwapSpec, Variant,
};
use coldset_lab::traces::Trace;
use coldset_machine::{FileSystem, Marks, OpError};
use indexmap::IndexMap;
use serde_json::{json, Value};
use std::fmt::Write as _;

/// What was measured, column by column, and what the lab predicts of it.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Measured columns, then predicted ones. The series are those of predictions.
    pub table: ReplayTable,
    /// What was predicted with.
    pub variants: Vec<Variant>,
    setting: Setting,
    /// The trace has advice, and the device's read-ahead comes on top.
    read_ahead: bool,
    /// The kernel made large folios of its files.
    large_folios: bool,
    /// Variants whose replay did not come to the end of the trace, and why.
    ended: Vec<(String, String)>,
}

/// What is kept of the course of a prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Points at which samples are taken.
    pub points: usize,
    /// What tasks scan is written down.
    pub scans: bool,
}

/// Replays `trace` under the settings of the run that was measured.
///
/// # Errors
/// A variant that does not exist, a limit that is too small for the lab.
pub fn beside(
    trace: &Trace,
    variants: &[String],
    setting: Setting,
    measured: IndexMap<String, IndexMap<String, CounterSummary>>,
    look: Look,
) -> Result<Beside, Failure> {
    let mut plan = setting.plan(trace, Variant::parse_all(variants, &[])?);
    plan.sample_points = look.points;
    plan.scans = look.scans;
    let mut table = match plan.variants.is_empty() {
        true => setting.table(trace),
        false => setting.replays(trace, &plan)?.remove(0),
    };
    let ReplayResult {
        variants: predicted,
        phases,
        ..
    } = std::mem::take(&mut table.result);
    let killed = predicted.iter().filter_map(|(variant, counters)| {
        let access = killed_after(counters)?;
        Some((
            variant.clone(),
            format!("{} at access {}", OpError::NoMemory, human(access as f64)),
        ))
    });
    let ended = killed.collect();
    let mut all = measured;
    all.extend(predicted);
    table.result = ReplayResult {
        variants: all,
        bounds: IndexMap::new(),
        phases,
    };
    Ok(Beside {
        table,
        variants: plan.variants,
        read_ahead: trace.has_advice(),
        large_folios: setting.folio_order(trace) > 0,
        setting,
        ended,
    })
}

/// What a variant comes to under limits near that of `setting` and that one, a column each. Where it is known what each run
/// had of the machine, or its times, runs take turns. When statistics are folded differs, too: a kernel does it when it is
/// due, whenever a run began.
///
/// # Errors
/// As [`beside`].
pub fn nearby(
    trace: &Trace,
    variant: &str,
    setting: &Setting,
) -> Result<Vec<IndexMap<String, CounterSummary>>, Failure> {
    let predictions = LIMITS as usize;
    let rooms: Vec<_> = in_turn(&setting.rooms).take(predictions).collect();
    let memory = match rooms.as_slice() {
        [] => limits_near(setting.memory.pages_of(trace.unique_pages), LIMITS),
        // Runs under limits near the one that was asked for had rooms as near.
        rooms if setting.rooms.len() == predictions => rooms.iter().map(Room::pages).collect(),
        rooms => {
            let near = |(n, room): (usize, &Room)| limits_near(room.pages(), LIMITS)[n];
            rooms.iter().enumerate().map(near).collect()
        }
    };
    let plan = ReplayPlan {
        memory: memory.into_iter().map(Size::Pages).collect(),
        spread_limits: true,
        clocks: in_turn(&setting.clocks).take(predictions).collect(),
        limits_of: rooms.into_iter().map(Room::limit).collect(),
        ..setting.plan(trace, Variant::parse_all(&[variant], &[])?)
    };
    let tables = setting.replays(trace, &plan)?;
    let columns = tables.into_iter().map(|t| t.result.variants);
    Ok(columns.flat_map(IndexMap::into_values).collect())
}

/// Again and again.
fn in_turn<T: Clone>(all: &[T]) -> impl Iterator<Item = T> + '_ {
    all.iter().cycle().cloned()
}

impl Beside {
    /// Nothing was predicted.
    fn is_none(&self) -> bool {
        self.variants.is_empty()
    }

    /// What the prediction is of, a line each; none without a prediction.
    pub fn lines(&self) -> Vec<String> {
        if self.is_none() {
            return Vec::new();
        }
        let s = &self.setting;
        let swap = match &s.swap {
            SwapSpec::None => "no swap".to_owned(),
            SwapSpec::Zram(size, _) => format!("zram of {}", show_pages(size.pages_of(0))),
            SwapSpec::Disk(size, _) => {
                format!("swap on a disk of {}", show_pages(size.pages_of(0)))
            }
        };
        let around = u64::from(s.fault_around) * PAGE / 1024;
        let assumed = if s.assumed { " (assumed)" } else { "" };
        let mut with = Vec::new();
        if let Some(room) = s.room() {
            let marks = match room.zones.as_slice() {
                [zone] => {
                    let Marks { min, low, high } = zone.marks;
                    let batch = zone.batch.map(|n| format!(", batches of {n}"));
                    format!("{min}, {low} and {high}{}", batch.unwrap_or_default())
                }
                zones => format!("of {} zones {}", zones.len(), show_zones(zones)),
            };
            with.push(format!(
                "{} pages of the machine, as the run had on average, watermarks {marks}",
                human(room.pages() as f64)
            ));
        }
        with.extend([
            swap,
            format!("swappiness {}", s.swappiness),
            format!("{around} KiB mapped round a fault{assumed}"),
        ]);
        if s.file_system != FileSystem::default() {
            with.push(s.file_system.to_string());
        }
        if self.read_ahead {
            with.push(format!("read-ahead of {} KiB", s.read_ahead_kb));
        }
        if self.large_folios {
            with.push("large folios".to_owned());
        }
        for (name, ratio) in [
            ("dirty_ratio", s.dirty.ratio),
            ("dirty_background_ratio", s.dirty.background_ratio),
        ] {
            with.extend(ratio.map(|percent| format!("{name} {percent}")));
        }
        if let Some(ns) = s.device.delay_write_ns {
            with.push(format!("{} ms a write of the device", ns as f64 / 1e6));
        }
        let low = |l: &Low| format!("memory.low of task {}", l.task);
        with.extend(s.low.iter().map(low));
        with.extend(s.clock.as_ref().map(|_| "the times of the run".to_owned()));
        let costs = s.costs();
        with.extend(
            costs
                .rows_set()
                .map(|(row, value)| format!("{row} {value}")),
        );
        let mut lines = vec![format!("predicted with {}", with.join(", "))];
        let said = self.ended.iter();
        lines.extend(said.map(|(variant, why)| format!("{variant}: {why}")));
        if !s.without.is_empty() {
            let are = if s.without.len() == 1 { "is" } else { "are" };
            lines.push(format!(
                "{} {are} not in the prediction",
                listed(&s.without)
            ));
        }
        lines
    }

    /// The same under a table.
    pub fn text(&self) -> String {
        self.lines()
            .into_iter()
            .fold(String::new(), |mut out, line| {
                let _ = writeln!(out, "{line}");
                out
            })
    }

    /// The same as JSON; null without a prediction.
    pub fn json(&self) -> Value {
        if self.is_none() {
            return Value::Null;
        }
        let s = &self.setting;
        let (kind, pages) = match &s.swap {
            SwapSpec::None => ("none", 0),
            SwapSpec::Zram(size, _) => ("zram", size.pages_of(0)),
            SwapSpec::Disk(size, _) => ("disk", size.pages_of(0)),
        };
        let mut json = json!({
            "swap": kind,
            "swap_pages": pages,
            "swappiness": s.swappiness,
            "fault_around_bytes": u64::from(s.fault_around) * PAGE,
            "fault_around_assumed": s.assumed,
            "read_ahead_kb": self.read_ahead.then_some(s.read_ahead_kb),
            "large_folios": self.large_folios,
            "file_system": s.file_system.name(),
            "dirty_ratio": s.dirty.ratio,
            "dirty_background_ratio": s.dirty.background_ratio,
            "write_delay_ns": s.device.delay_write_ns,
            "low_tasks": s.low.iter().map(|l| l.task).collect::<Vec<_>>(),
            "pace": s.pace,
            "times_of_the_run": s.clock.is_some(),
            "clock": s.clock.as_ref().map(ToString::to_string),
            "clocks": s.clocks.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "order": s.order.to_string(),
            "cpus": s.cpus,
            "dirty_limits": if s.dirty.of_host { "host" } else { "memcg" },
            "inodes": "root",
            "not_in_it": s.without,
            "ended": self.ended.iter().cloned().collect::<IndexMap<_, _>>(),
        });
        if s.virtual_time {
            json["costs"] = json!(s.costs().rows_set().collect::<IndexMap<_, _>>());
        }
        if s.limit != Limit::Cgroup {
            json["limit"] = "machine".into();
            json["room"] = s.room().as_ref().map(Room::json).into();
        }
        if !s.rooms.is_empty() {
            json["rooms"] = s.rooms.iter().map(Room::json).collect();
        }
        json
    }
}
