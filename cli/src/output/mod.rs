//! Where results go: a table on standard output, JSON and CSV to files or, as `-`, to standard
//! output in its place.

mod place;

pub use place::Target;

use crate::error::Failure;
use coldset_lab::report::Table;
use coldset_lab::runner::is_workload;
use place::are_one;
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

/// Prints to standard output.
///
/// # Errors
/// [`Failure::PipeClosed`] if nobody reads it, [`Failure::Write`].
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(harmless(text).as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::write("standard output", e))
}

/// Says a line on standard error. One that takes nothing, such as a file on a full disk, is no failure: it could not even be
/// told.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A text as a terminal may have it: names of files can have control characters, which would move its cursor or change its
/// colours. Lines and tabs stay.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() && c != '\n' && c != '\t')
}

/// A text with some characters as they are written in a program.
pub fn escaped(text: &str, harms: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&harms) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match harms(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out.into()
}

/// A message as one line, likewise.
pub fn one_line(text: &str) -> String {
    harmless(text).replace('\n', "\\n")
}

/// A result's JSON form with more in it; what is null is left out.
pub fn json_with<'a>(
    text: &str,
    more: impl IntoIterator<Item = (&'a str, serde_json::Value)>,
) -> String {
    let mut all: serde_json::Value = serde_json::from_str(text).expect("our own JSON");
    for (name, value) in more.into_iter().filter(|(_, value)| !value.is_null()) {
        all[name] = value;
    }
    format!("{all:#}\n")
}

/// Where the forms of a result go; none: not at all.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// `--json`.
    pub json: Option<&'a str>,
    /// `--csv`.
    pub csv: Option<&'a str>,
    /// `--report`.
    pub report: Option<&'a str>,
    /// Files that the command reads, with what they are called.
    pub reads: Vec<Named<'a>>,
    /// Others that it writes.
    pub writes: Vec<Named<'a>>,
}

/// A file, and what it is called in messages.
pub type Named<'a> = (&'static str, &'a Path);

impl<'a> Wanted<'a> {
    /// None of them may be the trace that is read.
    pub fn beside_trace(self, trace: &'a Path) -> Self {
        self.beside([("the trace", trace)])
    }

    /// None of them may be the file of the workload, if the experiment that is run is one.
    pub fn beside_experiment(self, name: &'a str) -> Self {
        let file = is_workload(name).then(|| ("the workload", Path::new(name)));
        self.beside(file)
    }

    /// None of them may be one of these, which are read.
    pub fn beside(mut self, reads: impl IntoIterator<Item = Named<'a>>) -> Self {
        self.reads.extend(reads);
        self
    }

    /// Two of those written that are one file, or one that is read.
    fn collision(&self) -> Option<Failure> {
        let forms = [
            ("--json", self.json),
            ("--csv", self.csv),
            ("--report", self.report),
        ];
        let named = |(option, name): (&'static str, Option<&'a str>)| {
            let name = name.filter(|n| *n != "-")?;
            Some((option, Path::new(name)))
        };
        let written: Vec<Named<'_>> = self
            .writes
            .iter()
            .copied()
            .chain(forms.into_iter().filter_map(named))
            .collect();
        let read = self
            .reads
            .iter()
            .filter(|(_, file)| *file != Path::new("-"));
        let beside_read = read.map(|named| (named, &written[..]));
        let each = written.iter().enumerate();
        let beside_written = each.map(|(at, named)| (named, &written[at + 1..]));
        let mut all = beside_read.chain(beside_written);
        all.find_map(|((ours, a), others)| {
            let (theirs, _) = others.iter().find(|(_, b)| are_one(a, b))?;
            Some(Failure::Usage(format!(
                "{ours} and {theirs} are one file, {}; name another one",
                a.display()
            )))
        })
    }
}

/// The files of `--json`, `--csv` and `--report`, opened before the work begins, so that hours of it are not
/// lost to a misspelt folder.
pub struct Outputs {
    json: Option<Sink>,
    csv: Option<Sink>,
    report: Option<Sink>,
    text: bool,
}

struct Sink {
    name: String,
    piped: bool,
    out: Target,
}

