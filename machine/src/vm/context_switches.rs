//! Which address spaces have run, for the engine to be told before it walks them.

use coldset_engine::MmId;

/// Address spaces switched to since the engine was last told, each once.
#[derive(Default)]
pub(crate) struct ContextSwitches {
    noted: Vec<bool>,
    mms: Vec<MmId>,
}

impl ContextSwitches {
    /// The tag of the tasks of an address space; 0 is for tasks without one.
    pub(crate) const fn tag(mm: MmId) -> u32 {
        mm.0 + 1
    }

    /// A CPU switches to a task with this tag.
    pub(crate) fn note(&mut self, tag: u32) {
        let Some(i) = tag.checked_sub(1) else { return };
        if self.noted.len() <= i as usize {
            self.noted.resize(i as usize + 1, false);
        }
        if !std::mem::replace(&mut self.noted[i as usize], true) {
            self.mms.push(MmId(i));
        }
    }

    /// The address spaces noted since the last call.
    pub(super) fn take(&mut self) -> Vec<MmId> {
        for mm in &self.mms {
            self.noted[mm.idx()] = false;
        }
        std::mem::take(&mut self.mms)
    }
}
