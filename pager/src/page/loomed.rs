//! `table.rs` and `word.rs`, compiled once more with the atomics of loom, which runs a test in every
//! order of its threads and with every value that a load may see. Contents of a page are a cell that
//! reports any access that is not ordered after the last one by somebody else.
#![allow(unsafe_code, reason = "cells that loom watches")]
#![allow(clippy::duplicate_mod, reason = "the very same code, on other atomics")]

#[path = "table.rs"]
#[allow(dead_code, reason = "not every transition is tried here")]
mod table;
#[path = "word.rs"]
#[allow(dead_code, reason = "as above")]
mod word;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;
use sync::Words;
use table::PageTable;
use word::{PageState, Word};

thread_local! {
    /// Plants a bug: a transition is a load and a store, not one step. Loom's threads all run on the
    /// thread of the test.
    static TORN: Cell<bool> = const { Cell::new(false) };
}

/// What `table.rs` is built from here.
mod sync {
    use super::TORN;
    use loom::sync::{atomic, Condvar, Mutex};
    use std::sync::atomic::Ordering;

    /// A word, and those who sleep on it.
    #[derive(Debug, Default)]
    pub struct AtomicU32 {
        word: atomic::AtomicU32,
        asleep: Mutex<()>,
        woken: Condvar,
    }

    impl AtomicU32 {
        pub fn load(&self, o: Ordering) -> u32 {
            self.word.load(o)
        }

        pub fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            mut f: impl FnMut(u32) -> Option<u32>,
        ) -> Result<u32, u32> {
            if TORN.get() {
                let was = self.word.load(fetch);
                return match f(was) {
                    Some(new) => {
                        self.word.store(new, Ordering::Release);
                        Ok(was)
                    }
                    None => Err(was),
                };
            }
            self.word.fetch_update(set, fetch, f)
        }

        pub fn compare_exchange(
            &self,
            a: u32,
            b: u32,
            s: Ordering,
            f: Ordering,
        ) -> Result<u32, u32> {
            self.word.compare_exchange(a, b, s, f)
        }

        pub fn fetch_or(&self, v: u32, o: Ordering) -> u32 {
            self.word.fetch_or(v, o)
        }

        pub fn fetch_and(&self, v: u32, o: Ordering) -> u32 {
            self.word.fetch_and(v, o)
        }
    }

    /// As the kernel's: the comparison and going to sleep are one step for those who wake.
    pub mod futex {
        use super::AtomicU32;
        use std::sync::atomic::Ordering;
        use std::time::Duration;

        pub fn wait(word: &AtomicU32, seen: u32, _: Option<Duration>) {
            let asleep = word.asleep.lock().unwrap();
            if word.word.load(Ordering::SeqCst) == seen {
                drop(word.woken.wait(asleep).unwrap());
            }
        }

        pub fn wake_all(word: &AtomicU32) {
            let _asleep = word.asleep.lock().unwrap();
            word.woken.notify_all();
        }
    }

    #[derive(Debug)]
    pub struct Words(Vec<AtomicU32>);

    impl Words {
        pub fn new(len: usize) -> Self {
            Self((0..len).map(|_| AtomicU32::default()).collect())
        }

        pub fn len(&self) -> usize {
            self.0.len()
        }

        pub fn find(&self, page: usize) -> Option<&AtomicU32> {
            self.0.get(page)
        }

        pub fn make(&self, page: usize) -> &AtomicU32 {
            &self.0[page]
        }
    }
}

/// One page, what it holds, and what its store holds. Both cells are the page's owner's; those who
/// hold a pin may look at the first, and who holds it alone may change it.
struct Page {
    words: PageTable,
    memory: UnsafeCell<u32>,
    store: UnsafeCell<u32>,
}

impl Page {
    /// An evicted page with `contents` in its store.
    fn evicted(contents: u32) -> Arc<Self> {
        Arc::new(Self {
            words: PageTable::new(Words::new(1)),
            memory: UnsafeCell::new(0),
            store: UnsafeCell::new(contents),
        })
    }

    /// The same, in memory.
    fn resident(contents: u32) -> Arc<Self> {
        let p = Self::evicted(contents);
        assert!(p.words.try_fill(0));
        p.read_in();
        p
    }

    fn read_in(&self) {
        // SAFETY: loom checks that nobody else is at the cells.
        let v = self.store.with(|s| unsafe { *s });
        // SAFETY: as above.
        self.memory.with_mut(|m| unsafe { *m = v });
        self.words.filled(0, false);
    }

    fn look(&self) -> u32 {
        // SAFETY: as above.
        self.memory.with(|m| unsafe { *m })
    }

    fn write_out(&self) {
        let v = self.look();
        // SAFETY: as above.
        self.store.with_mut(|s| unsafe { *s = v });
    }

