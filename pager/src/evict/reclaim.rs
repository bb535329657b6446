//! Doing what a reclaim task of the engine asks for, on real memory.
//!
//! The engine decides page by page. What it gives up is taken (BUSY) at once, so that nobody brings
//! it back meanwhile, and collected; contents move when the lock is not held, many pages at a time
//! (`evictor.rs`).

use super::evictor::Evictor;
use super::outside::Outside;
use super::references::Windows;
use super::sweep::Sweeper;
use super::victim::Victim;
use crate::budget::core::Core;
use crate::budget::deciding::refuse_inside;
use crate::budget::resources::Resources;
use crate::error::Result;
use crate::meanwhile::meanwhile;
use crate::page::PageState;
use crate::plant::{self, Plant};
use crate::policy::Task;
use crate::region::area::Area;
use crate::sys::bell::Bell;
use coldset_engine::reclaim::{Answer, Work, Written};
use coldset_engine::{FolioId, LruType, LruvecId, MemcgId};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Frees pages when the engine's limits, or a user, ask for it.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    res: Arc<Resources>,
    evictor: Arc<Evictor>,
    sweeper: Sweeper,
    /// Wakes the flusher.
    flush: Arc<Bell>,
    /// Who names the victims, if that is not the engine.
    outside: Option<Outside>,
}

impl Reclaimer {
    pub(crate) fn new(res: Arc<Resources>, evictor: Arc<Evictor>, flush: Arc<Bell>) -> Self {
        Self {
            sweeper: Sweeper::new(res.clone()),
            outside: {
                let c = &res.config;
                let makes = c.outside.clone();
                makes.map(|m| Outside::new(m, c.budget))
            },
            res,
            evictor,
            flush,
        }
    }

    /// Pages are about to come in: a policy outside of the engine is told of others, if that is due.
    ///
    /// # Errors
    /// The policy has failed; a method of it asks for pages.
    pub(crate) fn expect(&self, pages: u64) -> Result<()> {
        match &self.outside {
            Some(outside) => refuse_inside().and_then(|()| outside.expect(&self.res, pages)),
            None => Ok(()),
        }
    }

    /// Reclaims `nr` pages below `memcg`, at its limit or because somebody `asked`. Returns pages freed,
    /// which have left memory by then. Pages that could not be stored have come back: the engine counts
    /// them as freed, and a caller that took them for progress would try for ever.
    ///
    /// # Errors
    /// As [`Evictor::evict`]; a policy outside of the engine has failed: the oldest pages have gone then.
    pub(crate) fn reclaim(&self, memcg: MemcgId, nr: u64, asked: bool) -> Result<u64> {
        refuse_inside()?;
        self.sweeper.sweep_if_due();
        self.res.counts.reclaims.fetch_add(1, Relaxed);
        let mut run = ReclaimRun {
            by: self,
            victims: Vec::new(),
            unmapped: Vec::new(),
            write: Vec::new(),
            windows: Windows::default(),
            flush: false,
            left: 0,
            result: Ok(()),
        };
        let freed = run.drive(memcg, nr, asked);
        if run.flush {
            self.flush.ring();
        }
        run.result.map(|()| freed.min(run.left))
    }
}

/// A folio that the engine has asked to unmap and not decided on yet. Its page is taken.
struct Unmapped {
    folio: FolioId,
    area: Arc<Area>,
    page: usize,
}

/// One run of a task.
struct ReclaimRun<'a> {
    by: &'a Reclaimer,
    victims: Vec<Victim>,
    unmapped: Vec<Unmapped>,
    /// Folios whose contents the engine wants written.
    write: Vec<(u32, u32)>,
    windows: Windows,
    /// The flusher is wanted.
    flush: bool,
    /// Pages that have left memory.
    left: u64,
    /// The first error.
    result: Result<()>,
}

