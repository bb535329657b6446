//! Where references come from: sweeps over blocks of 2 MiB in address order (`pager.md` 3, 10).
//!
//! A page that is mapped has been used since the last sweep took its entry away. One scan and one
//! zap a block: 0.2 us a page and one or two flushes of translations.

use crate::page::Word;
use crate::policy::WalkOf;
use crate::pool::inner::PoolInner;
use crate::region::area::{RegionInner, BLOCK};
use crate::sys::pagemap::WRITTEN;
use crate::sys::PAGE;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// What a sweep found in a block: one bit a page.
#[derive(Debug)]
struct Found {
    used: [u64; BLOCK / 64],
    written: [u64; BLOCK / 64],
    any: bool,
}

impl PoolInner {
    /// The engine's walk of one address space. Returns entries looked at.
    pub(crate) fn walk(&self, walk: &WalkOf) -> u64 {
        let region = self.core().region_of(walk.walk.mm);
        let Some(region) = region else { return 0 };
        let asked_at = region.sweeps.load(Relaxed);
        let _one = self.sweeping.lock().expect("sweep");
        if region.sweeps.load(Relaxed) > asked_at {
            // Somebody swept it while we waited for our turn.
            return 0;
        }
        self.sweep(&region, Some(walk))
    }

    /// For policies that only test single folios: a sweep now and then leaves marks for them.
    pub(crate) fn sweep_if_due(&self) {
        let due = self.gate.resident() / 4;
        if self.since_sweep.load(Relaxed) < due.max(64) {
            return;
        }
        let Ok(_one) = self.sweeping.try_lock() else {
            return;
        };
        self.since_sweep.store(0, Relaxed);
        let regions: Vec<Arc<RegionInner>> = self.core().regions.values().cloned().collect();
        for r in regions {
            self.sweep(&r, None);
        }
    }

    fn sweep(&self, region: &RegionInner, walk: Option<&WalkOf>) -> u64 {
        let mut slots = 0;
        if !region.is_explicit() {
            region.check_whole();
        }
        for b in 0..region.blocks() {
            if region.in_block(b) == 0 {
                continue;
            }
            let range = region.block(b);
            slots += range.len() as u64;
            let found = self.look(region, b);
            if found.any {
                self.tell(region, walk, b, &found);
            }
        }
        region.sweeps.fetch_add(1, Relaxed);
        self.counts.sweeps.fetch_add(1, Relaxed);
        slots
    }

    /// Scans and zaps a block.
    fn look(&self, region: &RegionInner, b: usize) -> Found {
        let range = region.block(b);
        let mut f = Found {
            used: [0; BLOCK / 64],
            written: [0; BLOCK / 64],
            any: false,
        };
        let set = |bits: &mut [u64], i: usize| bits[i / 64] |= 1 << (i % 64);
        if region.is_explicit() {
            for p in range.clone() {
                if region.words.unmark(p, Word::YOUNG).young() {
                    set(&mut f.used, p - range.start);
                    f.any = true;
                }
            }
            return f;
        }
        let Some(pm) = &self.pagemap else { return f };
        let mut mapped = 0;
        let scanned = pm.present(&region.map, range.start, range.len(), |run| {
            mapped += run.pages;
            for p in run.first..run.first + run.pages {
                set(&mut f.used, p - range.start);
                if run.categories & WRITTEN != 0 {
                    set(&mut f.written, p - range.start);
                }
            }
        });
        region.scanned(scanned);
        self.counts.swept.fetch_add(mapped as u64, Relaxed);
        f.any = mapped > 0;
        if f.any {
            region.zap(range.start * PAGE, range.len() * PAGE);
        }
        f
    }

    /// Tells the engine, or leaves marks.
    fn tell(&self, region: &RegionInner, walk: Option<&WalkOf>, b: usize, found: &Found) {
        let range = region.block(b);
        let mut core = self.core();
        let (mut young, mut dirty) = (0, false);
        for (i, p) in range.clone().enumerate() {
            if found.used[i / 64] >> (i % 64) & 1 == 0 {
                continue;
            }
            // Told by a test since the last zap: not news.
            let news = !region.words.unmark(p, Word::SEEN).seen();
            let Some(id) = region.folio(p) else { continue };
            if found.written[i / 64] >> (i % 64) & 1 == 1 && region.writable_file().is_some() {
                core.policy.set_dirty(id);
                dirty = true;
            }
            if !news {
                continue;
            }
            match walk {
                Some(w) if core.policy.engine().walk_wants_folio(&w.walk, id) => {
                    young += 1;
                    core.policy.walk_young(w, id);
                }
                Some(_) => {}
                None => {
                    region.words.mark(p, Word::YOUNG);
                }
            }
        }
        if let Some(w) = walk {
            let key = region.table_key(range.start);
            core.policy.walk_block(w, key, range.len() as u64, young);
        }
        drop(core);
        if dirty {
            self.counts.dirty_blocks.fetch_add(1, Relaxed);
            region.note_dirty(range.start);
        }
    }
}

impl RegionInner {
    /// Names the block of a page for good.
    pub(crate) fn table_key(&self, page: usize) -> u64 {
        u64::from(self.book.object.0) << 32 | (page / BLOCK) as u64
    }
}
