//! Where references come from: sweeps over blocks of 2 MiB in address order.
//!
//! A page that is mapped has been used since the last sweep took its entry away. One scan and one
//! zap a block: 0.2 us a page and one or two flushes of translations.

use crate::budget::resources::Resources;
use crate::meanwhile::meanwhile;
use crate::page::Word;
use crate::policy::WalkOf;
use crate::region::area::{Area, BLOCK};
use crate::region::witness;
use crate::sys::pagemap::{Scan, WRITTEN};
use crate::sys::PAGE;
use coldset_engine::switches::PolicyKind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What a sweep found in a block: one bit a page.
#[derive(Debug)]
struct SweptBlock {
    mapped: [u64; BLOCK / 64],
    /// Of those, what somebody has used.
    used: [u64; BLOCK / 64],
    written: [u64; BLOCK / 64],
    any: bool,
}

/// Sweeps regions. One sweep at a time; others use what it finds.
#[derive(Debug)]
pub(super) struct Sweeper {
    res: Arc<Resources>,
    turn: Mutex<()>,
    /// The engine of this policy never asks for walks: it only tests single folios.
    by_itself: bool,
    /// Pages evicted since the last sweep that nobody asked for.
    evicted: AtomicU64,
}

impl Sweeper {
    pub(super) fn new(res: Arc<Resources>) -> Self {
        let sw = &res.config.switches;
        let by_itself = match sw.policy {
            PolicyKind::Classic => true,
            PolicyKind::MultiGen => !sw.page_table_walk,
            _ => false,
        };
        Self {
            res,
            turn: Mutex::new(()),
            by_itself,
            evicted: AtomicU64::new(0),
        }
    }

    /// So many pages leave.
    pub(super) fn evicted(&self, pages: u64) {
        self.evicted.fetch_add(pages, Relaxed);
    }

    /// The engine's walk of one address space.
    pub(super) fn walk(&self, walk: &WalkOf) {
        let area = self.res.core().region_of(walk.walk.mm);
        let Some(area) = area else { return };
        let asked_at = area.sweeps();
        let _one = self.turn.lock().expect("sweep");
        if area.sweeps() > asked_at {
            // Somebody swept it while we waited for our turn.
            return;
        }
        self.sweep(&area, Some(walk));
    }

    /// For policies that only test single folios: a sweep now and then leaves marks for them.
    pub(super) fn sweep_if_due(&self) {
        let due = self.res.gate.resident() / 4;
        if !self.by_itself || self.evicted.load(Relaxed) < due.max(64) {
            return;
        }
        let Ok(_one) = self.turn.try_lock() else {
            return;
        };
        self.evicted.store(0, Relaxed);
        for area in self.res.areas() {
            self.sweep(&area, None);
        }
    }

    fn sweep(&self, area: &Area, walk: Option<&WalkOf>) {
        if !area.is_explicit() {
            area.memory().check_whole();
        }
        for b in 0..area.blocks() {
            if area.in_block(b) == 0 {
                continue;
            }
            let found = self.look(area, b);
            if found.any {
                meanwhile();
                self.tell(area, walk, b, &found);
            }
        }
        area.swept();
        self.res.counts.sweeps.fetch_add(1, Relaxed);
    }

    /// Scans and zaps a block.
    fn look(&self, area: &Area, b: usize) -> SweptBlock {
        let range = area.block(b);
        let mut f = SweptBlock {
            mapped: [0; BLOCK / 64],
            used: [0; BLOCK / 64],
            written: [0; BLOCK / 64],
            any: false,
        };
        let set = |bits: &mut [u64], i: usize| bits[i / 64] |= 1 << (i % 64);
        if area.is_explicit() {
            for p in range.clone() {
                if area.words().unmark(p, Word::YOUNG).young() {
                    set(&mut f.mapped, p - range.start);
                    set(&mut f.used, p - range.start);
                    f.any = true;
                }
            }
            return f;
        }
        let Some(pm) = &self.res.pagemap else {
            return f;
        };
        // What is only coming in is mapped for a moment without having been used.
        let (mut here, mut ahead) = ([0; BLOCK / 64], [0; BLOCK / 64]);
        for (i, p) in range.clone().enumerate() {
            let word = area.words().get(p);
            if word.in_memory() {
                set(&mut here, i);
            }
            if word.ahead() {
                set(&mut ahead, i);
            }
        }
        let mut mapped = 0;
        area.memory().scan(pm, Scan::Present, range.clone(), |run| {
            mapped += run.pages;
            for p in run.first..run.first + run.pages {
                set(&mut f.mapped, p - range.start);
                if run.categories & WRITTEN != 0 {
                    set(&mut f.written, p - range.start);
                }
            }
        });
        for (i, first) in range.clone().step_by(64).enumerate() {
            f.used[i] = witness::used(area, first, f.mapped[i] & here[i], ahead[i]);
        }
        self.res.counts.swept.fetch_add(mapped as u64, Relaxed);
        f.any = mapped > 0;
        meanwhile();
        if f.any {
            area.memory().zap(range.start * PAGE, range.len() * PAGE);
        }
        f
    }

    /// Tells the engine, or leaves marks.
    fn tell(&self, area: &Area, walk: Option<&WalkOf>, b: usize, found: &SweptBlock) {
        let range = area.block(b);
        let mut core = self.res.core();
        let (mut young, mut dirty) = (0, false);
        let is = |bits: &[u64], i: usize| bits[i / 64] >> (i % 64) & 1 == 1;
        for (i, p) in range.clone().enumerate() {
            if !is(&found.mapped, i) {
                continue;
            }
            let word = area.words().unmark(p, Word::SEEN | Word::AHEAD);
            // Told by a test since the last zap: not news.
            let news = !word.seen() && is(&found.used, i);
            let Some(id) = area.folio(p) else { continue };
            if is(&found.written, i) && area.writable_file().is_some() {
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
                    area.words().mark(p, Word::YOUNG);
                }
            }
        }
        if let Some(w) = walk {
            let key = area.table_key(range.start);
            core.policy.walk_block(w, key, range.len() as u64, young);
        }
        drop(core);
        if dirty {
            meanwhile();
            self.res.counts.dirty_blocks.fetch_add(1, Relaxed);
            area.note_dirty(range.start);
        }
    }
}
