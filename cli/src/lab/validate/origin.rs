//! What runs were of: the trace and the limit. Others are not beside a prediction of them.

use crate::output::file_name;
use coldset_lab::report::human;
use coldset_lab::traces::Trace;
use serde_json::{Map, Value};
use std::path::Path;

/// The trace and the limit of runs.
pub struct Origin {
    trace: String,
    accesses: u64,
    /// Of the records; none of an experiment, whose name says what it is, and whose work may become another.
    checksum: Option<String>,
    memory_pages: u64,
}

impl Origin {
    /// Of a trace, or of the work of an experiment with this name.
    pub fn of(name: &Path, is_experiment: bool, trace: &Trace, memory_pages: u64) -> Self {
        Self {
            trace: file_name(name),
            accesses: trace.ops().len() as u64,
            checksum: (!is_experiment).then(|| checksum(trace)),
            memory_pages,
        }
    }

    /// As fields of JSON.
    pub fn fields(&self) -> Map<String, Value> {
        let fields = [
            ("trace", self.trace.clone().into()),
            ("accesses", self.accesses.into()),
            ("checksum", self.checksum.clone().into()),
            ("memory_pages", self.memory_pages.into()),
        ];
        fields.map(|(k, v)| (k.to_owned(), v)).into_iter().collect()
    }

    /// Back from JSON; none: it was written when these fields did not exist.
    fn from_json(all: &Value) -> Option<Self> {
        Some(Self {
            trace: all["trace"].as_str()?.to_owned(),
            accesses: all["accesses"].as_u64()?,
            checksum: all["checksum"].as_str().map(str::to_owned),
            memory_pages: all["memory_pages"].as_u64()?,
        })
    }

    /// Whether what JSON has is of the same.
    ///
    /// # Errors
    /// What it is of, in words.
    pub fn check(&self, all: &Value) -> Result<(), String> {
        let Some(theirs) = Self::from_json(all) else {
            return Ok(());
        };
        let same_trace = match (&self.checksum, &theirs.checksum) {
            (None, None) => self.trace == theirs.trace,
            (ours, theirs) => ours == theirs,
        };
        match same_trace && self.memory_pages == theirs.memory_pages {
            true => Ok(()),
            false => Err(format!(
                "it is of {}, and this is {}; name the same trace and --memory, or leave out --recorded to measure",
                theirs.words(),
                self.words()
            )),
        }
    }

    fn words(&self) -> String {
        let (accesses, pages) = (human(self.accesses as f64), human(self.memory_pages as f64));
        let checksum = self.checksum.as_ref();
        let checksum = checksum.map_or_else(String::new, |sum| format!(", checksum {sum}"));
        format!(
            "{} ({accesses} accesses{checksum}) with {pages} pages of memory",
            self.trace
        )
    }
}

/// FNV-1a of all records: whether two traces are the same, not whether somebody wants them to seem so.
fn checksum(trace: &Trace) -> String {
    let bytes = trace.file_records().flat_map(|r| r.to_bytes());
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_lab::traces::{Op, OpKind};
    use serde_json::json;

    fn trace(pages: u32) -> Trace {
        let op = |page| Op {
            kind: OpKind::Pread,
            object: 0,
            task: 0,
            page,
        };
        Trace::from_ops((0..pages).map(op).collect())
    }

    #[test]
    fn another_trace_and_another_limit_are_named() {
        let of =
            |name: &str, pages, limit| Origin::of(Path::new(name), false, &trace(pages), limit);
        let written = Value::from(of("a/one.pageops", 3000, 512).fields());
        assert_eq!(of("elsewhere.pageops", 3000, 512).check(&written), Ok(()));
        let said = of("two.pageops", 40, 512).check(&written).unwrap_err();
        assert!(
            said.starts_with("it is of one.pageops (3,000 accesses, checksum "),
            "{said}"
        );
        assert!(
            said.contains("and this is two.pageops (40 accesses, checksum "),
            "{said}"
        );
        let said = of("one.pageops", 3000, 1024).check(&written).unwrap_err();
        assert!(
            said.contains("with 512 pages of memory, and this is"),
            "{said}"
        );
        // Written when there was no such field.
        assert_eq!(
            of("one.pageops", 3000, 1024).check(&json!({"kernels": []})),
            Ok(())
        );
    }

    #[test]
    fn the_work_of_an_experiment_goes_by_its_name() {
        let of = |name: &str, pages| Origin::of(Path::new(name), true, &trace(pages), 512);
        let written = Value::from(of("mongodb", 300).fields());
        assert_eq!(of("mongodb", 301).check(&written), Ok(()));
        assert!(of("mysql", 300).check(&written).is_err());
    }
}
