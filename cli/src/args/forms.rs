//! In which forms results are wanted, and threads: what several commands take.

use crate::output::Wanted;
use clap::Args;
use coldset_lab::runner::SAMPLE_POINTS;

/// The JSON form and the look of tables.
#[derive(Args, Debug)]
pub struct FormArgs {
    /// Write the result as JSON ("-": to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Tables in Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// The CSV form.
#[derive(Args, Debug)]
pub struct CsvArgs {
    /// Write all values as CSV, one a line ("-": to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
}

impl CsvArgs {
    /// All three forms.
    pub fn wanted<'a>(&'a self, page: &'a ReportArgs, form: &'a FormArgs) -> Wanted<'a> {
        Wanted {
            csv: self.csv.as_deref(),
            ..page.wanted(form)
        }
    }
}

/// The page.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Write a page that opens in a browser: summary, tables, charts, parameters, all in one file
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<String>,
}

impl ReportArgs {
    /// The page and the JSON form.
    pub fn wanted<'a>(&'a self, form: &'a FormArgs) -> Wanted<'a> {
        Wanted {
            json: form.json.as_deref(),
            report: self.report.as_deref(),
            ..Wanted::default()
        }
    }
}

/// How often a run is looked at.
#[derive(Args, Clone, Copy, Debug)]
pub struct PointsArgs {
    /// Points on the way, evenly spaced, at which counters and generations are read; `play` compares them with those of
    /// --variants [default: 10, not compared]. Reading folds statistics, which writers notice
    #[arg(id = "points", long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub number: Option<u32>,
}

/// Whether scans are written down.
#[derive(Args, Clone, Copy, Debug)]
pub struct ScansArgs {
    /// Write down what the kernel scans, by its tracepoints, and say at which request to reclaim each of --variants
    /// scans something else, in the first run, and in which fifty requests the sums are apart. In JSON: scans of each
    /// point, as `inactive_file 64 60 32` (the list, folios asked for, pages scanned, pages taken), `freed 30 12`
    /// (pages, priority of the request)
    #[arg(long, conflicts_with = "near")]
    pub scans: bool,
}

impl PointsArgs {
    /// Points at which a prediction is sampled: those of the run if the user named them, else as a page needs them.
    pub fn samples(self, page: bool) -> usize {
        match self.number {
            Some(n) => n as usize,
            None if page => SAMPLE_POINTS,
            None => 0,
        }
    }
}

/// All forms of a result, and threads.
#[derive(Args, Debug)]
pub struct OutArgs {
    /// JSON, tables.
    #[command(flatten)]
    pub form: FormArgs,
    /// CSV.
    #[command(flatten)]
    pub rows: CsvArgs,
    /// The page.
    #[command(flatten)]
    pub page: ReportArgs,
    /// Threads.
    #[command(flatten)]
    pub threads: JobsArgs,
}

impl OutArgs {
    /// What goes where.
    pub fn wanted(&self) -> Wanted<'_> {
        self.rows.wanted(&self.page, &self.form)
    }
}

/// Threads.
#[derive(Args, Debug)]
pub struct JobsArgs {
    /// Threads [default: one for each CPU]; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<usize>,
}

pub(super) fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=1024).contains(&n) => Ok(n),
        _ => Err("write a number from 1 to 1024".into()),
    }
}
