//! `docs/rules` and the code name each other: what one says of the other is there.

use coldset_engine::Switches;
use coldset_machine::params::{Mark, Params};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files below the repository's folders that have this ending, with their text.
fn files(ending: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, ending: &str, out: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    walk(&path, ending, out);
                }
            } else if name.ends_with(ending) {
                let text = fs::read_to_string(&path).expect("a text");
                out.push((path, text));
            }
        }
    }
    let mut out = Vec::new();
    walk(&root(), ending, &mut out);
    out
}

/// File names of the chapters, with their text.
fn chapters() -> BTreeMap<String, String> {
    let entries = fs::read_dir(root().join("docs/rules")).expect("docs/rules");
    let read = |path: PathBuf| {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        (name, fs::read_to_string(&path).expect("a chapter"))
    };
    entries.map(|e| read(e.expect("an entry").path())).collect()
}

/// The anchors of a page's headings, as GitHub and MkDocs make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| -> String {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(slug).collect()
}

/// What follows `marker` in `text`, up to the first character that no link has.
fn named<'a>(text: &'a str, marker: &str) -> Vec<&'a str> {
    let link = |c: char| c.is_ascii_alphanumeric() || "-_.#".contains(c);
    text.match_indices(marker)
        .map(|(at, found)| {
            let rest = &text[at + found.len()..];
            let end = rest.find(|c| !link(c)).unwrap_or(rest.len());
            rest[..end].trim_end_matches('.')
        })
        .collect()
}

/// Checks `CHAPTER.md` or `CHAPTER.md#ANCHOR`.
fn check(link: &str, from: &str, chapters: &BTreeMap<String, String>, wrong: &mut Vec<String>) {
    let (chapter, anchor) = link.split_once('#').unwrap_or((link, ""));
    match chapters.get(chapter) {
        None => wrong.push(format!("{from}: there is no docs/rules/{chapter}")),
        Some(text) if !anchor.is_empty() && !anchors(text).contains(anchor) => {
            wrong.push(format!(
                "{from}: docs/rules/{chapter} has no heading #{anchor}"
            ));
        }
        Some(_) => {}
    }
}

/// The names in the lines `**Switch** ... · **Code** ... · **Test** ...` of a chapter.
fn names<'a>(text: &'a str, what: &str) -> Vec<&'a str> {
    let lines = text.lines().filter(|line| line.starts_with("**"));
    let parts = lines.flat_map(|line| line.split(" \u{b7} "));
    let ours = parts.filter_map(|part| part.strip_prefix(&format!("**{what}**")));
    // Between backticks: every second piece.
    ours.flat_map(|part| part.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn what_code_and_pages_refer_to_is_there() {
    let chapters = chapters();
    let mut wrong = Vec::new();
    for (path, text) in files(".rs").into_iter().chain(files(".py")) {
        for link in named(&text, "docs/rules/") {
            if link.ends_with(".md") || link.contains(".md#") {
                check(link, &path.display().to_string(), &chapters, &mut wrong);
            }
        }
    }
    let index = &chapters["README.md"];
    for (name, text) in &chapters {
        if name != "README.md" && !index.contains(&format!("({name})")) {
            wrong.push(format!("docs/rules/README.md does not name {name}"));
        }
        for link in named(text, "](") {
            // Links out of the folder ("../x.md") are cut off at the slash and checked with those of all pages.
            match link {
                "" => {}
                anchor if anchor.starts_with('#') => {
                    check(&format!("{name}{anchor}"), name, &chapters, &mut wrong);
                }
                chapter => check(chapter, name, &chapters, &mut wrong),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Pages outside `docs/rules/` that the code sends people to: claims that cannot come out, generated pages.
#[test]
fn headings_that_the_code_names_are_there() {
    let link = |c: char| c.is_ascii_alphanumeric() || "-_./#".contains(c);
    let mut wrong = Vec::new();
    let mut found = 0;
    for (path, text) in files(".rs") {
        for (at, _) in text.match_indices("docs/") {
            let rest = &text[at..];
            let named = &rest[..rest.find(|c| !link(c)).unwrap_or(rest.len())];
            let Some((page, anchor)) = named.trim_end_matches('.').split_once(".md#") else {
                continue;
            };
            found += 1;
            let page = std::fs::read_to_string(root().join(format!("{page}.md")));
            if !page.is_ok_and(|page| anchors(&page).contains(anchor)) {
                wrong.push(format!("{}: {named} is not there", path.display()));
            }
        }
    }
    assert!(found > 20, "{found} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_switch_has_a_rule_and_every_name_exists() {
    let chapters = chapters();
    let code: String = files(".rs").into_iter().map(|(_, text)| text).collect();
    let mut declared = BTreeSet::new();
    for keyword in ["fn ", "struct ", "enum "] {
        declared.extend(named(&code, keyword));
    }
    let mut wrong = Vec::new();
    let mut told = BTreeSet::new();
    for (chapter, text) in &chapters {
        for name in names(text, "Switch") {
            told.insert(name);
            if !Switches::NAMES.contains(&name) {
                wrong.push(format!("{chapter}: there is no switch {name}"));
            }
        }
        for name in names(text, "Code").into_iter().chain(names(text, "Test")) {
            if !declared.contains(name) {
                wrong.push(format!("{chapter}: nothing is called {name}"));
            }
        }
    }
    let missing = Switches::NAMES.iter().filter(|name| !told.contains(**name));
    wrong.extend(missing.map(|name| format!("no chapter names the switch {name}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn published_costs_name_a_source_that_can_be_looked_up() {
    // A title in quotation marks, a manual page, or a measurement of ours on a named kernel.
    let named = |source: &str| {
        source.matches('"').count() == 2
            || source.contains("(2), ")
            || source.starts_with("measured on Linux 6.12")
    };
    let text: Vec<String> = Params::default()
        .describe()
        .iter()
        .filter(|p| p.mark == Mark::Published && !named(p.source))
        .map(|p| format!("{}: {}", p.name, p.source))
        .collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}
