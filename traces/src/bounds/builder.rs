//! The sequence of a trace: which page each reference is to, and whether it reads.

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::sequence::{Count, Sequence, TooLong};
use crate::numbering::PageHashes;
use crate::step::{Step, StepKind};
use crate::{ObjectInfo, Op, OpKind, Trace};

/// Puts a sequence together.
pub(super) struct Builder<'a> {
    trace: &'a Trace,
    count: Count,
    swap: bool,
    numbers: Numbers,
    /// By object: the pages that have a number, kept if they may go away.
    living: Vec<Option<BinaryHeap<u32>>>,
    /// By process: the anonymous objects it has used, of which pages are kept, a bit each.
    used: HashMap<u16, [u64; 4]>,
    processes: Vec<u16>,
    /// By object: what was cut off of files.
    holes: Vec<Option<Holes>>,
    /// Anonymous pages that cannot leave.
    taken: u32,
    /// Pages that are there if none leaves, and the most there have been.
    present: u64,
    peak: u64,
    /// The present reference, and those that gave a page its number.
    at: u64,
    first_uses: Vec<u64>,
    sequence: Sequence,
}

impl<'a> Builder<'a> {
    pub fn new(trace: &'a Trace, count: Count, swap: bool) -> Self {
        Self {
            trace,
            count,
            swap,
            numbers: Numbers::of(trace),
            living: living(trace),
            used: HashMap::new(),
            processes: trace.processes(),
            holes: trace.objects.iter().map(|_| None).collect(),
            taken: 0,
            present: 0,
            peak: 0,
            at: 0,
            first_uses: Vec::new(),
            sequence: Sequence::default(),
        }
    }

    pub fn build(self) -> Result<Sequence, TooLong> {
        Ok(self.run()?.sequence)
    }

    /// The most pages that are there at a time if none leaves before it is given back.
    pub fn peak(self) -> Result<u64, TooLong> {
        Ok(self.run()?.peak)
    }

    /// Which references gave the pages their numbers, by number.
    pub fn first_uses(self) -> Result<Vec<u64>, TooLong> {
        Ok(self.run()?.first_uses)
    }

    fn run(mut self) -> Result<Self, TooLong> {
        let trace = self.trace;
        self.sequence.reserve(trace.ops().len());
        let mut events = trace.events.iter().peekable();
        for (at, op) in trace.ops().iter().enumerate() {
            while let Some(event) = events.next_if(|e| e.at <= at as u64) {
                self.step(event.step);
            }
            self.at = at as u64;
            self.refer(op)?;
        }
        Ok(self)
    }

    fn refer(&mut self, op: &Op) -> Result<(), TooLong> {
        let anon = op.kind.is_anon();
        let number = self.numbers.entry(op);
        let new = *number == 0;
        if new && op.kind == OpKind::AnonRead {
            // Nothing has been stored there: a kernel shows zeroes and takes no memory.
            return Ok(());
        }
        if anon && !self.swap {
            if new {
                *number = 1;
                self.taken += 1;
                self.lives(op);
                self.sequence.take(self.taken);
            }
            return Ok(());
        }
        if new {
            *number = self.sequence.unique() + 1;
        }
        let key = *number - 1;
        if new {
            self.lives(op);
        }
        let hole = self.holes[usize::from(op.object)].as_mut();
        let hole = hole.is_some_and(|h| h.refer(op));
        let reads_nothing = (anon && new) || op.kind == OpKind::WholeWrite || hole;
        let free = self.count == Count::Reads && reads_nothing;
        self.sequence.push(key, free)
    }

    /// A page has got its number.
    fn lives(&mut self, op: &Op) {
        self.first_uses.push(self.at);
        self.present += 1;
        self.peak = self.peak.max(self.present);
        let Some(living) = &mut self.living[usize::from(op.object)] else {
            return;
        };
        living.push(op.page);
        if op.kind.is_anon() {
            let process = self.processes[usize::from(op.task)];
            let used = self.used.entry(process).or_default();
            used[usize::from(op.object) / 64] |= 1 << (op.object % 64);
        }
    }

