//! Doing what a reclaim task of the engine asks for, on real memory.
//!
//! The engine decides page by page. What it gives up is taken (BUSY) at once, so that nobody brings
//! it back meanwhile, and collected; contents move when the lock is not held, many pages at a time
//! (`evictor.rs`).

use crate::budget::core::Core;
use crate::error::Result;
use crate::evict::evictor::Victim;
use crate::page::{State, Word};
use crate::plant::{self, Plant};
use crate::policy::Task;
use crate::pool::inner::PoolInner;
use crate::region::area::RegionInner;
use coldset_engine::reclaim::{Answer, Outcome, References, Work, Written};
use coldset_engine::{FolioId, MemcgId};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Pages looked at together when one of them is tested: one word of bits.
const WINDOW: usize = 64;

/// A folio that the engine has asked to unmap and not decided on yet. Its page is taken.
struct Unmapped {
    folio: FolioId,
    region: Arc<RegionInner>,
    page: usize,
}

/// One run of a task.
struct Run {
    victims: Vec<Victim>,
    unmapped: Vec<Unmapped>,
    /// Folios whose contents the engine wants written.
    write: Vec<(u32, u32)>,
    /// Pages mapped, by region and window, as of this run.
    windows: Vec<(u32, usize, u64)>,
    flush: bool,
}

impl PoolInner {
    /// Reclaims `nr` pages below `memcg`, at its limit or because somebody `asked`. Pages it has freed have left memory when this returns.
    pub(crate) fn reclaim(&self, memcg: MemcgId, nr: u64, asked: bool) -> Result<Outcome> {
        if self.sweeps_itself() {
            self.sweep_if_due();
        }
        let mut run = Run {
            victims: Vec::new(),
            unmapped: Vec::new(),
            write: Vec::new(),
            windows: Vec::new(),
            flush: false,
        };
        self.counts.reclaims.fetch_add(1, Relaxed);
        let evicted = self.counts.evicted.load(Relaxed);
        let mut result = Ok(());
        let mut core = self.core();
        let mut task = core.policy.reclaim(memcg, nr, asked);
        loop {
            let work = core.policy.step(&mut task);
            settle(&mut core, &mut run, &task);
            match work {
                Work::Test { folio, .. } => {
                    let (r, back) = self.test(core, &mut run, &task, folio);
                    core = back;
                    task.answer(Answer::References(r));
                }
                Work::Walk(_) => {
                    drop(core);
                    let slots = task.walk().map_or(0, |w| self.walk(&w));
                    core = self.core();
                    task.answer(Answer::Walked { slots });
                }
                Work::Unmap { folio } => {
                    self.unmap(&mut core, &mut run, folio);
                    task.answer(Answer::Unmapped {
                        deferred: false,
                        writable: false,
                    });
                }
                // Taking a page out of memory flushes.
                Work::FlushTlb { .. } => {}
                Work::AllocSwap { folio } => {
                    let slot = core.policy.alloc_slot(folio);
                    task.answer(Answer::Slot(slot));
                }
                Work::FreeSwap { slot, .. } => {
                    core.policy.free_slot(self.swap.as_ref(), slot);
                }
                Work::Write { folio } => {
                    let f = core.policy.engine().folio(folio);
                    let (object, page) = f.owner();
                    let written = if f.swap_slot().is_some() {
                        run.write.push((object.0, page));
                        Written::Submitted
                    } else {
                        // Files are the flusher's.
                        run.flush = true;
                        Written::Activate
                    };
                    task.answer(Answer::Written(written));
                }
                Work::Detach | Work::Free => self.collect(&mut core, &mut run, &task),
                Work::Split { .. } => unreachable!("the pager's folios are single pages"),
                Work::Slab { .. } => task.answer(Answer::Slab(0)),
                Work::WakeFlushers => run.flush = true,
                Work::Throttle { ticks, .. } => {
                    drop(core);
                    result = result.and(self.evict_all(&mut run));
                    self.flusher.wake();
                    std::thread::sleep(Duration::from_millis(ticks.into()));
                    core = self.core();
                }
                Work::WaitWriteback { folio } => {
                    let at = core.policy.engine().folio(folio).owner();
                    let region = core.regions.get(&at.0).cloned();
                    drop(core);
                    result = result.and(self.evict_all(&mut run));
                    if let Some(r) = region {
                        r.words.wait_while(at.1 as usize, State::Writeback);
                    }
                    core = self.core();
                }
                Work::Spin => {
                    drop(core);
                    std::thread::yield_now();
                    core = self.core();
                }
                Work::Yield => {
                    if run.victims.len() >= self.config.batch {
                        drop(core);
                        result = result.and(self.evict_all(&mut run));
                        core = self.core();
                    }
                }
                Work::WakeThrottled { .. } | Work::OomKill | Work::Balance { .. } => {}
                Work::Done => {
                    assert!(run.unmapped.is_empty(), "pages taken and not decided on");
                    break;
                }
            }
        }
        drop(core);
        result = result.and(self.evict_all(&mut run));
        if run.flush {
            self.flusher.wake();
        }
        // What could not be stored has come back: the engine has counted it, but nothing is free. A
        // caller told otherwise would try for ever.
        let moved = self.counts.evicted.load(Relaxed).wrapping_sub(evicted);
        let mut outcome = task.outcome();
        outcome.reclaimed = outcome.reclaimed.min(moved);
        result.map(|()| outcome)
    }

