//! What was met while a trace was read, beside the result.

use crate::output::{one_line, tell};
use coldset_lab::traces::{About, Format, OpKind, Reading};
use serde_json::{json, Value};

/// A trace that has been read to its end.
pub struct TraceReading {
    /// File as given by the user.
    pub name: String,
    /// Format given or recognised.
    pub format: Format,
    /// Lines, bad lines, lost events.
    pub reading: Reading,
}

impl TraceReading {
    /// Says on standard error what is missing from the trace: the first bad lines, their number,
    /// lost events. Nothing if nothing is.
    pub fn warn(&self) {
        let (name, reading) = (one_line(&self.name), &self.reading);
        for bad in &reading.first_bad {
            tell(&format!(
                "coldset: warning: {name}, line {}: {}",
                bad.line, bad.problem
            ));
        }
        if reading.bad > 0 {
            tell(&format!(
                "coldset: warning: {name}: {} of {} lines are bad and left out, read as {}; \
                 --strict refuses them, --format names another format",
                reading.bad, reading.lines, self.format
            ));
        }
        if reading.lost_events > 0 || reading.lost_uncounted > 0 {
            let more = match reading.lost_uncounted {
                0 => String::new(),
                1 => " and an unknown number once more".into(),
                n => format!(" and an unknown number {n} more times"),
            };
            tell(&format!(
                "coldset: warning: {name}: the recorder lost {} events{more}; \
                 record with a larger buffer",
                reading.lost_events
            ));
        }
    }

    /// Says so if anonymous memory is only loaded from: it is then nothing that could be evicted.
    pub fn warn_of_loads(&self, trace: &About) {
        if trace.occurs(OpKind::AnonRead) && !trace.occurs(OpKind::AnonWrite) {
            tell(&format!(
                "coldset: warning: {}: its anonymous memory is only loaded from; until a page is stored to, loads see \
                 the page of zeroes, which takes no memory and is never read",
                one_line(&self.name)
            ));
        }
    }

    /// For `--json`; none for formats in which every line is either read or refused.
    pub fn json(&self) -> Option<Value> {
        let reading = &self.reading;
        if !self.format.is_lenient() {
            return None;
        }
        let first: Vec<Value> = reading
            .first_bad
            .iter()
            .map(|bad| json!({"line": bad.line, "problem": bad.problem.to_string()}))
            .collect();
        Some(json!({
            "format": self.format.name(),
            "lines": reading.lines,
            "unused_lines": reading.unused,
            "bad_lines": reading.bad,
            "first_bad_lines": first,
            "lost_events": reading.lost_events,
            "losses_without_a_number": reading.lost_uncounted,
        }))
    }
}
