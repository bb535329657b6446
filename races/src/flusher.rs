//! The flusher, who writes without being asked, and the device.

use crate::sink::Sink;
use crate::world::{World, FRAMES, NONE, PAGES};
use coldset_engine::Flags;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pc {
    Find,
    Lock,
    Clean,
    Start,
    Unlock,
    Put,
    Done,
}

/// Registers of a flusher.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flusher {
    pc: Pc,
    /// Folios left to write.
    left: u8,
    page: u8,
    frame: u8,
}

impl Flusher {
    pub fn new(left: u8) -> Self {
        Flusher {
            pc: Pc::Find,
            left,
            page: 0,
            frame: NONE,
        }
    }

    pub fn done(&self) -> bool {
        self.pc == Pc::Done
    }

    /// One step, in every way it can go.
    pub fn step(mut self, w: &World, who: usize, sink: &mut Sink<Flusher>) {
        let mut w = w.clone();
        let (p, f) = (usize::from(self.page), usize::from(self.frame));
        let text = match self.pc {
            Pc::Done => return,
            Pc::Find => {
                if w.pages.iter().all(|p| p.frame == NONE) {
                    self = Flusher {
                        pc: Pc::Done,
                        ..Flusher::new(0)
                    };
                    "finds nothing to write".into()
                } else {
                    self.pc = Pc::Lock;
                    for p in 0..PAGES {
                        let f = w.pages[p].frame;
                        // A frozen folio is looked at again when that is over.
                        if f != NONE && w.refs(usize::from(f)) > 0 {
                            let mut w = w.clone();
                            w.get(usize::from(f));
                            self.page = p as u8;
                            self.frame = f;
                            sink.put(w, self, || {
                                format!("finds frame {f} at page {p} of the index")
                            });
                        }
                    }
                    return;
                }
            }
            Pc::Lock => {
                if !w.try_lock(f, who) {
                    return;
                }
                self.pc = Pc::Clean;
                format!("locks frame {f}")
            }
            Pc::Clean => {
                // Anonymous memory has a block only while it is in the swap cache.
                let backed = w.has(f, Flags::SWAPCACHE) || !w.has(f, Flags::ANON);
                if w.pages[p].frame != self.frame || w.has(f, Flags::WRITEBACK) || !backed {
                    w.unlock(f);
                    self.pc = Pc::Put;
                    format!("finds frame {f} gone, being written or without a block, unlocks it")
                } else {
                    self.pc = Pc::Start;
                    if w.clean_entry(p) {
                        format!("takes the dirty mark off the entry of page {p} and flushes it")
                    } else {
                        format!("finds no dirty entry that maps frame {f}")
                    }
                }
            }
            Pc::Start => {
                if w.clear_dirty(f) {
                    w.start_write(f, p, false);
                    self.pc = Pc::Unlock;
                    format!("takes the dirty mark off frame {f} and starts its write-out")
                } else {
                    w.unlock(f);
                    self.pc = Pc::Put;
                    format!("finds frame {f} clean, unlocks it")
                }
            }
            Pc::Unlock => {
                w.unlock(f);
                self.pc = Pc::Put;
                format!("unlocks frame {f}")
            }
            Pc::Put => {
                w.put(f);
                self = Flusher::new(self.left - 1);
                if self.left == 0 {
                    self.pc = Pc::Done;
                }
                format!("lets go of frame {f}")
            }
        };
        sink.put(w, self, || text);
    }
}

/// What the device can do next. It is no actor of its own: whatever is submitted ends.
pub(crate) fn device(w: &World, sink: &mut Sink<()>) {
    for f in 0..FRAMES {
        let frame = w.frames[f];
        if frame.io == NONE {
            continue;
        }
        if frame.io_read {
            let mut w = w.clone();
            w.end_write(f, false);
            sink.put(w, (), || format!("ends the write-out of frame {f}"));
            continue;
        }
        if let Some(mut w) = w.device_fails() {
            w.end_write(f, true);
            sink.put(w, (), || {
                format!("fails the write-out of frame {f}, which is marked dirty again")
            });
        }
        let p = usize::from(frame.io);
        let mut w = w.clone();
        w.pages[p].block = frame.data;
        w.frames[f].io_read = true;
        sink.put(w, (), || {
            format!("copies frame {f} to the block of page {p}")
        });
    }
}
