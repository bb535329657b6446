//! What must hold of an operation before the engine is told: it asserts, and counts on being told the
//! truth, and a journal may say anything.

use super::run::Replay;
use super::wait::Wait;
use crate::policy::{Book, Fed};
use crate::record::ops::Op;
use coldset_engine::reclaim::Answer;
use coldset_engine::{Flags, Folio, FolioId, MemcgId, ObjectId};
use std::sync::Arc;

/// Pages that a number can mean: 2^32 of a region, more of what is charged.
const REGION_MAX: u64 = 1 << 32;
const PAGES_MAX: u64 = 1 << 44;
/// Tasks under way at a time.
const TASKS_MAX: usize = 1 << 16;

type Fit = Result<(), String>;

fn sure(holds: bool, what: impl FnOnce() -> String) -> Fit {
    if holds {
        Ok(())
    } else {
        Err(what())
    }
}

impl Replay {
    /// Why the operation cannot have been told to an engine in this state, if that can be seen.
    /// Names that are unknown are looked up where they are used: there another engine is as likely.
    pub(super) fn fits(&self, op: Op) -> Fit {
        let few = |n: u64| sure(n <= PAGES_MAX, || format!("{n} pages are too many"));
        match op {
            Op::Now(ns) => sure(
                self.now.checked_add(ns).is_some_and(|t| t < u64::MAX / 2),
                || "the time is too large".into(),
            ),
            Op::Room(pages)
            | Op::Charge(_, pages)
            | Op::ChargeOn(_, _, pages, _)
            | Op::High(_, _, pages)
            | Op::Reclaim(_, _, pages, _) => {
                self.few_tasks()?;
                few(pages)
            }
            Op::Limit(..) => self.few_tasks(),
            Op::LimitStep(task, fed) => fed_as_asked(self.limits.get(&task).map(|l| l.1), fed),
            Op::ChargeStep(task, fed) => fed_as_asked(self.charges.get(&task).map(|c| c.1), fed),
            Op::HighStep(task, fed) => fed_as_asked(self.highs.get(&task).map(|h| h.1), fed),
            Op::Uncharge(group, pages) => {
                let used = self.known_group(group).map(|id| {
                    let tree = &self.policy.engine().memcgs;
                    tree[id].memory().usage()
                });
                sure(used.is_none_or(|used| pages <= used), || {
                    format!("{pages} pages go from a group with fewer")
                })
            }
            Op::Open(_, pages, _) => sure(pages <= REGION_MAX, || {
                format!("a region of {pages} pages is too large")
            }),
            Op::Insert(region, page, _) => self.absent(region, page),
            Op::Left(region, page, _, slot, _) => {
                slot.map_or(Ok(()), |slot| self.used(slot))?;
                self.absent(region, page)
            }
            Op::Step(task, answer) => {
                if let Some(Answer::Slot(Some(slot))) = answer {
                    self.used(slot)?;
                }
                let wait = self.waits.get(&task).copied();
                told_as_asked(wait, Wait::of_answer(answer))
            }
            Op::Map(folio, false) => self.with_folio(folio, |f| f.mapped(), "is not mapped"),
            Op::WritebackStart(folio) => {
                self.with_folio(folio, |f| !f.has(Flags::WRITEBACK), "is under writeback")
            }
            Op::WritebackEnd(folio, _) => {
                self.with_folio(folio, |f| f.has(Flags::WRITEBACK), "is not under writeback")
            }
            Op::FreeSlot(slot) => self.used(slot),
            Op::NeighboursDone(_, _, pages, young) | Op::WalkBlock(_, _, pages, young) => {
                few(pages)?;
                few(young)
            }
            _ => Ok(()),
        }
    }

    /// The group, if there is one: those above the pool's are not for its regions.
    pub(super) fn known_group(&self, id: MemcgId) -> Option<MemcgId> {
        let exists = self.policy.engine().memcgs.exists(id);
        (exists && id >= self.policy.top).then_some(id)
    }

    /// The folio, if there is one.
    pub(super) fn known_folio(&self, id: FolioId) -> Option<FolioId> {
        let engine = self.policy.engine();
        let live = id.idx() < engine.folio_records() && !engine.folio(id).has(Flags::DEAD);
        live.then_some(id)
    }

    /// The book of a page that there is.
    pub(super) fn known_book(&self, region: ObjectId, page: u64) -> Option<Arc<Book>> {
        let book = self.policy.book(region);
        book.filter(|b| page < b.pages() as u64)
    }

    fn few_tasks(&self) -> Fit {
        let all = self.reclaims.len() + self.charges.len() + self.highs.len() + self.limits.len();
        sure(all < TASKS_MAX, || format!("{all} tasks are under way"))
    }

    /// The page is not in memory.
    fn absent(&self, region: ObjectId, page: u64) -> Fit {
        let book = self.known_book(region, page);
        let there = book.is_some_and(|b| b.folio(page as usize).is_some());
        sure(!there, || {
            format!("page {page} of region {} is in memory already", region.0)
        })
    }

    /// The slot is taken.
    fn used(&self, slot: u32) -> Fit {
        let used = self.policy.is_slot_used(slot);
        sure(used, || format!("slot {slot} is free"))
    }

    fn with_folio(&self, id: FolioId, holds: impl FnOnce(&Folio) -> bool, not: &str) -> Fit {
        let folio = self
            .known_folio(id)
            .map(|id| self.policy.engine().folio(id));
        sure(folio.is_none_or(holds), || format!("folio {} {not}", id.0))
    }
}

fn told_as_asked(wait: Option<Wait>, told: Wait) -> Fit {
    sure(wait.is_none_or(|w| w == told), || {
        format!("it is told {told:?} and waits for {wait:?}")
    })
}

fn fed_as_asked(wait: Option<Wait>, fed: Option<Fed>) -> Fit {
    match fed {
        Some(Fed::Reclaimed(n)) if n > PAGES_MAX => Err(format!("{n} pages are too many")),
        Some(Fed::Reclaimed(_)) => told_as_asked(wait, Wait::Reclaimed),
        Some(Fed::Oom(_)) => told_as_asked(wait, Wait::Oom),
        None => Ok(()),
    }
}
