//! The whole of a policy as bytes, for a journal that begins in the middle of a pool's life.
//!
//! Nothing may be under way: no charge without its page, no task, no page on its way out.

use super::{config, Book, Policy};
use crate::sys::quiet::quietly;
use coldset_engine::swap::slots::{SwapSlot, SwapSlots};
use coldset_engine::{Engine, Flags, FolioId, LruvecId, MemcgId, MmId, NodeId, ObjectId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
        for p in b.records.known(0..b.pages()) {
            let Some(r) = b.records.find(p) else { continue };
            let (f, s) = (r.folio().load(Relaxed), r.slot().load(Relaxed));
            let shadow = r.shadow().load(Relaxed);
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
            pages: b.pages(),
            known,
        }
    }

    fn book(&self, of: &Read, meter: &Arc<AtomicU64>) -> Option<Book> {
        let engine = &of.engine;
        let group = engine.memcgs.exists(self.memcg)
            && self.lruvec == engine.lruvec_id(self.memcg, NodeId(0));
        let below = self.memcg >= of.rest.top && self.pages as u64 <= 1 << 32;
        let named = (1..of.rest.next_object).contains(&self.object.0);
        if !(group && below && named) {
            return None;
        }
        let b = Book::new(
            (self.object, self.memcg, self.lruvec, self.mm),
            self.pages,
            self.anon,
            meter.clone(),
        );
        let b = b.ok()?;
        let mut p = 0usize;
        for &(distance, folio, slot, shadow) in &self.known {
            p = p.checked_add(distance).filter(|&p| p < self.pages)?;
            let known = |id: u32| {
                let id = FolioId(id);
                id.idx() < engine.folio_records() && {
                    let f = engine.folio(id);
                    !f.has(Flags::DEAD) && f.owner() == (self.object, p as u32)
                }
            };
            if folio.checked_sub(1).is_some_and(|id| !known(id))
                || slot.checked_sub(1).is_some_and(|slot| !of.is_used(slot))
            {
                return None;
            }
            let r = b.records.make(p);
            r.folio().store(folio, Relaxed);
            r.slot().store(slot, Relaxed);
            r.shadow().store(shadow, Relaxed);
        }
        Some(b)
    }
}

impl Read {
    /// The slot is taken, and somebody is charged for it.
    fn is_used(&self, offset: u32) -> bool {
        let slot = SwapSlot { area: 0, offset };
        let slots = self.slots.as_ref();
        slots.is_some_and(|s| s.is_used(slot)) && self.rest.owner.len() > offset as usize
    }

    /// What the engine takes for granted.
    fn sound(&self) -> Result<(), String> {
        let engine = &self.engine;
        if *engine.config() != config() {
            return Err("it is not that of a pool".into());
        }
        if !engine.memcgs.links_are_sound() {
            return Err("the groups are no tree".into());
        }
        if !engine.memcgs.exists(self.rest.top) {
            return Err("it has no group for the budget".into());
        }
        // Asserts; whatever it says is one line for the user.
        quietly(|| engine.check())
    }
}

/// Remembers an error of reading, of which the format does not tell.
struct Noting<R> {
    from: R,
    failed: Option<io::Error>,
}

impl<R: io::Read> io::Read for Noting<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.from.read(to).map_err(|e| {
            let told = io::Error::from(e.kind());
            self.failed = Some(e);
            told
        })
    }
}

impl Policy {
    /// The state. The journal in which it is written continues from here.
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

    /// The opposite, from all that `bytes` has; why not, if that is no state.
    pub(crate) fn load(bytes: &mut impl io::Read) -> Result<Self, Result<io::Error, String>> {
        let mut bytes = Noting {
            from: bytes,
            failed: None,
        };
        let mut texts = vec![0; 1 << 16];
        let read = postcard::from_io((&mut bytes, &mut texts[..])).map(|(read, _)| read);
        if let Some(e) = bytes.failed.take() {
            return Err(Ok(e));
        }
        let read: Read = read.map_err(|e| Err(e.to_string()))?;
        if io::Read::read(&mut bytes, &mut [0]).map_err(Ok)? > 0 {
            return Err(Err("something follows it".into()));
        }
        read.sound().map_err(Err)?;
        let mut books = BTreeMap::new();
        let records = Arc::new(AtomicU64::new(0));
        for b in &read.rest.books {
            let book = b.book(&read, &records);
            let book = book.ok_or(Err("a region has pages that cannot be".to_owned()))?;
            books.insert(b.object, Arc::new(book));
        }
        Ok(Self {
            engine: read.engine,
            slots: read.slots,
            books,
            records,
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
