//! The context of one simulated task: its address space, its memcg and its time.
//!
//! A task runs either on the executor, where it competes for CPUs and really waits, or inline: a
//! replay of a trace with a single thread of control, whose clock simply adds up.

use crate::sim::{Task, TimeClass};
use crate::tlb::TlbBatch;
use coldset_engine::memcg::TaskMemcg;
use coldset_engine::writeback::TaskDirty;
use coldset_engine::{MemcgId, MmId, NodeId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// How an inline task's clock moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InlineClock {
    /// Work and I/O take the time they cost.
    Running,
    /// The time is set from outside before each operation, as that of a recording, and says when it begins at the earliest.
    /// Work takes the time it costs and sleeps last as long as they do, so an operation that is held up delays those
    /// after it, and meanwhile the rest of the machine goes on: what it waits for can happen.
    Paced {
        /// Reads take the time of the device, which is that of the recording. Without, they take none, because the
        /// times of the recording contain those of its own device.
        reads: bool,
    },
    /// The time is set from outside; work and I/O take none.
    External,
}

/// Whose memory a task may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    /// That of this node first.
    pub(crate) node: NodeId,
    /// And of no other.
    pub(crate) bound: bool,
}

/// A task as the machine sees it.
pub struct Ctx {
    task: Option<Task>,
    /// Its address space.
    pub mm: MmId,
    /// The memcg it is charged to.
    pub memcg: MemcgId,
    /// The node it is bound to, if any.
    node: Option<NodeId>,
    inline: InlineClock,
    clock: Cell<u64>,
    /// Of its time, what it has worked; kept for inline tasks.
    worked: Cell<u64>,
    /// Of its time, how long it was stopped at dirty limits; kept for inline tasks.
    stopped: Cell<u64>,
    /// Of its time, how long it has waited for reads of files; kept for inline tasks.
    reading: Cell<u64>,
    /// Of its time, how long it has waited for anything, for who gives it the time; kept for inline tasks.
    asleep: Cell<u64>,
    /// The same, for who lets it pass in the machine.
    waited: Cell<u64>,
    /// Memory above memory.high.
    pub(crate) over_high: RefCell<TaskMemcg>,
    /// Dirty throttling.
    pub(crate) dirty: RefCell<TaskDirty>,
    /// Pages it has dirtied since its last look at the dirty limits.
    pub(crate) newly_dirtied: Cell<u64>,
    /// TLB flushes deferred by its reclaim.
    pub(crate) tlb: RefCell<TlbBatch>,
    /// Killed by the OOM killer.
    pub(crate) killed: Rc<Cell<bool>>,
}

impl Ctx {
    /// A task of the executor. Call from inside it.
    pub fn of_task(task: Task, mm: MmId, memcg: MemcgId) -> Self {
        Self::new(Some(task), mm, memcg, InlineClock::Running)
    }

    /// An inline task.
    pub fn inline(mm: MmId, memcg: MemcgId, clock: InlineClock) -> Self {
        Self::new(None, mm, memcg, clock)
    }

    fn new(task: Option<Task>, mm: MmId, memcg: MemcgId, inline: InlineClock) -> Self {
        Self {
            task,
            mm,
            memcg,
            node: None,
            inline,
            clock: Cell::new(0),
            worked: Cell::new(0),
            stopped: Cell::new(0),
            reading: Cell::new(0),
            asleep: Cell::new(0),
            waited: Cell::new(0),
            over_high: RefCell::default(),
            dirty: RefCell::default(),
            newly_dirtied: Cell::new(0),
            tlb: RefCell::default(),
            killed: Rc::default(),
        }
    }

    /// The executor's task, unless inline.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// Its own time, ns: ahead of the simulation's by what it has charged.
    #[inline]
    pub fn now(&self) -> u64 {
        match &self.task {
            Some(t) => t.local_now(),
            None => self.clock.get(),
        }
    }

    /// Tells an inline task the time; never backwards.
    #[inline]
    pub fn set_clock(&self, now: u64) {
        self.clock.set(self.clock.get().max(now));
    }

    /// Its CPU.
    #[inline]
    pub fn cpu(&self) -> u16 {
        self.task.as_ref().map_or(0, Task::cpu)
    }

    /// Binds it to a node: its memory comes from there, and from no other.
    pub fn bind(&mut self, node: NodeId) {
        self.node = Some(node);
    }

    /// The node that its memory comes from first: that of its CPU, unless it is bound to another.
    #[inline]
    pub fn node(&self) -> NodeId {
        self.node.unwrap_or_else(|| self.node_of_cpu())
    }

    /// The node of its CPU. kswapd of a node without CPUs has another one's.
    #[inline]
    pub(crate) fn node_of_cpu(&self) -> NodeId {
        NodeId(self.task.as_ref().map_or(0, Task::node).into())
    }

