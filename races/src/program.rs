//! Threads of the program: the one with stale translations, the one that faults pages in again, and
//! the one that pins for DMA.

use crate::cases::{Fault, Kind, Role};
use crate::sink::Sink;
use crate::world::{World, FRAMES, NONE, PAGES};
use coldset_engine::Flags;

/// Program counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Program {
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
    pub fn new(role: Role, left: u8) -> Self {
        Program {
            pc: Pc::Choose,
            cpu: u8::from(role == Role::Stale),
            faults: role != Role::Stale,
            pins: role == Role::Pin,
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

    /// One step, in every way it can go.
    pub fn step(self, w: &World, who: usize, sink: &mut Sink<Program>) {
        match self.pc {
            Pc::Choose if self.pins => {
                for p in 0..PAGES {
                    let page = p as u8;
                    Program { page, ..self }.walk(w.clone(), sink);
                }
            }
            Pc::Choose => {
                for p in 0..PAGES {
                    for store in [true, false] {
                        // Loads by a stale translation change nothing that is looked at.
                        if store || self.faults {
                            let page = p as u8;
                            Program {
                                page,
                                store,
                                ..self
                            }
                            .access(w.clone(), who, sink);
                        }
                    }
                }
            }
            Pc::Access => self.access(w.clone(), who, sink),
            Pc::Walk => self.walk(w.clone(), sink),
            Pc::Done => {}
            Pc::Lookup | Pc::LockFolio | Pc::Read | Pc::Map => self.fault(w.clone(), who, sink),
            _ => self.pin(w.clone(), who, sink),
        }
    }

    fn access(mut self, mut w: World, who: usize, sink: &mut Sink<Program>) {
        let (p, cpu) = (usize::from(self.page), usize::from(self.cpu));
        let cached = w.tlb[cpu][p].is_some();
        let what = if self.store {
            "stores to"
        } else {
            "loads from"
        };
        let bit = self.store.then(|| self.bit(who));
        let text = if w.access(cpu, p, bit) {
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
        sink.put(w, self, || text);
    }

    fn fault(mut self, mut w: World, who: usize, sink: &mut Sink<Program>) {
        let p = usize::from(self.page);
        let page = w.pages[p];
        let f = usize::from(self.frame);
        let text = match self.pc {
            Pc::Lookup if page.gone => {
                self.give_up();
                format!("finds page {p} cut off and ends")
            }
            Pc::Lookup if page.frame != NONE => {
                let f = usize::from(page.frame);
                if w.refs(f) == 0 {
                    // Frozen: it looks again when that is over.
                    return;
                }
                w.get(f);
                self.frame = page.frame;
                self.pc = Pc::LockFolio;
                format!("finds frame {f} at page {p} of the index")
            }
            Pc::Lookup => {
                let Some(f) = (0..FRAMES).find(|&f| !w.frames[f].used) else {
                    return;
                };
                w.new_folio(f, p, true);
                w.try_lock(f, who);
                self.frame = f as u8;
                self.pc = Pc::Read;
                format!("takes frame {f} for page {p}, locked")
            }
            Pc::LockFolio => {
                let Some((there, text)) = w.lock_found(f, p, who) else {
                    return;
                };
                if there {
                    self.pc = Pc::Map;
                } else {
                    self.frame = NONE;
                    self.pc = Pc::Lookup;
                }
                text
            }
            Pc::Read => {
                w.frames[f].data = page.block;
                w.frames[f].uptodate = true;
                w.lru_add(f, u16::from(self.cpu));
                self.pc = Pc::Map;
                format!("reads the block of page {p} into frame {f}")
            }
            _ => {
                self.frame = NONE;
                let text = if page.gone {
                    self.give_up();
                    format!("finds page {p} cut off, unlocks frame {f} and ends")
                } else {
                    if page.entry == NONE {
                        w.map(f, p, self.store);
                    }
                    self.pc = if self.pins { Pc::Walk } else { Pc::Access };
                    let how = if self.store { "to write" } else { "to read" };
                    format!("maps frame {f} at page {p} {how} and unlocks it")
                };
                w.unlock(f);
                w.put(f);
                text
            }
        };
        sink.put(w, self, || text);
    }

    fn walk(mut self, w: World, sink: &mut Sink<Program>) {
        let p = self.page;
        let entry = w.pages[usize::from(p)].entry;
        self.frame = entry;
        let text = if entry == NONE {
            self.pc = Pc::Lookup;
            format!("finds page {p} not mapped: faults")
        } else {
            self.pc = Pc::Take;
            format!("finds frame {entry} mapped at page {p}")
        };
        sink.put(w, self, || text);
    }

    fn pin(mut self, mut w: World, who: usize, sink: &mut Sink<Program>) {
        let (p, f) = (usize::from(self.page), usize::from(self.frame));
        let late = w.setting.fault == Some(Fault::MarkedAfterUnpin);
        let text = match self.pc {
            Pc::Take => {
                if w.refs(f) == 0 {
                    self.frame = NONE;
                    self.pc = Pc::Walk;
                    format!("cannot take a reference of frame {f}: looks again")
                } else {
                    w.pin(f);
                    self.pc = Pc::Confirm;
                    format!("takes a pin of frame {f}")
                }
            }
            Pc::Confirm => {
                if w.pages[p].entry == self.frame {
                    w.frames[f].dma = true;
                    self.pc = Pc::Pinned;
                    format!("finds the entry unchanged: frame {f} is pinned for DMA")
                } else {
                    w.unpin(f);
                    self.frame = NONE;
                    self.pc = Pc::Walk;
                    format!("finds the entry changed: gives the pin of frame {f} back")
                }
            }
            Pc::Pinned => {
                self.pc = Pc::Dma;
                // What is anonymous and in no swap cache would end with its mapping.
                if w.setting.kind != Kind::Anon || w.has(f, Flags::SWAPCACHE) {
                    let mut other = w.clone();
                    other.zap(p);
                    sink.put(other, self, || format!("unmaps page {p}; the pin stays"));
                }
                format!("leaves page {p} mapped")
            }
            Pc::Dma => {
                let bit = self.bit(who);
                w.frames[f].data |= bit;
                w.pages[p].done |= bit;
                self.pc = if late { Pc::Unpin } else { Pc::Mark };
                format!("has the device write into frame {f}")
            }
            Pc::Mark => {
                if w.refs(f) > 0 && w.pages[p].frame == self.frame {
                    w.set_dirty(f);
                }
                if late {
                    self.finished();
                } else {
                    self.pc = Pc::Unpin;
                }
                format!("marks frame {f} dirty")
            }
            _ => {
                w.frames[f].dma = false;
                w.unpin(f);
                if late {
                    self.pc = Pc::Mark;
                } else {
                    self.finished();
                }
                format!("unpins frame {f}")
            }
        };
        sink.put(w, self, || text);
    }
}