impl<'a> ReclaimRun<'a> {
    /// Runs a task to its end. Returns pages that the engine counts as freed.
    fn drive(&mut self, memcg: MemcgId, nr: u64, asked: bool) -> u64 {
        let res: &'a Resources = &self.by.res;
        let mut core = res.core();
        let mut task = core.policy.reclaim(memcg, nr, asked);
        loop {
            let work = core.policy.step(&mut task);
            self.give_back_kept(&mut core, &task);
            match work {
                Work::Test { folio, .. } => {
                    let (r, back) = self.windows.test(res, core, &task, folio);
                    core = back;
                    task.answer(Answer::References(r));
                }
                Work::Walk(_) => {
                    drop(core);
                    meanwhile();
                    if let Some(w) = task.walk() {
                        self.by.sweeper.walk(&w);
                    }
                    core = res.core();
                    task.answer(Answer::Walked);
                }
                Work::Unmap { folio } => {
                    self.unmap(&mut core, folio);
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
                Work::FreeSwap { slot, .. } => core.policy.free_slot(res.swap.as_ref(), slot),
                Work::Write { folio } => task.answer(Answer::Written(self.write(&core, folio))),
                Work::Detach | Work::Free => self.collect(&mut core, &task),
                Work::Victim { lruvec, lru_type } => {
                    drop(core);
                    let victim;
                    (victim, core) = self.victim(lruvec, lru_type);
                    task.answer(Answer::Victim(victim));
                }
                Work::Split { .. } => unreachable!("the pager's folios are single pages"),
                Work::WakeFlushers => self.flush = true,
                Work::Throttle { ticks, .. } => {
                    drop(core);
                    self.evict_all();
                    self.by.flush.ring();
                    std::thread::sleep(Duration::from_millis(ticks.into()));
                    core = res.core();
                }
                Work::WaitWriteback { folio } => {
                    let (object, page) = core.policy.engine().folio(folio).owner();
                    let area = core.region(object).cloned();
                    drop(core);
                    self.evict_all();
                    if let Some(area) = area {
                        area.words().wait_while(page as usize, PageState::Writeback);
                    }
                    core = res.core();
                }
                Work::Spin => {
                    drop(core);
                    std::thread::yield_now();
                    core = res.core();
                }
                Work::Yield => {
                    if self.victims.len() >= res.config.batch {
                        drop(core);
                        meanwhile();
                        self.evict_all();
                        core = res.core();
                    }
                }
                Work::WakeThrottled { .. } | Work::OomKill | Work::Balance { .. } => {}
                Work::Done => break,
            }
        }
        assert!(self.unmapped.is_empty(), "pages taken and not decided on");
        drop(core);
        meanwhile();
        self.evict_all();
        task.outcome().reclaimed
    }

    /// Asks the policy outside of the engine. No page is taken while it thinks.
    fn victim(&mut self, lruvec: LruvecId, t: LruType) -> (Option<FolioId>, MutexGuard<'a, Core>) {
        self.evict_all();
        let res: &'a Resources = &self.by.res;
        let Some(outside) = &self.by.outside else {
            return (None, res.core());
        };
        let (victim, core) = outside.victim(res, lruvec, t);
        let victim = victim.unwrap_or_else(|failure| {
            if self.result.is_ok() {
                self.result = Err(failure);
            }
            None
        });
        (victim, core)
    }

    /// Takes the page. Not if it is pinned, under writeback, or on its way in.
    fn unmap(&mut self, core: &mut Core, folio: FolioId) {
        let (object, page) = core.policy.engine().folio(folio).owner();
        let Some(area) = core.region(object).cloned() else {
            return;
        };
        let page = page as usize;
        if area.words().try_evict(page) {
            core.policy.map(folio, false);
            self.unmapped.push(Unmapped { folio, area, page });
        }
    }

    /// What the last step has decided on pages that were taken: those that are freed stay taken until
    /// [`Self::collect`] hands them to the evictor, the others are given back.
    fn give_back_kept(&mut self, core: &mut Core, task: &Task) {
        for d in task.decided() {
            let Some(at) = self.unmapped.iter().position(|u| u.folio == d.folio) else {
                continue;
            };
            let u = self.unmapped.swap_remove(at);
            let last = || {
                let f = task.freed().last();
                f.is_some_and(|f| f.object == u.area.book().object && f.index as usize == u.page)
            };
            if !d.freed || plant::on(Plant::LastFreed) && !last() {
                core.policy.map(u.folio, true);
                u.area.words().filled(u.page, false);
            }
        }
    }

    /// The engine wants contents written before it gives a folio up.
    fn write(&mut self, core: &Core, folio: FolioId) -> Written {
        let f = core.policy.engine().folio(folio);
        let (object, page) = f.owner();
        if f.swap_slot().is_some() {
            self.write.push((object.0, page));
            Written::Submitted
        } else {
            // Files are the flusher's.
            self.flush = true;
            Written::Activate
        }
    }

    /// The engine has forgotten these.
    fn collect(&mut self, core: &mut Core, task: &Task) {
        let before = self.victims.len();
        for f in core.policy.collect(task) {
            let Some(area) = core.region(f.object) else {
                continue;
            };
            let page = f.index as usize;
            assert!(
                area.words().get(page).state() == PageState::Busy,
                "page {page} was given up without having been taken"
            );
            self.victims.push(Victim {
                area: area.clone(),
                page,
                slot: f.swap,
                must_write: self.write.contains(&(f.object.0, f.index)),
                shadow: f.shadow.map(|s| s.0),
            });
        }
        let taken = self.victims.len() - before;
        self.by.res.gate.leaving(taken as u64);
    }

    /// What has been collected leaves memory.
    fn evict_all(&mut self) {
        self.write.clear();
        if self.victims.is_empty() {
            return;
        }
        let victims = std::mem::take(&mut self.victims);
        self.by.sweeper.evicted(victims.len() as u64);
        let done = self.by.evictor.evict(victims, &mut self.left);
        if self.result.is_ok() {
            self.result = done;
        }
    }
}
