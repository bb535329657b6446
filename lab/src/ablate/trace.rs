//! Which change matters for a trace: replays under one limit in place of an experiment, and limits nearby in place of seeds.

use super::{parts, variants};
use crate::advise::{large_enough, measure, Against, Cost, Runs};
use crate::runner::{Progress, ReplayPlan, RunnerError, Size, Variant};
use crate::traces::Trace;
use coldset_report::{human, wrap, Align, Cell, Number, Style, Table};
use serde::Serialize;

/// What is asked.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// Before.
    pub before: Variant,
    /// After.
    pub after: Variant,
    /// The limit; a share is one of the trace's pages.
    pub memory: Size,
    /// How the trace is replayed; variants and limits are set here.
    pub replays: ReplayPlan,
}

/// A variant, and how it compares with the one it was made from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// None: its task was killed for lack of memory.
    pub cost: Option<Cost>,
    /// Its reads against theirs.
    pub reads: Option<Against>,
    /// Its time against theirs.
    pub time: Option<Against>,
}

/// A patch, or a switch that belongs to none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// `patch 6`, or the name of a switch.
    pub change: String,
    /// What it does.
    pub subject: String,
    /// Its switches.
    pub switches: Vec<&'static str>,
    /// Before with only this change, against before.
    pub alone: Side,
    /// After with this change taken away, against after.
    pub without: Side,
}

/// The changes between two variants, on a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceAblation {
    /// Limit, pages.
    pub memory_pages: u64,
    /// Label of before.
    pub before: String,
    /// Label of after.
    pub after: String,
    /// What before costs; none: it was killed.
    pub before_cost: Option<Cost>,
    /// After, against before.
    pub whole: Side,
    /// Each change.
    pub changes: Vec<Change>,
}

impl Side {
    fn of(runs: &Runs, other: &Runs) -> Self {
        Self {
            cost: runs.here(),
            reads: runs.reads_against(other),
            time: runs.time_against(other),
        }
    }

    fn matters(&self) -> bool {
        let clear = |a: Option<Against>| a.is_some_and(|a| a.clear);
        clear(self.reads) || clear(self.time)
    }
}

impl TracePlan {
    /// The limit, pages.
    ///
    /// # Errors
    /// It is too small.
    pub fn pages(&self, trace: &Trace) -> Result<u64, RunnerError> {
        large_enough(self.memory, trace.unique_pages, trace)
    }
}

/// Replays the trace over before, after, and each change alone and taken away.
///
/// # Errors
/// A pair that does not differ, a limit that is too small, a replay that fails.
pub fn ablate_trace(
    trace: &Trace,
    plan: &TracePlan,
    progress: impl FnOnce(u64) -> Progress,
) -> Result<TraceAblation, RunnerError> {
    let parts = parts(&plan.before.switches, &plan.after.switches);
    if parts.is_empty() {
        return Err(super::no_difference(&plan.before, &plan.after));
    }
    let pages = plan.pages(trace)?;
    let all = variants(&plan.before, &plan.after, &parts);
    let runs = measure(trace, &plan.replays, &all, pages, progress)?;
    let (before, after) = (&runs[0], &runs[runs.len() - 1]);
    let changes = parts.iter().enumerate().map(|(i, part)| Change {
        change: part.name.clone(),
        subject: part.subject.clone(),
        switches: part.switches.clone(),
        alone: Side::of(&runs[1 + i], before),
        without: Side::of(&runs[1 + parts.len() + i], after),
    });
    Ok(TraceAblation {
        memory_pages: pages,
        before: plan.before.label.clone(),
        after: plan.after.label.clone(),
        before_cost: before.here(),
        whole: Side::of(after, before),
        changes: changes.collect(),
    })
}

/// `+2.5 %`, `=` where nothing stands out.
fn change(against: Option<Against>) -> String {
    match against {
        Some(Against { clear: false, .. }) => "=".into(),
        Some(Against {
            ratio: Some(ratio), ..
        }) => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
        _ => "-".into(),
    }
}

