//! The charge path (`docs/rules/memcg.md#charging`): stock, batch, and the loop that reclaims at a limit, as a task
//! that is stepped.

use super::counter::CounterKind;
use super::tree::MemcgTree;
use super::{CHARGE_BATCH, COSTLY_ORDER, MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use crate::counters::Counter;
use crate::ids::{MemcgId, Pages};

bitflags::bitflags! {
    /// What the charging context may do and is.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct ChargeFlags: u16 {
        /// May sleep, hence may reclaim.
        const CAN_BLOCK = 1 << 0;
        /// Gives up, even with progress, if there is no room after a drain of the stocks and one more reclaim.
        const NORETRY = 1 << 1;
        /// Retries, but fails rather than kill.
        const RETRY_MAYFAIL = 1 << 2;
        /// Must succeed: exceeds the limit in the end.
        const NOFAIL = 1 << 3;
        /// May exceed the limit instead of failing (high priority allocation).
        const HIGH = 1 << 4;
        /// Runs inside reclaim: exceeds the limit at once, to avoid recursion.
        const RECLAIMER = 1 << 5;
        /// The task is being killed.
        const DYING = 1 << 6;
        /// The task is an OOM victim whose memory has been reaped already.
        const REAPED = 1 << 7;
        /// The task already waits for a v1 OOM to end.
        const V1_OOM_WAIT = 1 << 8;
        /// Interrupt context: memory.high is handled by a worker.
        const INTERRUPT = 1 << 9;
        /// An ordinary page fault or read.
        const USER = Self::CAN_BLOCK.bits();
    }
}

/// What a task carries from charge to charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskMemcg {
    /// Pages charged above memory.high or swap.high since the last return to user space. Not zero:
    /// run a [`super::HighTask`] on the way back to user space.
    pub over_high: Pages,
}

impl TaskMemcg {
    /// So much above that a task that may block runs a [`super::HighTask`] at once, before it returns to user space.
    #[inline]
    pub fn far_above(self) -> bool {
        self.over_high > CHARGE_BATCH
    }
}

/// A charge that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// The limit was exceeded to satisfy it.
    pub forced: bool,
    /// Much has been charged above memory.high: run a [`super::HighTask`] now, not only on return
    /// to user space.
    pub handle_high: bool,
    /// Interrupt context met this memcg above its high mark: run [`super::HighTask::worker`] for it.
    pub high_work: Option<MemcgId>,
}

/// A charge that failed (ENOMEM). Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memcg {}: {pages} pages do not fit under the limit of memcg {}; raise its memory.max or free memory",
    .memcg.0, .over.0
)]
pub struct ChargeError {
    /// The memcg that asked for the pages.
    pub memcg: MemcgId,
    /// The memcg whose limit refused.
    pub over: MemcgId,
    /// Size of the charge.
    pub pages: Pages,
}

/// What a charge needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeStep {
    /// Reclaim from `over`, target `nr` pages, swap allowed; then [`ChargeTask::reclaim_done`].
    Reclaim {
        /// The memcg at its limit.
        over: MemcgId,
        /// Target, already at least 32.
        nr: Pages,
    },
    /// Invoke the OOM killer for `over` (event OOM is counted); then [`ChargeTask::oom_done`].
    Oom {
        /// The memcg at its limit.
        over: MemcgId,
        /// Order of the charge.
        order: u32,
    },
    /// The task has ended, with this result.
    Done(Result<Charged, ChargeError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChargeStage {
    Try,
    /// Every attempt of this pass was refused by `over`.
    Refused(MemcgId),
    Reclaiming(MemcgId),
    Reclaimed(MemcgId, Pages),
    Killing(MemcgId),
    Killed(MemcgId, bool),
    Done(Result<Charged, ChargeError>),
}

/// One charge in progress. The memcg must exist until the task is done ([`MemcgTree::hold`] it if no
/// task lives in it).
#[derive(Clone, Debug)]
pub struct ChargeTask {
    id: MemcgId,
    n: Pages,
    flags: ChargeFlags,
    batch: Pages,
    retries: u32,
    drained: bool,
    raised: bool,
    passed_oom: bool,
    state: ChargeStage,
}

/// Smallest order whose folio holds `n` pages.
fn order_of(n: Pages) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros()
}

