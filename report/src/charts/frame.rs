//! Series of all runs on common points of the horizontal axis.

use super::spec::drawn;
use super::topics::{LISTS, PLAIN_LISTS, TOPICS};
use crate::{Number, RunResult};
use indexmap::{IndexMap, IndexSet};

/// Points of a line.
pub const BINS: usize = 96;
/// Parts (machines of one experiment, limits of a replay) shown, at most.
const PARTS_MAX: usize = 4;

type Points = [(u64, Number)];

/// Series of one name, by variant: one for each seed.
type ByVariant<'a> = IndexMap<&'a str, Vec<&'a Points>>;

/// All series that can be drawn.
pub struct Lines<'a> {
    /// All variants in order.
    pub all: &'a [String],
    /// Those of them that are drawn.
    pub variants: Vec<String>,
    /// By part (`""` if there is one only), then by name.
    pub parts: IndexMap<String, IndexMap<&'a str, ByVariant<'a>>>,
    /// Parts that are left out.
    pub hidden: usize,
}

/// The part and the bare name of a series: `zipf.pgscan` is `pgscan` of `zipf`.
fn split(name: &str) -> Option<(&str, &str)> {
    let topics = TOPICS.iter().flat_map(|t| t.series);
    let mut known = topics.chain(LISTS).chain(PLAIN_LISTS).map(|s| s.0);
    known.find_map(|bare| {
        let part = name.strip_suffix(bare)?;
        let part = if part.is_empty() {
            ""
        } else {
            part.strip_suffix('.')?
        };
        Some((part, bare))
    })
}

impl<'a> Lines<'a> {
    /// Of an experiment. If it has many parts, those that `mechanism` counters are about come first.
    pub fn of_runs(runs: &'a [RunResult], variants: &'a [String], mechanism: &[&str]) -> Self {
        let mut lines = Self::none(variants);
        for run in runs {
            for (name, points) in &run.series {
                lines.add(name, &run.variant, points);
            }
        }
        lines.choose(mechanism);
        lines
    }

    /// None yet.
    pub fn none(variants: &'a [String]) -> Self {
        Self {
            all: variants,
            variants: drawn(variants),
            parts: IndexMap::new(),
            hidden: 0,
        }
    }

    /// Adds a series of a run; one that is not known has no unit and is not drawn.
    pub fn add(&mut self, name: &'a str, variant: &'a str, points: &'a Points) {
        if let Some((part, bare)) = split(name) {
            self.add_to(part, bare, variant, points);
        }
    }

    /// Adds a series to a part.
    pub fn add_to(&mut self, part: &str, bare: &'a str, variant: &'a str, points: &'a Points) {
        if points.len() > 1 {
            let part = self.parts.entry(part.to_owned()).or_default();
            let by_variant = part.entry(bare).or_default();
            by_variant.entry(variant).or_default().push(points);
        }
    }

    fn choose(&mut self, mechanism: &[&str]) {
        if self.parts.len() <= PARTS_MAX {
            return;
        }
        let of = |part: &String| {
            mechanism
                .iter()
                .position(|m| m.starts_with(&format!("{part}.")))
        };
        let mut wanted: Vec<(usize, String)> = self
            .parts
            .keys()
            .enumerate()
            .map(|(i, part)| (of(part).unwrap_or(mechanism.len() + i), part.clone()))
            .collect();
        wanted.sort();
        let keep: IndexSet<String> = wanted.into_iter().take(PARTS_MAX).map(|w| w.1).collect();
        self.hidden = self.parts.len() - keep.len();
        self.parts.retain(|part, _| keep.contains(part));
    }

    /// Seeds of the variant with the most.
    pub fn seeds(&self) -> usize {
        let all = self.parts.values().flat_map(|p| p.values());
        all.flat_map(|v| v.values())
            .map(Vec::len)
            .max()
            .unwrap_or(0)
    }

    /// The last point of a part.
    fn end(&self, part: &str) -> u64 {
        let all = self.parts[part].values().flat_map(|v| v.values().flatten());
        all.filter_map(|p| p.last()).map(|p| p.0).max().unwrap_or(0)
    }
}

/// What the horizontal axis is.
pub struct Frame {
    /// Title with unit.
    pub title: &'static str,
    /// End of each part.
    ends: IndexMap<String, u64>,
    /// A step of the axis in units of the series.
    unit: f64,
    /// Rates are for so many units of the series.
    per: f64,
    /// What a rate is for.
    pub per_title: &'static str,
}

/// One line: its points, at bin edges.
pub struct Binned {
    /// Middle of each bin, in units of the axis.
    pub at: Vec<f64>,
    /// Value in each bin.
    pub values: Vec<f64>,
}

