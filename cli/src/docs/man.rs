//! `coldset man`: a manual page for each command.

use super::help::After;
use super::{tree, write_all};
use crate::args::ManArgs;
use crate::error::{Failure, Verdict};
use clap::Command;
use clap_mangen::Man;
use std::io;

/// Exit codes, the same for all commands.
const EXIT: [(&str, &str); 4] = [
    ("0", "Good."),
    (
        "1",
        "A claim or a case is out of its band, or something does not hold.",
    ),
    (
        "2",
        "The command line or an input is wrong; the message says what and how it is meant.",
    ),
    (
        "3",
        "The environment: a file that cannot be read or written, a process that is not there.",
    ),
];

/// Writes all pages.
///
/// # Errors
/// A folder or file that cannot be written.
pub fn run(args: &ManArgs) -> Result<Verdict, Failure> {
    write_all(&args.dir, &pages())?;
    Ok(Verdict::Good)
}

/// Names and texts of all pages.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    add(&tree(), None, &mut pages);
    pages
}

fn add(command: &Command, parent: Option<&str>, pages: &mut Vec<(String, String)>) {
    let name = name(command);
    let text = page(command, parent).expect("writing to a vector");
    pages.push((format!("{name}.1"), text));
    for below in shown(command) {
        add(below, Some(&name), pages);
    }
}

fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or(command.get_name()).into()
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set())
}

fn page(command: &Command, parent: Option<&str>) -> io::Result<String> {
    let mut out = Vec::new();
    let after = After::of(command);
    let man = Man::new(command.clone()).manual("Coldset");
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if shown(command).next().is_some() {
        man.render_subcommands_section(&mut out)?;
    }
    let mut text = String::from_utf8_lossy(&out).into_owned();
    if !after.notes.is_empty() {
        text.push_str(".SH NOTES\n");
        for (i, note) in after.notes.iter().enumerate() {
            if i > 0 {
                text.push_str(".PP\n");
            }
            note.lines().for_each(|l| line(&mut text, l));
        }
    }
    text.push_str(".SH \"EXIT STATUS\"\n");
    for (code, what) in EXIT {
        text.push_str(&format!(".TP\n{code}\n{what}\n"));
    }
    if !after.examples.is_empty() {
        text.push_str(".SH EXAMPLES\n.nf\n");
        after.examples.iter().for_each(|l| line(&mut text, l));
        text.push_str(".fi\n");
    }
    let mut others: Vec<String> = parent.into_iter().map(String::from).collect();
    others.extend(shown(command).map(name));
    if !others.is_empty() {
        let others: Vec<String> = others
            .iter()
            .map(|n| format!("\\fB{}\\fR(1)", n.replace('-', "\\-")))
            .collect();
        text.push_str(&format!(".SH \"SEE ALSO\"\n{}\n", others.join(", ")));
    }
    Ok(text)
}

/// A line of text that is no request, whatever it begins with.
fn line(to: &mut String, text: &str) {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) {
        to.push_str("\\&");
    }
    to.push_str(&escaped);
    to.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that is shown has a page, and every page the sections that a manual has.
    #[test]
    fn all_commands_have_whole_pages() {
        fn count(c: &Command) -> usize {
            1 + shown(c).map(count).sum::<usize>()
        }
        let pages = pages();
        assert_eq!(pages.len(), count(&tree()));
        for (name, text) in &pages {
            let sections: Vec<&str> = text
                .lines()
                .filter_map(|l| l.strip_prefix(".SH "))
                .collect();
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "\"EXIT STATUS\"",
                "EXAMPLES",
            ] {
                assert!(
                    sections.contains(&section),
                    "{name}: no {section} in {sections:?}"
                );
            }
            assert!(text.contains(".TH "), "{name} has no title");
            for l in text.lines().filter(|l| l.starts_with('.')) {
                let known = [
                    ".SH", ".TH", ".TP", ".IP", ".PP", ".nf", ".fi", ".RS", ".RE", ".ie", ".el",
                    ".br",
                ];
                assert!(
                    known.iter().any(|k| l.starts_with(k)),
                    "{name}: request {l}"
                );
            }
        }
        let run = &pages
            .iter()
            .find(|(n, _)| n == "coldset-lab-run.1")
            .expect("a page")
            .1;
        assert!(
            run.contains("\\-\\-variants") && run.contains("coldset lab run mongodb"),
            "{run}"
        );
    }

    #[test]
    fn no_text_becomes_a_request() {
        let mut text = String::new();
        line(&mut text, ".SH a\\b");
        assert_eq!(text, "\\&.SH a\\eb\n");
    }
}
