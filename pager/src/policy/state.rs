//! The whole of a policy as bytes, for a journal that begins in the middle of a pool's life.
//!
//! Nothing may be under way: no charge without its page, no task, no page on its way out.

use super::{Book, Policy};
use coldset_engine::swap::slots::SwapSlots;
use coldset_engine::{Engine, LruvecId, MemcgId, MmId, ObjectId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Everything but the books, by reference when it is written.
#[derive(Serialize)]
struct Written<'a> {
    engine: &'a Engine,
    slots: &'a Option<SwapSlots>,
    rest: Rest<'a>,
}

#[derive(Deserialize)]
struct Read {
    engine: Engine,
    slots: Option<SwapSlots>,
    rest: Rest<'static>,
}

#[derive(Serialize, Deserialize)]
struct Rest<'a> {
    top: MemcgId,
    owner: Cow<'a, [MemcgId]>,
    next_object: u32,
    next_task: u64,
    /// What the engine has been told of the time.
    told: u64,
    books: Vec<BookState>,
}

#[derive(Serialize, Deserialize)]
struct BookState {
    object: ObjectId,
    memcg: MemcgId,
    lruvec: LruvecId,
    mm: MmId,
    anon: bool,
    pages: usize,
    /// Pages of which anything is known: distance from the one before, folio + 1, slot + 1, shadow
    /// as kept.
    known: Vec<(usize, u32, u32, u64)>,
}

impl BookState {
    fn of(b: &Book) -> Self {
        let mut known = Vec::new();
        let mut last = 0;
        for p in 0..b.pages {
            let (f, s) = (b.folio[p].load(Relaxed), b.slot[p].load(Relaxed));
            let shadow = b.shadow[p].load(Relaxed);
            if f != 0 || s != 0 || shadow != 0 {
                known.push((p - last, f, s, shadow));
                last = p;
            }
        }
        Self {
            object: b.object,
            memcg: b.memcg,
            lruvec: b.lruvec,
            mm: b.mm,
            anon: b.anon,
            pages: b.pages,
            known,
        }
    }

    fn book(&self) -> Option<Book> {
        let b = Book::new(
            (self.object, self.memcg, self.lruvec, self.mm),
            self.pages,
            self.anon,
        );
        let b = b.ok()?;
        let mut p = 0usize;
        for &(distance, folio, slot, shadow) in &self.known {
            p = p.checked_add(distance).filter(|&p| p < self.pages)?;
            b.folio[p].store(folio, Relaxed);
            b.slot[p].store(slot, Relaxed);
            b.shadow[p].store(shadow, Relaxed);
        }
        Some(b)
    }
}

impl Policy {
    /// The state. The journal in which it is written goes on from here.
    pub(crate) fn save(&self) -> Vec<u8> {
        let state = Written {
            engine: &self.engine,
            slots: &self.slots,
            rest: Rest {
                top: self.top,
                owner: Cow::Borrowed(&self.owner),
                next_object: self.next_object,
                next_task: self.next_task,
                told: self.told,
                books: self.books.values().map(|b| BookState::of(b)).collect(),
            },
        };
        postcard::to_stdvec(&state).expect("plain data in memory")
    }

    /// The opposite; why not, if the bytes are no state.
    pub(crate) fn load(bytes: &[u8]) -> Result<Self, String> {
        let read: Read = postcard::from_bytes(bytes).map_err(|e| e.to_string())?;
        let mut books = BTreeMap::new();
        for b in &read.rest.books {
            let book = b.book().ok_or("a region has pages beyond its end")?;
            books.insert(b.object, Arc::new(book));
        }
        Ok(Self {
            engine: read.engine,
            slots: read.slots,
            books,
            top: read.rest.top,
            owner: read.rest.owner.into_owned(),
            spare: Vec::new(),
            next_object: read.rest.next_object,
            next_task: read.rest.next_task,
            now: read.rest.told,
            told: read.rest.told,
            recorder: None,
        })
    }
}
