//! Plain CSV: columns `page[,op[,object[,task]]]` in this order, or in any order with a
//! header line that names them (further columns are then ignored). Lines that begin with
//! `#` are comments.
//!
//! `op`: `r` read (the default), `w` write, `m` mapped read, `a` store to anonymous
//! memory, `l` load from anonymous memory. Without an `object`, files are object 0 and
//! anonymous memory is object 1. `task` is 0 if absent.

use crate::decode::{Decode, Framing, Request};
use crate::fields::{decimal, parse};
use crate::numbering::Id;
use crate::op::OpKind;
use crate::problem::Problem;

/// Column of each field.
struct Columns {
    page: usize,
    op: Option<usize>,
    object: Option<usize>,
    task: Option<usize>,
}

const BY_POSITION: Columns = Columns {
    page: 0,
    op: Some(1),
    object: Some(2),
    task: Some(3),
};

#[derive(Default)]
pub(crate) struct Csv {
    /// Known after the first line.
    columns: Option<Columns>,
    /// Whether the columns were named by a header.
    named: bool,
}

const EXPECTED: &str = "page[,op[,object[,task]]], for instance `17,w,0,1`";

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| b == b',').map(|field| {
        let field = field.trim_ascii();
        let unquoted = field
            .strip_prefix(b"\"")
            .and_then(|f| f.strip_suffix(b"\""));
        unquoted.unwrap_or(field).trim_ascii()
    })
}

impl Csv {
    fn header(line: &[u8]) -> Result<Columns, Problem> {
        let column = |name: &[u8]| fields(line).position(|field| field.eq_ignore_ascii_case(name));
        let page = column(b"page").ok_or_else(|| Problem {
            found: format!("found `{}`", crate::problem::excerpt(line)),
            expected: "a page number, or a header with a column `page`",
            remedy: "or say what each column holds, those to pass over as -, for instance `--columns time,op,offset,size,-` (or page, sector, key)",
        })?;
        let wanted = ["page", "op", "object", "task"].map(str::as_bytes);
        let named = |name: &&[u8]| {
            fields(line)
                .filter(|f| f.eq_ignore_ascii_case(name))
                .count()
                > 1
        };
        if let Some(twice) = wanted.iter().find(|name| named(name)) {
            return Err(Problem {
                found: format!(
                    "two columns are called `{}`",
                    String::from_utf8_lossy(twice)
                ),
                expected: "each column once",
                remedy: "rename one of them in the header",
            });
        }
        Ok(Columns {
            page,
            op: column(b"op"),
            object: column(b"object"),
            task: column(b"task"),
        })
    }
}

impl Decode for Csv {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if line.starts_with(b"#") {
            return Ok(None);
        }
        if self.columns.is_none() {
            let first = fields(line).next().unwrap_or_default();
            if first.iter().any(u8::is_ascii_alphabetic) {
                self.columns = Some(Self::header(line)?);
                self.named = true;
                return Ok(None);
            }
        }
        let columns = self.columns.get_or_insert(BY_POSITION);
        let bad = || Problem::text(line, EXPECTED);
        let present = fields(line).count();
        if !self.named && present > 4 {
            return Err(bad());
        }
        // An absent or empty field has its default; the page has none.
        let field = |column: Option<usize>| {
            column
                .and_then(|column| fields(line).nth(column))
                .filter(|field| !field.is_empty())
        };
        let page = decimal(field(Some(columns.page)).ok_or_else(bad)?, EXPECTED)?;
        let kind = match field(columns.op) {
            None | Some(b"r" | b"R") => OpKind::Pread,
            Some(b"w" | b"W") => OpKind::Pwrite,
            Some(b"m" | b"M") => OpKind::MappedRead,
            Some(b"a" | b"A") => OpKind::AnonWrite,
            Some(b"l" | b"L") => OpKind::AnonRead,
            Some(other) => return Err(Problem::text(other, "an op: r, w, m, a or l")),
        };
        let object = match field(columns.object) {
            None => u8::from(kind.is_anon()),
            Some(text) => parse(text, 10)
                .and_then(|number| u8::try_from(number).ok())
                .ok_or_else(|| Problem::text(text, "an object from 0 to 255"))?,
        };
        let task = match field(columns.task) {
            None => 0,
            Some(text) => parse(text, 10)
                .and_then(|number| u16::try_from(number).ok())
                .ok_or_else(|| Problem::text(text, "a task from 0 to 65535"))?,
        };
        Ok(Some(Request {
            object,
            task,
            id: Id::Foreign,
            ..Request::one(kind, page)
        }))
    }
}
