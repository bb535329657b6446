//! Threads of the program: the one with stale translations, the one that faults pages in again, and
//! the one that pins for DMA.

use super::next::{Next, Sink};
use super::protocol::Kind;
use super::state::{Frame, State, Task, FRAMES, NONE, PAGES};

/// Program counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    /// Take a page, and load or store.
    Choose,
    /// The access, once more after a fault.
    Access,
    /// Fault: find the folio, or make one.
    Lookup,
    /// Fault: wait for its lock.
    LockFolio,
    /// Fault: the contents of a new folio come.
    Read,
    /// Fault: make the entry.
    Map,
    /// Pin: look at the page table.
    Walk,
    /// Pin: take the reference.
    Take,
    /// Pin: look at the page table again.
    Confirm,
    /// Pin: unmap the page, or not.
    Pinned,
    /// Pin: the device writes.
    Dma,
    /// Pin: mark the folio dirty.
    Mark,
    /// Pin: let go.
    Unpin,
    Done,
}

/// Registers of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Program {
    pc: Pc,
    cpu: u8,
    faults: bool,
    pins: bool,
    /// Accesses left.
    left: u8,
    page: u8,
    frame: u8,
    store: bool,
}

impl Program {
    /// A thread of this kind with `left` accesses (or pins) to do.
    pub fn new(kind: Kind, left: u8) -> Self {
        Program {
            pc: Pc::Choose,
            cpu: u8::from(kind == Kind::Stale),
            faults: kind != Kind::Stale,
            pins: kind == Kind::Pin,
            left,
            page: 0,
            frame: NONE,
            store: true,
        }
    }

    pub fn done(&self) -> bool {
        self.pc == Pc::Done
    }

    /// The bit of the store that comes now: each has its own.
    fn bit(&self, who: usize) -> u8 {
        1 << (2 * (who - 1) + usize::from(self.left))
    }

    fn finished(&mut self) {
        self.page = 0;
        self.frame = NONE;
        self.store = true;
        self.left -= 1;
        self.pc = if self.left == 0 { Pc::Done } else { Pc::Choose };
    }

    fn give_up(&mut self) {
        self.left = 1;
        self.finished();
    }

    /// One micro-step, in every way it can go.
    pub fn step(self, s: &State, who: usize, model: &super::Model, sink: &mut Sink) {
        let n = Next::new(s, who, model.flaws);
        match self.pc {
            Pc::Choose if self.pins => {
                for p in 0..PAGES {
                    let mut t = self;
                    t.page = p as u8;
                    t.walk(n.clone(), sink);
                }
            }
            Pc::Choose => {
                for p in 0..PAGES {
                    for store in [true, false] {
                        // Loads by a stale translation change nothing that is looked at.
                        if store || self.faults {
                            let mut t = self;
                            t.page = p as u8;
                            t.store = store;
                            t.access(n.clone(), sink);
                        }
                    }
                }
            }
            Pc::Access => self.access(n, sink),
            Pc::Walk => self.walk(n, sink),
            Pc::Done => {}
            Pc::Lookup | Pc::LockFolio | Pc::Read | Pc::Map => self.fault(n, sink),
            _ => self.pin(n, sink),
        }
    }

    fn access(mut self, mut n: Next, sink: &mut Sink) {
        let (p, cpu) = (usize::from(self.page), usize::from(self.cpu));
        let cached = n.s.tlb[cpu][p].is_some();
        let what = if self.store {
            "stores to"
        } else {
            "loads from"
        };
        let bit = self.store.then(|| self.bit(n.who));
        let text = if n.access(cpu, p, bit) {
            self.finished();
            let how = if cached {
                "its cached translation"
            } else {
                "the page table"
            };
            format!("{what} page {p} by {how}")
        } else if self.faults {
            self.pc = Pc::Lookup;
            format!("faults on page {p}")
        } else {
            self.give_up();
            format!("faults on page {p} and ends")
        };
        sink.put(n, Task::Program(self), || text);
    }

