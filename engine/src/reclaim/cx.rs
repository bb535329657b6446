//! What a step of reclaim works with, besides the engine.

use super::scan_control::ScanControl;
use super::shrink_list::ShrinkList;
use super::work::Answer;

/// The state of a task that all its levels share.
pub(crate) struct Cx<'a> {
    /// The request that is being served.
    pub(crate) sc: &'a mut ScanControl,
    /// The folios being worked on.
    pub(crate) list: &'a mut ShrinkList,
    /// The host's answer to the last request, until somebody takes it.
    pub(crate) answer: &'a mut Option<Answer>,
    /// Where the task runs.
    pub(crate) cpu: u16,
}
