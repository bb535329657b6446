//! What is wrong with one line or record of a trace, and where it is.

use std::fmt;

/// Where in a trace an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Line of a text format, counted from 1.
    Line(u64),
    /// Record of a binary format.
    Record {
        /// Counted from 0.
        index: u64,
        /// First byte of the record, after unpacking.
        offset: u64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Line(line) => write!(f, "line {line}"),
            Position::Record { index, offset } => write!(f, "record {index} (byte {offset})"),
        }
    }
}

/// What is wrong with one line or record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What was found.
    pub found: String,
    /// What the format demands.
    pub expected: &'static str,
    /// What the user can do.
    pub remedy: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; expected {}; {}",
            self.found, self.expected, self.remedy
        )
    }
}

/// Remedy when the content does not look like the format at all.
pub(super) const CHECK_FORMAT: &str = "correct it or name the true format";

impl Problem {
    /// Unreadable text: quotes it.
    pub(super) fn text(text: &[u8], expected: &'static str) -> Problem {
        Problem {
            found: format!("found `{}`", excerpt(text)),
            expected,
            remedy: CHECK_FORMAT,
        }
    }
}

/// Bytes of a foreign file as harmless text on one line, shortened.
pub(super) fn excerpt(text: &[u8]) -> String {
    const KEEP: usize = 40;
    let text = text.trim_ascii();
    let mut shown = text[..text.len().min(KEEP)].escape_ascii().to_string();
    if text.len() > KEEP {
        shown.push_str("...");
    }
    shown
}

/// A line that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_stays_on_one_line_and_short() {
        assert_eq!(excerpt(b" a\tb\nc "), "a\\tb\\nc");
        assert_eq!(excerpt(&[b'x'; 100]), format!("{}...", "x".repeat(40)));
    }
}
