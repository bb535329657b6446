//! A result in plain words, from claims and counters.

use super::causes::{causes, change, is_contradicted, reasons, Cause};
use super::page::Summary;
use crate::shown::{human, seeds};
use crate::{ClaimResult, Class, Direction, ExperimentResult, Subject};

/// Sentences about counters, at most.
const CAUSES_MAX: usize = 8;
/// Measures named in one list, at most.
const NAMED_MAX: usize = 6;

/// How a measure changed from before to after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Clearly the good way.
    Better,
    /// Clearly the bad way.
    Worse,
    /// Within the noise.
    Same,
}

/// The change of a ratio claim that has a direction.
pub fn changed(claim: &ClaimResult, before: &str, after: &str) -> Option<Change> {
    let Subject::Ratio {
        before: b,
        after: a,
    } = &claim.subject
    else {
        return None;
    };
    if claim.direction == Direction::Neutral || b.variant != before || a.variant != after {
        return None;
    }
    let value = claim.value?;
    let clear = match claim.ci95 {
        Some(ci) => ci.lo > 1.0 || ci.hi < 1.0,
        None => (value - 1.0).abs() >= 0.03,
    };
    let more_is_good = claim.direction == Direction::HigherIsBetter;
    Some(match (clear, (value > 1.0) == more_is_good) {
        (false, _) => Change::Same,
        (true, true) => Change::Better,
        (true, false) => Change::Worse,
    })
}

fn interval(claim: &ClaimResult) -> String {
    match claim.ci95 {
        Some(ci) if ci.half_width() > 0.0 => format!(
            "95 % interval of the ratio {:.3} to {:.3} over {} seeds",
            ci.lo,
            ci.hi,
            claim.per_seed.len()
        ),
        Some(_) => format!("the same in all {} seeds", claim.per_seed.len()),
        None => "one seed, so there is no interval".into(),
    }
}

fn unit(claim: &ClaimResult) -> String {
    if claim.unit.is_empty() {
        String::new()
    } else {
        format!(" {}", claim.unit)
    }
}

/// `throughput: 50,000 ops/s before, 64,000 after, +28 % ...`
fn headline(result: &ExperimentResult, claim: &ClaimResult, change_is: Change) -> String {
    let Subject::Ratio { before, after } = &claim.subject else {
        return String::new();
    };
    let mean = |variant: &str, counter: &str| {
        let summary = result.counter(variant, counter).ok();
        human(summary.map_or(0.0, |s| s.mean.as_f64()))
    };
    let verdict = match change_is {
        Change::Better => format!("{} is better", after.variant),
        Change::Worse => format!("{} is worse", after.variant),
        Change::Same => "No clear difference".into(),
    };
    format!(
        "{verdict}: {} is {}{} with {} and {}{} with {}, {} ({}).",
        claim.name,
        mean(&before.variant, &before.counter),
        unit(claim),
        before.variant,
        mean(&after.variant, &after.counter),
        unit(claim),
        after.variant,
        change(claim.value.unwrap_or(1.0)),
        interval(claim),
    )
}

fn named(list: &[(&ClaimResult, Change)], wanted: Change) -> Option<String> {
    let all: Vec<String> = list
        .iter()
        .filter(|(_, c)| *c == wanted)
        .map(|(claim, _)| format!("{} ({})", claim.name, change(claim.value.unwrap_or(1.0))))
        .collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let mut text = all
        .iter()
        .take(NAMED_MAX)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    (!all.is_empty()).then_some(text)
}

/// How many claims are in, and which are not.
fn verdicts(result: &ExperimentResult) -> Option<String> {
    let all = result.claims.len();
    if all == 0 {
        return None;
    }
    let out: Vec<&str> = result
        .claims
        .iter()
        .filter(|c| !c.pass)
        .map(|c| c.name.as_str())
        .collect();
    let noise = result.claims.iter().filter(|c| c.class == Class::N).count();
    let mut text = format!(
        "{} of {all} claims about this experiment are in their bands",
        all - out.len()
    );
    if noise > 0 {
        text += &format!(" ({noise} of them say that there is no difference)");
    }
    text += ".";
    if !out.is_empty() {
        text += &format!(" Out: {}.", out.join("; "));
    }
    Some(text)
}