    /// Brings the page in, if it is not there.
    fn bring_in(&self) {
        loop {
            match self.words.get(0).state() {
                PageState::Resident | PageState::Writeback => return,
                PageState::Busy => self.words.wait_while(0, PageState::Busy),
                PageState::Evicted => {
                    if self.words.try_fill(0) {
                        return self.read_in();
                    }
                }
            }
        }
    }

    /// Takes the page out, unless somebody uses it. Stores it if it has been stored to.
    fn evict(&self) {
        if self.words.try_evict(0) {
            if self.words.get(0).dirtied() {
                self.write_out();
            }
            // SAFETY: as above.
            self.memory.with_mut(|m| unsafe { *m = 0 });
            self.words.emptied(0);
        }
    }

    /// The flusher's way with pages that are used through guards.
    fn flush(&self) {
        if self.words.try_copy(0) {
            if self.words.unmark(0, Word::DIRTIED).dirtied() {
                self.write_out();
            }
            self.words.end_writeback(0, false);
        }
    }

    /// Reads the page under a pin.
    fn read(&self) -> u32 {
        while !self.words.try_fix(0) {
            if !self.words.wait_turn(0, false) {
                self.bring_in();
            }
        }
        let v = self.look();
        self.words.unpin(0, false);
        v
    }

    /// Adds one, alone on the page.
    fn write(&self) {
        while !self.words.try_fix_exclusive(0) {
            if !self.words.wait_turn(0, true) {
                self.bring_in();
            }
        }
        // SAFETY: as above.
        self.memory.with_mut(|m| unsafe { *m += 1 });
        self.words.unpin(0, true);
    }

    /// When all is quiet: the contents, wherever they are. A clean page equals its store.
    fn settle(&self) -> u32 {
        let w = self.words.get(0);
        assert_eq!(w.pins(), 0);
        // SAFETY: as above.
        let stored = self.store.with(|s| unsafe { *s });
        match w.state() {
            PageState::Evicted => stored,
            PageState::Resident => {
                let v = self.look();
                assert!(w.dirtied() || v == stored, "a clean page differs");
                v
            }
            s => panic!("{s:?} for ever"),
        }
    }
}

/// Runs the threads in every order with up to so many preemptions that nobody has asked for.
fn all_orders(page: fn() -> Arc<Page>, threads: &'static [fn(&Page)], want: u32) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(2);
    b.check(move || {
        let page = page();
        let handles: Vec<_> = threads[1..]
            .iter()
            .map(|f| {
                let page = page.clone();
                thread::spawn(move || f(&page))
            })
            .collect();
        threads[0](&page);
        handles.into_iter().for_each(|h| h.join().unwrap());
        assert_eq!(page.settle(), want, "a store is lost");
    });
}

fn reads_seven(p: &Page) {
    assert_eq!(p.read(), 7);
}

#[test]
fn two_missers_and_an_evictor() {
    all_orders(
        || Page::evicted(7),
        &[reads_seven, reads_seven, Page::evict],
        7,
    );
}

#[test]
fn an_evictor_a_flusher_and_a_writer() {
    all_orders(
        || Page::resident(7),
        &[Page::write, Page::evict, Page::flush],
        8,
    );
}

#[test]
fn pins_against_eviction() {
    fn reads_twice(p: &Page) {
        reads_seven(p);
        reads_seven(p);
    }
    all_orders(|| Page::resident(7), &[reads_twice, Page::evict], 7);
    all_orders(
        || Page::resident(7),
        &[reads_seven, reads_seven, Page::evict],
        7,
    );
}

/// A page is copied beside readers, and not beside a writer.
#[test]
fn a_flusher_beside_guards() {
    fn reads(p: &Page) {
        assert!((7..=8).contains(&p.read()));
    }
    all_orders(|| Page::resident(7), &[Page::write, reads, Page::flush], 8);
}

/// The last reader wakes the writer, and the writer the other.
#[test]
fn writers_wait_for_pins_and_are_woken() {
    fn reads(p: &Page) {
        assert!((7..=9).contains(&p.read()));
    }
    all_orders(|| Page::resident(7), &[Page::write, Page::write, reads], 9);
}

/// Writeback beside which the page stays usable: an evictor keeps off, and a thread that waits for its end
/// is woken.
#[test]
fn writeback_keeps_the_evictor_off() {
    fn writes_back(p: &Page) {
        if p.words.try_writeback(0) {
            assert_eq!(p.look(), 7);
            p.words.end_writeback(0, false);
        }
    }
    fn waits(p: &Page) {
        p.words.wait_while(0, PageState::Writeback);
    }
    all_orders(|| Page::resident(7), &[writes_back, waits, Page::evict], 7);
}

/// A transition that is two steps is found.
#[test]
fn a_torn_transition_is_noticed() {
    let quiet = std::panic::catch_unwind(|| {
        TORN.set(true);
        all_orders(
            || Page::evicted(7),
            &[reads_seven, reads_seven, Page::evict],
            7,
        );
    });
    TORN.set(false);
    assert!(quiet.is_err(), "nobody noticed");
}
