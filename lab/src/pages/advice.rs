//! The page of `lab advise`.

use super::variants::{costs, switches};
use crate::advise::{advice_table, paying, sentences, Advice, NOTE};
use crate::charts::{self, CurveLine};
use crate::runner::{show_pages, Variant};
use crate::traces::Trace;
use coldset_machine::Params;
use coldset_report::html::{Page, Section, Summary};
use coldset_report::{human, Align, Table};

/// Miss ratios over the memory: the exact curves, the knee, and what was replayed.
fn curves(advice: &Advice) -> Vec<CurveLine> {
    let mut lines = advice.curves.as_ref().clone();
    let knee = advice.knee_pages.and_then(|knee| {
        let exact = lines.first()?.points.iter().find(|p| p.0 == knee)?;
        Some(CurveLine {
            name: "knee".into(),
            points: vec![*exact],
            error: None,
        })
    });
    lines.extend(knee);
    for level in &advice.levels {
        for case in &level.cases {
            lines.extend(case.cost.map(|cost| CurveLine {
                name: case.variant.clone(),
                points: vec![(level.pages, cost.reads / advice.accesses.max(1) as f64)],
                error: None,
            }));
        }
    }
    lines
}

/// Who reads how much more under the least memory than today.
fn who_pays(trace: &Trace, advice: &Advice) -> Vec<Table> {
    let least = advice.levels.iter().map(|l| l.pages).min();
    let least = least.unwrap_or(advice.today_pages);
    let tables = paying(trace, advice.today_pages, least);
    let table = |(what, rows): (&str, Vec<(String, u64, u64)>)| {
        let columns = [
            (what, Align::Left),
            ("reads today", Align::Right),
            ("reads with the least memory", Align::Right),
        ];
        let mut table = Table::new(columns);
        for (name, today, then) in rows {
            table.row([name, human(today as f64), human(then as f64)]);
        }
        table
    };
    tables.into_iter().map(table).collect()
}

/// The page of advice. `heading` says of which trace; `json` is what `--json` writes.
#[must_use]
pub fn advice(
    heading: &str,
    trace: &Trace,
    variants: &[Variant],
    advice: &Advice,
    json: String,
    command: &str,
) -> String {
    let names: Vec<&str> = variants.iter().map(|v| v.label.as_str()).collect();
    let mut said = sentences(advice);
    // What the first of the sizes costs is what the reader came for; today's is what it is measured by.
    let headline = match said.len() {
        0 | 1 => said.first().cloned().unwrap_or_default(),
        _ => said.remove(1),
    };
    let page = Page {
        title: heading.into(),
        lead: format!(
            "{} accesses to {}, replayed under several limits.",
            human(advice.accesses as f64),
            show_pages(advice.unique_pages)
        ),
        facts: vec![
            ("kernels".into(), names.join(", ")),
            ("today's memory".into(), show_pages(advice.today_pages)),
        ],
        summary: Summary {
            headline,
            paragraphs: vec![("Beside it:".to_owned(), said)],
        },
        sections: vec![
            Section::new("sizes", "Figures")
                .intro(NOTE)
                .tables(vec![advice_table(advice)]),
            Section::new("curves", "Miss ratio over memory")
                .intro("The knee is where more memory begins to save less than on the average, by exact LRU.")
                .charts(vec![charts::curves(&curves(advice))]),
            Section::new("heat", "Heat of pages").charts(vec![charts::heat(trace)]),
            Section::new("paying", "Who pays")
                .intro("Reads by exact LRU, which needs no kernel, with today\u{2019}s memory and with the least.")
                .tables(who_pays(trace, advice)),
            switches(variants),
            costs(&Params::default()),
        ],
        command: command.into(),
        json,
    };
    page.render()
}
