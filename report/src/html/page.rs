//! The page itself.

use crate::charts::Chart;
use crate::table::Table;
use maud::{html, Markup, PreEscaped, DOCTYPE};

const VEGA: &str = include_str!("../../assets/vendor/vega.min.js");
const VEGA_LICENSE: &str = include_str!("../../assets/vendor/vega.LICENSE");
const VEGA_LITE: &str = include_str!("../../assets/vendor/vega-lite.min.js");
const VEGA_LITE_LICENSE: &str = include_str!("../../assets/vendor/vega-lite.LICENSE");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");

/// A part of a page: a heading, words, tables, charts. One with nothing to show is left out.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// The anchor.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// How to read it; may be empty.
    pub intro: String,
    /// Tables; empty ones are left out.
    pub tables: Vec<Table>,
    /// Sentences.
    pub points: Vec<String>,
    /// Pictures, below the tables.
    pub charts: Vec<Chart>,
    /// Shown on request, and on paper.
    pub folded: bool,
}

impl Section {
    /// An empty one.
    #[must_use]
    pub fn new(id: &'static str, title: &'static str) -> Self {
        Self {
            id,
            title,
            ..Self::default()
        }
    }

    /// How to read it.
    #[must_use]
    pub fn intro(self, intro: impl Into<String>) -> Self {
        let intro = intro.into();
        Self { intro, ..self }
    }

    /// With these tables.
    #[must_use]
    pub fn tables(self, tables: Vec<Table>) -> Self {
        Self { tables, ..self }
    }

    /// With these charts.
    #[must_use]
    pub fn charts(self, charts: Vec<Chart>) -> Self {
        Self { charts, ..self }
    }

    /// Shown on request.
    #[must_use]
    pub fn folded(self) -> Self {
        let folded = true;
        Self { folded, ..self }
    }

    fn is_empty(&self) -> bool {
        self.tables.iter().all(Table::is_empty) && self.charts.is_empty() && self.points.is_empty()
    }

    fn markup(&self) -> Markup {
        let body = html! {
            @if !self.intro.is_empty() { p { (self.intro) } }
            @for table in self.tables.iter().filter(|t| !t.is_empty()) { (table.markup()) }
            @if !self.points.is_empty() { ul { @for p in &self.points { li { (p) } } } }
            @for chart in &self.charts {
                figure id={ "chart-" (chart.id) } {
                    figcaption { h3 { (chart.title) } p { (chart.about) } }
                    div class="chart" data-chart=(chart.id) role="img" aria-label=(chart.title) {}
                }
            }
        };
        html! {
            section id=(self.id) {
                @if self.folded {
                    details { summary { h2 { (self.title) } } (body) }
                } @else {
                    h2 { (self.title) }
                    (body)
                }
            }
        }
    }
}

/// The result in words, at the top of a page.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// The most important measure, in a sentence or two.
    pub headline: String,
    /// Paragraphs, each with a list; both may be empty.
    pub paragraphs: Vec<(String, Vec<String>)>,
}

/// A page: values only, until [`Page::render`].
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// What was run.
    pub title: String,
    /// What that is, in a sentence; may be empty.
    pub lead: String,
    /// Names and values under the title: seeds, scale.
    pub facts: Vec<(String, String)>,
    /// The result in words.
    pub summary: Summary,
    /// The rest, in order.
    pub sections: Vec<Section>,
    /// Makes the page again.
    pub command: String,
    /// The numbers, as `--json` writes them.
    pub json: String,
}

impl Page {
    /// The page as HTML.
    #[must_use]
    pub fn render(&self) -> String {
        self.rendered("writes the same page, byte for byte")
    }

    /// The page of something that was measured: it never comes out the same twice.
    #[must_use]
    pub fn render_measured(&self) -> String {
        self.rendered("measures again")
    }

    /// The sections that have something to show. Charts of equal ids (those of tasks `a_b` and `a-b`) get one of their own.
    fn shown(&self) -> Vec<Section> {
        let sections = self.sections.iter().filter(|s| !s.is_empty());
        let mut sections: Vec<Section> = sections.cloned().collect();
        let mut ids: Vec<String> = Vec::new();
        for chart in sections.iter_mut().flat_map(|s| &mut s.charts) {
            let wanted = chart.id.clone();
            let mut number = 1;
            while ids.contains(&chart.id) {
                number += 1;
                chart.id = format!("{wanted}-{number}");
            }
            ids.push(chart.id.clone());
        }
        sections
    }

    fn rendered(&self, again: &str) -> String {
        let sections = self.shown();
        let charts: Vec<&Chart> = sections.iter().flat_map(|s| &s.charts).collect();
        let specs = serde_json::to_string(&charts).expect("charts are plain data");
        let version = env!("CARGO_PKG_VERSION");
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content={ "coldset " (version) };
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        p class="brand" { "Coldset report" }
                        h1 { (self.title) }
                        @if !self.lead.is_empty() { p class="lead" { (self.lead) } }
                        dl class="facts" {
                            @for (name, value) in &self.facts {
                                div { dt { (name) } dd { (value) } }
                            }
                        }
                    }
                    main {
                        section id="summary" {
                            h2 { "In short" }
                            @if !self.summary.headline.is_empty() {
                                p class="headline" { (self.summary.headline) }
                            }
                            @for (text, points) in &self.summary.paragraphs {
                                @if !text.is_empty() { p { (text) } }
                                @if !points.is_empty() { ul { @for p in points { li { (p) } } } }
                            }
                        }
                        nav aria-label="contents" {
                            @for section in &sections {
                                a href={ "#" (section.id) } { (section.title) }
                            }
                        }
                        @for section in &sections { (section.markup()) }
                        section id="reproduce" {
                            h2 { "Make this page again" }
                            p { "With coldset " (version) ", this command " (again) ":" }
                            pre { code { (self.command) } }
                            p { "The numbers of this page are in it as JSON too, in the element with the id "
                                code { "result" } "." }
                        }
                    }
                    footer {
                        p { "coldset " (version) ". Charts: Vega 5.33 and Vega-Lite 5.23, whose licences are in this file." }
                    }
                    noscript { p { "The charts need JavaScript; all numbers are in the tables." } }
                    script type="application/json" id="result" { (data(&self.json)) }
                    script type="application/json" id="charts" { (data(&specs)) }
                    (PreEscaped("<!--\nVega:\n")) (comment(VEGA_LICENSE))
                    (PreEscaped("\nVega-Lite:\n")) (comment(VEGA_LITE_LICENSE)) (PreEscaped("-->"))
                    @if !charts.is_empty() {
                        script { (PreEscaped(VEGA)) }
                        script { (PreEscaped(VEGA_LITE)) }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }
}

/// JSON inside a script element: it must not hold anything that ends it. The escape is JSON's own.
fn data(json: &str) -> PreEscaped<String> {
    PreEscaped(json.replace('<', "\\u003c"))
}

/// Text inside a comment.
fn comment(text: &str) -> PreEscaped<String> {
    PreEscaped(text.replace("--", "- -"))
}
