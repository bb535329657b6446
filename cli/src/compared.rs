//! Runs beside predictions of them on the way: their generations, and their scans.

use crate::args::PointsArgs;
use crate::courses::Courses;
use crate::played;
use crate::scans::Scans;
use coldset_lab::runner::ReplayTable;
use serde_json::Value;

/// What is compared on the way, besides counters at the end.
#[derive(Default)]
pub struct Compared<'a> {
    /// Generations at points; none unless the user named these.
    generations: Option<Courses<'a>>,
    /// Requests to reclaim; none unless asked for.
    scans: Option<Scans<'a>>,
}

impl<'a> Compared<'a> {
    /// Compares what was played, by machine, with each prediction of the table.
    pub fn of(
        played: &[(&str, &Value)],
        table: &'a ReplayTable,
        points: PointsArgs,
        scans: bool,
    ) -> Self {
        let generations = || {
            let series =
                |(label, played): &(&str, &Value)| ((*label).to_owned(), played::series(played));
            let runs: Vec<_> = played.iter().map(series).collect();
            Courses::of(&runs, &table.series, table.memory.pages)
        };
        Self {
            generations: points.number.map(|_| generations()),
            scans: scans.then(|| Scans::of(played.iter().copied(), &table.scans)),
        }
    }

    /// The same as lines.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let generations = self.generations.as_ref().map(Courses::lines);
        let scans = self.scans.as_ref().map(Scans::lines);
        generations.into_iter().chain(scans).flatten()
    }

    /// The same as fields of JSON.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let generations = self.generations.as_ref().map(|c| ("courses", c.json()));
        let scans = self.scans.as_ref().map(|s| ("scans", s.json()));
        generations.into_iter().chain(scans)
    }
}
