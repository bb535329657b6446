//! The page itself.

use super::table::Table;
use crate::charts::Chart;
use maud::{html, Markup, PreEscaped, DOCTYPE};

const VEGA: &str = include_str!("../../assets/vendor/vega.min.js");
const VEGA_LICENSE: &str = include_str!("../../assets/vendor/vega.LICENSE");
const VEGA_LITE: &str = include_str!("../../assets/vendor/vega-lite.min.js");
const VEGA_LITE_LICENSE: &str = include_str!("../../assets/vendor/vega-lite.LICENSE");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");

/// A part of a page: a heading, words, tables, charts.
#[derive(Debug, Clone, Default)]
pub struct Section {
    id: &'static str,
    title: String,
    intro: String,
    points: Vec<String>,
    tables: Vec<Table>,
    charts: Vec<Chart>,
    folded: bool,
}

impl Section {
    /// `id` is the anchor; `intro` may be empty.
    #[must_use]
    pub fn new(id: &'static str, title: impl Into<String>, intro: impl Into<String>) -> Self {
        Self {
            id,
            title: title.into(),
            intro: intro.into(),
            ..Self::default()
        }
    }

    /// A list of sentences.
    #[must_use]
    pub fn points(mut self, points: Vec<String>) -> Self {
        self.points = points;
        self
    }

    /// Adds a table, unless it is empty.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.tables.extend((!table.is_empty()).then_some(table));
        self
    }

    /// Adds tables, those that are not empty.
    #[must_use]
    pub fn tables(self, tables: impl IntoIterator<Item = Table>) -> Self {
        tables.into_iter().fold(self, Self::table)
    }

    /// Adds charts.
    #[must_use]
    pub fn charts(mut self, charts: Vec<Chart>) -> Self {
        self.charts.extend(charts);
        self
    }

    /// Shown on request, and on paper.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.folded = true;
        self
    }

    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.charts.is_empty() && self.points.is_empty()
    }

    fn markup(&self) -> Markup {
        let body = html! {
            @if !self.intro.is_empty() { p { (self.intro) } }
            @for table in &self.tables { (table.markup()) }
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

/// A page under construction.
#[derive(Debug, Clone, Default)]
pub struct Page {
    title: String,
    lead: String,
    facts: Vec<(String, String)>,
    headline: String,
    summary: Vec<(String, Vec<String>)>,
    sections: Vec<Section>,
    command: String,
    json: String,
}

impl Page {
    /// `title` says what was run, `lead` in a sentence what that is; `command` makes the page again.
    #[must_use]
    pub fn new(title: impl Into<String>, lead: impl Into<String>, command: &str) -> Self {
        Self {
            title: title.into(),
            lead: lead.into(),
            command: command.into(),
            ..Self::default()
        }
    }

    /// A name and value under the title: seeds, scale.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<String>) -> Self {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// The result in a sentence or two, at the top.
    #[must_use]
    pub fn headline(mut self, text: impl Into<String>) -> Self {
        self.headline = text.into();
        self
    }

    /// A paragraph of the summary and the list that follows it; without both it is left out.
    #[must_use]
    pub fn explain(mut self, text: impl Into<String>, points: Vec<String>) -> Self {
        let text = text.into();
        if !text.is_empty() || !points.is_empty() {
            self.summary.push((text, points));
        }
        self
    }

    /// Adds a section, unless it has nothing to show.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections
            .extend((!section.is_empty()).then_some(section));
        self
    }

    /// The numbers, as `--json` writes them.
    #[must_use]
    pub fn json(mut self, json: String) -> Self {
        self.json = json;
        self
    }

    /// The page as HTML.
    #[must_use]
    pub fn render(&self) -> String {
        let charts: Vec<&Chart> = self.sections.iter().flat_map(|s| &s.charts).collect();
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
                            @if !self.headline.is_empty() { p class="headline" { (self.headline) } }
                            @for (text, points) in &self.summary {
                                @if !text.is_empty() { p { (text) } }
                                @if !points.is_empty() { ul { @for p in points { li { (p) } } } }
                            }
                        }
                        nav aria-label="contents" {
                            @for section in &self.sections {
                                a href={ "#" (section.id) } { (section.title) }
                            }
                        }
                        @for section in &self.sections { (section.markup()) }
                        section id="reproduce" {
                            h2 { "Make this page again" }
                            p { "With coldset " (version) ", this command writes the same page, byte for byte:" }
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
