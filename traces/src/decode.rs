//! The machine shared by all formats: cut the stream in lines or records, let the
//! format decode each, number its pages, hand out one reference at a time.

use std::collections::HashMap;
use std::ops::Range;

use super::error::TraceError;
use super::first_use::FirstUse;
use super::numbering::{Id, Numbering};
use super::objects::Objects;
use super::op::{Op, OpKind};
use super::options::{Access, PageIds, TraceOptions};
use super::problem::{Position, Problem};
use super::reading::{Loss, Steps, Tally};
use super::source::Source;
use super::step::{Event, Step, StepKind};

/// Longest line of a text trace, in bytes.
const MAX_LINE: u64 = 4096;
/// What some programs write before text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Most pages of one request (4 GiB of 4 KiB pages): beyond is a garbled number.
const MAX_REQUEST: u64 = 1 << 20;

/// Pages that the requests of a trace may have in all, beside those for each line or record.
const PAGES: u64 = 1 << 20;
/// Pages for each line or record: requests of 16 MiB on the average.
const PAGES_EACH: u64 = 4096;

/// Pages that the requests of a trace have after one more.
///
/// # Errors
/// More than so many lines or records may have.
pub(super) fn pages_so_far(before: u64, more: u64, lines: u64) -> Result<u64, Problem> {
    let all = before.saturating_add(more);
    if all > PAGES + PAGES_EACH * lines {
        return Err(Problem {
            found: format!("requests for {all} pages so far"),
            expected: "at most 4096 pages (16 MiB of 4 KiB pages) each on the average",
            remedy: super::problem::CHECK_FORMAT,
        });
    }
    Ok(all)
}

/// How a format is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Lines of text. Blanks around a line are removed and empty lines are skipped.
    Lines,
    /// Records of so many bytes.
    Records(usize),
}

/// One line or record: some consecutive pages referenced in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub kind: OpKind,
    pub object: u8,
    pub task: u16,
    pub id: Id,
    pub pages: Range<u64>,
}

impl Request {
    /// Reference of task 0 to one foreign page id of object 0.
    pub fn one(kind: OpKind, page: u64) -> Request {
        Request::span(kind, page, page)
    }

    /// References of task 0 to the foreign page ids `first..=last` of object 0.
    pub fn span(kind: OpKind, first: u64, last: u64) -> Request {
        // The end is exclusive. An id of 2^64 - 1 would need a wider number; the only
        // formats with ids so large are hashes, where giving up one value is harmless.
        let first = first.min(u64::MAX - 1);
        Request {
            kind,
            object: 0,
            task: 0,
            id: Id::Foreign,
            pages: first..last.saturating_add(1).max(first + 1),
        }
    }
}

/// One trace format.
pub(super) trait Decode {
    /// How the format is cut.
    const FRAMING: Framing;

    /// Whether a line that cannot be read is counted and left out. Otherwise it ends the trace,
    /// which suits formats that nothing else gets mixed into.
    const TOLERANT: bool = false;

    /// Whether anonymous memory of different processes has different numbers, as far as there are any, or different pages.
    const MEMORY_APART: bool = false;

    /// Whether memory may hold something that no reference has stored there.
    const OLDER_MEMORY: bool = false;

    /// Decodes one line or record; `None` if it holds no reference.
    fn decode(&mut self, unit: &[u8]) -> Result<Option<Request>, Problem>;

    /// What a record says if it is a reference to one page, known by its index, whatever the records before it are. Such
    /// records can be decoded many at a time; all others go through [`Decode::decode`].
    fn reference(_record: &[u8]) -> Option<Op> {
        None
    }

    /// The next of further requests of the unit just decoded.
    fn more(&mut self) -> Option<Request> {
        None
    }

    /// The unit just decoded is a step of a task, and no reference.
    fn step(&mut self) -> Option<Step> {
        None
    }

    /// What the unit just decoded says of events that were lost while recording.
    fn lost(&mut self) -> Option<Loss> {
        None
    }
}

/// Iterator over the references of one format.
pub(super) struct Decoder<D> {
    source: Source,
    format: D,
    /// Line or record being decoded.
    unit: Vec<u8>,
    position: Position,
    /// Lines or records taken so far.
    taken: u64,
    request: Option<Request>,
    numbering: Numbering,
    first_use: FirstUse,
    objects: Objects,
    access: Access,
    one_task: bool,
    /// Threads stay tasks.
    threads: bool,
    /// A bad line is left out.
    lenient: bool,
    tally: Tally,
    /// Lines that are not empty, and those of them that hold no reference.
    lines: u64,
    unused: u64,
    /// Pages of all requests.
    pages: u64,
    /// References given away.
    given: u64,
    steps: Steps,
    /// Processes of tasks, as far as they are told.
    processes: HashMap<u16, u16>,
}

