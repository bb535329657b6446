//! Allocation as a stepped decision (`docs/rules/zones.md`, `docs/rules/zones.md#direct-reclaim`): fast path, slow
//! path, retries and the road to the OOM killer. Compaction is not modelled.
//!
//! The host calls [`AllocTask::step`], does what it says, and calls again with the outcome, until
//! the step is `Got` or `Fail`.

use super::watermark::PAGEBLOCK;
use super::{Mark, ReserveRights, ZoneClass, ZoneList};
use crate::constants::{COSTLY_ORDER, MAX_RECLAIM_RETRIES};
use crate::ids::Pages;

/// Rights and wishes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocFlags {
    /// Highest zone class it may use.
    pub class: ZoneClass,
    /// It may sleep and reclaim.
    pub can_block: bool,
    /// High priority (GFP_HIGH).
    pub high: bool,
    /// It may enter a file system; else nothing is killed for it.
    pub fs: bool,
    /// Fail after one round of reclaim.
    pub noretry: bool,
    /// Try hard, but fail rather than kill.
    pub retry_mayfail: bool,
    /// Bound to one node; nothing is killed for it.
    pub this_node: bool,
    /// The task reclaims memory itself: it may use everything and must not reclaim again.
    pub reclaimer: bool,
}

impl AllocFlags {
    /// A user page: may block, may use every zone.
    pub const USER: Self = Self {
        class: ZoneClass::Movable,
        can_block: true,
        high: false,
        fs: true,
        noretry: false,
        retry_mayfail: false,
        this_node: false,
        reclaimer: false,
    };

    /// A kernel object: as a user page, but not in highmem or movable zones.
    pub const KERNEL: Self = Self {
        class: ZoneClass::Normal,
        ..Self::USER
    };

    /// A request from a context that cannot sleep.
    pub const ATOMIC: Self = Self {
        can_block: false,
        high: true,
        ..Self::KERNEL
    };
}

/// What became of the last step, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocInput {
    /// After `DirectReclaim`: pages of progress.
    pub progress: Pages,
    /// Another task is in the OOM killer.
    pub oom_busy: bool,
    /// After `Oom`: the killer made progress (a kill, or a victim that is still dying).
    pub oom_progress: bool,
    /// The task has been chosen by the OOM killer.
    pub oom_victim: bool,
}

/// What the host does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocStep {
    /// The block was taken from the zone at this position; the free count is already lower.
    Got(usize),
    /// Wake kswapd of every candidate node.
    WakeKswapd,
    /// Direct reclaim (through the reserve gate), target 32 pages.
    DirectReclaim,
    /// Empty the per-CPU lists into the zones.
    DrainPcp,
    /// Call the OOM killer.
    Oom,
    /// Sleep one tick.
    SleepTick,
    /// The request fails.
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AllocStage {
    Fast,
    /// No zone would do.
    Refused,
    /// First try at min, after kswapd was woken.
    Slow,
    /// Top of the retry loop: kswapd is woken again.
    Retry,
    Try,
    Reclaimed,
    Drained,
    OomCalled,
    Done(AllocStep),
}

/// An allocation under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocTask {
    order: u32,
    flags: AllocFlags,
    state: AllocStage,
    progressed: bool,
    no_progress: u32,
}

impl AllocTask {
    /// A request for `2^order` contiguous pages.
    pub fn new(order: u32, flags: AllocFlags) -> Self {
        Self {
            order,
            flags,
            state: AllocStage::Fast,
            progressed: false,
            no_progress: 0,
        }
    }

    /// The same, after the host has found no zone that will do for the first try.
    pub fn refused(order: u32, flags: AllocFlags) -> Self {
        Self {
            state: AllocStage::Refused,
            ..Self::new(order, flags)
        }
    }

    /// Fruitless reclaims in a row so far.
    pub fn no_progress(&self) -> u32 {
        self.no_progress
    }

    /// One step. `zones` have `reclaimable` up to date; the first that will do is taken.
    pub fn step(&mut self, zones: &mut ZoneList<'_>, input: AllocInput) -> AllocStep {
        let step = self.advance(zones, input);
        if matches!(step, AllocStep::Got(_) | AllocStep::Fail) {
            self.state = AllocStage::Done(step);
        }
        step
    }

