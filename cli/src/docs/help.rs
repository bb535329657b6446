//! The text behind a command's options, taken apart.

/// What stands below the options of `--help`.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct After {
    /// Lines under "Examples:", without their indentation.
    pub examples: Vec<String>,
    /// The other paragraphs, lines as they are.
    pub notes: Vec<String>,
}

impl After {
    /// Takes the text of a command apart.
    pub fn of(command: &clap::Command) -> Self {
        match command.get_after_help() {
            Some(text) => Self::parse(&text.to_string()),
            None => Self::default(),
        }
    }

    fn parse(text: &str) -> Self {
        let mut after = Self::default();
        for paragraph in text.split("\n\n") {
            match paragraph.trim_end().strip_prefix("Examples:\n") {
                Some(lines) => {
                    let lines = lines.lines();
                    after.examples.extend(lines.map(|l| l.trim_start().into()));
                }
                None => after.notes.push(paragraph.trim_end().into()),
            }
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn examples_and_notes_are_told_apart() {
        let after =
            After::parse("Examples:\n  coldset a   # b\n  coldset c\n\nOne\ntwo.\n\nThree.\n");
        assert_eq!(after.examples, ["coldset a   # b", "coldset c"]);
        assert_eq!(after.notes, ["One\ntwo.", "Three."]);
    }

    /// Words as a shell would see them; the part of a pipe that calls the command; remarks cut off.
    fn words(line: &str) -> Option<Vec<String>> {
        let call = line
            .split(" | ")
            .find(|part| part.starts_with("coldset "))?;
        let call = call.split("   ").next()?.split(" > ").next()?;
        let call = call.split("  #").next()?;
        Some(call.split_whitespace().map(String::from).collect())
    }

    fn check(command: &clap::Command, seen: &mut usize) {
        let after = After::of(command);
        for line in &after.examples {
            let words = words(line).unwrap_or_else(|| panic!("no call of the command: {line}"));
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!(
                    "an example of `{}` is wrong: {line}\n{error}",
                    command.get_name()
                );
            }
            *seen += 1;
        }
        command.get_subcommands().for_each(|c| check(c, seen));
    }

    /// Every example of every help text is a command line that the parser takes.
    #[test]
    fn examples_of_help_texts_are_valid() {
        let mut seen = 0;
        check(&tree(), &mut seen);
        assert!(seen > 40, "only {seen} examples were looked at");
    }

    #[test]
    fn every_command_has_a_line_and_every_option_a_help() {
        fn look(c: &clap::Command) {
            assert!(c.get_about().is_some(), "{} has no line", c.get_name());
            for a in c.get_arguments() {
                assert!(a.get_help().is_some(), "{} of {}", a.get_id(), c.get_name());
            }
            c.get_subcommands().for_each(look);
        }
        look(&tree());
    }
}
