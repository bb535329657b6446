//! Text with a column for each field: the layouts in which public block and cache traces come, and any
//! other whose columns the user names.
//!
//! | format | columns | published as |
//! |---|---|---|
//! | `msr` | time, host, disk, Read or Write, offset, size, response time | MSR Cambridge traces: Narayanan et al., "Write off-loading", FAST 2008; SNIA IOTTA 388 |
//! | `alibaba-block` | volume, R or W, offset, size, time | Alibaba block traces: Li et al., IISWC 2020 |
//! | `tencent-block` | time, first sector, sectors, 0 or 1, volume | Tencent CBS: Zhang et al., USENIX ATC 2020; SNIA IOTTA 4917 |
//! | `twitter` | time, key, size of key, size of value, client, command, time to live | Twitter's cache traces: Yang et al., OSDI 2020 |
//! | `wikipedia` | time, hash of the path, type, size, time of the first byte | Wikimedia's Analytics/Data Lake/Traffic/Caching, release of 2019 |
//!
//! Bytes and sectors become pages: each that a request overlaps is referenced once, in order; what a
//! write covers need not be read first. A key is one page, or as many as its size needs where objects are
//! split. Volumes and disks stay apart.

use std::collections::VecDeque;

use super::extent::Extent;
use crate::decode::{Decode, Framing, Request};
use crate::fields::{decimal, parse};
use crate::numbering::{page_key, Spaces, Tasks};
use crate::op::OpKind;
use crate::options::{ObjectPages, TraceOptions};
use crate::problem::{excerpt, Problem};
use crate::TraceError;
use coldset_nearest::did_you_mean;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Skip,
    Page,
    Offset,
    Sector,
    Size,
    Sectors,
    Op,
    Object,
    Task,
    Key,
}

/// Names of columns, for the user.
const NAMES: [(&str, Field); 11] = [
    ("page", Field::Page),
    ("offset", Field::Offset),
    ("sector", Field::Sector),
    ("size", Field::Size),
    ("sectors", Field::Sectors),
    ("op", Field::Op),
    ("object", Field::Object),
    ("task", Field::Task),
    ("key", Field::Key),
    ("time", Field::Skip),
    ("-", Field::Skip),
];

/// Columns of `msr`.
pub(crate) const MSR: &str = "time,-,object,op,offset,size,-";
/// Columns of `alibaba-block`.
pub(crate) const ALIBABA: &str = "object,op,offset,size,time";
/// Columns of `tencent-block`.
pub(crate) const TENCENT: &str = "time,sector,sectors,op,object";
/// Columns of `twitter`.
pub(crate) const TWITTER: &str = "time,key,-,size,-,op,-";
/// Columns of `wikipedia`.
pub(crate) const WIKIPEDIA: &str = "time,key,-,size,-";

/// Where a reference goes: the one column of these that a trace must have.
const PLACES: [Field; 4] = [Field::Page, Field::Offset, Field::Sector, Field::Key];

/// Why a line has the field that says where it goes.
const PRESENT: &str = "a column of each trace";

/// Units of a sector of 512 bytes, as a power of two.
const SECTOR_SHIFT: u32 = 9;

/// A format of named columns.
pub(crate) struct Columns {
    fields: Vec<Field>,
    place: Field,
    page_shift: u32,
    split: bool,
    /// Known after the first line.
    separator: Option<u8>,
    objects: Spaces<Vec<u8>>,
    tasks: Tasks,
    keys: Spaces<Vec<u8>>,
    out: VecDeque<Request>,
}