impl ChargeTask {
    /// A charge of `n` pages to `id`, from the start.
    pub fn new(id: MemcgId, n: Pages, flags: ChargeFlags) -> Self {
        Self {
            id,
            n,
            flags,
            batch: n.max(CHARGE_BATCH),
            retries: MAX_RECLAIM_RETRIES,
            drained: false,
            raised: false,
            passed_oom: false,
            state: ChargeStage::Try,
        }
    }

    /// The continuation of a [`MemcgTree::try_charge_fast`] that `over` refused.
    pub fn refused(id: MemcgId, n: Pages, flags: ChargeFlags, over: MemcgId) -> Self {
        Self {
            batch: n,
            state: ChargeStage::Refused(over),
            ..Self::new(id, n, flags)
        }
    }

    /// Tells whether the task has been killed meanwhile.
    pub fn set_dying(&mut self, dying: bool) {
        self.flags.set(ChargeFlags::DYING, dying);
    }

    /// Answers [`ChargeStep::Reclaim`] with the number of pages freed.
    pub fn reclaim_done(&mut self, nr_reclaimed: Pages) {
        match self.state {
            ChargeStage::Reclaiming(over) => {
                self.state = ChargeStage::Reclaimed(over, nr_reclaimed)
            }
            _ => panic!("reclaim_done without a reclaim request"),
        }
    }

    /// Answers [`ChargeStep::Oom`]: true if something was killed, is dying already, or the margin
    /// appeared by itself.
    pub fn oom_done(&mut self, killed: bool) {
        match self.state {
            ChargeStage::Killing(over) => self.state = ChargeStage::Killed(over, killed),
            _ => panic!("oom_done without an OOM request"),
        }
    }

    /// Continues until something must happen outside. Bounded: at most a few counter updates and one
    /// drain of the stocks. An unanswered request is repeated.
    pub fn step(&mut self, tree: &mut MemcgTree, cpu: usize, task: &mut TaskMemcg) -> ChargeStep {
        loop {
            match self.state {
                ChargeStage::Try => self.try_once(tree, cpu, task),
                ChargeStage::Refused(over) => self.on_refused(tree, over),
                ChargeStage::Reclaimed(over, nr) => self.on_reclaimed(tree, over, nr),
                ChargeStage::Killed(_, true) => {
                    self.passed_oom = true;
                    self.retries = MAX_RECLAIM_RETRIES;
                    self.state = ChargeStage::Try;
                }
                ChargeStage::Killed(over, false) => self.nomem(tree, over),
                ChargeStage::Reclaiming(over) => {
                    let nr = self.n.max(SWAP_CLUSTER_MAX);
                    return ChargeStep::Reclaim { over, nr };
                }
                ChargeStage::Killing(over) => {
                    let order = order_of(self.n);
                    return ChargeStep::Oom { over, order };
                }
                ChargeStage::Done(result) => return ChargeStep::Done(result),
            }
        }
    }

    fn try_once(&mut self, tree: &mut MemcgTree, cpu: usize, task: &mut TaskMemcg) {
        if self.id == MemcgId::ROOT || tree.consume_stock(cpu, self.id, self.n) {
            self.state = ChargeStage::Done(Ok(Charged::default()));
            return;
        }
        match tree.try_charge(self.id, CounterKind::Memory, self.batch) {
            Ok(()) => {
                let high = tree.restock(self.id, self.n, self.batch, cpu);
                let mut charged = Charged::default();
                if self.flags.contains(ChargeFlags::INTERRUPT) {
                    charged.high_work = high;
                } else if high.is_some() {
                    task.over_high += self.batch;
                }
                charged.handle_high = task.far_above()
                    && self.flags.contains(ChargeFlags::CAN_BLOCK)
                    && !self.flags.contains(ChargeFlags::RECLAIMER);
                self.state = ChargeStage::Done(Ok(charged));
            }
            Err(_) if self.batch > self.n => self.batch = self.n,
            Err(over) => self.state = ChargeStage::Refused(over),
        }
    }