    fn advance(&mut self, zones: &mut ZoneList<'_>, input: AllocInput) -> AllocStep {
        match self.state {
            AllocStage::Done(step) => step,
            AllocStage::Fast => match self.try_at(zones, Mark::Low, ReserveRights::default()) {
                Some(zone) => AllocStep::Got(zone),
                None => self.go(AllocStage::Slow, AllocStep::WakeKswapd),
            },
            AllocStage::Refused => self.go(AllocStage::Slow, AllocStep::WakeKswapd),
            AllocStage::Slow => match self.try_at(zones, Mark::Min, self.rights(input)) {
                Some(zone) => AllocStep::Got(zone),
                None => self.go(AllocStage::Try, AllocStep::WakeKswapd),
            },
            AllocStage::Retry => self.go(AllocStage::Try, AllocStep::WakeKswapd),
            AllocStage::Try => {
                let mark = if self.flags.reclaimer {
                    Mark::None
                } else {
                    Mark::Min
                };
                match self.try_at(zones, mark, self.rights(input)) {
                    Some(zone) => AllocStep::Got(zone),
                    None if !self.flags.can_block || self.flags.reclaimer => AllocStep::Fail,
                    None => self.go(AllocStage::Reclaimed, AllocStep::DirectReclaim),
                }
            }
            AllocStage::Reclaimed => {
                self.progressed = input.progress > 0;
                if !self.progressed {
                    return self.judge(zones, input);
                }
                match self.try_at(zones, Mark::Min, self.rights(input)) {
                    Some(zone) => AllocStep::Got(zone),
                    None => {
                        unreserve_all(zones);
                        self.go(AllocStage::Drained, AllocStep::DrainPcp)
                    }
                }
            }
            AllocStage::Drained => match self.try_at(zones, Mark::Min, self.rights(input)) {
                Some(zone) => AllocStep::Got(zone),
                None => self.judge(zones, input),
            },
            AllocStage::OomCalled if input.oom_progress => {
                self.no_progress = 0;
                self.go(AllocStage::Try, AllocStep::WakeKswapd)
            }
            AllocStage::OomCalled => AllocStep::Fail,
        }
    }

    /// After reclaim that did not help: fail, retry, or the OOM killer.
    fn judge(&mut self, zones: &mut ZoneList<'_>, input: AllocInput) -> AllocStep {
        let costly = self.order > COSTLY_ORDER;
        if self.flags.noretry || (costly && !self.flags.retry_mayfail) {
            return AllocStep::Fail;
        }
        if self.progressed && !costly {
            self.no_progress = 0;
        } else {
            self.no_progress += 1;
        }
        let retry = if self.no_progress > MAX_RECLAIM_RETRIES {
            unreserve_all(zones)
        } else {
            let rights = self.rights(input);
            let class = self.flags.class;
            let could = zones.find(|z| z.class <= class && z.could_meet(self.order, rights, class));
            could.is_some()
        };
        if retry {
            return self.go(AllocStage::Try, AllocStep::WakeKswapd);
        }
        self.out_of_memory(zones, input)
    }

    fn out_of_memory(&mut self, zones: &mut ZoneList<'_>, input: AllocInput) -> AllocStep {
        if input.oom_busy {
            // Another task is killing: that is progress.
            self.no_progress = 0;
            return self.go(AllocStage::Retry, AllocStep::SleepTick);
        }
        // Memory may have come free meanwhile; the high mark tells a real rescue from a drip.
        if let Some(zone) = self.try_at(zones, Mark::High, ReserveRights::default()) {
            return AllocStep::Got(zone);
        }
        let f = &self.flags;
        let no_kill = self.order > COSTLY_ORDER
            || f.retry_mayfail
            || f.this_node
            || f.class < ZoneClass::Normal;
        if no_kill {
            return AllocStep::Fail;
        }
        if !f.fs {
            // Pretended success: a kill might be needless, others can still reclaim.
            self.no_progress = 0;
            return self.go(AllocStage::Try, AllocStep::WakeKswapd);
        }
        self.go(AllocStage::OomCalled, AllocStep::Oom)
    }

    fn go(&mut self, state: AllocStage, step: AllocStep) -> AllocStep {
        self.state = state;
        step
    }

    fn rights(&self, input: AllocInput) -> ReserveRights {
        ReserveRights {
            high: self.flags.high,
            atomic: !self.flags.can_block,
            oom_victim: input.oom_victim,
        }
    }

    fn try_at(&self, zones: &mut ZoneList<'_>, mark: Mark, rights: ReserveRights) -> Option<usize> {
        let class = self.flags.class;
        zones.find(|z| {
            let usable = z.class <= class && z.managed > 0;
            let ok = match mark {
                // Privileged: every free page, whatever is held back.
                Mark::None => self.order == 0 || z.largest_free_order >= self.order,
                _ => z.ok(self.order, mark, rights, class),
            };
            usable && ok && z.take(self.order)
        })
    }
}

/// Every zone gives up a block of its atomic reserve; true if any had one.
fn unreserve_all(zones: &mut ZoneList<'_>) -> bool {
    let mut any = false;
    zones.for_each(|z| any |= z.unreserve_highatomic(PAGEBLOCK));
    any
}

#[cfg(test)]
#[path = "alloc_tests.rs"]
mod tests;
