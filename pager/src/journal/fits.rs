//! What must hold of an operation before the engine is told: it asserts, and counts on being told the
//! truth, and a journal may say anything.

use super::replay::Replay;
use super::{unpack_answer, Op};
use crate::policy::{Book, Fed};
use coldset_engine::memcg::{ChargeStep, HighStep, WriteStep};
use coldset_engine::reclaim::{Answer, Work};
use coldset_engine::{Flags, FolioId, MemcgId, ObjectId};
use std::sync::Arc;

/// Pages that a number can mean: 2^32 of a region, more of what is charged.
const REGION_MAX: u64 = 1 << 32;
const PAGES_MAX: u64 = 1 << 44;
/// Tasks under way at a time.
const TASKS_MAX: usize = 1 << 16;

/// What a task waits to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Nothing.
    Nothing,
    References,
    Walked,
    Unmapped,
    Written,
    Slot,
    Slab,
    Reclaimed,
    Oom,
}

impl Wait {
    pub(super) fn of_work(work: &Work) -> Self {
        match work {
            Work::Test { .. } => Self::References,
            Work::Walk(_) => Self::Walked,
            Work::Unmap { .. } => Self::Unmapped,
            Work::Write { .. } => Self::Written,
            Work::AllocSwap { .. } => Self::Slot,
            Work::Slab { .. } => Self::Slab,
            _ => Self::Nothing,
        }
    }

    fn of_answer(answer: Option<&Answer>) -> Self {
        match answer {
            Some(Answer::References(_)) => Self::References,
            Some(Answer::Walked { .. }) => Self::Walked,
            Some(Answer::Unmapped { .. }) => Self::Unmapped,
            Some(Answer::Written(_)) => Self::Written,
            Some(Answer::Slot(_)) => Self::Slot,
            Some(Answer::Slab(_)) => Self::Slab,
            _ => Self::Nothing,
        }
    }

    /// None: the charge has ended.
    pub(super) fn of_charge(step: &ChargeStep) -> Option<Self> {
        match step {
            ChargeStep::Reclaim { .. } => Some(Self::Reclaimed),
            ChargeStep::Oom { .. } => Some(Self::Oom),
            ChargeStep::Done(_) => None,
        }
    }

    /// None: it has ended.
    pub(super) fn of_high(step: &HighStep) -> Option<Self> {
        match step {
            HighStep::Reclaim { .. } => Some(Self::Reclaimed),
            HighStep::Sleep { .. } => Some(Self::Nothing),
            HighStep::Done => None,
        }
    }

