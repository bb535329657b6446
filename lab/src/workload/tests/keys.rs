//! The table of keys is what the reader reads: each of its examples is accepted, and something else is not.

use super::good;
use crate::workload::{of_toml, Key, KEYS, SECTIONS};

/// A workload with one key more, in its table.
fn with(key: &Key, value: &str) -> String {
    let entry = format!("{} = {value}", key.name);
    let has = |names: &[&str]| names.contains(&key.name);
    let mut step = "load = \"f\"".to_owned();
    if key.section == "steps" {
        step = match key.name {
            "at" | "size" | "part" => format!("load = \"f\", {entry}"),
            "partial" => format!("pwrite = \"f\", {entry}"),
            "times" | "chance" => format!("load = \"f\", {entry}"),
            _ => entry.clone(),
        };
    }
    if key.section == "at" {
        step = match key.name {
            "hits" => format!("load = \"f\", at = {{ hot = \"10%\", {entry} }}"),
            "own_hot" => format!("load = \"f\", at = {{ zipf = 1.1, {entry} }}"),
            _ => format!("load = \"f\", at = {{ {entry} }}"),
        };
    }
    let claim = match (key.section, key.name) {
        ("claims", "name") => format!("{entry}\nratio = \"m.ops\"\nat_least = 0"),
        ("claims", "ratio" | "difference" | "value") => {
            format!(
                "name = \"c\"\nat_least = 0\n{}",
                entry.replace("ops", "m.ops")
            )
        }
        ("claims", "of") => format!("name = \"c\"\nvalue = \"m.ops\"\nat_least = 0\n{entry}"),
        ("claims", "band" | "around" | "at_least" | "at_most" | "exactly") => {
            format!("name = \"c\"\nratio = \"m.ops\"\n{entry}")
        }
        ("claims", "width") => format!("name = \"c\"\nratio = \"m.ops\"\nclass = \"N\"\n{entry}"),
        ("claims", _) => format!("name = \"c\"\nratio = \"m.ops\"\nat_least = 0\n{entry}"),
        _ => "name = \"c\"\nratio = \"m.ops\"\nat_least = 0".to_owned(),
    };
    let end = match (key.section, key.name) {
        ("phases", "time" | "count") => entry.clone(),
        _ => "count = 5".to_owned(),
    };
    let top = match key.section {
        "effort" => format!("effort = {{ published = \"x\", {entry} }}")
            .replace("published = \"x\", published", "published"),
        "" if has(&[
            "name",
            "about",
            "source",
            "before",
            "after",
            "variants",
            "scale",
            "fixed_scale",
            "effort",
        ]) =>
        {
            entry.clone()
        }
        "" if has(&["results"]) => "results = [\"ops\"]".to_owned(),
        "" if has(&["mechanism"]) => "mechanism = [\"m.ops\"]".to_owned(),
        _ => String::new(),
    };
    let param = match key.section {
        "params" => {
            format!("limit = {{ default = 1, {entry} }}").replace("default = 1, default", "default")
        }
        _ => "limit = 1".to_owned(),
    };
    let once = |section: &str, names: &[&str]| match key.section == section && !has(names) {
        true => entry.clone(),
        false => String::new(),
    };
    let costs = match key.section {
        "costs" if !has(&["name", "value"]) => {
            format!("[[costs]]\nname = \"timer_hz\"\nvalue = 250\n{entry}")
        }
        _ => "[[costs]]\nname = \"timer_hz\"\nvalue = 250".to_owned(),
    };
    let phase = match (key.section, key.name) {
        ("phases", "measured" | "together") => entry.clone(),
        _ => String::new(),
    };
    format!(
        r#"
{top}
[params]
{param}
{costs}
[[machines]]
name = "m"
{}
[[cgroups]]
name = "top"
[[cgroups]]
name = "g"
{}
[[files]]
name = "f"
size = "64MiB"
{}
[[memory]]
name = "heap"
size = "64MiB"
{}
[[tasks]]
name = "t"
{}
[[tasks.phases]]
{end}
{phase}
steps = [{{ {step} }}]
[[claims]]
{claim}
"#,
        once("machines", &["name"]),
        once("cgroups", &["name"]),
        once("files", &["name", "size"]),
        once("memory", &["name", "size"]),
        once("tasks", &["name", "phases"]),
    )
}

/// Keys that the frame of [`with`] has anyway: lists of tables, and names.
fn framed(key: &Key) -> bool {
    let tables = [
        "params", "costs", "machines", "cgroups", "files", "memory", "tasks", "claims",
    ];
    let names = ["machines", "cgroups", "files", "memory", "tasks"];
    match (key.section, key.name) {
        ("", name) => tables.contains(&name) || ["results", "mechanism"].contains(&name),
        ("phases", "steps") | ("tasks", "phases") | ("costs", "name" | "value") => true,
        (section, "name" | "size") => names.contains(&section),
        _ => false,
    }
}

#[test]
fn every_key_is_read_and_takes_nothing_else() {
    for key in KEYS {
        good(&with(key, key.example));
        if framed(key) {
            continue;
        }
        // Nothing takes a date.
        let text = with(key, "2026-11-24");
        let error = of_toml("test.toml", "test", &text).map(|e| e.name);
        let error = match error {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{}.{} is not read\n{text}", key.section, key.name),
        };
        assert!(
            error.contains(key.name) && error.contains("line"),
            "{error}"
        );
    }
}

#[test]
fn every_key_has_a_section_and_a_sentence() {
    for key in KEYS {
        assert!(SECTIONS.iter().any(|(s, ..)| *s == key.section), "{key:?}");
        assert!(!key.doc.is_empty() && !key.takes.is_empty(), "{key:?}");
    }
    for (section, ..) in SECTIONS {
        assert!(KEYS.iter().any(|k| k.section == *section), "{section}");
    }
}
