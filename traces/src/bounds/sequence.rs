//! A sequence of references over densely numbered pages.

use std::collections::HashMap;

use super::builder::Builder;
use super::leaving::Leaving;
use crate::numbering::PageHashes;
use crate::Trace;

/// Pages in the order of their references, numbered from 0 by first appearance, and what each of them reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    keys: Vec<u32>,
    unique: u32,
    /// A bit a reference: nothing is read for it even if its page is absent. Shorter than the references where the rest
    /// have none.
    free: Vec<u64>,
    /// References that read their page if it is absent.
    reading: u64,
    /// Those of them that are the first to their page.
    compulsory: u32,
    /// Frames that pages outside the sequence take, from a position on; empty: none.
    taken: Vec<(u32, u32)>,
    /// Pages that are gone before the reference at a position, and are not referred to from there on.
    gone: Vec<(u32, u32)>,
    /// Pages that are there if none leaves before it is gone, and the most there have been.
    present: u32,
    most_present: u32,
}

/// Which references to absent pages are misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// Those for which something is read, from a file or from swap: not the first touch of an anonymous page, nor the
    /// write of a whole page.
    #[default]
    Reads,
    /// All of them, as in the literature on caches.
    Absences,
}

impl std::str::FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "reads" => Ok(Self::Reads),
            "absences" => Ok(Self::Absences),
            _ => Err(format!("'{text}' is neither 'reads' nor 'absences'")),
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reads => "reads",
            Self::Absences => "absences",
        })
    }
}

/// A sequence of 2^32 - 1 references or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sequence has 4294967295 references or more; cut it to compute a bound")]
pub struct TooLong;

impl Sequence {
    /// Numbers the pages of a sequence; equal ids are the same page. Every reference to an absent page reads it.
    ///
    /// # Errors
    /// [`TooLong`]: positions must fit in 32 bits.
    pub fn new(ids: impl IntoIterator<Item = u64>) -> Result<Sequence, TooLong> {
        let mut seen: HashMap<u64, u32, PageHashes> = HashMap::default();
        let mut sequence = Sequence::default();
        for id in ids {
            let key = *seen.entry(id).or_insert(sequence.unique);
            sequence.push(key, false)?;
        }
        Ok(sequence)
    }

    /// The references of a trace, of which the objects share the capacity; which task refers to a page is of no account.
    /// A load from anonymous memory that was never stored to is no part of it: it shows zeroes, which take no frame.
    /// Without `swap`, anonymous pages are no part of it: they cannot leave, and take a frame each from their first
    /// touch on. Anonymous memory that is unmapped, or whose task ends, is gone, and so are pages of files that are cut off
    /// or removed: they take no frame any more, and what is touched there later is a new page. Nothing is read for that of
    /// a file until it has been written.
    ///
    /// # Errors
    /// [`TooLong`]
    pub fn of_trace(trace: &Trace, count: Count, swap: bool) -> Result<Sequence, TooLong> {
        Builder::new(trace, count, swap).build()
    }

    /// Which references of a trace, with swap, are the first to the pages 0, 1, 2 and so on of its sequence.
    ///
    /// # Errors
    /// [`TooLong`]
    pub fn first_uses(trace: &Trace) -> Result<Vec<u64>, TooLong> {
        Builder::new(trace, Count::Absences, true).first_uses()
    }

    /// The most pages that a trace has in memory at a time if there is room for all: from their first use until
    /// anonymous memory is given back, or files are cut.
    ///
    /// # Errors
    /// [`TooLong`]
    pub fn peak(trace: &Trace) -> Result<u64, TooLong> {
        Builder::new(trace, Count::Reads, true).peak()
    }

