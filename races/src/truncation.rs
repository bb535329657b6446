//! Truncation: a page of the mapping is cut off.

use crate::cases::Kind;
use crate::sink::Sink;
use crate::world::{World, NONE, PAGES};
use coldset_engine::Flags;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pc {
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Truncation {
    pc: Pc,
    page: u8,
    frame: u8,
}

impl Truncation {
    pub fn new() -> Self {
        Truncation {
            pc: Pc::Cut,
            page: 0,
            frame: NONE,
        }
    }

    pub fn done(&self) -> bool {
        self.pc == Pc::Done
    }

    fn end(&mut self) {
        *self = Truncation {
            pc: Pc::Done,
            ..Truncation::new()
        };
    }

    /// One step. It cuts one page off; which one is the first choice.
    pub fn step(mut self, w: &World, who: usize, sink: &mut Sink<Truncation>) {
        let mut w = w.clone();
        let (p, f) = (usize::from(self.page), usize::from(self.frame));
        let text = match self.pc {
            Pc::Done => return,
            Pc::Cut => {
                // What is anonymous is unmapped under the folio's lock, as the engine's hosts do.
                let anon = w.setting.kind == Kind::Anon;
                self.pc = if anon { Pc::Lookup } else { Pc::Zap };
                for p in 0..PAGES {
                    let mut w = w.clone();
                    w.pages[p].gone = true;
                    self.page = p as u8;
                    sink.put(w, self, || format!("cuts the mapping off before page {p}"));
                }
                return;
            }
            Pc::Zap => {
                w.zap(p);
                self.pc = Pc::Lookup;
                format!("unmaps page {p} and flushes")
            }
            Pc::Lookup => match w.pages[p].frame {
                NONE => {
                    w.pages[p].block_gone = true;
                    self.end();
                    format!("finds nothing at page {p} of the index, gives its block back")
                }
                f if w.refs(usize::from(f)) == 0 => return,
                f => {
                    w.get(usize::from(f));
                    self.frame = f;
                    self.pc = Pc::Lock;
                    format!("finds frame {f} at page {p} of the index")
                }
            },
            Pc::Lock => {
                let Some((there, text)) = w.lock_found(f, p, who) else {
                    return;
                };
                if there {
                    self.pc = Pc::Remove;
                } else {
                    self.frame = NONE;
                    self.pc = Pc::Lookup;
                }
                text
            }
            Pc::Remove => {
                if w.has(f, Flags::WRITEBACK) {
                    // Waits for its end.
                    return;
                }
                let mapped = w.mapped(f);
                if mapped {
                    w.zap(p);
                }
                w.truncate(f, p);
                self.pc = Pc::Unlock;
                let unmaps = if mapped { "unmaps it, " } else { "" };
                format!("{unmaps}takes frame {f} out of the index, its dirty mark off, and gives the block of page {p} back")
            }
            Pc::Unlock => {
                w.unlock(f);
                self.pc = Pc::Put;
                format!("unlocks frame {f}")
            }
            Pc::Put => {
                w.put(f);
                self.end();
                format!("lets go of frame {f}")
            }
        };
        sink.put(w, self, || text);
    }
}
