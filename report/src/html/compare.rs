//! The page of `lab compare`.

use super::causes::{causes, change, reasons};
use super::page::{Page, Section, Summary};
use super::summary::capital;
use crate::charts;
use crate::compare::{comparison_json, Compared, Comparison, Verdict};
use crate::shown::seeds;

/// Sentences about counters, at most.
pub(super) const CAUSES_MAX: usize = 6;

/// The most important measure of a variant.
fn sentence(compared: &Compared) -> Option<String> {
    let row = compared.rows.iter().find(|r| r.claimed)?;
    let what = match row.verdict {
        Verdict::Better => "better after",
        Verdict::Worse => "worse after",
        Verdict::Changed => "different after",
        Verdict::Noise => "no clear difference",
        Verdict::Equal => "the same",
    };
    let ratio = row
        .ratio
        .as_ref()
        .map_or_else(String::new, |r| format!(" ({})", change(r.median)));
    Some(format!(
        "{}, {}: {what}{ratio}.",
        compared.variant, row.name
    ))
}

/// Without folders; they are among the facts.
pub(super) fn file_name(path: &str) -> &str {
    let name = std::path::Path::new(path).file_name();
    name.and_then(|n| n.to_str()).unwrap_or(path)
}

/// The comparison in words.
fn summary(c: &Comparison) -> Summary {
    let mut said = c.variants.iter().filter_map(sentence);
    let headline = said.next().unwrap_or_else(|| {
        let differ = c.variants.iter().flat_map(|v| &v.rows);
        let differ = differ.filter(|r| !matches!(r.verdict, Verdict::Equal | Verdict::Noise));
        match differ.count() {
            0 => "No counter differs beyond the noise.".into(),
            1 => "1 counter differs beyond the noise.".into(),
            several => format!("{several} counters differ beyond the noise."),
        }
    });
    let mut paragraphs = vec![(String::new(), said.collect())];
    let differing: Vec<String> = c
        .differing
        .iter()
        .map(|(name, b, a)| format!("{name}: {b} before, {a} after."))
        .collect();
    let rows = || c.variants.iter().flat_map(|v| &v.rows);
    let heading = match differing.is_empty() {
        true if rows().all(|r| r.verdict == Verdict::Equal) => {
            "The headers of both files are the same, and so is every counter."
        }
        true => {
            "The headers of both files are the same: what differs is not in them, such as the version of the program, or \
             the file of a workload."
        }
        false => "What differs in the headers of the files:",
    };
    paragraphs.push((heading.into(), differing));
    for compared in &c.variants {
        let sides: Vec<_> = compared.result.variants.values().collect();
        let moved = causes(sides[0], sides[1]);
        if moved.is_empty() {
            continue;
        }
        let good = compared.rows.iter().find_map(|r| r.verdict.good());
        let why = good
            .and_then(|good| reasons(&moved, good))
            .map_or_else(String::new, |r| format!("Why: {r}. "));
        let sentences = moved.iter().take(CAUSES_MAX).map(|m| capital(&m.sentence));
        paragraphs.push((
            format!("{}: {why}The counters that moved most:", compared.variant),
            sentences.collect(),
        ));
    }
    Summary {
        headline,
        paragraphs,
    }
}

/// The page of a comparison.
#[must_use]
pub fn compare(c: &Comparison, command: &str) -> String {
    let mut claimed = Section {
        id: "measures",
        title: "Before and after",
        intro: "Means over the seeds with half their 95 % confidence interval; the ratio is the median over the \
                seeds. Noise: the interval of the ratio contains 1."
            .into(),
        points: c
            .alone
            .iter()
            .map(|(variant, file)| format!("{variant} is in {file} only and not compared."))
            .collect(),
        ..Section::default()
    };
    let mut all = Section {
        id: "counters",
        title: "All counters",
        intro: "What is 0 on both sides is left out.".into(),
        ..Section::default()
    };
    for compared in &c.variants {
        let own = compared.table(|row| row.claimed);
        claimed.tables.push(own.caption(&compared.variant));
        let rest = compared.table(|row| !row.claimed);
        all.tables.push(rest.caption(&compared.variant));
        let mut pictures = charts::experiment(&compared.result, &[], &[]);
        for chart in &mut pictures {
            chart.id = format!("{}-{}", charts::id(&compared.variant), chart.id);
            chart.title = format!("{}: {}", compared.variant, chart.title.to_lowercase());
        }
        claimed.charts.extend(pictures);
    }
    let [before, after] = &c.files;
    let page = Page {
        title: format!(
            "{}: {} against {}",
            c.experiment,
            file_name(before),
            file_name(after)
        ),
        lead: "Two results side by side, seed by seed: before is the first file, after the second."
            .into(),
        facts: vec![
            ("before".into(), before.clone()),
            ("after".into(), after.clone()),
            ("seeds".into(), seeds(&c.seeds)),
        ],
        summary: summary(c),
        sections: vec![claimed, all],
        command: command.into(),
        json: comparison_json(c),
    };
    page.render()
}
