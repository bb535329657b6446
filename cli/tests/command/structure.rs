//! Who imports whom: no large circles of files.
//!
//! An arrow runs from a file to the one that defines what it names; re-exports are followed, and are no
//! arrows themselves. Code for tests does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Most files that may name each other in a circle.
const MOST: usize = 3;

const CRATES: [&str; 15] = [
    "capi", "cli", "engine", "fuzz", "guest", "lab", "machine", "nearest", "pager", "play",
    "python", "quiet", "races", "report", "traces",
];

/// Segments of a path: of a module, or as written.
type Names = Vec<String>;

/// What a file says.
#[derive(Default)]
struct Source {
    file: String,
    /// Paths that it names, other than by importing.
    named: Vec<Names>,
    /// What an imported name stands for.
    imports: BTreeMap<String, Names>,
    globs: Vec<Names>,
    defined: BTreeSet<String>,
    words: Vec<String>,
}

/// The words of a source, `::` as one, without comments and literals.
fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let quoted = |from: usize, end: &str| {
            let mut at = from;
            while !rest[at..].starts_with(end) {
                let escaped = end == "\"" && rest[at..].starts_with('\\');
                at += rest[at..]
                    .chars()
                    .take(1 + usize::from(escaped))
                    .map(char::len_utf8)
                    .sum::<usize>();
            }
            at + end.len()
        };
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            quoted(2, "*/")
        } else if rest.starts_with("r\"") || rest.starts_with("r#\"") {
            let open = rest.find('"').expect("a quote");
            quoted(open + 1, &format!("\"{}", "#".repeat(open - 1)))
        } else if c == '"' {
            quoted(1, "\"")
        } else if c == '\'' && rest[1..].starts_with('\\') {
            3 + rest[3..].find('\'').expect("the end of a character")
        } else if c == '\'' && rest[1..].chars().nth(1) == Some('\'') {
            rest[1..].find('\'').map_or(1, |at| at + 2)
        } else {
            let length = match rest.find(|c| !word(c)).unwrap_or(rest.len()) {
                0 if rest.starts_with("::") => 2,
                0 => c.len_utf8(),
                n => n,
            };
            if !c.is_whitespace() {
                out.push(rest[..length].to_owned());
            }
            length
        };
        rest = &rest[length..];
    }
    out
}

/// Without what is compiled for tests only.
fn without_tests(words: Vec<String>) -> Vec<String> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let marked = words[at..].iter().take(7).map(String::as_str);
        if !marked.eq(["#", "[", "cfg", "(", "test", ")", "]"]) {
            out.push(words[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += 7;
        while at < words.len() {
            at += 1;
            match words[at - 1].as_str() {
                "{" => depth += 1,
                "}" if depth == 1 => break,
                "}" => depth -= 1,
                ";" if depth == 0 => break,
                _ => {}
            }
        }
    }
    out
}

/// The paths that begin at `at`, each with the name it has here, and where they end.
fn tree(words: &[String], mut at: usize, before: &Names, out: &mut Vec<(String, Names)>) -> usize {
    let mut path = before.clone();
    loop {
        match words.get(at).map(String::as_str) {
            Some("{") => {
                while words[at] != "}" {
                    at = tree(words, at + 1, &path, out);
                }
                return at + 1;
            }
            Some("}") => return at,
            Some("self") if !path.is_empty() => {}
            Some(word) => path.push(word.to_owned()),
            None => return at,
        }
        at += 1;
        if words.get(at).map(String::as_str) != Some("::") {
            break;
        }
        at += 1;
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if words.get(at).map(String::as_str) == Some("as") {
        name = words[at + 1].clone();
        at += 2;
    }
    out.push((name, path));
    at
}

fn read(file: String, text: &str) -> Source {
    let words = without_tests(words(text));
    let mut source = Source {
        file,
        ..Source::default()
    };
    let is_name = |w: &str| w.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut at = 0;
    while at < words.len() {
        let follows = |n: usize, w: &str| words.get(at + n).is_some_and(|next| next == w);
        if words[at] == "use" {
            let mut found = Vec::new();
            at = tree(&words, at + 1, &Names::new(), &mut found);
            for (name, mut path) in found {
                if name == "*" {
                    path.pop();
                    source.globs.push(path);
                } else {
                    source.imports.insert(name, path);
                }
            }
            continue;
        }
        let defines = [
            "fn", "struct", "enum", "trait", "const", "static", "type", "union",
        ];
        if defines.contains(&words[at].as_str()) {
            source.defined.extend(words.get(at + 1).cloned());
        }
        if words[at] == "in" && at > 0 && words[at - 1] == "(" {
            // A visibility.
            at += words[at..].iter().take_while(|w| *w != ")").count();
            continue;
        }
        if is_name(&words[at]) && follows(1, "::") {
            let mut path = vec![words[at].clone()];
            while words.get(at + 1).is_some_and(|w| w == "::")
                && words.get(at + 2).is_some_and(|w| is_name(w))
            {
                path.push(words[at + 2].clone());
                at += 2;
            }
            source.named.push(path);
        } else {
            source.words.push(words[at].clone());
        }
        at += 1;
    }
    source
}

type Crate = BTreeMap<Names, Source>;

/// The module in which `path`, as written in `module`, is defined; none if it is of another crate.
fn find<'a>(
    of: &'a Crate,
    module: &Names,
    path: &[String],
    depth: u32,
) -> Option<(Names, &'a Source)> {
    if depth > 8 {
        return None;
    }
    let source = of.get(module)?;
    let Some((first, rest)) = path.split_first() else {
        return Some((module.clone(), source));
    };
    let child = [module.as_slice(), std::slice::from_ref(first)].concat();
    match first.as_str() {
        "crate" => find(of, &Names::new(), rest, depth + 1),
        "self" => find(of, module, rest, depth + 1),
        "super" => find(
            of,
            &module[..module.len().checked_sub(1)?].to_vec(),
            rest,
            depth + 1,
        ),
        _ if of.contains_key(&child) => find(of, &child, rest, depth + 1),
        _ if source.defined.contains(first) => Some((module.clone(), source)),
        name if source.imports.contains_key(name) => {
            let whole = [source.imports[name].as_slice(), rest].concat();
            find(of, module, &whole, depth + 1)
        }
        _ => source.globs.iter().find_map(|glob| {
            let (target, _) = find(of, module, glob, depth + 1)?;
            (target != *module).then(|| find(of, &target, path, depth + 1))?
        }),
    }
}

/// What each file of a crate names.
fn arrows(of: &Crate) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut out = BTreeMap::new();
    for (module, source) in of {
        let used = |(name, _): &(&String, &Names)| source.words.contains(name);
        let imported = source.imports.iter().filter(used).map(|(_, path)| path);
        let paths = source.named.iter().chain(imported).map(Vec::as_slice);
        // A type or constant by its name alone may come by a glob.
        let by_glob = |w: &&String| !source.globs.is_empty() && w.starts_with(char::is_uppercase);
        let alone = source.words.iter().filter(by_glob);
        let paths = paths.chain(alone.map(std::slice::from_ref));
        let to = paths.filter_map(|path| find(of, module, path, 0));
        let to = to
            .map(|(_, s)| s.file.as_str())
            .filter(|to| *to != source.file);
        out.insert(source.file.as_str(), to.collect());
    }
    out
}

