//! The command line.

use super::super::help::After;
use super::super::tree;
use super::markdown::{code, prose, Page};
use clap::{Arg, Command};

/// `docs/reference/cli.md`: every command with its options.
pub fn page() -> Page {
    let mut page = Page::new(
        "cli.md",
        "Command line",
        "Every command of `coldset` with its arguments.",
    );
    page.paragraph(
        "`coldset COMMAND --help` prints the same. Exit codes: 0 good, 1 a claim or a case is out of \
         its band, 2 usage, 3 environment.",
    );
    add(&mut page, &tree());
    page
}

fn add(page: &mut Page, command: &Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    page.heading(2, name);
    if let Some(about) = command.get_about() {
        page.paragraph(&format!(
            "{}.",
            prose(about.to_string().trim_end_matches('.'))
        ));
    }
    let below: Vec<&Command> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .collect();
    if below.is_empty() {
        let usage = command.clone().render_usage().to_string();
        page.verbatim(&[usage.trim_start_matches("Usage: ").into()]);
    }
    page.table(
        &["command", "what"],
        below.iter().map(|c| {
            let name = c.get_bin_name().unwrap_or(c.get_name());
            let anchor = name.replace(' ', "-");
            let about = c.get_about().map(ToString::to_string).unwrap_or_default();
            vec![format!("[`{name}`](#{anchor})"), prose(&about)]
        }),
    );
    let arguments = command
        .get_arguments()
        .filter(|a| !a.is_hide_set() && !["help", "version"].contains(&a.get_id().as_str()));
    page.table(
        &["argument", "what", "default"],
        arguments.map(|a| vec![code(&written(a)), what(a), default(a)]),
    );
    let after = After::of(command);
    if !after.examples.is_empty() {
        page.paragraph("Examples:");
        page.verbatim(&after.examples);
    }
    after.notes.iter().for_each(|n| note(page, n));
    below.into_iter().for_each(|c| add(page, c));
}

/// Lines that are indented stand as they are, the others are prose.
fn note(page: &mut Page, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for part in lines.chunk_by(|a, b| a.starts_with("  ") == b.starts_with("  ")) {
        if part[0].starts_with("  ") {
            page.verbatim(&part.iter().map(|l| l[2..].into()).collect::<Vec<_>>());
        } else {
            page.paragraph(&prose(&part.join(" ")));
        }
    }
}

/// An argument as it is typed.
fn written(a: &Arg) -> String {
    let values = match a.get_value_names() {
        Some(names) if a.get_action().takes_values() => names.join(" "),
        _ => String::new(),
    };
    match a.get_long() {
        None => values,
        Some(long) if values.is_empty() => format!("--{long}"),
        Some(long) if a.get_num_args().is_some_and(|n| n.min_values() == 0) => {
            format!("--{long} [{values}]")
        }
        Some(long) => format!("--{long} {values}"),
    }
}

/// Its help without the default in brackets, and the values it takes.
fn what(a: &Arg) -> String {
    let help = a.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split(" [default:").next().unwrap_or_default();
    let mut text = prose(help);
    let values: Vec<String> = a
        .get_possible_values()
        .iter()
        .filter(|v| !v.is_hide_set())
        .map(|v| match v.get_help() {
            Some(help) => format!(
                "`{}` ({})",
                v.get_name(),
                help.to_string().trim_end_matches('.')
            ),
            None => code(v.get_name()),
        })
        .collect();
    if a.get_action().takes_values() && !values.is_empty() {
        text.push_str(&format!(": {}", values.join(", ")));
    }
    text
}

/// The default that the parser fills in, or the one that the help text states.
fn default(a: &Arg) -> String {
    let help = a.get_help().map(ToString::to_string).unwrap_or_default();
    if let Some((_, stated)) = help.split_once("[default: ") {
        return prose(stated.split(']').next().unwrap_or_default());
    }
    if !a.get_action().takes_values() {
        return String::new();
    }
    let values: Vec<String> = a
        .get_default_values()
        .iter()
        .map(|v| code(&v.to_string_lossy()))
        .collect();
    values.join(", ")
}