    fn on_refused(&mut self, tree: &mut MemcgTree, over: MemcgId) {
        let hopeless = ChargeFlags::V1_OOM_WAIT | ChargeFlags::REAPED;
        if self.flags.contains(ChargeFlags::RECLAIMER) {
            self.force(tree, over);
        } else if !self.flags.contains(ChargeFlags::CAN_BLOCK) || self.flags.intersects(hopeless) {
            self.nomem(tree, over);
        } else {
            tree.event(over, Counter::EventsMax);
            self.raised = true;
            self.state = ChargeStage::Reclaiming(over);
        }
    }

    fn on_reclaimed(&mut self, tree: &mut MemcgTree, over: MemcgId, nr: Pages) {
        self.state = ChargeStage::Try;
        if tree[over].memory.margin() >= self.n {
            return;
        }
        if !self.drained {
            tree.drain_stocks(over);
            self.drained = true;
            return;
        }
        if self.flags.contains(ChargeFlags::NORETRY) {
            return self.nomem(tree, over);
        }
        if nr > 0 && self.n <= 1 << COSTLY_ORDER {
            return;
        }
        if self.retries > 0 {
            self.retries -= 1;
            return;
        }
        let dying = self.passed_oom && self.flags.contains(ChargeFlags::DYING);
        let too_large = order_of(self.n) > COSTLY_ORDER;
        if self.flags.contains(ChargeFlags::RETRY_MAYFAIL) || dying || too_large {
            return self.nomem(tree, over);
        }
        tree.event(over, Counter::EventsOom);
        self.state = ChargeStage::Killing(over);
    }

    fn nomem(&mut self, tree: &mut MemcgTree, over: MemcgId) {
        if self
            .flags
            .intersects(ChargeFlags::NOFAIL | ChargeFlags::HIGH)
        {
            return self.force(tree, over);
        }
        self.state = ChargeStage::Done(Err(ChargeError {
            memcg: self.id,
            over,
            pages: self.n,
        }));
    }

    fn force(&mut self, tree: &mut MemcgTree, over: MemcgId) {
        if !self.raised {
            tree.event(over, Counter::EventsMax);
        }
        tree.charge_forced(self.id, CounterKind::Memory, self.n);
        self.state = ChargeStage::Done(Ok(Charged {
            forced: true,
            ..Charged::default()
        }));
    }
}

impl MemcgTree {
    /// The charge without reclaim: from the CPU's stock, else a batch of 64 that refills it, else
    /// the bare `n`. On refusal go on with [`ChargeTask::refused`]. After success look at
    /// `task`: if it is [`TaskMemcg::far_above`], a context that may block runs a [`super::HighTask`] at once.
    #[inline]
    pub fn try_charge_fast(
        &mut self,
        id: MemcgId,
        n: Pages,
        cpu: usize,
        task: &mut TaskMemcg,
    ) -> Result<(), MemcgId> {
        if self.consume_stock(cpu, id, n) || id == MemcgId::ROOT {
            return Ok(());
        }
        self.charge_batch(id, n, cpu, task)
    }

    #[inline(never)]
    fn charge_batch(
        &mut self,
        id: MemcgId,
        n: Pages,
        cpu: usize,
        task: &mut TaskMemcg,
    ) -> Result<(), MemcgId> {
        let mut batch = n.max(CHARGE_BATCH);
        if let Err(over) = self.try_charge(id, CounterKind::Memory, batch) {
            if batch == n {
                return Err(over);
            }
            batch = n;
            self.try_charge(id, CounterKind::Memory, batch)?;
        }
        if self.restock(id, n, batch, cpu).is_some() {
            task.over_high += batch;
        }
        Ok(())
    }

    /// Puts what a batch has left into the stock; returns the lowest ancestor above its memory.high
    /// or swap.high.
    fn restock(&mut self, id: MemcgId, n: Pages, batch: Pages, cpu: usize) -> Option<MemcgId> {
        if batch > n {
            self.refill_stock(cpu, id, batch - n);
        }
        self.ancestors(id).find(|&k| {
            let m = &self[k];
            m.memory.usage > m.memory.high || m.swap.usage > m.swap.high
        })
    }

    /// Takes `n` freed pages off the memory counters; they do not go back to a stock.
    #[inline]
    pub fn uncharge(&mut self, id: MemcgId, n: Pages) {
        self.uncharge_counter(id, CounterKind::Memory, n);
    }
}
