//! The page of `lab compare` on two replays, or runs on kernels.

use super::causes::{causes, change};
use super::compare::{file_name, CAUSES_MAX};
use super::page::{Page, Section, Summary};
use super::summary::capital;
use crate::compare::{
    replay_comparison_json, ComparedColumns, ReplayComparison, ReplayRow, Verdict, HOW,
};

/// Rows that are shown unfolded, of those that come first.
const MAIN: usize = 10;

/// The first counter that says something, or who was killed.
fn sentence(columns: &ComparedColumns) -> Option<String> {
    let [before, after] = &columns.what;
    if columns.killed[0] != columns.killed[1] {
        let killed = columns.killings().join("; ");
        return Some(format!("{before} against {after}: {killed}."));
    }
    let is_something = |r: &&ReplayRow| [&r.before, &r.after].iter().any(|s| s.mean.as_f64() > 0.0);
    let row = columns.rows.iter().find(is_something)?;
    let what = match (row.verdict, row.change) {
        (Verdict::Equal, _) => "the same".to_owned(),
        (Verdict::Noise, _) => "no clear difference".into(),
        (_, Some(by)) => change(1.0 + by),
        (_, None) => "none before".into(),
    };
    Some(match before == after {
        true => format!("{}: {what} from before to after, {before}.", row.counter),
        false => format!("{}: {what} from {before} to {after}.", row.counter),
    })
}

fn moved(columns: &ComparedColumns) -> Option<(String, Vec<String>)> {
    let sides = columns.sides();
    let all = causes(&sides["before"], &sides["after"]);
    let sentences = all.iter().take(CAUSES_MAX).map(|m| capital(&m.sentence));
    let [before, after] = &columns.names;
    let heading = format!("The counters that moved most from {before} to {after}:");
    (!all.is_empty()).then(|| (heading, sentences.collect()))
}

fn summary(c: &ReplayComparison) -> Summary {
    let mut said = c.columns.iter().filter_map(sentence);
    let headline = said.next().unwrap_or_else(|| "No counter differs.".into());
    let mut paragraphs = vec![(String::new(), said.collect())];
    let made = c.made().into_iter().map(|line| line + ".");
    paragraphs.push((
        "What differs in how the two were made:".into(),
        made.collect(),
    ));
    paragraphs.extend(c.columns.iter().filter_map(moved));
    paragraphs.retain(|(_, list)| !list.is_empty());
    Summary {
        headline,
        paragraphs,
    }
}

/// The page of a comparison.
#[must_use]
pub fn compare_replays(c: &ReplayComparison, command: &str) -> String {
    let mut main = Section::new("measures", "Before and after").intro(capital(HOW));
    main.points = c.left_out();
    let mut all = Section::new("counters", "All other counters")
        .intro("What is 0 on both sides is left out.")
        .folded();
    for (i, columns) in c.columns.iter().enumerate() {
        let caption = format!("{}; {}", columns.what[0], columns.what[1]);
        let first: Vec<&str> = columns
            .rows
            .iter()
            .take(MAIN)
            .map(|r| r.counter.as_str())
            .collect();
        let is_first = |name: &str| first.contains(&name);
        main.tables.push(
            columns
                .table(i, |row| is_first(&row.counter))
                .caption(&caption),
        );
        all.tables.push(
            columns
                .table(i, |row| !is_first(&row.counter))
                .caption(&caption),
        );
        all.points
            .extend(columns.notes().iter().map(|note| capital(note)));
    }
    let [before, after] = &c.files;
    let page = Page {
        title: format!("{} against {}", file_name(before), file_name(after)),
        lead: "Two results of traces side by side: before is the first file, after the second."
            .into(),
        facts: vec![
            ("before".into(), before.clone()),
            ("after".into(), after.clone()),
        ],
        summary: summary(c),
        sections: vec![main, all],
        command: command.into(),
        json: replay_comparison_json(c),
    };
    page.render()
}
