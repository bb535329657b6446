//! Every interleaving of those who use a page, by exhaustive search over the transitions of
//! `word.rs`: a filler, an evictor, two readers and a writer with guards, and a flusher that takes
//! the page (guards) or marks it (mappings).

use super::word::{PageState, Word};
use std::collections::{BTreeSet, VecDeque};

/// Where somebody is: nowhere, or in the middle of something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum At {
    Idle,
    /// Owns it; did it find the mark of a store?
    Owns(bool),
    /// Has it under writeback; the mark it took.
    Writes(bool),
    Holds,
}

/// All there is: the word, everybody's place, and whether memory is newer than the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct World {
    word: Word,
    at: [At; 6],
    newer: bool,
}

const FILLER: usize = 0;
const EVICTOR: usize = 1;
const READERS: [usize; 2] = [2, 3];
const WRITER: usize = 4;
const FLUSHER: usize = 5;

/// What can happen next. `forget`: the evictor overlooks the mark (the planted bug of the model).
fn next(w: World, forget: bool) -> Vec<World> {
    let mut all = Vec::new();
    let mut go = |who: usize, at: At, word: Word, newer: bool| {
        let mut n = World { word, newer, ..w };
        n.at[who] = at;
        all.push(n);
    };
    let (word, newer) = (w.word, w.newer);
    match w.at[FILLER] {
        At::Idle => {
            if let Some(v) = word.fill() {
                go(FILLER, At::Owns(false), v, newer);
            }
        }
        _ => {
            go(FILLER, At::Idle, word.filled(false), newer);
            // The store could not be read.
            go(FILLER, At::Idle, word.emptied(), newer);
        }
    }
    match w.at[EVICTOR] {
        At::Idle => {
            if let Some(v) = word.evict() {
                go(EVICTOR, At::Owns(v.dirtied() && !forget), v, newer);
            }
        }
        At::Owns(true) => {
            // Stored, or put back because it could not be.
            go(EVICTOR, At::Idle, word.emptied(), false);
            go(EVICTOR, At::Idle, word.filled(true), newer);
        }
        _ => go(EVICTOR, At::Idle, word.emptied(), newer),
    }
    for r in READERS {
        match w.at[r] {
            At::Idle => {
                if let Some(v) = word.pin() {
                    go(r, At::Holds, v.used(), newer);
                }
            }
            _ => go(r, At::Idle, word.unpin(false), newer),
        }
    }
    match w.at[WRITER] {
        At::Idle => {
            if let Some(v) = word.pin_exclusive() {
                go(WRITER, At::Holds, v, newer);
            }
        }
        _ => go(WRITER, At::Idle, word.unpin(true), true),
    }
    match w.at[FLUSHER] {
        At::Idle => {
            // With guards it owns the page; the mark is taken once the page is its own.
            if let Some(v) = word.evict() {
                let clean = Word(v.0 & !Word::DIRTIED);
                go(FLUSHER, At::Owns(v.dirtied()), clean, newer);
            }
            if let Some(v) = word.start_writeback() {
                let clean = Word(v.0 & !Word::DIRTIED);
                go(FLUSHER, At::Writes(v.dirtied()), clean, newer);
            }
        }
        At::Owns(dirty) => {
            go(FLUSHER, At::Idle, word.filled(false), newer && !dirty);
            go(FLUSHER, At::Idle, word.filled(dirty), newer);
        }
        At::Writes(dirty) => {
            // Failed; or done, and what was stored meanwhile has left its mark again.
            go(FLUSHER, At::Idle, word.end_writeback(dirty), newer);
            let later = newer && word.dirtied();
            go(FLUSHER, At::Idle, word.end_writeback(false), later);
        }
        At::Holds => unreachable!("the flusher holds no guard"),
    }
    all
}

/// What must hold in every state; the first thing that does not.
fn wrong(w: &World) -> Option<&'static str> {
    let owners = w.at.iter().filter(|a| matches!(a, At::Owns(_))).count();
    let holders = w.at.iter().filter(|a| **a == At::Holds).count();
    let state = w.word.state();
    if owners > 1 || (owners == 1) != (state == PageState::Busy) {
        return Some("BUSY has exactly one owner");
    }
    if matches!(w.at[FLUSHER], At::Writes(_)) != (state == PageState::Writeback) {
        return Some("WRITEBACK is the flusher's");
    }
    if holders as u32 != w.word.pins() || (holders > 0 && !w.word.in_memory()) {
        return Some("what is held is counted and in memory");
    }
    if w.at[WRITER] == At::Holds && holders > 1 {
        return Some("a writer is alone");
    }
    if state == PageState::Evicted && w.newer {
        return Some("a store is lost");
    }
    None
}

fn explore(forget: bool) -> Result<BTreeSet<World>, (&'static str, World)> {
    let start = World {
        word: Word::default(),
        at: [At::Idle; 6],
        newer: false,
    };
    let mut seen = BTreeSet::from([start]);
    let mut todo = VecDeque::from([start]);
    while let Some(w) = todo.pop_front() {
        if let Some(what) = wrong(&w) {
            return Err((what, w));
        }
        for n in next(w, forget) {
            if seen.insert(n) {
                todo.push_back(n);
            }
        }
    }
    Ok(seen)
}

#[test]
fn no_interleaving_loses_a_store_or_shares_a_page() {
    let all = explore(false).unwrap();
    let reached = |f: &dyn Fn(&World) -> bool| all.iter().any(f);
    for state in [
        PageState::Evicted,
        PageState::Busy,
        PageState::Resident,
        PageState::Writeback,
    ] {
        assert!(reached(&|w| w.word.state() == state), "{state:?}");
    }
    assert!(reached(&|w| w.word.pins() == 2), "two readers");
    let writer_during_writeback =
        |w: &World| w.at[WRITER] == At::Holds && w.word.state() == PageState::Writeback;
    assert!(reached(&writer_during_writeback));
    assert!(reached(
        &|w| w.word.state() == PageState::Writeback && w.newer
    ));
}

#[test]
fn the_model_notices_an_evictor_that_forgets_the_mark() {
    assert_eq!(explore(true).unwrap_err().0, "a store is lost");
}