    /// None: the write has ended.
    pub(super) fn of_limit(step: &WriteStep) -> Option<Self> {
        match step {
            WriteStep::Reclaim { .. } => Some(Self::Reclaimed),
            WriteStep::Oom { .. } => Some(Self::Oom),
            WriteStep::DrainLruBatches => Some(Self::Nothing),
            WriteStep::Done(_) => None,
        }
    }
}

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
    pub(super) fn fits(&self, op: Op, a: &[u64]) -> Fit {
        let pages = |n: u64| sure(n <= PAGES_MAX, || format!("{n} pages are too many"));
        match op {
            Op::Now => sure(
                self.now.checked_add(a[0]).is_some_and(|t| t < u64::MAX / 2),
                || "the time is too large".into(),
            ),
            Op::Room | Op::Charge | Op::ChargeOn | Op::High | Op::Reclaim => {
                let at = match op {
                    Op::Room => 0,
                    Op::Charge => 1,
                    _ => 2,
                };
                self.few_tasks()?;
                pages(a[at])
            }
            Op::Limit => self.few_tasks(),
            Op::LimitStep => self.fed(self.limits.get(&a[0]).map(|l| l.1), a[1]),
            Op::ChargeStep => self.fed(self.charges.get(&a[0]).map(|c| c.1), a[1]),
            Op::HighStep => self.fed(self.highs.get(&a[0]).map(|h| h.1), a[1]),
            Op::Uncharge => {
                let used = self.known_group(a[0]).map(|id| {
                    let tree = &self.policy.engine().memcgs;
                    tree[id].memory().usage()
                });
                sure(used.is_none_or(|used| a[1] <= used), || {
                    format!("{} pages go from a group with fewer", a[1])
                })
            }
            Op::Open => sure(a[1] <= REGION_MAX, || {
                format!("a region of {} pages is too large", a[1])
            }),
            Op::Insert => self.absent(a[0], a[1]),
            Op::Left => {
                if let Some(slot) = a[3].checked_sub(1) {
                    self.used(slot)?;
                }
                self.absent(a[0], a[1])
            }
            Op::Step => {
                let Some(Some(answer)) = unpack_answer(a[1], a[2]).map(Some) else {
                    return Err("an unknown answer".into());
                };
                if let Some(Answer::Slot(Some(slot))) = answer {
                    self.used(slot.into())?;
                }
                let told = Wait::of_answer(answer.as_ref());
                let wait = self.waits.get(&a[0]).copied();
                sure(wait.is_none_or(|w| w == told), || {
                    format!("it is told {told:?} and waits for {wait:?}")
                })
            }
            Op::Map if a[1] != 1 => self.with_folio(a[0], |f| f.mapped(), "is not mapped"),
            Op::WritebackStart => {
                self.with_folio(a[0], |f| !f.has(Flags::WRITEBACK), "is under writeback")
            }
            Op::WritebackEnd => {
                self.with_folio(a[0], |f| f.has(Flags::WRITEBACK), "is not under writeback")
            }
            Op::FreeSlot => self.used(a[0]),
            Op::NeighboursDone | Op::WalkBlock => {
                pages(a[2])?;
                pages(a[3])
            }
            _ => Ok(()),
        }
    }

    /// The group of a number, if there is one: those above the pool's are not for its regions.
    pub(super) fn known_group(&self, id: u64) -> Option<MemcgId> {
        let id = MemcgId(u32::try_from(id).ok()?);
        let exists = self.policy.engine().memcgs.exists(id);
        (exists && id >= self.policy.top).then_some(id)
    }

    /// The folio of a number, if there is one.
    pub(super) fn known_folio(&self, id: u64) -> Option<FolioId> {
        let (engine, id) = (self.policy.engine(), FolioId(u32::try_from(id).ok()?));
        let live = id.idx() < engine.folio_records() && !engine.folio(id).has(Flags::DEAD);
        live.then_some(id)
    }

    /// The book of a page that there is.
    pub(super) fn known_book(&self, object: u64, page: u64) -> Option<Arc<Book>> {
        let book = self.policy.book(ObjectId(u32::try_from(object).ok()?));
        book.filter(|b| page < b.pages() as u64)
    }

    fn few_tasks(&self) -> Fit {
        let all = self.reclaims.len() + self.charges.len() + self.highs.len() + self.limits.len();
        sure(all < TASKS_MAX, || format!("{all} tasks are under way"))
    }

    fn fed(&self, wait: Option<Wait>, fed: u64) -> Fit {
        let told = match Fed::unpack(fed) {
            Some(Fed::Reclaimed(n)) if n > PAGES_MAX => {
                return Err(format!("{n} pages are too many"));
            }
            Some(Fed::Reclaimed(_)) => Wait::Reclaimed,
            Some(Fed::Oom(_)) => Wait::Oom,
            None => return Ok(()),
        };
        sure(wait.is_none_or(|w| w == told), || {
            format!("it is told {told:?} and waits for {wait:?}")
        })
    }

    /// The page is not in memory.
    fn absent(&self, object: u64, page: u64) -> Fit {
        let book = self.known_book(object, page);
        let there = book.is_some_and(|b| b.folio(page as usize).is_some());
        sure(!there, || {
            format!("page {page} of region {object} is in memory already")
        })
    }

    /// The slot is taken.
    fn used(&self, slot: u64) -> Fit {
        let used = u32::try_from(slot).is_ok_and(|slot| self.policy.is_slot_used(slot));
        sure(used, || format!("slot {slot} is free"))
    }

    fn with_folio(
        &self,
        id: u64,
        holds: impl FnOnce(&coldset_engine::Folio) -> bool,
        not: &str,
    ) -> Fit {
        let folio = self
            .known_folio(id)
            .map(|id| self.policy.engine().folio(id));
        sure(folio.is_none_or(holds), || format!("folio {id} {not}"))
    }
}