impl<D: Decode> Decoder<D> {
    pub fn new(
        source: Source,
        format: D,
        options: &TraceOptions,
        tally: Tally,
        steps: Steps,
    ) -> Decoder<D> {
        let unit = match D::FRAMING {
            Framing::Lines => Vec::new(),
            Framing::Records(bytes) => vec![0; bytes],
        };
        Decoder {
            source,
            format,
            unit,
            position: Position::Line(1),
            taken: 0,
            request: None,
            numbering: Numbering::new(options.page_ids == PageIds::Keep),
            first_use: FirstUse::default(),
            objects: Objects::new(),
            access: options.access,
            one_task: options.one_task,
            threads: options.threads && !options.one_task,
            lenient: D::TOLERANT && !options.strict,
            tally,
            lines: 0,
            unused: 0,
            pages: 0,
            given: 0,
            steps,
            processes: HashMap::new(),
        }
    }

    /// Appends the references of the records that are in memory already, up to the first that asks for anything else: that
    /// one is left to [`Decoder::step`], with the first of every object and with whatever is wrong.
    fn known(&mut self, ops: &mut Vec<Op>) {
        let Framing::Records(bytes) = D::FRAMING else {
            return;
        };
        let unfinished = |request: &Request| !request.pages.is_empty();
        if self.request.as_ref().is_some_and(unfinished) {
            return;
        }
        let records = self.source.ready().chunks_exact(bytes);
        let before = ops.len();
        ops.reserve(records.len());
        // A reference as it is recorded, and as it is given away: most are like the one before.
        let mut last: Option<(Op, Op)> = None;
        ops.extend(records.map_while(|record| {
            let op = D::reference(record)?;
            let given = match last {
                Some((recorded, given)) if recorded.is_like(op) => given,
                _ => {
                    let process = self.memory_of(op.task, op.kind.is_anon());
                    let given = Op {
                        task: self.task(op.task),
                        object: self.objects.known(op.object, process)?,
                        ..op
                    };
                    last = Some((op, given));
                    given
                }
            };
            Some(Op {
                page: op.page,
                ..given
            })
        }));
        let taken = ops.len() - before;
        self.source.take_ready(taken * bytes);
        let taken = taken as u64;
        self.taken += taken;
        self.lines += taken;
        self.pages += taken;
        self.given += taken;
    }

    /// Moves to the next line or record; false at the end.
    fn advance(&mut self) -> Result<bool, TraceError> {
        match D::FRAMING {
            Framing::Lines => {
                self.unit.clear();
                let read = self.source.read_line(&mut self.unit, MAX_LINE + 1)?;
                if self.taken == 0 && self.unit.starts_with(BYTE_ORDER_MARK) {
                    self.unit.drain(..BYTE_ORDER_MARK.len());
                }
                self.taken += 1;
                self.position = Position::Line(self.taken);
                if read > MAX_LINE {
                    self.refuse(Problem {
                        found: format!("a line of more than {MAX_LINE} bytes"),
                        expected: "lines of text",
                        remedy: super::problem::CHECK_FORMAT,
                    })?;
                    self.lines += 1;
                    while self.unit.last().is_some_and(|&byte| byte != b'\n') {
                        self.unit.clear();
                        self.source.read_line(&mut self.unit, MAX_LINE)?;
                    }
                    self.unit.clear();
                }
                Ok(read > 0)
            }
            Framing::Records(bytes) => {
                self.position = Position::Record {
                    index: self.taken,
                    offset: self.source.offset(),
                };
                self.taken += 1;
                let read = self.source.read_record(&mut self.unit)?;
                if read > 0 && read < bytes {
                    return Err(self.malformed(Problem {
                        found: format!("the file ends {read} bytes into a record"),
                        expected: record_size(bytes),
                        remedy: "copy the file again, or name the true format",
                    }));
                }
                Ok(read > 0)
            }
        }
    }

    fn malformed(&self, problem: Problem) -> TraceError {
        TraceError::Malformed {
            name: self.source.name().to_string(),
            position: self.position,
            problem,
        }
    }

    /// Leaves out the present line, or ends the trace.
    fn refuse(&mut self, problem: Problem) -> Result<(), TraceError> {
        match self.position {
            Position::Line(line) if self.lenient => {
                self.tally.bad(line, problem);
                Ok(())
            }
            _ => Err(self.malformed(problem)),
        }
    }

    fn accept(&mut self, request: Request) -> Result<(), TraceError> {
        match self.check(&request) {
            Ok(object) => self.request = Some(self.adapted(Request { object, ..request })),
            Err(problem) => self.refuse(problem)?,
        }
        Ok(())
    }

    /// The number of its object.
    fn check(&mut self, request: &Request) -> Result<u8, Problem> {
        let pages = request.pages.end - request.pages.start;
        if pages > MAX_REQUEST {
            return Err(Problem {
                found: format!("one request for {pages} pages"),
                expected: "at most 1048576 pages (4 GiB of 4 KiB pages)",
                remedy: super::problem::CHECK_FORMAT,
            });
        }
        let all = pages_so_far(self.pages, pages, self.lines)?;
        let process = self.memory_of(request.task, request.kind.is_anon());
        let object = self.objects.number(request.object, process)?;
        self.pages = all;
        Ok(object)
    }