    fn evict_all(&self, run: &mut Run) -> Result<()> {
        run.write.clear();
        if run.victims.is_empty() {
            return Ok(());
        }
        let victims = std::mem::take(&mut run.victims);
        self.since_sweep.fetch_add(victims.len() as u64, Relaxed);
        self.evict(victims)
    }

    /// Takes the page. Not if it is pinned, under writeback, or on its way in.
    fn unmap(&self, core: &mut Core, run: &mut Run, folio: FolioId) {
        let (object, page) = core.policy.engine().folio(folio).owner();
        let Some(region) = core.regions.get(&object).cloned() else {
            return;
        };
        let page = page as usize;
        if !region.words.try_evict(page) {
            return;
        }
        core.policy.map(folio, false);
        run.unmapped.push(Unmapped {
            folio,
            region,
            page,
        });
    }

    /// The engine has forgotten these.
    fn collect(&self, core: &mut Core, run: &mut Run, task: &Task) {
        let before = run.victims.len();
        for f in core.policy.collect(task) {
            let Some(region) = core.regions.get(&f.object) else {
                continue;
            };
            let page = f.index as usize;
            assert!(
                region.words.get(page).state() == State::Busy,
                "page {page} was given up without having been taken"
            );
            run.victims.push(Victim {
                region: region.clone(),
                page,
                slot: f.swap,
                must_write: run.write.contains(&(f.object.0, f.index)),
                shadow: f.shadow.map(|s| s.0),
            });
        }
        self.gate.leaving((run.victims.len() - before) as u64);
    }

    /// Has the page been used since somebody asked last? Looks at its neighbours with it, without
    /// the lock.
    fn test<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        run: &mut Run,
        task: &Task,
        folio: FolioId,
    ) -> (References, MutexGuard<'a, Core>) {
        let (object, page) = core.policy.engine().folio(folio).owner();
        let Some(region) = core.regions.get(&object).cloned() else {
            return (References::default(), core);
        };
        let page = page as usize;
        let unknown = References {
            unknown: true,
            ..References::default()
        };
        let w = region.words.get(page);
        if w.state() != State::Resident || w.pins() > 0 {
            return (unknown, core);
        }
        let window = page / WINDOW;
        let known = run
            .windows
            .iter()
            .find(|k| k.0 == object.0 && k.1 == window);
        let (mask, mut core) = match known {
            Some(k) => (k.2, core),
            None => {
                drop(core);
                let mask = self.present(&region, window);
                if run.windows.len() >= 32 {
                    run.windows.remove(0);
                }
                run.windows.push((object.0, window, mask));
                (mask, self.core())
            }
        };
        let accessed = self.used(&region, page, mask);
        let mut r = References {
            accessed: accessed.into(),
            ..References::default()
        };
        if accessed {
            self.neighbours(&mut core, &region, task, page, mask);
        }
        let w = region.words.get(page);
        if w.state() != State::Resident || w.pins() > 0 {
            r = unknown;
        }
        (r, core)
    }

    /// Pages of a window that are mapped.
    fn present(&self, region: &RegionInner, window: usize) -> u64 {
        let Some(pm) = self.pagemap.as_ref().filter(|_| !region.is_explicit()) else {
            return 0;
        };
        let first = window * WINDOW;
        let pages = WINDOW.min(region.pages() - first);
        let mut mask = 0u64;
        let scanned = pm.present(&region.map, first, pages, |run| {
            for p in run.first..run.first + run.pages {
                mask |= 1 << (p - first);
            }
        });
        // Unknown counts as unused.
        region.scanned(scanned);
        mask
    }

    /// Used since last told: marked by a sweep or a guard, or mapped and not told since the zap.
    fn used(&self, region: &RegionInner, page: usize, mask: u64) -> bool {
        let young = region.words.unmark(page, Word::YOUNG).young();
        let mapped = mask >> (page % WINDOW) & 1 == 1;
        young | (mapped && !region.words.mark(page, Word::SEEN).seen())
    }

    fn neighbours(
        &self,
        core: &mut Core,
        region: &RegionInner,
        task: &Task,
        page: usize,
        mask: u64,
    ) {
        let first = page / WINDOW * WINDOW;
        let end = (first + WINDOW).min(region.pages());
        let mut young = 1;
        for p in (first..end).filter(|&p| p != page) {
            let w = region.words.get(p);
            if !w.in_memory() || !(w.young() || mask >> (p - first) & 1 == 1) {
                continue;
            }
            let Some(id) = region.folio(p) else { continue };
            if core.policy.wants_neighbour(task, id) && self.used(region, p, mask) {
                young += 1;
                core.policy.neighbour(task, id);
            }
        }
        let key = region.table_key(page);
        core.policy
            .neighbours_done(task, key, (end - first) as u64, young);
    }
}

/// What the last step has decided on pages that were taken: those that are freed stay taken until
/// [`PoolInner::collect`] hands them to the evictor, the others are given back.
fn settle(core: &mut Core, run: &mut Run, task: &Task) {
    for d in task.decided() {
        let Some(at) = run.unmapped.iter().position(|u| u.folio == d.folio) else {
            continue;
        };
        let u = run.unmapped.swap_remove(at);
        let last = || {
            let f = task.freed().last();
            f.is_some_and(|f| f.object == u.region.book.object && f.index as usize == u.page)
        };
        if !d.freed || plant::on(Plant::LastFreed) && !last() {
            core.policy.map(u.folio, true);
            u.region.words.filled(u.page, false);
        }
    }
}