    /// Whose memory it may have.
    #[inline]
    pub(crate) fn reach(&self) -> Reach {
        Reach {
            node: self.node(),
            bound: self.node.is_some(),
        }
    }

    /// True once the OOM killer has chosen it.
    pub fn killed(&self) -> bool {
        self.killed.get()
    }

    /// True if it has something to do on its return to user space, because it has charged memory above memory.high.
    #[inline]
    pub(crate) fn is_above_high(&self) -> bool {
        self.over_high.borrow().over_high > 0
    }

    /// Charges CPU time to the task.
    #[inline]
    pub fn charge(&self, class: TimeClass, ns: u64) {
        match &self.task {
            Some(t) => t.charge_as(class, ns),
            None => match self.inline {
                InlineClock::Running | InlineClock::Paced { .. } => {
                    self.clock.set(self.clock.get() + ns);
                    self.worked.set(self.worked.get() + ns);
                }
                InlineClock::External => {}
            },
        }
    }

    /// An inline task whose clock its own work moves.
    #[inline]
    pub(crate) fn has_clock(&self) -> bool {
        self.task.is_none() && self.inline != InlineClock::External
    }

    /// A quantum or more has been charged that has not occupied the CPU yet. Never true inline.
    #[inline]
    pub fn settle_due(&self) -> bool {
        self.task.as_ref().is_some_and(Task::settle_due)
    }

    /// Occupies the CPU for what has been charged, if that is a quantum or more. For an inline task the
    /// rest of the machine catches up (writes end).
    #[inline]
    pub async fn maybe_settle(&self) {
        match &self.task {
            Some(t) if t.settle_due() => t.settle().await,
            Some(_) => {}
            None if self.has_clock() => PendingOnce(false).await,
            None => {}
        }
    }

    /// As [`Self::maybe_settle`], with preemption off: the task keeps its CPU until the time is over.
    pub(crate) async fn maybe_settle_held(&self) {
        match &self.task {
            Some(t) if t.settle_due() => {
                t.hold_cpu(true);
                t.settle().await;
                t.hold_cpu(false);
            }
            _ => self.maybe_settle().await,
        }
    }

    /// Waits for a device. An inline task only moves its clock: it would notice nothing else.
    #[inline]
    pub async fn io_until(&self, t: u64) {
        match &self.task {
            Some(task) => task.sleep_until_as(TimeClass::IoWait, t).await,
            None => self.io_done(t),
        }
    }

    /// It waits for a read of a file until `t`.
    #[inline]
    pub(crate) fn reads_until(&self, t: u64) {
        let ns = t.saturating_sub(self.now());
        self.reading.set(self.reading.get() + ns);
    }

    /// How long it has waited for reads of files since this was asked last, ns.
    #[inline]
    pub fn take_reading(&self) -> u64 {
        self.reading.take()
    }

    /// An inline task has waited for a device until `t`.
    #[inline]
    pub(crate) fn io_done(&self, t: u64) {
        match self.inline {
            InlineClock::Running | InlineClock::Paced { reads: true } => self.wait_until(t),
            InlineClock::Paced { reads: false } | InlineClock::External => {}
        }
    }

    /// An inline task waits until `t`.
    #[inline]
    fn wait_until(&self, t: u64) {
        let ns = t.saturating_sub(self.clock.get());
        self.waited.set(self.waited.get() + ns);
        self.asleep.set(self.asleep.get() + ns);
        self.set_clock(t);
    }

    /// How long an inline task has waited for anything, reads among it, since this was asked last, ns.
    #[inline]
    pub fn take_asleep(&self) -> u64 {
        self.asleep.take()
    }

    /// The same, for its CPU.
    #[inline]
    pub(crate) fn take_waited(&self) -> u64 {
        self.waited.take()
    }

    /// Of an inline task's time, what it has worked, ns; the rest it has waited.
    pub fn worked(&self) -> u64 {
        self.worked.get()
    }

    /// Of an inline task's time, how long it was stopped at dirty limits, ns.
    pub fn stopped(&self) -> u64 {
        self.stopped.get()
    }

    /// Sleeps; everything else runs meanwhile, for inline tasks too.
    pub async fn sleep_until(&self, class: TimeClass, t: u64) {
        match &self.task {
            Some(task) => task.sleep_until_as(class, t).await,
            None => {
                if class == TimeClass::ThrottleDirty {
                    let ns = t.saturating_sub(self.clock.get());
                    self.stopped.set(self.stopped.get() + ns);
                }
                self.wait_until(t);
                PendingOnce(false).await;
            }
        }
    }
}

/// Suspends once: an inline task hands control to its driver, which lets the simulation catch up.
struct PendingOnce(bool);

impl Future for PendingOnce {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
