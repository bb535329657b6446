//! Before and after in plain words, from claims and counters.

use super::causes::{causes, change, reasons};
use crate::ablate::parts;
use crate::report::human::human;
use crate::report::{ClaimResult, Class, Direction, ExperimentResult, Subject};
use crate::runner::Variant;

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

/// What the summary says.
#[derive(Debug, Default)]
pub struct Summary {
    /// The most important measure.
    pub headline: String,
    /// Paragraphs, each with a list.
    pub paragraphs: Vec<(String, Vec<String>)>,
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

/// What differs between two variants, in the words of the patches and switches.
pub fn differences(before: &Variant, after: &Variant) -> Vec<String> {
    let (b, a) = (before.switches.describe(), after.switches.describe());
    let mut parts = parts(&before.switches, &after.switches);
    let mut rest = None;
    if let Some(at) = parts.iter().position(|p| p.switches == ["policy"]) {
        // Other lists altogether: most switches mean something to one of the two only.
        parts.swap(0, at);
        let more = parts.len() - 1;
        rest = (more > 0).then(|| {
            format!("{more} further patches or switches differ, most of which matter to one policy only.")
        });
        parts.truncate(1);
    }
    parts
        .iter()
        .map(|part| {
            let switches: Vec<String> = b
                .iter()
                .zip(&a)
                .filter(|(s, _)| part.switches.contains(&s.name))
                .map(|(s, to)| {
                    format!(
                        "{} ({}: {} \u{2192} {})",
                        lower(&s.doc),
                        s.name,
                        s.value,
                        to.value
                    )
                })
                .collect();
            let what = switches.join("; ");
            if part.name.starts_with("patch") {
                let name = part.name.replacen('p', "P", 1);
                format!("{name}, \u{201c}{}\u{201d}: {what}.", part.subject)
            } else {
                let mut what = what;
                what.get_mut(0..1).map(str::make_ascii_uppercase);
                format!("{what}.")
            }
        })
        .chain(rest)
        .collect()
}

/// A text without "(patch 4)" and the like: the list says it.
fn without_patch(text: &str) -> String {
    let mut out = text.to_owned();
    while let Some(at) = out.find(" (patch ") {
        let Some(end) = out[at..].find(')') else {
            break;
        };
        out.replace_range(at..=at + end, "");
    }
    out
}

/// A doc comment as a part of a sentence.
fn lower(doc: &str) -> String {
    let text = without_patch(doc.trim().trim_end_matches('.'));
    let text = text.as_str();
    let mut chars = text.chars();
    let (first, second) = (chars.next(), chars.next());
    match (first, second) {
        // Abbreviations stay.
        (Some(f), Some(s)) if f.is_ascii_uppercase() && (s.is_ascii_lowercase() || s == ' ') => {
            f.to_ascii_lowercase().to_string() + &text[1..]
        }
        _ => text.to_owned(),
    }
}

/// The summary of an experiment, `variants` being before, ..., after.
pub fn summary(result: &ExperimentResult, variants: &[Variant]) -> Summary {
    let mut out = Summary::default();
    let names: Vec<&str> = result.variants.keys().map(String::as_str).collect();
    let [before, .., after] = names.as_slice() else {
        out.headline = "One variant was run, so there is nothing to compare it with.".into();
        return out;
    };
    let changes: Vec<(&ClaimResult, Change)> = result
        .claims
        .iter()
        .filter_map(|claim| Some((claim, changed(claim, before, after)?)))
        .collect();
    let moved = causes(&result.variants[*before], &result.variants[*after]);
    let first = changes.first().copied();
    out.headline = match first {
        Some((claim, change)) => headline(result, claim, change),
        None => match moved.iter().min_by_key(|c| c.order) {
            Some(cause) => {
                let verdict = match cause.good {
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
                .and_then(|c| c.good)
                .map(|good| if good { Change::Better } else { Change::Worse })
        },
        |f| Some(f.1),
    );
    let others = &changes[changes.len().min(1)..];
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

    if let [b, .., a] = variants {
        let list = differences(b, a);
        if list.is_empty() {
            out.paragraphs.push((
                format!("{} and {} are the same set of switches.", b.label, a.label),
                Vec::new(),
            ));
        } else {
            out.paragraphs.push((
                format!("What {} changes against {}:", a.label, b.label),
                list,
            ));
        }
    }
    out
}

/// With a capital letter.
pub fn capital(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    text
}
