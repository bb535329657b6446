//! What the command says of itself: reference, manual pages, completions.

use crate::common::temporary;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn coldset(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coldset"));
    command.args(arguments).output().expect("the command runs")
}

/// A file of the project; none if the crate is tested without it.
fn of_project(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    path.exists().then_some(path)
}

/// `make reference` renews it.
#[test]
fn the_reference_in_docs_is_what_the_code_generates() {
    let Some(dir) = of_project("docs/reference") else {
        return;
    };
    let out = coldset(&["reference", "--check", "--dir", dir.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{said}");
}

/// README repeats totals and errors of two pages that commands write.
#[test]
fn the_readme_has_the_figures_of_the_pages_it_names() {
    let pages = ["README.md", "docs/acceptance.md", "docs/validation.md"];
    let [Some(readme), Some(acceptance), Some(validation)] = pages.map(of_project) else {
        return;
    };
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("a page");
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let readme = words(read(readme));
    let acceptance = read(acceptance);
    let total = |class: &str| -> (u32, u32) {
        let line = format!("class {class}: ");
        let total = acceptance.lines().find_map(|l| l.strip_prefix(&line));
        let total = total.and_then(|t| t.strip_suffix(" in")).expect("a total");
        let (good, all) = total.split_once(" of ").expect("two numbers");
        (
            good.parse().expect("a number"),
            all.parse().expect("a number"),
        )
    };
    let classes = ["A", "B", "N", "D"].map(total);
    let sum = |of: fn(&(u32, u32)) -> u32| classes.iter().map(of).sum::<u32>();
    let (good, all) = classes[1];
    for said in [
        format!(
            "Of the {} rows that check published experiments, {} pass",
            sum(|c| c.1),
            sum(|c| c.0)
        ),
        format!("of the {all} that judge a median by a band, {good} do"),
    ] {
        assert!(readme.contains(&said), "README.md has not: {said}");
    }
    let begin = "the median error of predicted refaults is ";
    let validation = words(read(validation));
    let (_, errors) = validation.split_once(begin).expect("the result");
    let (medians, _) = errors.split_once(" %").expect("medians");
    let said = format!("the median error in refaults is {medians} %");
    assert!(readme.contains(&said), "README.md has not: {said}");
}

#[test]
fn a_page_that_differs_is_named() {
    let dir = temporary("reference");
    let name = dir.to_str().unwrap();
    assert_eq!(
        coldset(&["reference", "--dir", name]).status.code(),
        Some(0)
    );
    assert_eq!(
        coldset(&["reference", "--check", "--dir", name])
            .status
            .code(),
        Some(0)
    );
    std::fs::write(dir.join("counters.md"), "# Counters\n").unwrap();
    let out = coldset(&["reference", "--check", "--dir", name]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        said.contains("counters.md") && said.contains("make reference"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Every page goes through man without a warning, where there is man.
#[test]
fn manual_pages_are_formatted() {
    let dir = temporary("man1");
    assert_eq!(
        coldset(&["man", "--dir", dir.to_str().unwrap()])
            .status
            .code(),
        Some(0)
    );
    let pages: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert!(pages.len() > 10, "{pages:?}");
    for page in &pages {
        let mut man = Command::new("man");
        man.args(["--warnings", "-P", "cat", "-E", "UTF-8", "-l"])
            .arg(page);
        let Ok(out) = man.env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8").output() else {
            return;
        };
        let (text, said) = (
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr),
        );
        assert!(
            out.status.success() && said.trim().is_empty(),
            "{}: {said}",
            page.display()
        );
        assert!(
            text.contains("NAME") && text.contains("EXAMPLES"),
            "{}: {text}",
            page.display()
        );
    }
}

#[test]
fn completions_know_commands_and_are_read_by_bash() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = coldset(&["completions", shell]);
        assert_eq!(out.status.code(), Some(0), "{shell}");
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(
            text.contains("fidelity") && text.contains("variants"),
            "{shell}: {text}"
        );
        if shell == "bash" {
            let script = temporary("coldset.bash");
            std::fs::write(&script, &text).unwrap();
            let ask = format!(
                "source {}; COMP_WORDS=(coldset lab fid); COMP_CWORD=2; \
                 _coldset coldset fid lab; echo ${{COMPREPLY[@]}}",
                script.display()
            );
            if let Ok(out) = Command::new("bash").args(["--norc", "-c", &ask]).output() {
                let reply = String::from_utf8_lossy(&out.stdout);
                assert_eq!(
                    reply.trim(),
                    "fidelity",
                    "{}",
                    String::from_utf8_lossy(&out.stderr)
                );
            }
        }
    }
    let out = coldset(&["completions", "tcsh"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_of_one_line() {
    for command in ["man", "reference"] {
        let out = coldset(&[command, "--dir", "/dev/null/pages"]);
        assert_eq!(out.status.code(), Some(3), "{command}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("/dev/null/pages"), "{said}");
    }
}