/// Groups of files each of which leads to every other.
fn circles<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<BTreeSet<&'a str>> {
    let reached = |from: &'a str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(arrows[file].iter().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = arrows.keys().map(|f| (*f, reached(f))).collect();
    let circle = |file: &&'a str| -> BTreeSet<&'a str> {
        let back = |to: &&&str| reached[**to].contains(file);
        reached[file].iter().filter(back).copied().collect()
    };
    arrows.keys().map(circle).filter(|c| c.len() > 1).collect()
}

/// Adds a source as a module.
fn add(of: &mut Crate, module: &[&str], file: String, text: &str) {
    let module = module.iter().map(|&name| name.to_owned()).collect();
    of.insert(module, read(file, text));
}

/// The sources below `folder` as modules below `module`.
fn modules(folder: &Path, module: &[&str], of: &mut Crate) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let inner = match &*name {
            "tests" | "bin" => continue,
            "lib" | "mod" => module.to_vec(),
            name => [module, &[name]].concat(),
        };
        if path.is_dir() {
            modules(&path, &inner, of);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            add(of, &inner, path.display().to_string(), &text);
        }
    }
}

#[test]
fn files_do_not_run_in_large_circles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut large = Vec::new();
    for name in CRATES {
        let mut of = Crate::new();
        modules(&root.join(name).join("src"), &[], &mut of);
        assert!(!of.is_empty(), "{name} has no sources");
        let found = circles(&arrows(&of)).into_iter();
        large.extend(found.filter(|c| c.len() > MOST).map(|c| format!("{c:#?}")));
    }
    let advice = "move what they share into a file of its own, below all of them";
    assert!(
        large.is_empty(),
        "{} of these files name each other: {advice}",
        large.join("\n")
    );
}

/// Every way of naming a thing is seen, and what is none is not.
#[test]
fn a_planted_circle_is_found() {
    let mut of = Crate::new();
    for (module, text) in [
        (&[][..], "mod a; mod b; mod c; pub use c::C; const A: a::A = a::A;"),
        (&["a"], "use crate::{b::{self, B as Renamed}, x}; pub struct A(Renamed);"),
        (&["b"], "use super::*; pub struct B; fn f() { let c: C = \"crate::a::A\"; }"),
        (&["c"], "mod d; pub use d::C; // use crate::b::B;\n#[cfg(test)] mod tests { use crate::b::B; fn f(_: B) {} }"),
        (&["c", "d"], "pub struct C(crate::a::A); pub(in crate::b) fn f() {}"),
    ] {
        add(&mut of, module, module.join("/"), text);
    }
    let arrows = arrows(&of);
    assert_eq!(
        circles(&arrows),
        [["a", "b", "c/d"].into()].into(),
        "{arrows:?}"
    );
}