impl Frame {
    /// Virtual time in seconds, or milliseconds for short runs.
    pub fn virtual_time(lines: &Lines<'_>) -> Self {
        let ends: IndexMap<String, u64> = lines
            .parts
            .keys()
            .map(|p| (p.clone(), lines.end(p)))
            .collect();
        let short = ends.values().all(|&end| end < 2_000_000_000);
        Self {
            title: if short {
                "virtual time, ms"
            } else {
                "virtual time, s"
            },
            ends,
            unit: if short { 1e6 } else { 1e9 },
            per: 1e9,
            per_title: "per s",
        }
    }

    /// Accesses of a trace, in per cent of all.
    pub fn accesses(lines: &Lines<'_>) -> Self {
        let ends: IndexMap<String, u64> = lines
            .parts
            .keys()
            .map(|p| (p.clone(), lines.end(p)))
            .collect();
        let all = ends.values().copied().max().unwrap_or(1);
        Self {
            title: "accesses done, %",
            ends,
            unit: all as f64 / 100.0,
            per: 1000.0,
            per_title: "per 1000 accesses",
        }
    }

    /// Edge `k` of `bins` bins of a part, in units of the series.
    fn edge(&self, part: &str, bins: usize, k: usize) -> f64 {
        self.ends[part] as f64 * k as f64 / bins as f64
    }

    /// Edge `k` of `bins` bins of a part, in units of the axis.
    pub fn shown(&self, part: &str, bins: usize, k: usize) -> f64 {
        self.edge(part, bins, k) / self.unit
    }

    /// The mean over the seeds, bin by bin, as far as most of them go. A rate, or the level at the
    /// middle of a bin.
    pub fn bin(&self, part: &str, bins: usize, runs: &[&Points], rate: bool) -> Binned {
        let mut out = Binned {
            at: Vec::new(),
            values: Vec::new(),
        };
        for k in 0..bins {
            let (from, to) = (self.edge(part, bins, k), self.edge(part, bins, k + 1));
            let middle = (from + to) / 2.0;
            let there: Vec<f64> = runs
                .iter()
                .filter(|points| points.last().is_some_and(|p| p.0 as f64 >= middle))
                .map(|points| {
                    if rate {
                        let end = points.last().map_or(to, |p| to.min(p.0 as f64));
                        let gain = value_at(points, end) - value_at(points, from);
                        gain / (end - from).max(f64::MIN_POSITIVE) * self.per
                    } else {
                        value_at(points, middle)
                    }
                })
                .collect();
            if 2 * there.len() <= runs.len() {
                break;
            }
            out.at.push(middle / self.unit);
            out.values
                .push(there.iter().sum::<f64>() / there.len() as f64);
        }
        out
    }
}

/// The value at a time, linear between the points. Before the first point it is the first value.
fn value_at(points: &Points, at: f64) -> f64 {
    let after = points.partition_point(|p| (p.0 as f64) < at);
    let value = |i: usize| points[i].1.as_f64();
    match (after.checked_sub(1), points.get(after)) {
        (None, _) => value(0),
        (Some(before), None) => value(before),
        (Some(before), Some(next)) => {
            let (t0, t1) = (points[before].0 as f64, next.0 as f64);
            let share = (at - t0) / (t1 - t0);
            value(before) + (next.1.as_f64() - value(before)) * share
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_names_are_split() {
        assert_eq!(split("pgscan"), Some(("", "pgscan")));
        assert_eq!(
            split("hdd.6M.u5.gen0_file"),
            Some(("hdd.6M.u5", "gen0_file"))
        );
        assert_eq!(split("memcgs of heat 01"), None);
        assert_eq!(split("xpgscan"), None);
    }

    #[test]
    fn rates_and_levels_by_bin() {
        let variants = ["v".to_owned()];
        let series = [
            (0, Number::Int(0)),
            (500, Number::Int(50)),
            (1000, Number::Int(50)),
        ];
        let short = [(0, Number::Int(0)), (400, Number::Int(40))];
        let mut lines = Lines::none(&variants);
        lines.add("a.pgscan", "v", &series);
        let mut frame = Frame::virtual_time(&lines);
        frame.unit = 1.0;
        frame.per = 10.0;
        let rate = frame.bin("a", 4, &[&series], true);
        assert_eq!(rate.at, [125.0, 375.0, 625.0, 875.0]);
        assert_eq!(rate.values, [1.0, 1.0, 0.0, 0.0]);
        let level = frame.bin("a", 4, &[&series], false);
        assert_eq!(level.values, [12.5, 37.5, 50.0, 50.0]);
        // One of three runs ends early, then two of three.
        let both = frame.bin("a", 4, &[&series, &series, &short], true);
        assert_eq!(both.values.len(), 4);
        let both = frame.bin("a", 4, &[&series, &short, &short], true);
        assert_eq!(both.values, [1.0, 1.0]);
    }
}
