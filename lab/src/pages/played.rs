//! The page of `play` and `kernel play`.

use super::replay::{every, figures};
use super::variants::{costs, difference, switches};
use crate::runner::{show_pages, ReplayTable, Variant};
use coldset_machine::Params;
use coldset_report::charts::over_accesses;
use coldset_report::html::{capital, causes, change, Page, Section, Summary};
use coldset_report::{human, Table};

/// Sentences about counters, at most.
const CAUSES_MAX: usize = 6;

/// What kernels did with a trace, and what was predicted.
#[derive(Clone, Debug)]
pub struct Played<'a> {
    /// Which trace it was.
    pub title: String,
    /// How it was played, in a sentence.
    pub lead: String,
    /// What each kernel ran on: its name in tables, and its description.
    pub machines: Vec<(String, String)>,
    /// Measured columns, then predicted ones; series of either over the accesses.
    pub table: &'a ReplayTable,
    /// What was predicted with.
    pub variants: &'a [Variant],
    /// How long accesses took.
    pub latencies: Vec<Table>,
    /// What is to be known of runs and predictions.
    pub remarks: Vec<String>,
    /// What `--json` writes.
    pub json: String,
    /// What makes the page again.
    pub command: String,
}

impl Played<'_> {
    /// Pages that were needed again.
    fn refaults(&self, column: &str) -> Option<f64> {
        let counters = &self.table.result.variants[column];
        let kinds = ["workingset_refault_file", "workingset_refault_anon"];
        let each = kinds.iter().filter_map(|name| counters.get(*name));
        each.map(|c| c.mean.as_f64()).reduce(|a, b| a + b)
    }

    fn summary(&self) -> Summary {
        let mut columns = self.table.result.variants.keys();
        let first = columns
            .next()
            .and_then(|name| Some((name, self.refaults(name)?)));
        let Some((first, measured)) = first else {
            return Summary::default();
        };
        let beside = columns.clone().filter_map(|name| {
            let refaults = self.refaults(name)?;
            let than = match measured {
                0.0 => String::new(),
                of => format!(" ({} against {first})", change(refaults / of)),
            };
            Some(format!("{name}: {}{than}.", human(refaults)))
        });
        let mut paragraphs = vec![("Refaults of the others:".to_owned(), beside.collect())];
        if let Some(other) = columns.next() {
            let all = &self.table.result.variants;
            let moved = causes(&all[first], &all[other]);
            let heading = format!("The counters that differ most between {first} and {other}:");
            // Without what it means: that a prediction is off is no merit of a policy.
            let sentences = moved
                .iter()
                .take(CAUSES_MAX)
                .map(|c| capital(&c.figures) + ".");
            paragraphs.push((heading, sentences.collect()));
        }
        paragraphs.extend(difference(self.variants));
        paragraphs.retain(|(_, list)| !list.is_empty());
        Summary {
            headline: format!(
                "{first}: {} refaults with memory {}.",
                human(measured),
                show_pages(self.table.memory.pages)
            ),
            paragraphs,
        }
    }

    /// The page.
    #[must_use]
    pub fn page(self) -> String {
        let columns: Vec<String> = self.table.result.variants.keys().cloned().collect();
        let charts = over_accesses(&columns, &[(String::new(), &self.table.series)]);
        let tables = std::slice::from_ref(self.table);
        let mut facts = vec![("memory".to_owned(), show_pages(self.table.memory.pages))];
        facts.extend(self.machines.iter().cloned());
        let mut remarks = Section::new("remarks", "Runs and predictions");
        remarks.points = self.remarks.iter().map(|r| capital(r)).collect();
        let mut sections = vec![
            Section::new("figures", "Figures")
                .intro("What was measured, and what the lab predicts; means of the runs with half their 95 % confidence interval.")
                .tables(figures(tables, 0)),
            remarks,
            Section::new("time", "Over the accesses")
                .intro("Of kernels, the first run.")
                .charts(charts),
            Section::new("latencies", "Latencies")
                .intro("How long accesses took, of the first run.")
                .tables(self.latencies.clone()),
            Section::new("counters", "All counters")
                .intro("What is 0 everywhere is left out.")
                .tables(every(tables, 0))
                .folded(),
        ];
        if !self.variants.is_empty() {
            sections.extend([switches(self.variants), costs(&Params::default())]);
        }
        let page = Page {
            summary: self.summary(),
            title: self.title,
            lead: self.lead,
            facts,
            sections,
            command: self.command,
            json: self.json,
        };
        page.render_measured()
    }
}