impl Columns {
    /// Of the columns with these names, separated by commas.
    ///
    /// # Errors
    /// A name that no column has, one twice, a size of the wrong unit, or no place.
    pub fn named(names: &str, options: &TraceOptions) -> Result<Columns, TraceError> {
        let refused = |found: String, expected: &'static str| TraceError::Option {
            option: "columns",
            found,
            expected,
        };
        let mut fields = Vec::new();
        for name in names.split(',').map(str::trim) {
            let known = NAMES.iter().find(|(known, _)| *known == name);
            let Some(&(_, field)) = known else {
                let hint = did_you_mean(name, NAMES.iter().map(|(known, _)| *known));
                return Err(refused(
                    format!("{}{hint}", name.escape_debug()),
                    "page, offset, sector, size, sectors, op, object, task, key, time or - for each column",
                ));
            };
            if field != Field::Skip && fields.contains(&field) {
                return Err(refused(format!("{name} twice"), "each name once"));
            }
            fields.push(field);
        }
        let has = |field| fields.contains(&field);
        let places: Vec<Field> = PLACES.into_iter().filter(|&place| has(place)).collect();
        let &[place] = places.as_slice() else {
            return Err(refused(
                names.escape_debug().to_string(),
                "one of page, offset (bytes), sector (of 512 bytes) or key",
            ));
        };
        let size_fits = match place {
            Field::Offset | Field::Key => !has(Field::Sectors),
            Field::Sector => !has(Field::Size),
            _ => !has(Field::Size) && !has(Field::Sectors),
        };
        if !size_fits {
            return Err(refused(
                names.escape_debug().to_string(),
                "size (bytes) with offset or key, sectors with sector, neither with page",
            ));
        }
        Ok(Columns {
            fields,
            place,
            page_shift: options.page_shift,
            split: options.object_pages == ObjectPages::Split,
            separator: None,
            objects: Spaces::default(),
            tasks: Tasks::default(),
            keys: Spaces::default(),
            out: VecDeque::new(),
        })
    }

    /// The text of a column, if the trace has it.
    fn text<'a>(&self, line: &'a [u8], field: Field) -> Result<Option<&'a [u8]>, Problem> {
        let Some(at) = self.fields.iter().position(|&f| f == field) else {
            return Ok(None);
        };
        let separator = self.separator.unwrap_or(b',');
        let text = split(line, separator).nth(at);
        let text = text.filter(|text| !text.is_empty());
        text.map(Some).ok_or_else(|| Problem {
            found: format!("found `{}`", excerpt(line)),
            expected: "a field for each named column",
            remedy: crate::problem::CHECK_FORMAT,
        })
    }

    fn number(&self, line: &[u8], field: Field) -> Result<Option<u64>, Problem> {
        let text = self.text(line, field)?;
        text.map(|text| decimal(text, "a number in this column"))
            .transpose()
    }

    /// The first line names the columns, if what must be a number is none.
    fn is_header(&self, line: &[u8]) -> bool {
        let numbers = [
            Field::Page,
            Field::Offset,
            Field::Sector,
            Field::Size,
            Field::Sectors,
        ];
        let wrong = |field| {
            let text = self.text(line, field).ok().flatten();
            text.is_some_and(|text| parse(text, 10).is_none() && text[0].is_ascii_alphabetic())
        };
        numbers.into_iter().any(wrong)
    }

    /// Puts the requests of a line into `out`.
    fn take(&mut self, line: &[u8]) -> Result<(), Problem> {
        let write = match self.text(line, Field::Op)? {
            None => Some(false),
            Some(op) => is_write(op)?,
        };
        let Some(write) = write else { return Ok(()) };
        let space = match self.text(line, Field::Object)? {
            None => 0,
            Some(name) => self.objects.number(name),
        };
        let task = match self.text(line, Field::Task)? {
            None => 0,
            Some(text) => self.tasks.task(decimal(text, "the number of a task")?),
        };
        let size = match self.place {
            Field::Sector => self.number(line, Field::Sectors)?,
            _ => self.number(line, Field::Size)?,
        };
        let (start, shift) = match self.place {
            Field::Key => {
                let key = self.text(line, Field::Key)?;
                return self.key(key.expect(PRESENT), task, size, write);
            }
            Field::Page => (self.number(line, Field::Page)?, 0),
            Field::Sector => {
                let shift = self.page_shift - SECTOR_SHIFT;
                (self.number(line, Field::Sector)?, shift)
            }
            _ => (self.number(line, Field::Offset)?, self.page_shift),
        };
        let start = start.expect(PRESENT);
        let Some(units) = size else {
            return self.one(space, start >> shift, task, write);
        };
        if units == 0 {
            return Ok(());
        }
        let extent = Extent {
            space,
            start,
            units,
            shift,
        };
        match write {
            true => extent.write(task, &mut self.out),
            false => extent.read(task, &mut self.out),
        }
    }

    /// One page, of which a write may be a part.
    fn one(&mut self, space: u64, page: u64, task: u16, write: bool) -> Result<(), Problem> {
        let kind = match write {
            true => OpKind::Pwrite,
            false => OpKind::Pread,
        };
        // The pages of a single file may have any number.
        let page = match self.fields.contains(&Field::Object) {
            true => page_key(space, page)?,
            false => page,
        };
        self.out.push_back(Request {
            task,
            ..Request::one(kind, page)
        });
        Ok(())
    }

    fn key(
        &mut self,
        key: &[u8],
        task: u16,
        size: Option<u64>,
        write: bool,
    ) -> Result<(), Problem> {
        let number = self.keys.number(key);
        let kind = match write {
            true => OpKind::WholeWrite,
            false => OpKind::Pread,
        };
        if !self.split {
            self.out.push_back(Request {
                task,
                ..Request::one(kind, number)
            });
            return Ok(());
        }
        let pages = size.unwrap_or(0).div_ceil(1 << self.page_shift).max(1);
        // As many bits for the pages of a key as for those of an object of oracleGeneral.
        if number >> 32 != 0 || pages >> 32 != 0 {
            return Err(Problem::text(
                key,
                "fewer than 2^32 keys and pages of a key",
            ));
        }
        self.out.push_back(Request {
            task,
            ..Request::span(kind, number << 32, (number << 32) + pages - 1)
        });
        Ok(())
    }
}