    fn step(&mut self, step: Step) {
        match step.kind {
            StepKind::Truncate => self.cut(step.object, step.value),
            StepKind::Unlink => self.cut(step.object, 0),
            StepKind::Unmap if self.is_anon(step.object) => self.forget(step.object, 0),
            StepKind::Exit => {
                let process = self.processes[usize::from(step.task)];
                for (word, bits) in (0u8..).zip(self.used.remove(&process).unwrap_or_default()) {
                    for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
                        self.forget(64 * word + bit, 0);
                    }
                }
            }
            _ => {}
        }
    }

    /// A file ends before a page, and what is behind it is a hole until it is written.
    fn cut(&mut self, object: u8, end: u32) {
        match self.holes.get_mut(usize::from(object)) {
            Some(Some(holes)) => holes.cut(end),
            Some(none) => *none = Some(Holes::new(end)),
            None => {}
        }
        self.forget(object, end);
    }

    fn is_anon(&self, object: u8) -> bool {
        let object = self.trace.objects.get(usize::from(object));
        object.is_some_and(|object| object.is_anon)
    }

    /// The pages of an object from one on are gone: what is touched of them from now on are new pages.
    fn forget(&mut self, object: u8, from: u32) {
        let Some(Some(living)) = self.living.get_mut(usize::from(object)) else {
            return;
        };
        let mut gone = Vec::new();
        if from == 0 {
            gone = std::mem::take(living).into_vec();
        }
        while living.peek().is_some_and(|&page| page >= from) {
            gone.extend(living.pop());
        }
        self.present -= gone.len() as u64;
        let stay_outside = !self.swap && self.is_anon(object);
        for &page in &gone {
            let number = std::mem::take(self.numbers.at(object, page));
            if !stay_outside {
                self.sequence.leave(number - 1);
            }
        }
        if stay_outside && !gone.is_empty() {
            self.taken -= gone.len() as u32;
            self.sequence.take(self.taken);
        }
    }
}

/// By object: no page yet, if pages of it go away in a trace.
fn living(trace: &Trace) -> Vec<Option<BinaryHeap<u32>>> {
    let mut anon = false;
    let mut cut = vec![false; trace.objects.len()];
    for event in &trace.events {
        match event.step.kind {
            StepKind::Unmap | StepKind::Exit => anon = true,
            StepKind::Truncate | StepKind::Unlink => {
                let cut = cut.get_mut(usize::from(event.step.object));
                cut.into_iter().for_each(|cut| *cut = true);
            }
            _ => {}
        }
    }
    let goes = |(object, cut): (&ObjectInfo, bool)| {
        (cut || (anon && object.is_anon)).then(BinaryHeap::new)
    };
    trace.objects.iter().zip(cut).map(goes).collect()
}

/// The pages of a file from one on, but for those that have been written: nothing is read for them.
struct Holes {
    from: u32,
    written: HashSet<u32, PageHashes>,
}

impl Holes {
    fn new(from: u32) -> Holes {
        let written = HashSet::default();
        Holes { from, written }
    }

    fn cut(&mut self, end: u32) {
        self.from = self.from.min(end);
        self.written.retain(|&page| page < end);
    }

    /// A reference to a page. True if the page was a hole.
    fn refer(&mut self, op: &Op) -> bool {
        let hole = op.page >= self.from && !self.written.contains(&op.page);
        if hole && op.kind.is_write() {
            self.written.insert(op.page);
        }
        hole
    }
}

/// Entries of a table for each reference, beside those of any table. More would be slower than hashing.
const ENTRIES_EACH: u64 = 4;
const ENTRIES: u64 = 1 << 12;

/// Numbers of pages plus 1; 0: it has none.
enum Numbers {
    /// An array over all pages that the objects have room for.
    Table {
        /// Where the pages of an object begin.
        starts: Vec<usize>,
        numbers: Vec<u32>,
    },
    /// By object and page, where they lie too far apart.
    Map(HashMap<u64, u32, PageHashes>),
}

impl Numbers {
    fn of(trace: &Trace) -> Numbers {
        let mut entries = 0u64;
        let mut starts = Vec::new();
        for object in &trace.objects {
            starts.push(entries as usize);
            entries += u64::from(object.pages);
        }
        if entries > ENTRIES + ENTRIES_EACH * trace.ops().len() as u64 {
            return Numbers::Map(HashMap::default());
        }
        Numbers::Table {
            starts,
            numbers: vec![0; entries as usize],
        }
    }

    fn at(&mut self, object: u8, page: u32) -> &mut u32 {
        match self {
            Numbers::Table { starts, numbers } => {
                &mut numbers[starts[usize::from(object)] + page as usize]
            }
            Numbers::Map(numbers) => {
                let id = u64::from(object) << 32 | u64::from(page);
                numbers.entry(id).or_insert(0)
            }
        }
    }

    fn entry(&mut self, op: &Op) -> &mut u32 {
        self.at(op.object, op.page)
    }
}
