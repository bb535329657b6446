//! What a page says of variants and costs.

use crate::ablate::parts;
use crate::runner::Variant;
use coldset_machine::Params;
use coldset_report::html::Section;
use coldset_report::{human, Align, Cell, Table};

/// What the last of several variants changes against the first one.
pub fn changes(variants: &[Variant]) -> Vec<String> {
    match variants {
        [before, .., after] => differences(before, after),
        _ => Vec::new(),
    }
}

/// The same as a paragraph of a summary; none for a single variant.
pub fn difference(variants: &[Variant]) -> Option<(String, Vec<String>)> {
    let [before, .., after] = variants else {
        return None;
    };
    let list = differences(before, after);
    let heading = match list.is_empty() {
        true => format!(
            "{} and {} are the same set of switches.",
            before.label, after.label
        ),
        false => format!("What {} changes against {}:", after.label, before.label),
    };
    Some((heading, list))
}

/// What differs between two variants, in the words of the patches and switches.
fn differences(before: &Variant, after: &Variant) -> Vec<String> {
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

/// The switches in which variants differ.
#[must_use]
pub fn switches(variants: &[Variant]) -> Section {
    let mut columns = vec!["switch".to_owned()];
    columns.extend(variants.iter().map(|v| v.label.clone()));
    columns.extend(["patch".to_owned(), "what it does".to_owned()]);
    let mut table = Table::of_words(columns);
    let described: Vec<_> = variants.iter().map(|v| v.switches.describe()).collect();
    let ends = variants.first().zip(variants.last());
    let parts = ends.map_or(Vec::new(), |(b, a)| parts(&b.switches, &a.switches));
    for (i, info) in described.first().into_iter().flatten().enumerate() {
        if described.iter().all(|d| d[i].value == info.value) {
            continue;
        }
        let part = parts.iter().find(|p| p.switches.contains(&info.name));
        let patch = part.filter(|p| p.name.starts_with("patch"));
        let mut row = vec![Cell::code(info.name)];
        row.extend(described.iter().map(|d| Cell::code(&d[i].value)));
        let patch = patch.map_or_else(String::new, |p| format!("{}: {}", p.name, p.subject));
        row.extend([patch.into(), (&info.doc).into()]);
        table.row(row);
    }
    Section::new("switches", "Switches in which the variants differ")
        .intro(
            "Every change of behaviour is a switch; those that are equal everywhere are not shown.",
        )
        .tables(vec![table])
        .folded()
}

/// What experiments change in the table of costs; `tables` may be empty.
pub fn deviations(tables: Vec<Table>) -> Section {
    let tables: Vec<Table> = tables.into_iter().filter(|t| !t.is_empty()).collect();
    let intro = match tables.is_empty() {
        true => "None: it ran on the table as it is.",
        false => "Rows of the table of costs that are different here, and why.",
    };
    Section::new("deviations", "Deviations from the table of costs")
        .intro(intro)
        .tables(tables)
}

/// All costs of the machine with their source; changed ones are marked.
#[must_use]
pub fn costs(costs: &Params) -> Section {
    let columns = ["cost", "value", "unit", "mark", "what", "source"];
    let align = |name| match name {
        "value" => Align::Right,
        _ => Align::Left,
    };
    let mut table = Table::new(columns.map(|name| (name, align(name))));
    let mut changed = 0;
    for info in costs.describe() {
        let own = info.value != info.default;
        changed += usize::from(own);
        let source = match own {
            true => format!(
                "changed for this run; the default is {}",
                human(info.default as f64)
            ),
            false => info.source.into(),
        };
        table.row([
            Cell::code(info.name),
            human(info.value as f64).into(),
            info.unit.into(),
            info.mark.letter().to_string().into(),
            info.what.into(),
            source.into(),
        ]);
    }
    let mut intro =
        "Marks: P published, A assumed (claims must not depend on it), S a setting of the model. \
                     Change: --cost NAME=VALUE."
            .to_owned();
    if changed > 0 {
        intro += &format!(" {changed} changed for this run.");
    }
    Section::new("parameters", "Parameters of the simulated machine")
        .intro(intro)
        .tables(vec![table])
        .folded()
}
