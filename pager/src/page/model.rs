//! Every interleaving of those who use a page, by exhaustive search over the transitions of
//! `word.rs`: a filler, an evictor, two readers and a writer with guards, and a flusher that keeps writers
//! off (guards) or does not (mappings).

use super::word::{PageState, Word};
use std::collections::{BTreeSet, VecDeque};

/// Where somebody is: nowhere, or in the middle of something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ActorStep {
    Idle,
    /// Owns it; did it find the mark of a store?
    Owns(bool),
    /// Has it under writeback; the mark it took.
    Writes(bool),
    /// The same, where it is used through guards.
    Copies(bool),
    Holds,
}

/// All there is: the word, everybody's place, and whether memory is newer than the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct World {
    word: Word,
    at: [ActorStep; 6],
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
    let mut go = |who: usize, at: ActorStep, word: Word, newer: bool| {
        let mut n = World { word, newer, ..w };
        n.at[who] = at;
        all.push(n);
    };
    let (word, newer) = (w.word, w.newer);
    match w.at[FILLER] {
        ActorStep::Idle => {
            if let Some(v) = word.fill() {
                go(FILLER, ActorStep::Owns(false), v, newer);
            }
        }
        _ => {
            go(FILLER, ActorStep::Idle, word.filled(false), newer);
            // The store could not be read.
            go(FILLER, ActorStep::Idle, word.emptied(), newer);
        }
    }
    match w.at[EVICTOR] {
        ActorStep::Idle => {
            if let Some(v) = word.evict() {
                go(EVICTOR, ActorStep::Owns(v.dirtied() && !forget), v, newer);
            }
        }
        ActorStep::Owns(true) => {
            // Stored, or put back because it could not be.
            go(EVICTOR, ActorStep::Idle, word.emptied(), false);
            go(EVICTOR, ActorStep::Idle, word.filled(true), newer);
        }
        _ => go(EVICTOR, ActorStep::Idle, word.emptied(), newer),
    }
    for r in READERS {
        match w.at[r] {
            ActorStep::Idle => {
                if let Some(v) = word.pin() {
                    go(r, ActorStep::Holds, v.used(), newer);
                }
            }
            _ => go(r, ActorStep::Idle, word.unpin(false), newer),
        }
    }
    match w.at[WRITER] {
        ActorStep::Idle => {
            if let Some(v) = word.pin_exclusive() {
                go(WRITER, ActorStep::Holds, v, newer);
            }
        }
        _ => go(WRITER, ActorStep::Idle, word.unpin(true), true),
    }
    match w.at[FLUSHER] {
        ActorStep::Idle => {
            // The mark is taken once nobody evicts the page.
            if let Some(v) = word.start_copy() {
                let clean = Word(v.0 & !Word::DIRTIED);
                go(FLUSHER, ActorStep::Copies(v.dirtied()), clean, newer);
            }
            if let Some(v) = word.start_writeback() {
                let clean = Word(v.0 & !Word::DIRTIED);
                go(FLUSHER, ActorStep::Writes(v.dirtied()), clean, newer);
            }
        }
        ActorStep::Copies(dirty) => {
            let later = newer && !dirty;
            go(FLUSHER, ActorStep::Idle, word.end_writeback(false), later);
            go(FLUSHER, ActorStep::Idle, word.end_writeback(dirty), newer);
        }
        ActorStep::Writes(dirty) => {
            // Failed; or done, and what was stored meanwhile has left its mark again.
            go(FLUSHER, ActorStep::Idle, word.end_writeback(dirty), newer);
            let later = newer && word.dirtied();
            go(FLUSHER, ActorStep::Idle, word.end_writeback(false), later);
        }
        ActorStep::Owns(_) | ActorStep::Holds => {
            unreachable!("the flusher owns no page and holds no guard")
        }
    }
    all
}

/// What must hold in every state; the first thing that does not.
fn wrong(w: &World) -> Option<&'static str> {
    let owners =
        w.at.iter()
            .filter(|a| matches!(a, ActorStep::Owns(_)))
            .count();
    let holders = w.at.iter().filter(|a| **a == ActorStep::Holds).count();
    let state = w.word.state();
    if owners > 1 || (owners == 1) != (state == PageState::Busy) {
        return Some("BUSY has exactly one owner");
    }
    let flushes = matches!(w.at[FLUSHER], ActorStep::Writes(_) | ActorStep::Copies(_));
    if flushes != (state == PageState::Writeback) {
        return Some("WRITEBACK is the flusher's");
    }
    if matches!(w.at[FLUSHER], ActorStep::Copies(_)) && w.at[WRITER] == ActorStep::Holds {
        return Some("a copy is not made beside a writer");
    }
    if holders as u32 != w.word.pins() || (holders > 0 && !w.word.in_memory()) {
        return Some("what is held is counted and in memory");
    }
    if w.at[WRITER] == ActorStep::Holds && holders > 1 {
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
        at: [ActorStep::Idle; 6],
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
        |w: &World| w.at[WRITER] == ActorStep::Holds && w.word.state() == PageState::Writeback;
    assert!(reached(&writer_during_writeback));
    assert!(reached(
        &|w| matches!(w.at[FLUSHER], ActorStep::Copies(_)) && w.word.pins() == 2
    ));
    assert!(reached(
        &|w| w.word.state() == PageState::Writeback && w.newer
    ));
}

#[test]
fn the_model_notices_an_evictor_that_forgets_the_mark() {
    assert_eq!(explore(true).unwrap_err().0, "a store is lost");
}
