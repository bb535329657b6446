//! The words of a region.

use super::sync::{futex, AtomicU32, Words};
use super::word::{PageState, Word};
use std::sync::atomic::Ordering::*;

/// One word a page. A page that nobody has used has none: it reads as evicted, without marks.
#[derive(Debug)]
pub struct PageTable(Words);

impl PageTable {
    /// The states kept in these words.
    pub fn new(words: Words) -> Self {
        Self(words)
    }

    /// Pages of the region.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The word of a page.
    #[inline]
    pub fn get(&self, page: usize) -> Word {
        Word(self.0.find(page).map_or(0, |w| w.load(Acquire)))
    }

    #[inline]
    fn at(&self, page: usize) -> &AtomicU32 {
        self.0.make(page)
    }

    /// Changes a word if `f` agrees to what it is. Returns the word before.
    #[inline]
    fn update(&self, page: usize, f: impl Fn(Word) -> Option<Word>) -> Result<Word, Word> {
        self.at(page)
            .fetch_update(AcqRel, Acquire, |w| f(Word(w)).map(|w| w.0))
            .map(Word)
            .map_err(Word)
    }

    /// Takes an evicted page to fill it.
    #[inline]
    pub fn try_fill(&self, page: usize) -> bool {
        self.update(page, Word::fill).is_ok()
    }

    /// Takes a page in memory to empty it.
    #[inline]
    pub fn try_evict(&self, page: usize) -> bool {
        self.update(page, Word::evict).is_ok()
    }

    /// The owner is done: the page is in memory.
    pub fn filled(&self, page: usize, dirtied: bool) {
        self.finish(page, PageState::Busy, |w| w.filled(dirtied));
    }

    /// The owner is done: the page is not in memory.
    pub fn emptied(&self, page: usize) {
        self.finish(page, PageState::Busy, Word::emptied);
    }

    /// Takes a page in memory for writeback; others may use it meanwhile.
    pub fn try_writeback(&self, page: usize) -> bool {
        self.update(page, Word::start_writeback).is_ok()
    }

    /// The same for a page that is used through guards: others may read it meanwhile.
    pub fn try_copy(&self, page: usize) -> bool {
        self.update(page, Word::start_copy).is_ok()
    }

    /// Writeback is over.
    pub fn end_writeback(&self, page: usize, dirtied: bool) {
        self.finish(page, PageState::Writeback, |w| w.end_writeback(dirtied));
    }

    fn finish(&self, page: usize, from: PageState, f: impl Fn(Word) -> Word) {
        let before = self.update(page, |w| Some(f(w))).expect("always agrees");
        assert!(
            before.state() == from,
            "page {page} was {before:?}, not {from:?}"
        );
        if before.has_waiters() {
            futex::wake_all(self.at(page));
        }
    }

    /// Keeps a page in memory until [`Self::unpin`]. False: it is not in memory.
    #[inline]
    pub fn try_pin(&self, page: usize) -> bool {
        self.update(page, Word::pin).is_ok()
    }

    /// As [`Self::try_pin`], and marks a use.
    #[inline]
    pub fn try_fix(&self, page: usize) -> bool {
        self.update(page, |w| w.pin().map(Word::used)).is_ok()
    }

    /// Pins a page for one user alone, and marks a use.
    #[inline]
    pub fn try_fix_exclusive(&self, page: usize) -> bool {
        self.update(page, Word::pin_exclusive).is_ok()
    }

    /// Waits while others keep this use of a page in memory out (`alone`: it would be the only one).
    /// May return early. False: the page is not in memory.
    pub fn wait_turn(&self, page: usize, alone: bool) -> bool {
        let w = self.get(page);
        if !w.in_memory() {
            return false;
        }
        let free = if alone { w.pin_exclusive() } else { w.pin() };
        // The other user may have left since, and then nobody would wake us.
        if free.is_none() {
            self.wait_change(page, w);
        }
        true
    }

    /// Ends a pin.
    #[inline]
    pub fn unpin(&self, page: usize, wrote: bool) {
        let before = self
            .update(page, |w| Some(w.unpin(wrote)))
            .expect("always agrees");
        debug_assert!(before.pins() > 0, "page {page} was not pinned");
        if before.pins() == 1 && before.has_waiters() {
            futex::wake_all(self.at(page));
        }
    }

    /// Sleeps until the word is no longer `w` (or for no reason less long).
    pub fn wait_change(&self, page: usize, w: Word) {
        let asleep = w.waiting();
        if w == asleep
            || self
                .at(page)
                .compare_exchange(w.0, asleep.0, AcqRel, Acquire)
                .is_ok()
        {
            futex::wait(self.at(page), asleep.0, None);
        }
    }

    /// Sleeps while the page is in this state.
    pub fn wait_while(&self, page: usize, state: PageState) {
        loop {
            let w = self.get(page);
            if w.state() != state {
                return;
            }
            self.wait_change(page, w);
        }
    }

    /// Sets marks; the marks before.
    #[inline]
    pub fn mark(&self, page: usize, bits: u32) -> Word {
        Word(self.at(page).fetch_or(bits, AcqRel))
    }

    /// Clears marks; the marks before.
    #[inline]
    pub fn unmark(&self, page: usize, bits: u32) -> Word {
        let w = self.get(page);
        if w.0 & bits == 0 {
            return w;
        }
        Word(self.at(page).fetch_and(!bits, AcqRel))
    }
}
