//! Truncation, the asynchronous writer, and the device.

use super::next::{Next, Sink, Successor};
use super::state::{State, Task, ACTORS, CPUS, FRAMES, NONE, PAGES};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum TruncatePc {
    Cut,
    Zap,
    Lookup,
    Lock,
    Remove,
    Unlock,
    Put,
    Done,
}

/// Registers of truncation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Truncate {
    pc: TruncatePc,
    page: u8,
    frame: u8,
}

impl Truncate {
    pub fn new() -> Self {
        Truncate {
            pc: TruncatePc::Cut,
            page: 0,
            frame: NONE,
        }
    }

    pub fn done(&self) -> bool {
        self.pc == TruncatePc::Done
    }

    fn end(&mut self) {
        *self = Truncate {
            pc: TruncatePc::Done,
            ..Truncate::new()
        };
    }

    /// One micro-step. It cuts one page off; which one is the first choice.
    pub fn step(mut self, s: &State, who: usize, model: &super::Model, sink: &mut Sink) {
        let mut n = Next::new(s, who, model.flaws);
        let (p, f) = (usize::from(self.page), usize::from(self.frame));
        let text = match self.pc {
            TruncatePc::Done => return,
            TruncatePc::Cut => {
                self.pc = TruncatePc::Zap;
                for p in 0..PAGES {
                    let mut n = n.clone();
                    n.s.pages[p].gone = true;
                    self.page = p as u8;
                    sink.put(n, Task::Truncate(self), || {
                        format!("cuts the mapping off before page {p}")
                    });
                }
                return;
            }
            TruncatePc::Zap => {
                n.zap(p);
                self.pc = TruncatePc::Lookup;
                format!("unmaps page {p} and flushes")
            }
            TruncatePc::Lookup => match s.pages[p].frame {
                NONE => {
                    n.s.pages[p].block_gone = true;
                    self.end();
                    format!("finds nothing at page {p} of the index, gives its block back")
                }
                f if s.frames[usize::from(f)].refs == 0 => return,
                f => {
                    n.get(usize::from(f));
                    self.frame = f;
                    self.pc = TruncatePc::Lock;
                    format!("finds frame {f} at page {p} of the index")
                }
            },
            TruncatePc::Lock => {
                if s.frames[f].lock != NONE {
                    return;
                }
                n.try_lock(f);
                if s.frames[f].page == self.page {
                    self.pc = TruncatePc::Remove;
                    format!("locks frame {f}")
                } else {
                    n.unlock(f);
                    n.put(f);
                    self.frame = NONE;
                    self.pc = TruncatePc::Lookup;
                    format!("finds that frame {f} has left the index, looks again")
                }
            }
            TruncatePc::Remove => {
                if s.frames[f].writeback {
                    // Waits for its end.
                    return;
                }
                let mapped = s.mapped(f);
                if mapped {
                    n.zap(p);
                }
                n.leave_index(f, p);
                n.frame(f).dirty = false;
                n.put(f);
                n.s.pages[p].block_gone = true;
                self.pc = TruncatePc::Unlock;
                let unmaps = if mapped { "unmaps it once more, " } else { "" };
                format!("{unmaps}takes frame {f} out of the index, its dirty mark off, and gives the block of page {p} back")
            }
            TruncatePc::Unlock => {
                n.unlock(f);
                self.pc = TruncatePc::Put;
                format!("unlocks frame {f}")
            }
            TruncatePc::Put => {
                n.put(f);
                self.end();
                format!("lets go of frame {f}")
            }
        };
        sink.put(n, Task::Truncate(self), || text);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum WriterPc {
    Find,
    Lock,
    Clean,
    Start,
    Unlock,
    Put,
    Done,
}

/// Registers of an asynchronous writer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Writer {
    pc: WriterPc,
    /// Folios left to write.
    left: u8,
    page: u8,
    frame: u8,
}

impl Writer {
    pub fn new(left: u8) -> Self {
        Writer {
            pc: WriterPc::Find,
            left,
            page: 0,
            frame: NONE,
        }
    }

    pub fn done(&self) -> bool {
        self.pc == WriterPc::Done
    }