    fn fault(mut self, mut n: Next, sink: &mut Sink) {
        let p = usize::from(self.page);
        let page = n.s.pages[p];
        let f = usize::from(self.frame);
        let text = match self.pc {
            Pc::Lookup if page.gone => {
                self.give_up();
                format!("finds page {p} cut off and ends")
            }
            Pc::Lookup if page.frame != NONE => {
                let f = usize::from(page.frame);
                if n.s.frames[f].refs == 0 {
                    // Frozen: it looks again when that is over.
                    return;
                }
                n.get(f);
                self.frame = page.frame;
                self.pc = Pc::LockFolio;
                format!("finds frame {f} at page {p} of the index")
            }
            Pc::Lookup => {
                let Some(f) = (0..FRAMES).find(|&f| !n.s.frames[f].used) else {
                    return;
                };
                *n.frame(f) = Frame {
                    page: self.page,
                    refs: 2,
                    lock: n.who as u8,
                    used: true,
                    ..Frame::FREE
                };
                n.s.pages[p].frame = f as u8;
                self.frame = f as u8;
                self.pc = Pc::Read;
                format!("takes frame {f} for page {p}, locked")
            }
            Pc::LockFolio => {
                if usize::from(n.s.frames[f].lock) == n.who {
                    n.try_lock(f);
                }
                if n.s.frames[f].lock != NONE {
                    return;
                }
                n.try_lock(f);
                if n.s.frames[f].page == self.page {
                    self.pc = Pc::Map;
                    format!("locks frame {f}")
                } else {
                    n.unlock(f);
                    n.put(f);
                    self.frame = NONE;
                    self.pc = Pc::Lookup;
                    format!("finds that frame {f} has left the index, looks again")
                }
            }
            Pc::Read => {
                let frame = n.frame(f);
                frame.data = page.block;
                frame.uptodate = true;
                frame.on_lru = true;
                self.pc = Pc::Map;
                format!("reads the block of page {p} into frame {f}")
            }
            _ => {
                n.unlock(f);
                self.frame = NONE;
                if page.gone {
                    n.put(f);
                    self.give_up();
                    format!("finds page {p} cut off, unlocks frame {f} and ends")
                } else {
                    if page.entry == NONE {
                        n.s.pages[p].entry = f as u8;
                        n.s.pages[p].entry_dirty = self.store;
                    } else {
                        n.put(f);
                    }
                    self.pc = if self.pins { Pc::Walk } else { Pc::Access };
                    let how = if self.store { "to write" } else { "to read" };
                    format!("maps frame {f} at page {p} {how} and unlocks it")
                }
            }
        };
        sink.put(n, Task::Program(self), || text);
    }

    fn walk(mut self, n: Next, sink: &mut Sink) {
        let p = self.page;
        let entry = n.s.pages[usize::from(p)].entry;
        self.frame = entry;
        let text = if entry == NONE {
            self.pc = Pc::Lookup;
            format!("finds page {p} not mapped: faults")
        } else {
            self.pc = Pc::Take;
            format!("finds frame {entry} mapped at page {p}")
        };
        sink.put(n, Task::Program(self), || text);
    }

    fn pin(mut self, mut n: Next, sink: &mut Sink) {
        let (p, f) = (usize::from(self.page), usize::from(self.frame));
        let text = match self.pc {
            Pc::Take => {
                let frame = n.frame(f);
                if frame.refs == 0 {
                    self.frame = NONE;
                    self.pc = Pc::Walk;
                    format!("cannot take a reference of frame {f}: looks again")
                } else {
                    frame.refs += 1;
                    frame.pins += 1;
                    self.pc = Pc::Confirm;
                    format!("takes a pin of frame {f}")
                }
            }
            Pc::Confirm => {
                if n.s.pages[p].entry == self.frame {
                    n.frame(f).dma = true;
                    self.pc = Pc::Pinned;
                    format!("finds the entry unchanged: frame {f} is pinned for DMA")
                } else {
                    n.frame(f).pins -= 1;
                    n.put(f);
                    self.frame = NONE;
                    self.pc = Pc::Walk;
                    format!("finds the entry changed: gives the pin of frame {f} back")
                }
            }
            Pc::Pinned => {
                self.pc = Pc::Dma;
                let mut other = n.clone();
                other.zap(p);
                sink.put(other, Task::Program(self), || {
                    format!("unmaps page {p}; the pin stays")
                });
                format!("leaves page {p} mapped")
            }
            Pc::Dma => {
                let bit = self.bit(n.who);
                n.frame(f).data |= bit;
                n.s.pages[p].done |= bit;
                self.pc = Pc::Mark;
                format!("has the device write into frame {f}")
            }
            Pc::Mark => {
                let frame = n.frame(f);
                frame.dirty |= frame.page != NONE;
                self.pc = Pc::Unpin;
                format!("marks frame {f} dirty")
            }
            _ => {
                n.frame(f).dma = false;
                n.frame(f).pins -= 1;
                n.put(f);
                self.finished();
                format!("unpins frame {f}")
            }
        };
        sink.put(n, Task::Program(self), || text);
    }
}
