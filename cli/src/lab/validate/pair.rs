//! A kernel beside its variant, and what changes from one kernel to the next.

use super::measures::{lived, share_killed, Counters, Measures};
use crate::predict::Beside;

/// Rows: heading, counters that are summed.
pub const ROWS: &[Row] = &[
    (
        "refaults",
        &["workingset_refault_file", "workingset_refault_anon"],
    ),
    ("scanned", &["pgscan"]),
    ("stolen", &["pgsteal"]),
    ("activated", &["pgactivate"]),
    ("refilled", &["pgrefill"]),
    (
        "refaults activated",
        &["workingset_activate_file", "workingset_activate_anon"],
    ),
    (
        "refaults restored",
        &["workingset_restore_file", "workingset_restore_anon"],
    ),
];

/// A change that counts: below, a kernel's own repeats may differ as much.
const CHANGE: f64 = 0.03;
/// Counts below this are no basis for a ratio.
pub const FEW: f64 = 100.0;

/// A row: its heading, and its counters.
type Row = (&'static str, &'static [&'static str]);

/// A kernel beside its variant.
pub struct Pair {
    /// What the kernel did.
    pub measures: Measures,
    /// What predicts it.
    pub variant: String,
    /// Under the limit asked for.
    pub predicted: Counters,
    /// The same under it and limits near it.
    pub near: Vec<Counters>,
    /// Where that is from.
    pub beside: Beside,
}

impl Pair {
    /// What was measured, and the mean of what is predicted with limits near the one asked for: kernels differ by as
    /// much from run to run, as their own memory does.
    pub fn values(&self, row: &Row) -> Option<(f64, f64)> {
        let measured = self.measures.row(row.0)?.mean;
        let known = row.1.iter().any(|c| self.predicted.contains_key(*c));
        let all = self.predictions(row);
        known.then(|| (measured, all.iter().sum::<f64>() / all.len() as f64))
    }

    /// What is predicted, with each limit: under those under which nobody is killed, if there are any.
    fn predictions(&self, row: &Row) -> Vec<f64> {
        let sum = |c: &Counters| {
            let each = row.1.iter().filter_map(|name| c.get(*name));
            each.map(|c| c.mean.as_f64()).sum()
        };
        let killed: Vec<f64> = self.near.iter().map(share_killed).collect();
        lived(&killed).map(|n| sum(&self.near[n])).collect()
    }

    /// The least and the most of that.
    pub fn range(&self, row: &Row) -> (f64, f64) {
        let all = self.predictions(row).into_iter();
        all.fold((f64::INFINITY, 0.0), |(least, most), v| {
            (least.min(v), most.max(v))
        })
    }

    /// Shares of the runs that were killed for lack of memory: measured, and predicted.
    pub fn killed(&self) -> (f64, f64) {
        let each = self.near.iter().map(share_killed);
        let predicted = each.sum::<f64>() / self.near.len().max(1) as f64;
        (self.measures.killed, predicted)
    }

    /// What became of the runs; none where nobody was killed, and nobody was to be.
    pub fn fate(&self) -> Option<String> {
        let (measured, predicted) = self.killed();
        let of_all = match measured {
            0.0 => "no run was".to_owned(),
            1.0 => "every run was".to_owned(),
            share => format!("{:.0} % of the runs were", share * 100.0),
        };
        let verdict = match (self.is_fate_right(), predicted) {
            (true, share) if share == measured => "as predicted".to_owned(),
            (true, share) => format!("predicted {:.0} %", share * 100.0),
            (false, 1.0) => "PREDICTED: killed".to_owned(),
            (false, 0.0) => "PREDICTED: alive".to_owned(),
            (false, share) => format!("PREDICTED: {:.0} %", share * 100.0),
        };
        let any = measured + predicted > 0.0;
        any.then(|| format!("{of_all} killed for lack of memory: {verdict}"))
    }

    /// Most of the runs ended as most of the predictions.
    pub fn is_fate_right(&self) -> bool {
        let (measured, predicted) = self.killed();
        (measured > 0.5) == (predicted > 0.5)
    }

    /// Half the distance of the least and the most of what is predicted, as a share of the mean. Runs in one guest may be
    /// closer to each other than runs in several are.
    fn predicted_spread(&self, row: &Row) -> f64 {
        let (least, most) = self.range(row);
        self.values(row)
            .map_or(0.0, |(_, mean)| (most - least) / 2.0 / mean.max(1.0))
    }

    /// That, or half the distance of the runs', if it is more.
    fn noise(&self, row: &Row) -> f64 {
        let of_runs = self.measures.row(row.0).and_then(|f| f.spread);
        of_runs.unwrap_or(0.0).max(self.predicted_spread(row))
    }
}

/// The change of a counter from one kernel to the next, measured and predicted.
pub struct Change {
    /// The row.
    pub name: &'static str,
    /// As a share.
    pub measured: f64,
    /// Likewise.
    pub predicted: f64,
    /// What the runs of each kernel differ by among themselves, or its predictions, together.
    noise: f64,
}

impl Change {
    /// Too small to count, or of the same sign.
    pub fn is_right(&self) -> bool {
        self.measured.abs() <= CHANGE.max(self.noise) || self.measured * self.predicted > 0.0
    }

    /// What is to be said of it.
    pub fn verdict(&self) -> &'static str {
        let size = (self.predicted - self.measured).abs() <= self.measured.abs() / 5.0;
        match self.measured.abs() <= CHANGE {
            true => "hardly any change",
            false if self.measured.abs() <= self.noise => "within the spread of the runs",
            false if self.predicted == 0.0 => "NOT PREDICTED",
            false if !self.is_right() => "WRONG SIGN",
            false if size => "right",
            false => "right sign, another size",
        }
    }
}

/// Of runs that came to the end of the trace, if some did on both kernels and some were to.
pub fn changes(before: &Pair, after: &Pair) -> Vec<Change> {
    let killed = [before.killed(), after.killed()];
    if killed
        .iter()
        .any(|&(measured, predicted)| measured.max(predicted) == 1.0)
    {
        return Vec::new();
    }
    let change = |row: &Row| {
        let (from, to) = (before.values(row)?, after.values(row)?);
        let enough = from.0.min(from.1) >= FEW;
        enough.then(|| Change {
            name: row.0,
            noise: before.noise(row) + after.noise(row) * to.0 / from.0,
            measured: to.0 / from.0 - 1.0,
            predicted: to.1 / from.1 - 1.0,
        })
    };
    ROWS.iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_wrong_sign_is_told() {
        let change = |measured, predicted| Change {
            name: "refaults",
            measured,
            predicted,
            noise: 0.05,
        };
        assert_eq!(change(0.02, -0.5).verdict(), "hardly any change");
        let noise = change(-0.04, 0.5);
        assert_eq!(noise.verdict(), "within the spread of the runs");
        assert!(noise.is_right());
        assert_eq!(change(0.10, 0.11).verdict(), "right");
        assert_eq!(change(0.10, 0.30).verdict(), "right sign, another size");
        assert_eq!(change(0.10, -0.01).verdict(), "WRONG SIGN");
        assert_eq!(change(0.10, 0.0).verdict(), "NOT PREDICTED");
        assert!(!change(0.10, 0.0).is_right());
        assert!(!change(0.10, -0.01).is_right() && change(0.02, -0.5).is_right());
    }
}
