//! What the daemons remember between two runs, and the reports of the OOM killers.

use crate::sim::{TaskId, WaitQueue};
use coldset_engine::{MemcgId, MmId};
use std::cell::Cell;
use std::rc::Rc;

/// The worker of one write context.
pub(crate) struct FlusherState {
    pub(super) wake: WaitQueue,
    pub(super) running: bool,
    pub(super) asked: bool,
}

/// kswapd of one node.
pub(crate) struct KswapdState {
    pub(super) wake: WaitQueue,
    /// Direct reclaimers at the reserve gate.
    pub(super) gate: WaitQueue,
    pub(super) order: u8,
    pub(super) requested: bool,
}

/// What the memcg looked like when the killer chose, as the kernel's report of a kill has it.
/// Sizes in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OomReport {
    /// When, ns.
    pub at: u64,
    /// Address space of the task that was killed.
    pub victim: MmId,
    /// The memcg at its limit; the root if the machine ran out.
    pub over: MemcgId,
    /// Pages its memcg used then.
    pub usage: u64,
    /// Charges it has refused.
    pub failcnt: u64,
    /// Anonymous pages, below it too.
    pub anon: u64,
    /// Pages of files, below it too.
    pub file: u64,
    /// Pages on the lists of files that reclaim may look at.
    pub evictable_file: u64,
}

/// A process that the killer can choose: an address space and its threads.
pub(crate) struct Proc {
    pub(super) mm: MmId,
    pub(super) threads: Vec<(TaskId, Rc<Cell<bool>>)>,
    pub(super) adj: i32,
    pub(super) dying: bool,
    pub(super) gone: bool,
}
