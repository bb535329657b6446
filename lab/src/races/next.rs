//! The verbs of which micro-steps consist. Each is what hardware or a lock makes atomic, and raises
//! the alarm if it breaks a property.

use super::alarm::Alarm;
use super::protocol::Flaws;
use super::state::{Cached, Frame, State, Task, CPUS, NONE};

/// A state in the making: the successor of one step of actor `who`.
#[derive(Clone)]
pub(super) struct Next {
    pub s: State,
    pub who: usize,
    pub flaws: Flaws,
    pub alarm: Option<Alarm>,
}

/// What a step came to.
pub(super) struct Successor {
    pub state: State,
    pub alarm: Option<Alarm>,
    pub text: Option<String>,
}

/// Takes the successors of a state.
pub(super) struct Sink {
    pub out: Vec<Successor>,
    /// Also say each step in words.
    pub texts: bool,
}

impl Sink {
    /// Takes `n`, in which actor `n.who` goes on as `task`.
    pub fn put(&mut self, mut n: Next, task: Task, text: impl FnOnce() -> String) {
        n.s.tasks[n.who] = task;
        self.out.push(Successor {
            state: n.s,
            alarm: n.alarm,
            text: self.texts.then(text),
        });
    }
}

impl Next {
    pub fn new(s: &State, who: usize, flaws: Flaws) -> Self {
        Next {
            s: *s,
            who,
            flaws,
            alarm: None,
        }
    }

    /// The first alarm of a step is the one that is told, unless a worse one follows.
    pub fn raise(&mut self, alarm: Alarm) {
        if self.alarm.is_none_or(|a| a.mild() && !alarm.mild()) {
            self.alarm = Some(alarm);
        }
    }

    pub fn frame(&mut self, f: usize) -> &mut Frame {
        &mut self.s.frames[f]
    }

    /// Takes the folio lock if it is free.
    pub fn try_lock(&mut self, f: usize) -> bool {
        let owner = self.s.frames[f].lock;
        if usize::from(owner) == self.who {
            self.raise(Alarm::LockedTwice { frame: f as u8 });
        }
        if owner != NONE {
            return false;
        }
        self.s.frames[f].lock = self.who as u8;
        true
    }

    pub fn unlock(&mut self, f: usize) {
        if usize::from(self.s.frames[f].lock) != self.who {
            self.raise(Alarm::LockForeign { frame: f as u8 });
        }
        self.s.frames[f].lock = NONE;
    }

    pub fn get(&mut self, f: usize) {
        self.s.frames[f].refs += 1;
    }

    /// Gives a reference back; the last one frees the folio.
    pub fn put(&mut self, f: usize) {
        if self.s.frames[f].refs == 0 {
            self.raise(Alarm::FreedHeld { frame: f as u8 });
            return;
        }
        self.s.frames[f].refs -= 1;
        if self.s.frames[f].refs == 0 {
            self.free(f);
        }
    }

    /// The frame becomes free memory.
    pub fn free(&mut self, f: usize) {
        let frame = self.s.frames[f];
        let id = f as u8;
        if self.s.mapped(f) {
            self.raise(Alarm::FreedMapped { frame: id });
        } else if let Some(cpu) = self.s.cached(f, false) {
            self.raise(Alarm::FreedCached {
                frame: id,
                cpu: cpu as u8,
            });
        } else if frame.dma {
            self.raise(Alarm::FreedPinned { frame: id });
        } else if frame.refs > 0 {
            self.raise(Alarm::FreedHeld { frame: id });
        } else if frame.writeback {
            self.raise(Alarm::FreedWriting { frame: id });
        }
        self.s.frames[f] = Frame::FREE;
    }

    /// Takes the folio out of the index at page `p`; the reference of the index is the caller's.
    pub fn leave_index(&mut self, f: usize, p: usize) {
        if usize::from(self.s.pages[p].frame) != f {
            self.raise(Alarm::IndexForeign { page: p as u8 });
        }
        self.s.pages[p].frame = NONE;
        self.s.frames[f].page = NONE;
    }

