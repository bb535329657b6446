//! What a reclaim task asks of its host, and how the host answers.

use crate::ids::{FolioId, LruType, LruvecId, MemcgId, NodeId, ObjectId};
use crate::mglru::mms::LookAround;
use crate::mglru::mms::Walk;
use crate::node::ThrottleReason;
use crate::workingset::Shadow;

/// The next thing that must happen in the world. Requests with an answer are repeated until
/// [`super::ReclaimTask::answer`] has been called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Which of the folio's mappings have accessed it since last asked? Clear what is found.
    /// Answer: [`Answer::References`]. With `look_around`, also look at the neighbours of each
    /// accessed entry and report them to the engine (`docs/rules/eviction.md#look-around`).
    Test {
        /// Isolated by the task.
        folio: FolioId,
        /// Only mappings of tasks below this memcg count; none = all.
        target: Option<MemcgId>,
        /// Permission to look around.
        look_around: Option<LookAround>,
    },
    /// Walk one address space for accessed entries (`docs/rules/aging.md#walk`), from [`Walk::at`] on.
    /// Answer: [`Answer::Walked`] by a host whose walks take no time, [`Answer::Stretch`] by one
    /// that lets others run meanwhile.
    Walk(Walk),
    /// Remove every mapping of the folio. The host transfers dirty bits with `Engine::set_dirty`,
    /// calls `Engine::folio_unmap` for each entry and leaves a swap entry for anonymous memory; for
    /// a `POISONED` folio, in all of them, entries that fail when they are used.
    /// Answer: [`Answer::Unmapped`].
    Unmap {
        /// Isolated and locked by the task.
        folio: FolioId,
    },
    /// Make all translations whose flush was deferred unusable. No answer needed.
    FlushTlb {
        /// Because a dirty folio is about to be written (else: before freeing).
        for_write: bool,
    },
    /// Write the folio to swap or, for shmem, to its store: the dirty mark has been cleared.
    /// The host calls `Engine::writeback_start` if I/O is in flight afterwards.
    /// Answer: [`Answer::Written`].
    Write {
        /// Isolated and locked by the task, unmapped, in the swap cache if it needs a slot.
        folio: FolioId,
    },
    /// Find the folio a swap slot, charge it ([`crate::memcg::MemcgTree::charge_swap`]) and tell what is left
    /// ([`Engine::set_swap`](crate::Engine::set_swap)). The engine puts the folio into the swap cache. Answer:
    /// [`Answer::Slot`].
    AllocSwap {
        /// Isolated and locked by the task; its slots are to be as many as its pages, in a row.
        folio: FolioId,
    },
    /// The large folio has been made one of single pages; [`super::ReclaimTask::pieces`] are the new
    /// folios of the pages after the first, in order. Put them into the slots in place of the folio,
    /// and move the mappings: `Engine::folio_map` the piece for each entry that maps its page,
    /// `Engine::folio_unmap` the folio for each of its former entries that does not map the first
    /// page. Pages that nothing maps (the folio was `PARTIALLY_MAPPED`) get no mapping and, if
    /// anonymous, lose `OWNED`. The answer must come before anything else happens to any of them.
    /// Answer: [`Answer::Split`]. A host whose folios are single pages is never asked.
    Split {
        /// The folio, a single page now.
        folio: FolioId,
    },
    /// Which folio goes next, under a policy outside of the engine ([`crate::policies::outside`])? The answer must come
    /// before the lists change. Answer: [`Answer::Victim`]. A host that has set no such policy is never asked.
    Victim {
        /// The lists of this lruvec,
        lruvec: LruvecId,
        /// and of this type.
        lru_type: LruType,
    },
    /// The folio no longer needs its swap slot: give it back
    /// ([`crate::memcg::MemcgTree::uncharge_swap`]). No answer needed.
    FreeSwap {
        /// Has left the swap cache.
        folio: FolioId,
        /// The slot it had, the first one of a large folio.
        slot: u32,
    },
    /// Wait until the folio's writeback has ended (cgroup v1 limit reclaim). No answer needed.
    WaitWriteback {
        /// Isolated by the task, which meanwhile holds nothing half done.
        folio: FolioId,
    },
    /// Take the folios in [`super::ReclaimTask::freed`] out of their slots and leave their shadows:
    /// others may run before the batch is full. Their frames must not be used again before the next
    /// [`Work::Free`], for translations may still lead to them. No answer needed.
    Detach,
    /// Drop the contents of the folios in [`super::ReclaimTask::freed`] and leave their shadows, and
    /// release what has been detached. The engine has already forgotten them. No answer needed.
    Free,
    /// Start writing everything dirty on every device: dirty pages of files are not written by reclaim. No
    /// answer needed.
    WakeFlushers,
    /// Sleep. The host ends the sleep at the timeout, or when the reason is gone
    /// (`docs/rules/writeback.md#what-reclaim-tells`). No answer needed.
    Throttle {
        /// What must change before going on is of use.
        reason: ThrottleReason,
        /// Those who sleep for one reason are woken by node.
        node: NodeId,
        /// How long to sleep at most, timer ticks.
        ticks: u32,
    },
    /// Wake those who sleep for this reason on this node. No answer needed.
    WakeThrottled {
        /// What they sleep for.
        reason: ThrottleReason,
        /// Where they met it.
        node: NodeId,
    },
    /// The working-set protection found nothing reclaimable: run the global OOM killer
    /// once. No answer needed.
    OomKill,
    /// kswapd has ended a round: let tasks that wait at the reserve gate look again. No answer
    /// needed.
    Balance {
        /// The one whose kswapd it is.
        node: NodeId,
    },
    /// A good point to let others run. No answer needed.
    Yield,
    /// The task waits for the lru_lock with preemption off: time passes, but it keeps its CPU. No
    /// answer needed.
    Spin,
    /// The task has ended.
    Done,
}

