//! The maps of the code, `ARCHITECTURE.md` and the tables at the top of modules, name files and items that are
//! there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust files of the repository, by their path from its root, with their text.
fn sources() -> BTreeMap<String, String> {
    fn walk(folder: &Path, at: &str, out: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let at = if at.is_empty() {
                name.to_string()
            } else {
                format!("{at}/{name}")
            };
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    walk(&path, &at, out);
                }
            } else if name.ends_with(".rs") {
                out.insert(at, fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(&root(), "", &mut out);
    out
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Pairs like "`name` (`file.rs`)", and "`one`, `two` and `three` (`file.rs`, `other.rs`)": names, and the files one
/// of which has them.
fn pairs(text: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut out = Vec::new();
    for (at, _) in text.match_indices("` (`") {
        let inside = &text[at + 3..];
        let inside = &inside[..inside.find(')').unwrap_or(0)];
        let files = quoted(inside);
        if files.is_empty() || !files.iter().all(|file| file.ends_with(".rs")) {
            continue;
        }
        // Backwards from the parenthesis, as long as only a comma or an "and" is between two names.
        let pieces: Vec<&str> = text[..at].rsplit('`').collect();
        let mut names = vec![pieces[0]];
        for two in pieces[1..].chunks(2) {
            match two {
                [between, name] if [", ", " and ", ", and "].contains(between) => {
                    names.push(name);
                }
                _ => break,
            }
        }
        out.push((names, files));
    }
    out
}

/// The file defines the last part of `name`.
fn defines(text: &str, name: &str) -> bool {
    let name = name.trim_end_matches('!');
    let name = name.rsplit("::").next().unwrap_or(name);
    let keywords = [
        "fn ",
        "struct ",
        "enum ",
        "trait ",
        "const ",
        "static ",
        "type ",
        "macro_rules! ",
        "mod ",
    ];
    keywords.iter().any(|keyword| {
        let defined = format!("{keyword}{name}");
        text.match_indices(&defined).any(|(at, found)| {
            let next = text[at + found.len()..].chars().next();
            !next.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    })
}

/// The files that `file` may stand for, seen from `folder`.
fn candidates<'a>(sources: &'a BTreeMap<String, String>, folder: &str, file: &str) -> Vec<&'a str> {
    let near = format!("{folder}/{file}");
    if let Some(text) = sources.get(&near) {
        return vec![text];
    }
    let ending = format!("/{file}");
    let fits = |path: &str| path == file || path.ends_with(&ending);
    let found = sources.iter().filter(|(path, _)| fits(path));
    found.map(|(_, text)| text.as_str()).collect()
}

/// Checks the pairs of a text.
fn check_pairs(
    sources: &BTreeMap<String, String>,
    from: &str,
    folder: &str,
    text: &str,
    wrong: &mut Vec<String>,
) -> usize {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pairs = pairs(&text);
    for (names, files) in &pairs {
        let texts: Vec<&str> = files
            .iter()
            .flat_map(|file| candidates(sources, folder, file))
            .collect();
        if texts.is_empty() {
            wrong.push(format!("{from}: there is no {}", files.join(" or ")));
        }
        for name in names {
            let item = |c: char| c.is_alphanumeric() || "_:!".contains(c);
            if name.chars().all(item) && !texts.iter().any(|text| defines(text, name)) {
                wrong.push(format!("{from}: {name} is not in {}", files.join(" or ")));
            }
        }
    }
    pairs.len()
}

/// Checks that the files and folders of a table's row are in `folder`.
fn check_row(folder: &str, row: &str, wrong: &mut Vec<String>) -> usize {
    let first = row
        .trim_start_matches('|')
        .split('|')
        .next()
        .unwrap_or_default();
    let mut seen = 0;
    for name in quoted(first) {
        if name.ends_with(".rs") || name.ends_with('/') {
            seen += 1;
            let name = name.trim_end_matches('/');
            let there = root().join(folder).join(name).exists();
            // "`reclaim/before.rs`, `after.rs`": beside the first of the row.
            let beside = quoted(first)[0].rsplit_once('/').map_or("", |(at, _)| at);
            if !there && !root().join(folder).join(beside).join(name).exists() {
                wrong.push(format!("{folder}: there is no {name}"));
            }
        }
    }
    seen
}

#[test]
fn the_maps_name_files_and_items_that_are_there() {
    let sources = sources();
    let mut wrong = Vec::new();
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let found = check_pairs(&sources, "ARCHITECTURE.md", "", &page, &mut wrong);
    assert!(found > 20, "{found} pairs");
    let (mut folder, mut rows) = (String::new(), 0);
    for line in page.lines().filter(|line| line.starts_with('|')) {
        if line.ends_with("| what |") {
            folder = quoted(line).first().unwrap_or(&"").to_string();
        } else if !folder.is_empty() {
            rows += check_row(&folder, line, &mut wrong);
        }
    }
    assert!(rows > 100, "{rows} files and folders");
    let mut tables = 0;
    for (path, text) in &sources {
        let head: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect();
        let head: Vec<&str> = head
            .iter()
            .map(|line| line.trim_start_matches("//!").trim_start())
            .collect();
        if !(path.ends_with("/mod.rs") || path.ends_with("/lib.rs"))
            || !head.iter().any(|line| line.starts_with("|---"))
        {
            continue;
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for line in head.iter().filter(|line| line.starts_with('|')) {
            tables += check_row(folder, line, &mut wrong);
        }
        check_pairs(&sources, path, folder, &head.join("\n"), &mut wrong);
    }
    assert!(tables > 50, "{tables} files in tables of modules");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