    /// Takes the dirty mark off and starts write-out to the block of page `p`.
    pub fn start_write(&mut self, f: usize, p: usize, by_reclaim: bool) {
        let frame = self.s.frames[f];
        let id = f as u8;
        if frame.writeback {
            self.raise(Alarm::WriteTwice { frame: id });
        } else if by_reclaim && self.s.mapped(f) {
            self.raise(Alarm::WriteMapped { frame: id });
        } else if by_reclaim && frame.dma {
            self.raise(Alarm::WritePinned { frame: id });
        } else if by_reclaim {
            if let Some(cpu) = self.s.cached(f, true) {
                self.raise(Alarm::WriteCached {
                    frame: id,
                    cpu: cpu as u8,
                });
            }
        }
        if self.s.pages[p].block_gone {
            self.raise(Alarm::WriteForeign { page: p as u8 });
        }
        let frame = self.frame(f);
        frame.dirty = false;
        frame.writeback = true;
        frame.io = p as u8;
        frame.io_read = false;
    }

    /// Clears the page-table entry of page `p`, under the lock of the page table: its dirty mark
    /// goes to the folio, its reference with it. Cached translations stay. Says whether the entry
    /// was dirty, or nothing if there was none.
    pub fn clear_entry(&mut self, p: usize) -> Option<bool> {
        let page = &mut self.s.pages[p];
        if page.entry == NONE {
            return None;
        }
        let f = usize::from(page.entry);
        let dirty = page.entry_dirty;
        page.entry = NONE;
        page.entry_dirty = false;
        self.s.frames[f].dirty |= dirty;
        Some(dirty)
    }

    /// Throws away what a CPU has cached.
    pub fn flush_cpu(&mut self, cpu: usize) {
        self.s.tlb[cpu] = Default::default();
    }

    /// Unmaps page `p` for good, as unmapping a range and truncation do: what a reclaimer has left
    /// unflushed in this address space is flushed first.
    pub fn zap(&mut self, p: usize) {
        if self.s.mm_pending && !self.flaws.no_pending_flush {
            (0..CPUS).for_each(|c| self.flush_cpu(c));
            self.s.mm_pending = false;
        }
        let frame = self.s.pages[p].entry;
        if self.clear_entry(p).is_some() {
            (0..CPUS).for_each(|c| self.s.tlb[c][p] = None);
            self.put(usize::from(frame));
        }
        if let Some(cpu) = (0..CPUS).find(|&c| self.s.tlb[c][p].is_some()) {
            self.raise(Alarm::UnmapReachable {
                page: p as u8,
                cpu: cpu as u8,
            });
        }
    }

    /// What the hardware does for an access of page `p` by `cpu`; a store leaves bit `store`. False:
    /// the access faults, and what was cached is gone.
    pub fn access(&mut self, cpu: usize, p: usize, store: Option<u8>) -> bool {
        let hit = self.s.tlb[cpu][p];
        let frame = match hit {
            // A load, or a store by an entry known to be dirty, does not look at the page table.
            Some(t) if store.is_none() || t.dirty => t.frame,
            // Hardware that does not look for the first store either: a planted flaw.
            Some(t) if self.flaws.blind_hardware => t.frame,
            _ => {
                let page = &mut self.s.pages[p];
                if page.entry == NONE {
                    self.s.tlb[cpu][p] = None;
                    return false;
                }
                page.entry_dirty |= store.is_some();
                page.entry
            }
        };
        let dirty = store.is_some() || hit.is_some_and(|t| t.dirty);
        self.s.tlb[cpu][p] = Some(Cached { frame, dirty });
        if let Some(bit) = store {
            self.frame(usize::from(frame)).data |= bit;
            self.s.pages[p].done |= bit;
        }
        true
    }
}