/// What the reverse map found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct References {
    /// Mappings with an accessed entry.
    pub accessed: u32,
    /// Some mapping is locked into memory.
    pub locked: bool,
    /// The question could not be answered (contended, or the only owner is exiting).
    pub unknown: bool,
    /// Some mapping is executable.
    pub exec: bool,
}

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Written {
    /// I/O is in flight, or finished inside the call: look at the folio's flags.
    Submitted,
    /// Nothing was written; the folio stays dirty and is in use.
    Activate,
    /// Nothing was written: there is room for single pages, but not for the folio as a whole. It is
    /// split, and the write of its first page is asked for. For a single page this is
    /// [`Self::Activate`].
    NoRoom,
    /// The device refused; the folio stays dirty, the error is the host's to keep.
    Failed,
}

/// What the host answers to a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// To [`Work::Test`].
    References(References),
    /// To [`Work::Walk`]: the address space has been walked to its end in one go.
    Walked,
    /// To [`Work::Walk`], by a host that tells the engine of task switches itself
    /// ([`crate::Engine::mm_ran`]): a stretch of the address space has been walked. The engine asks
    /// for the rest, unless another walker has made the new generation meanwhile.
    Stretch {
        /// Young entries found: size changes to be flushed under the lru_lock.
        young: u64,
        /// Where the walk continues; none at the end of the address space.
        next: Option<u64>,
    },
    /// To [`Work::Unmap`].
    Unmapped {
        /// A flush was deferred: stale translations may remain until [`Work::FlushTlb`].
        deferred: bool,
        /// One of them may be used for writing.
        writable: bool,
    },
    /// To [`Work::Write`].
    Written(Written),
    /// To [`Work::AllocSwap`].
    Slot(Option<u32>),
    /// To [`Work::Split`]. False: the host refuses, has changed nothing, and the folio is whole
    /// again.
    Split(bool),
    /// To [`Work::Victim`]. None, or a folio that is not on these lists: the one that has been there for
    /// longest goes.
    Victim(Option<FolioId>),
}

/// What became of a folio that the host was asked to unmap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The folio. If it was freed, its record may be used for another one after the next step.
    pub folio: FolioId,
    /// It is one of [`super::ReclaimTask::freed`]. False: it stays, and is back on a list or on its
    /// way there.
    pub freed: bool,
}

/// A folio that has been reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// Object whose slots held it.
    pub object: ObjectId,
    /// Index of its first page in the object.
    pub index: u32,
    /// Log2 of the number of pages.
    pub order: u8,
    /// The object's slots still name the folio (false: truncated before).
    pub owned: bool,
    /// Swap slot that holds its contents now, for anonymous memory.
    pub swap: Option<u32>,
    /// The eviction record to leave in the slot; none if the contents were dropped for good.
    pub shadow: Option<Shadow>,
    /// The lruvec it was charged to.
    pub lruvec: LruvecId,
}
