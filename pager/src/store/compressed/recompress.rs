//! Zstandard for pages that LZ4 has packed: one that has been here long, or all of a chunk when there
//! is no place left to put a smaller copy before the larger goes.

use super::super::age::List;
use super::super::entry::Entry;
use super::super::slab::class_of;
use super::{lz4, unlz4, Bench, Compressed, Grow, Inner, Recompressed, PAGE};
use crate::meanwhile::meanwhile;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// An object on its way to another place: the `len` bytes at `from` of the bytes put aside.
struct Moved {
    slot: u32,
    old: Entry,
    by_zstd: bool,
    from: usize,
    len: usize,
}

impl Compressed {
    /// Recompresses the page that has been here longest, if that is at least `age`. If no chunk has a place
    /// for it, `chunk` is asked for one more; without it, the chunk it is in is repacked.
    pub fn recompress(&self, age: Duration, chunk: &mut dyn FnMut() -> bool) -> Recompressed {
        let mut bench = self.bench.lock().expect("recompression");
        let before = self.now().saturating_sub(age.as_secs() as u32);
        let (slot, old) = {
            let mut inner = self.lock();
            let popped = inner.ages.as_mut().and_then(|a| a.pop(before));
            let Some(slot) = popped else {
                if age.is_zero() {
                    self.untried.store(false, Relaxed);
                }
                return Recompressed::Nothing;
            };
            let old = self.entry(slot);
            let (h, len) = old.object().expect("listed slots have an object");
            bench.packed[..len].copy_from_slice(inner.slab.get(h, len));
            inner.recompressing = Some(slot);
            (slot, old)
        };
        let smaller = self.smaller(old, &mut bench);
        meanwhile();
        let mut inner = self.lock();
        if inner.recompressing.take() != Some(slot) {
            return Recompressed::Page;
        }
        self.is_final(&mut inner, slot);
        let Some(n) = smaller else {
            inner.tiers.not_smaller += 1;
            return Recompressed::Page;
        };
        let out = &bench.out[..n];
        let inserted = self.insert(&mut inner, slot, out, self.limit(), Grow::Asking(chunk));
        let (h, had) = old.object().expect("as above");
        let Ok(new) = inserted else {
            self.repack(&mut inner, &mut bench, h.chunk, class_of(n));
            return Recompressed::Page;
        };
        inner.slab.remove(h);
        self.bytes.store(inner.slab.bytes(), Relaxed);
        self.replace(&mut inner, slot, old, Entry::Zstd(new, n));
        inner.tiers.saved_bytes += (had - n) as u64;
        Recompressed::Page
    }

    /// Makes places for objects as large as this page by LZ4, of the chunk that holds the fewest bytes.
    pub fn make_places_for(&self, page: &[u8], scratch: &mut [u8]) {
        let class = class_of(lz4(page, scratch).unwrap_or(PAGE));
        let mut bench = self.bench.lock().expect("recompression");
        let mut inner = self.lock();
        if let Some(chunk) = inner.slab.sparsest() {
            self.repack(&mut inner, &mut bench, chunk, class);
        }
    }

    /// The page of `packed` by Zstandard, in `out`, if that takes less of the allocator's steps: less
    /// within one saves nothing. A damaged page stays as it is, for its reader to find out.
    fn smaller(&self, old: Entry, bench: &mut Bench) -> Option<usize> {
        let Bench { packed, page, out } = bench;
        let plain = match old {
            Entry::Lz4(_, n) => unlz4(&packed[..n], page).map(|()| &page[..]),
            Entry::Raw(_) => Ok(&packed[..PAGE]),
            Entry::Zstd(..) | Entry::Empty | Entry::Same => return None,
        };
        let (_, had) = old.object()?;
        let n = self.zstd.compress(plain.ok()?, out)?;
        (class_of(n) < class_of(had)).then_some(n)
    }

    /// Moves all objects of a chunk, made smaller, to free places of other chunks; the chunk is for objects
    /// of `class` then. What finds no such place stays, in a chunk of smaller places. At the limit
    /// this is the only way left, and as slow as the few dozen pages that a chunk holds: others wait for
    /// the lock meanwhile.
    fn repack(&self, inner: &mut Inner, bench: &mut Bench, chunk: u32, class: usize) {
        let owners: Vec<u32> = inner.slab.owners(chunk).collect();
        let mut aside = Vec::new();
        let mut moved = Vec::with_capacity(owners.len());
        for slot in owners {
            let old = self.entry(slot);
            let (h, len) = old.object().expect("owners have an object");
            bench.packed[..len].copy_from_slice(inner.slab.get(h, len));
            let smaller = self.smaller(old, bench);
            let from = aside.len();
            aside.extend_from_slice(match smaller {
                Some(n) => &bench.out[..n],
                None => &bench.packed[..len],
            });
            let (by_zstd, len) = (smaller.is_some(), aside.len() - from);
            moved.push(Moved {
                slot,
                old,
                by_zstd,
                from,
                len,
            });
        }
        inner.slab.close(chunk);
        // The largest first: if the chunk is for it, all others fit into the chunk as well.
        moved.sort_unstable_by_key(|m| std::cmp::Reverse(m.len));
        let mut stays = false;
        for m in moved {
            let data = &aside[m.from..][..m.len];
            let elsewhere = inner.slab.insert_here(data, m.slot);
            let h = elsewhere.unwrap_or_else(|| {
                stays = true;
                inner.slab.reset(chunk, class_of(m.len));
                let here = inner.slab.insert_here(data, m.slot);
                here.expect("smaller places are no fewer")
            });
            let new = match m.old {
                _ if m.by_zstd => Entry::Zstd(h, m.len),
                Entry::Raw(_) => Entry::Raw(h),
                Entry::Lz4(..) => Entry::Lz4(h, m.len),
                _ => Entry::Zstd(h, m.len),
            };
            if m.by_zstd {
                let (_, had) = m.old.object().expect("as above");
                inner.tiers.saved_bytes += (had - m.len) as u64;
                self.is_final(inner, m.slot);
                self.replace(inner, m.slot, m.old, new);
            } else {
                self.set(m.slot, new);
            }
        }
        if !stays {
            inner.slab.reset(chunk, class);
        }
    }

    /// A page is as small as it gets.
    fn is_final(&self, inner: &mut Inner, slot: u32) {
        if let Some(ages) = &mut inner.ages {
            ages.remove(slot);
            ages.push(List::Final, slot, self.now());
        }
    }

    /// The slot's page is Zstandard's now.
    fn replace(&self, inner: &mut Inner, slot: u32, old: Entry, new: Entry) {
        inner.tiers.count(old, -1);
        inner.tiers.count(new, 1);
        inner.tiers.recompressed += 1;
        self.set(slot, new);
    }
}