    /// The references to the pages of each of so many `parts`: of a page, by its number, the part that it belongs to.
    #[must_use]
    pub fn split(&self, parts: usize, part_of: impl Fn(u32) -> Option<usize>) -> Vec<Sequence> {
        let mut numbers = vec![u32::MAX; self.unique as usize];
        let mut split = vec![Sequence::default(); parts];
        let mut leaving = self.leaving();
        for (position, &key) in self.keys.iter().enumerate() {
            for gone in leaving.before(position) {
                if let Some(part) = part_of(gone).and_then(|part| split.get_mut(part)) {
                    part.leave(numbers[gone as usize]);
                }
            }
            if let Some(part) = part_of(key).and_then(|part| split.get_mut(part)) {
                let number = &mut numbers[key as usize];
                if *number == u32::MAX {
                    *number = part.unique;
                }
                let pushed = part.push(*number, self.is_free(position));
                pushed.expect("shorter than the whole");
            }
        }
        split
    }

    /// The next reference, to a page that has this number; a new page has that of [`Sequence::unique`].
    pub(super) fn push(&mut self, key: u32, free: bool) -> Result<(), TooLong> {
        let position = self.keys.len();
        if position as u64 >= u64::from(u32::MAX) - 1 {
            return Err(TooLong);
        }
        let new = key == self.unique;
        if new {
            self.unique += 1;
            self.present += 1;
            self.most_present = self.most_present.max(self.present);
        }
        self.keys.push(key);
        if free {
            self.free.resize(position / 64 + 1, 0);
            self.free[position / 64] |= 1 << (position % 64);
        } else {
            self.reading += 1;
            self.compulsory += u32::from(new);
        }
        Ok(())
    }

    /// A page that has been referred to is gone, and will not be referred to again.
    pub(super) fn leave(&mut self, key: u32) {
        self.gone.push((self.keys.len() as u32, key));
        self.present -= 1;
    }

    /// From the next reference on, pages outside the sequence take so many frames.
    pub(super) fn take(&mut self, frames: u32) {
        let position = self.keys.len() as u32;
        match self.taken.last_mut() {
            Some(last) if last.0 == position => last.1 = frames,
            _ => self.taken.push((position, frames)),
        }
    }

    pub(super) fn reserve(&mut self, references: usize) {
        self.keys.reserve(references);
    }

    /// Page numbers, each below [`Sequence::unique`].
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// Number of different pages.
    pub fn unique(&self) -> u32 {
        self.unique
    }

    /// Number of references.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no reference.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Nothing is read for the reference at a position, even if its page is absent.
    #[inline]
    #[must_use]
    pub fn is_free(&self, position: usize) -> bool {
        let word = self.free.get(position / 64);
        word.is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// References that read their page if it is absent.
    #[must_use]
    pub fn reading(&self) -> u64 {
        self.reading
    }

    /// Those of them that are the first to their page: misses that no policy avoids.
    #[must_use]
    pub fn compulsory(&self) -> u32 {
        self.compulsory
    }

    /// Frames with which everything is there.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.most_present.saturating_add(self.most_taken())
    }

    /// Pages that are gone for good, to be asked for position by position: they take no frame from there on.
    #[must_use]
    pub fn leaving(&self) -> Leaving<'_> {
        Leaving::of(&self.gone)
    }

    /// Some pages are gone before the end.
    pub(super) fn is_left(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Most frames that pages outside the sequence take at a time.
    pub(super) fn most_taken(&self) -> u32 {
        self.taken.iter().map(|t| t.1).max().unwrap_or(0)
    }

    /// Frames that are taken once are never given back.
    pub(super) fn only_takes(&self) -> bool {
        self.taken.is_sorted_by_key(|t| t.1)
    }

    /// Frames taken, to be asked for position by position.
    pub(super) fn taken(&self) -> Taken<'_> {
        Taken {
            coming: self.taken.iter(),
            next: None,
            now: 0,
        }
        .start()
    }
}

/// Frames that pages outside a sequence take, from the first position on.
pub(super) struct Taken<'a> {
    coming: std::slice::Iter<'a, (u32, u32)>,
    next: Option<(u32, u32)>,
    now: u32,
}

impl Taken<'_> {
    fn start(mut self) -> Self {
        self.next = self.coming.next().copied();
        self
    }

    /// How many there are at a position, which is not before the last one asked for.
    #[inline]
    pub fn at(&mut self, position: usize) -> u32 {
        while let Some((from, frames)) = self.next {
            if from as usize > position {
                break;
            }
            self.now = frames;
            self.next = self.coming.next().copied();
        }
        self.now
    }
}