/// Whether an operation writes; none: it touches nothing that is cached.
fn is_write(op: &[u8]) -> Result<Option<bool>, Problem> {
    let op = op.to_ascii_lowercase();
    Ok(match op.as_slice() {
        b"r" | b"read" | b"rs" | b"0" | b"get" | b"gets" => Some(false),
        b"w" | b"write" | b"ws" | b"1" | b"set" | b"put" | b"add" | b"replace" | b"cas"
        | b"append" | b"prepend" | b"incr" | b"decr" => Some(true),
        b"d" | b"delete" | b"discard" | b"trim" | b"flush" => None,
        _ => {
            return Err(Problem::text(
                &op,
                "an operation: r, w, read, write, 0, 1, get, set, delete and the like",
            ))
        }
    })
}

/// Fields between separators; blanks count once.
fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let blanks = separator == b' ';
    line.split(move |&b| b == separator || blanks && b == b'\t')
        .map(<[u8]>::trim_ascii)
        .map(|f| {
            f.strip_prefix(b"\"")
                .and_then(|f| f.strip_suffix(b"\""))
                .unwrap_or(f)
        })
        .filter(move |field| !blanks || !field.is_empty())
}

/// What separates the fields of a line.
fn separator(line: &[u8]) -> u8 {
    let candidates = [b',', b';', b'\t'];
    let found = candidates.into_iter().find(|c| line.contains(c));
    found.unwrap_or(b' ')
}

impl Decode for Columns {
    const FRAMING: Framing = Framing::Lines;

    fn decode(&mut self, line: &[u8]) -> Result<Option<Request>, Problem> {
        if line.starts_with(b"#") {
            return Ok(None);
        }
        if self.separator.is_none() {
            self.separator = Some(separator(line));
            if self.is_header(line) {
                return Ok(None);
            }
        }
        self.out.clear();
        self.take(line)?;
        Ok(self.out.pop_front())
    }

    fn more(&mut self) -> Option<Request> {
        self.out.pop_front()
    }
}

/// The format of a line that nothing else looks like.
pub(crate) fn layout(line: &[u8]) -> Option<Layout> {
    let fields: Vec<&[u8]> = split(line, b',').collect();
    let number = |at: usize| parse(fields[at], 10).is_some();
    let word = |at: usize| matches!(is_write(fields[at]), Ok(Some(_)) if !number(at));
    match fields.len() {
        // Windows counts in units of 100 ns from 1601 on: 18 digits since 1917.
        7 if word(3) && fields[0].len() == 18 && [0, 2, 4, 5].into_iter().all(number) => {
            Some(Layout::Msr)
        }
        7 if word(5) && [0, 2, 3, 6].into_iter().all(number) => Some(Layout::Twitter),
        5 if word(1) && [2, 3, 4].into_iter().all(number) => Some(Layout::Alibaba),
        _ => None,
    }
}

/// What [`layout`] tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    Msr,
    Twitter,
    Alibaba,
}