/// The summary of an experiment. `changes` lists what the last variant changes against the first one.
pub fn summary(result: &ExperimentResult, changes: Vec<String>) -> Summary {
    let mut out = Summary::default();
    let names: Vec<&str> = result.variants.keys().map(String::as_str).collect();
    let [before, .., after] = names.as_slice() else {
        out.headline = "One variant was run, so there is nothing to compare it with.".into();
        return out;
    };
    let measured: Vec<(&ClaimResult, Change)> = result
        .claims
        .iter()
        .filter_map(|claim| Some((claim, changed(claim, before, after)?)))
        .collect();
    let moved = causes(&result.variants[*before], &result.variants[*after]);
    // What goes both ways in parts of the experiment is neither better nor worse.
    let verdict_of = |c: &Cause| c.good.filter(|_| !is_contradicted(c, &moved));
    let first = measured.first().copied();
    out.headline = match first {
        Some((claim, change)) => headline(result, claim, change),
        None => match moved.iter().min_by_key(|c| c.order) {
            Some(cause) => {
                let verdict = match verdict_of(cause) {
                    Some(true) => format!("{after} is better"),
                    Some(false) => format!("{after} is worse"),
                    None => format!("{after} behaves differently"),
                };
                format!("{verdict}. {}", capital(&cause.sentence))
            }
            None => {
                format!("{before} and {after} do not differ in any counter that explains reclaim.")
            }
        },
    };
    let verdict = first.map_or_else(
        || {
            moved
                .iter()
                .min_by_key(|c| c.order)
                .and_then(verdict_of)
                .map(|good| if good { Change::Better } else { Change::Worse })
        },
        |f| Some(f.1),
    );
    let others = &measured[measured.len().min(1)..];
    let mut rest = Vec::new();
    for (what, wanted) in [
        ("Also better", Change::Better),
        ("Worse", Change::Worse),
        ("Within the noise", Change::Same),
    ] {
        rest.extend(named(others, wanted).map(|list| format!("{what}: {list}.")));
    }
    rest.extend(verdicts(result));
    out.paragraphs.push((rest.join(" "), Vec::new()));

    let why = match verdict {
        Some(Change::Better) => {
            reasons(&moved, true).map(|r| format!("Why {after} is better: {r}."))
        }
        Some(Change::Worse) => {
            reasons(&moved, false).map(|r| format!("Why {after} is worse: {r}."))
        }
        _ if moved.is_empty() => {
            Some("The counters of the mechanism do not differ beyond the noise either.".into())
        }
        _ => Some(
            "The mechanism differs, but what was measured does not change clearly with it.".into(),
        ),
    };
    let mut text = why.unwrap_or_default();
    if !moved.is_empty() {
        text += " The counters that moved most, means over the seeds:";
    }
    let sentences = moved.iter().take(CAUSES_MAX).map(|c| capital(&c.sentence));
    out.paragraphs
        .push((text.trim().to_owned(), sentences.collect()));

    out.paragraphs.push(if changes.is_empty() {
        let text = format!("{before} and {after} are the same set of switches.");
        (text, changes)
    } else {
        (format!("What {after} changes against {before}:"), changes)
    });
    out
}

/// What was run, under the title of a page.
#[must_use]
pub fn facts(result: &ExperimentResult) -> Vec<(String, String)> {
    let header = &result.header;
    let mut facts = vec![
        ("seeds".into(), seeds(&result.seeds)),
        ("scale".into(), header.scale.clone()),
        ("effort".into(), header.effort.clone() + &header.share()),
    ];
    let parameters = header.parameters.iter();
    facts.extend(parameters.map(|(name, value)| (name.clone(), value.clone())));
    facts
}

/// Reasons of claims that are out, remarks, and what was not judged.
#[must_use]
pub fn remarks(result: &ExperimentResult) -> Vec<String> {
    // "Outside the band" is to be seen in the table.
    let out = result
        .claims
        .iter()
        .filter(|c| !c.pass && !c.reason.ends_with("the band"));
    let mut list: Vec<String> = out
        .map(|c| format!("Out: {}: {}.", c.name, c.reason))
        .collect();
    let notes = result.claims.iter().filter(|c| !c.note.is_empty());
    list.extend(notes.map(|c| format!("{}: {}.", c.name, c.note)));
    let cannot = result.cannot.iter();
    list.extend(cannot.map(|c| format!("Cannot: {}: see {}.", c.name, c.cannot)));
    let skipped = result.skipped.iter();
    list.extend(skipped.map(|s| format!("Not judged: {}: {}.", s.name, s.reason)));
    list
}

/// With a capital letter.
pub fn capital(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    text
}