impl TraceAblation {
    /// A row a change.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            ("change", Align::Left),
            ("alone", Align::Right),
            ("reads", Align::Right),
            ("time", Align::Right),
            ("without", Align::Right),
            ("reads", Align::Right),
            ("time", Align::Right),
        ]);
        for (i, c) in self.changes.iter().enumerate() {
            let mut row: Vec<Cell> = vec![c.change.as_str().into()];
            for (side, name) in [(&c.alone, "alone"), (&c.without, "without")] {
                row.push(side.cost.map_or_else(
                    || "killed".into(),
                    |cost| {
                        let place = format!("/changes/{i}/{name}/cost/reads");
                        Cell::number(human(cost.reads), Number::Real(cost.reads), place)
                    },
                ));
                row.extend([change(side.reads).into(), change(side.time).into()]);
            }
            table.row(row);
        }
        table
    }

    /// What the changes come to together, and which of them matters.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let reads = |cost: Option<Cost>| {
            cost.map_or_else(
                || "killed".to_owned(),
                |c| format!("{} reads", human(c.reads)),
            )
        };
        let whole = match self.whole.matters() {
            true => format!(
                "reads {}, time {}",
                change(self.whole.reads),
                change(self.whole.time)
            ),
            false => "no difference above noise".into(),
        };
        let mut said = vec![format!(
            "{}: {}; {}: {}: {whole}.",
            self.before,
            reads(self.before_cost),
            self.after,
            reads(self.whole.cost)
        )];
        for (heading, side) in [
            ("Alone", (|c: &Change| &c.alone) as fn(&Change) -> &Side),
            ("Taken away", |c| &c.without),
        ] {
            let mattering = self.changes.iter().filter(|c| side(c).matters());
            let list: Vec<String> = mattering
                .map(|c| match c.change.starts_with("patch") {
                    true => format!("{} ({})", c.change, c.subject),
                    false => c.change.clone(),
                })
                .collect();
            said.push(match list.as_slice() {
                [] => format!("{heading}, no change stands out."),
                some => format!("{heading}, these stand out: {}.", some.join(", ")),
            });
        }
        said
    }
}

/// Table and sentences.
#[must_use]
pub fn render_trace_ablation(a: &TraceAblation, style: Style) -> String {
    let mut out = a.table().text(style);
    out.push('\n');
    for sentence in a.sentences() {
        out.push_str(&wrap(&sentence, 80));
        out.push('\n');
    }
    let note = format!(
        "alone: {} with only this change, reads and time against {}. without: {} with this change taken away, against {}. \
         =: does not stand out from what limits up to 0.4 % away do (95 % interval of the ratio; one in twenty does by \
         chance).",
        a.before, a.before, a.after, a.after
    );
    out + "\n" + &wrap(&note, 80) + "\n"
}

/// All of it.
#[must_use]
pub fn trace_ablation_json(a: &TraceAblation) -> String {
    let text = serde_json::to_string_pretty(a).expect("plain data");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::replay_all;
    use crate::traces::{load, TraceOptions};
    use std::path::Path;

    fn sqlite() -> Trace {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/sqlite.pageops.zst");
        load(path, None, &TraceOptions::default()).unwrap()
    }

    fn ask(trace: &Trace, pair: [&str; 2]) -> Result<TraceAblation, RunnerError> {
        let [before, after] = pair.map(|name| Variant::parse(name, &[]).unwrap());
        let plan = TracePlan {
            before,
            after,
            memory: Size::Percent(25.0),
            replays: ReplayPlan::new(Vec::new(), Size::Percent(25.0)),
        };
        ablate_trace(trace, &plan, |_| Progress::silent())
    }

    /// One change: with it before is after, and without it after is before.
    #[test]
    fn a_single_change_is_the_whole() {
        let trace = sqlite();
        let pair = ["base", "base+smaller_batch=on"];
        let a = ask(&trace, pair).unwrap();
        assert_eq!(a.changes.len(), 1);
        assert_eq!(a.changes[0].alone, a.whole);
        assert_eq!(a.changes[0].without.cost, a.before_cost);
        let replays = ReplayPlan::new(
            Variant::parse_all(&pair, &[]).unwrap(),
            Size::Pages(a.memory_pages),
        );
        let table = &replay_all(&trace, &replays, |_| Progress::silent()).unwrap()[0];
        let misses = |name: &str| table.result.variants[name]["misses"].mean.as_f64();
        assert_eq!(a.before_cost.unwrap().reads, misses(pair[0]));
        assert_eq!(a.whole.cost.unwrap().reads, misses(pair[1]));
    }

    #[test]
    fn patches_are_named_and_pairs_that_are_equal_refused() {
        let trace = sqlite();
        let a = ask(&trace, ["base", "v5"]).unwrap();
        assert!(a.changes.iter().any(|c| c.change == "patch 6"));
        let text = render_trace_ablation(&a, Style::Plain);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        // A switch of writeback does nothing to memory that no file has.
        let of = |name: &str| a.changes.iter().find(|c| c.change == name).unwrap();
        assert!(!of("patch 14").alone.matters() && !of("patch 14").without.matters());
        let equal = ask(&trace, ["v5", "series-v5"]).unwrap_err().to_string();
        assert!(equal.contains("differ in a switch"), "{equal}");
    }
}