impl Outputs {
    /// Opens them; `-` is standard output.
    ///
    /// # Errors
    /// A file that cannot be written, `-` twice, or one file for two of them.
    pub fn open(wanted: Wanted<'_>) -> Result<Self, Failure> {
        let all = [
            ("--json -", wanted.json),
            ("--csv -", wanted.csv),
            ("--report -", wanted.report),
        ];
        let piped: Vec<&str> = all
            .iter()
            .filter(|(_, name)| *name == Some("-"))
            .map(|(option, _)| *option)
            .collect();
        if let [first, second, ..] = piped.as_slice() {
            return Err(Failure::Usage(format!(
                "{first} and {second} cannot both go to standard output; name a file for one"
            )));
        }
        if let Some(failure) = wanted.collision() {
            return Err(failure);
        }
        let open = |name: Option<&str>| name.map(Sink::open).transpose();
        Ok(Self {
            json: open(wanted.json)?,
            csv: open(wanted.csv)?,
            report: open(wanted.report)?,
            text: piped.is_empty(),
        })
    }

    /// As [`Self::open`], for a result that has no other form than JSON. `besides`: what else the command reads or writes.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_json<'a>(
        json: Option<&'a str>,
        besides: impl IntoIterator<Item = Named<'a>>,
    ) -> Result<Self, Failure> {
        let wanted = Wanted {
            json,
            ..Wanted::default()
        };
        Self::open(wanted.beside(besides))
    }

    /// A page is wanted.
    pub fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// Writes the CSV form only.
    ///
    /// # Errors
    /// As [`print()`].
    pub fn write_csv_only(mut self, csv: impl FnOnce() -> Table) -> Result<(), Failure> {
        self.text = false;
        self.write(String::new, String::new, csv, String::new)
    }

    /// Writes the text or the JSON form.
    ///
    /// # Errors
    /// As [`print()`].
    pub fn write_text_or_json(
        self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.write(text, json, Table::default, String::new)
    }

    /// Writes all forms that are wanted.
    ///
    /// # Errors
    /// As [`print()`].
    pub fn write(
        mut self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> String,
        csv: impl FnOnce() -> Table,
        page: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if let Some(sink) = &mut self.json {
            sink.put(json().as_bytes())?;
        }
        if let Some(sink) = &mut self.csv {
            let mut bytes = Vec::new();
            let written = csv().csv(&mut bytes);
            written.map_err(|e| Failure::write(&sink.name, io::Error::other(e)))?;
            sink.put(&bytes)?;
        }
        if let Some(sink) = &mut self.report {
            sink.put(page().as_bytes())?;
        }
        if self.text {
            print(&text())?;
        }
        if let Some(sink) = self.report.iter().find(|s| !s.piped) {
            tell(&format!("report: {}", one_line(&sink.name)));
        }
        Ok(())
    }
}

impl Sink {
    fn open(name: &str) -> Result<Self, Failure> {
        let out = match name {
            "-" => Target::Stream(Box::new(io::stdout())),
            _ => Target::open(Path::new(name)).map_err(|e| Failure::write(name, e))?,
        };
        Ok(Self {
            piped: name == "-",
            name: if name == "-" { "standard output" } else { name }.into(),
            out,
        })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out
            .put(bytes)
            .map_err(|e| Failure::write(&self.name, e))
    }
}

/// What a trace is called: its file, without folders.
pub fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    match name.to_string_lossy() {
        piped if piped == "-" => "standard input".into(),
        name => name.into_owned(),
    }
}

/// The command line as one would type it, in a shell: what makes a page again.
pub fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let quoted = arguments.map(|a| quote(&a.to_string_lossy()));
    std::iter::once("coldset".to_owned())
        .chain(quoted)
        .collect::<Vec<_>>()
        .join(" ")
}

/// An argument as a shell reads it back.
fn quote(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{harmless, one_line, quote};

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(harmless("a\tb\n"), "a\tb\n");
        assert_eq!(harmless("\u{1b}[2Jx\r\u{9b}"), "\\u{1b}[2Jx\\r\\u{9b}");
        assert_eq!(one_line("a\nb\u{7}"), "a\\nb\\u{7}");
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_would_change_them() {
        for (argument, text) in [
            ("--memory=25%", "--memory=25%"),
            ("base+smaller_batch=on,v5", "base+smaller_batch=on,v5"),
            ("a b", "'a b'"),
            ("", "''"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("*", "'*'"),
        ] {
            assert_eq!(quote(argument), text);
        }
    }
}