    /// One micro-step.
    pub fn step(mut self, s: &State, who: usize, model: &super::Model, sink: &mut Sink) {
        let mut n = Next::new(s, who, model.flaws);
        let (p, f) = (usize::from(self.page), usize::from(self.frame));
        let text = match self.pc {
            WriterPc::Done => return,
            WriterPc::Find => {
                if s.pages.iter().all(|p| p.frame == NONE) {
                    self = Writer {
                        pc: WriterPc::Done,
                        ..Writer::new(0)
                    };
                    "finds nothing to write".into()
                } else {
                    self.pc = WriterPc::Lock;
                    for p in 0..PAGES {
                        let f = s.pages[p].frame;
                        // A frozen folio is looked at again when that is over.
                        if f != NONE && s.frames[usize::from(f)].refs > 0 {
                            let mut n = n.clone();
                            n.get(usize::from(f));
                            self.page = p as u8;
                            self.frame = f;
                            sink.put(n, Task::Writer(self), || {
                                format!("finds frame {f} at page {p} of the index")
                            });
                        }
                    }
                    return;
                }
            }
            WriterPc::Lock => {
                if s.frames[f].lock != NONE {
                    return;
                }
                n.try_lock(f);
                self.pc = WriterPc::Clean;
                format!("locks frame {f}")
            }
            WriterPc::Clean => {
                let frame = s.frames[f];
                if frame.page != self.page || frame.writeback {
                    n.unlock(f);
                    self.pc = WriterPc::Put;
                    format!("finds frame {f} gone or being written, unlocks it")
                } else {
                    self.pc = WriterPc::Start;
                    if usize::from(s.pages[p].entry) == f && s.pages[p].entry_dirty {
                        n.s.pages[p].entry_dirty = false;
                        n.frame(f).dirty = true;
                        (0..CPUS).for_each(|c| n.s.tlb[c][p] = None);
                        format!("takes the dirty mark off the entry of page {p} and flushes it")
                    } else {
                        format!("finds no dirty entry that maps frame {f}")
                    }
                }
            }
            WriterPc::Start => {
                if s.frames[f].dirty {
                    n.start_write(f, p, false);
                    self.pc = WriterPc::Unlock;
                    format!("takes the dirty mark off frame {f} and starts its write-out")
                } else {
                    n.unlock(f);
                    self.pc = WriterPc::Put;
                    format!("finds frame {f} clean, unlocks it")
                }
            }
            WriterPc::Unlock => {
                n.unlock(f);
                self.pc = WriterPc::Put;
                format!("unlocks frame {f}")
            }
            WriterPc::Put => {
                n.put(f);
                self.left -= 1;
                self = Writer::new(self.left);
                if self.left == 0 {
                    self.pc = WriterPc::Done;
                }
                format!("lets go of frame {f}")
            }
        };
        sink.put(n, Task::Writer(self), || text);
    }
}

/// What the device can do next. It is no actor of its own: whatever is submitted ends.
pub(super) fn device(s: &State, model: &super::Model, sink: &mut Sink) {
    for f in 0..FRAMES {
        let frame = s.frames[f];
        if frame.io == NONE {
            continue;
        }
        let p = usize::from(frame.io);
        let mut n = Next::new(s, ACTORS, model.flaws);
        if frame.io_read {
            end_io(&mut n, f);
            emit(n, sink, || format!("ends the write-out of frame {f}"));
            continue;
        }
        for (i, task) in s.tasks.iter().enumerate() {
            if let Task::Device(left @ 1..) = *task {
                let mut n = n.clone();
                n.s.tasks[i] = Task::Device(left - 1);
                end_io(&mut n, f);
                n.frame(f).dirty = true;
                emit(n, sink, || {
                    format!("fails the write-out of frame {f}, which is marked dirty again")
                });
            }
        }
        n.s.pages[p].block = frame.data;
        n.frame(f).io_read = true;
        emit(n, sink, || {
            format!("copies frame {f} to the block of page {p}")
        });
    }
}

fn end_io(n: &mut Next, f: usize) {
    let frame = n.frame(f);
    frame.writeback = false;
    frame.io = NONE;
    frame.io_read = false;
}

fn emit(n: Next, sink: &mut Sink, text: impl FnOnce() -> String) {
    let text = sink.texts.then(text);
    sink.out.push(Successor {
        state: n.s,
        alarm: n.alarm,
        text,
    });
}