    fn step(&mut self) -> Result<Option<Op>, TraceError> {
        loop {
            if let Some(request) = &mut self.request {
                if let Some(page) = request.pages.next() {
                    let (object, id) = (request.object, request.id);
                    let op = Op {
                        kind: request.kind,
                        object,
                        task: request.task,
                        page: 0,
                    };
                    let page = self
                        .numbering
                        .page(object, id, page)
                        .map_err(|problem| self.malformed(problem))?;
                    self.given += 1;
                    let op = Op { page, ..op };
                    return Ok(Some(match D::OLDER_MEMORY {
                        true => self.first_use.adapted(op),
                        false => op,
                    }));
                }
                self.request = None;
            }
            if let Some(request) = self.format.more() {
                self.accept(request)?;
                continue;
            }
            if !self.advance()? {
                self.tally.lines(self.lines, self.unused);
                return Ok(None);
            }
            let unit = match D::FRAMING {
                Framing::Lines => self.unit.trim_ascii(),
                Framing::Records(_) => &self.unit,
            };
            if unit.is_empty() {
                continue;
            }
            self.lines += 1;
            let decoded = self.format.decode(unit);
            // What is there of a number may be another number.
            let is_cut = D::TOLERANT && self.unit.last() != Some(&b'\n');
            match decoded {
                Ok(Some(_)) if is_cut => {
                    while self.format.more().is_some() {}
                    self.refuse(cut_off())?;
                }
                Ok(Some(request)) => self.accept(request)?,
                Ok(None) => {
                    if let Some(step) = self.format.step() {
                        let taken = match is_cut {
                            true => Err(cut_off()),
                            false => self.take(step),
                        };
                        if let Err(problem) = taken {
                            self.refuse(problem)?;
                        }
                        continue;
                    }
                    self.unused += 1;
                    if let Some(loss) = self.format.lost() {
                        self.tally.lost(loss);
                    }
                }
                Err(problem) => self.refuse(problem)?,
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<(), Problem> {
        if step.kind == StepKind::Process {
            let Ok(process) = u16::try_from(step.value) else {
                return Err(Problem {
                    found: format!("process {}", step.value),
                    expected: "a number below 65536",
                    remedy: super::problem::CHECK_FORMAT,
                });
            };
            self.processes.insert(step.task, process);
            if !self.threads {
                return Ok(());
            }
        }
        let object = match step.kind {
            StepKind::Unmap if self.objects.is_anon(step.object) == Some(true) => {
                let process = self.memory_of(step.task, true);
                self.objects.number(step.object, process)?
            }
            kind if kind.is_of_file() => self.objects.number(step.object, None)?,
            _ => step.object,
        };
        let (at, task) = (self.given, self.task(step.task));
        self.steps.push(Event {
            at,
            step: Step {
                task,
                object,
                ..step
            },
        });
        Ok(())
    }

    /// Who a task is, here.
    fn task(&self, task: u16) -> u16 {
        match self.one_task {
            true => 0,
            false if self.threads => task,
            false => self.process(task),
        }
    }

    /// Whose memory an object is that a task uses; none: it is a file.
    fn memory_of(&self, task: u16, anon: bool) -> Option<u16> {
        anon.then(|| match D::MEMORY_APART {
            true => 0,
            false => self.process(task),
        })
    }

    #[inline]
    fn process(&self, task: u16) -> u16 {
        match self.processes.is_empty() {
            true => task,
            false => self.process_told(task),
        }
    }

    #[cold]
    fn process_told(&self, task: u16) -> u16 {
        self.processes.get(&task).copied().unwrap_or(task)
    }

    fn adapted(&self, mut request: Request) -> Request {
        if self.access == Access::Mapped
            && request.id == Id::Foreign
            && request.kind == OpKind::Pread
        {
            request.kind = OpKind::MappedRead;
        }
        request.task = self.task(request.task);
        request
    }
}

fn cut_off() -> Problem {
    Problem {
        found: "the file ends within this line".to_owned(),
        expected: "a whole line, which ends with a line feed",
        remedy: "end the line if it is whole",
    }
}

fn record_size(bytes: usize) -> &'static str {
    match bytes {
        4 => "whole records of 4 bytes",
        8 => "whole records of 8 bytes",
        24 => "whole records of 24 bytes",
        _ => "whole records",
    }
}

impl<D: Decode> Iterator for Decoder<D> {
    type Item = Result<Op, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// References one at a time, and many where that is possible.
pub(super) trait References: Iterator<Item = Result<Op, TraceError>> {
    /// Appends references that are next; none says nothing of what `next` gives.
    fn many(&mut self, _ops: &mut Vec<Op>) {}
}

impl<D: Decode> References for Decoder<D> {
    fn many(&mut self, ops: &mut Vec<Op>) {
        self.known(ops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_at_the_top_of_the_numbers_holds_one_page() {
        assert_eq!(Request::one(OpKind::Pread, u64::MAX).pages.count(), 1);
        assert_eq!(Request::span(OpKind::Pread, 3, 5).pages, 3..6);
    }
}
