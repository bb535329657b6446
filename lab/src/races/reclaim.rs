//! The reclaimer: one program of micro-steps for all protocols (`shrink-folio-list.md` 2, 4 to 6, 8).
//!
//! A step ends where others could see or change what it sees or changes. Sets of folios are bit
//! masks over frames; they are worked through in ascending order.

use super::alarm::Alarm;
use super::next::{Next, Sink};
use super::protocol::{Batching, Cleaned};
use super::state::{State, Task, CPUS, FRAMES, NONE};

/// Capacity of the batch of dirty folios and of the batch of folios to free (31 in the original).
pub(super) const CAP: u32 = 2;

/// Program counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    Isolate,
    Lock,
    Unmap,
    PinTest,
    DirtyTest,
    Relock,
    Recheck,
    Count,
    Write,
    Unlock,
    Again,
    AgainTest,
    FreeTest,
    Freeze,
    Remove,
    /// Flush this CPU, then the others, then go on.
    Flush(u8, Then),
    /// Item 8, after a flush.
    Mark(Then),
    Free,
    PutBack,
    Done,
}

/// What comes after a flush.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Then {
    Resume,
    Pageout,
    Free,
}

/// Registers of a reclaimer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Reclaim {
    pc: Pc,
    /// Folios it isolates at most.
    quota: u8,
    /// The folio at hand.
    cur: u8,
    input: u8,
    /// Dirty folios that wait for their batch.
    wait: u8,
    /// Dirty folios locked for write-out.
    keep: u8,
    /// Survivors.
    ret: u8,
    free: u8,
    /// Folios that have waited unlocked since the last flush.
    queued: u8,
    /// By frame: the page that the folio belonged to when it entered the batch.
    home: u8,
    /// The batch is being locked again.
    relocking: bool,
    /// Some translation is pending; a dirty one is.
    required: bool,
    writable: bool,
}

fn bit(f: usize) -> u8 {
    1 << f
}

fn lowest(mask: u8) -> usize {
    mask.trailing_zeros() as usize
}

impl Reclaim {
    pub fn new(quota: u8) -> Self {
        Reclaim {
            pc: Pc::Isolate,
            quota,
            cur: 0,
            input: 0,
            wait: 0,
            keep: 0,
            ret: 0,
            free: 0,
            queued: 0,
            home: 0,
            relocking: false,
            required: false,
            writable: false,
        }
    }

    pub fn done(&self) -> bool {
        self.pc == Pc::Done
    }

    /// Page of the folio in the opinion of the reclaimer.
    fn page(&self, n: &Next, f: usize) -> u8 {
        if n.flaws.stale_mapping && self.queued_once(f) {
            u8::from(self.home & bit(f) != 0)
        } else {
            n.s.frames[f].page
        }
    }

    /// `home` is known: bit 4 and up say so.
    fn queued_once(&self, f: usize) -> bool {
        self.home & bit(f + FRAMES) != 0
    }

    fn note_home(&mut self, n: &Next, f: usize) {
        if n.flaws.stale_mapping {
            self.home |= bit(f + FRAMES);
            if n.s.frames[f].page == 1 {
                self.home |= bit(f);
            }
        }
    }

    /// Goes on with whatever is next in its lists.
    fn advance(&mut self, n: &Next, batching: Batching) {
        let flaws = n.flaws;
        if self.free.count_ones() >= CAP {
            self.pc = if self.required && !flaws.free_before_flush {
                Pc::Flush(0, Then::Free)
            } else {
                Pc::Free
            };
            return;
        }
        if !self.relocking && self.keep == 0 && self.wait != 0 {
            let full = self.wait.count_ones() >= CAP;
            if full || self.input == 0 {
                self.relocking = true;
                if batching == Batching::Locked {
                    self.keep = std::mem::take(&mut self.wait);
                }
            }
        }
        if self.relocking {
            if self.wait != 0 {
                self.cur = lowest(self.wait) as u8;
                self.pc = Pc::Relock;
                return;
            }
            self.relocking = false;
            if self.keep != 0 && self.writable && !flaws.io_before_flush {
                self.pc = Pc::Flush(0, Then::Resume);
                return;
            }
        }
        if self.keep != 0 {
            self.cur = lowest(self.keep) as u8;
            self.keep &= self.keep - 1;
            self.pc = Pc::Count;
        } else if self.input != 0 {
            self.cur = lowest(self.input) as u8;
            self.input &= self.input - 1;
            self.pc = Pc::Lock;
        } else if self.free != 0 && (flaws.free_before_flush || !self.required) {
            self.pc = Pc::Free;
        } else if self.required {
            self.pc = Pc::Flush(0, Then::Resume);
        } else if self.ret != 0 {
            self.pc = Pc::PutBack;
        } else {
            self.pc = Pc::Done;
        }
    }

    /// One micro-step.
    pub fn step(mut self, s: &State, who: usize, model: &super::Model, sink: &mut Sink) {
        let mut n = Next::new(s, who, model.flaws);
        let b = model.batching;
        let f = usize::from(self.cur);
        let fr = s.frames[f];
        let text = match self.pc {
            Pc::Done => return,
            Pc::Isolate => {
                for i in 0..FRAMES {
                    let frame = &s.frames[i];
                    if frame.on_lru
                        && frame.refs > 0
                        && self.input.count_ones() < u32::from(self.quota)
                    {
                        self.input |= bit(i);
                        n.frame(i).on_lru = false;
                        n.get(i);
                    }
                }
                let taken = names(self.input);
                self.advance(&n, b);
                format!("isolates {taken} from the LRU")
            }
            Pc::Lock => {
                if n.try_lock(f) {
                    self.pc = Pc::Unmap;
                    format!("locks frame {f}")
                } else {
                    self.turn_away(&n, f, b);
                    format!("finds frame {f} locked: back to the list")
                }
            }
            Pc::Unmap if fr.writeback => {
                self.give_up(&mut n, f, b);
                format!("finds frame {f} under writeback: unlocks it, back to the list")
            }
            Pc::Unmap => {
                self.pc = Pc::PinTest;
                let page = usize::from(fr.page);
                let was = if fr.page != NONE && usize::from(s.pages[page].entry) == f {
                    n.clear_entry(page)
                } else {
                    None
                };
                if let Some(dirty) = was {
                    n.frame(f).refs -= 1;
                    n.s.mm_pending = true;
                    self.required = true;
                    self.writable |= dirty;
                }
                match was {
                    Some(true) => format!("unmaps page {page}: the entry was dirty, so frame {f} is; the flush is put off"),
                    Some(false) => format!("unmaps page {page}: the entry was clean; the flush is put off"),
                    None => format!("finds frame {f} not mapped"),
                }
            }
            Pc::PinTest => {
                if fr.pins > 0 {
                    self.give_up(&mut n, f, b);
                    format!("finds frame {f} pinned: unlocks it, back to the list")
                } else {
                    self.pc = Pc::DirtyTest;
                    format!("finds frame {f} not pinned")
                }
            }
            Pc::DirtyTest if !fr.dirty => {
                self.pc = Pc::FreeTest;
                format!("finds frame {f} clean")
            }
            Pc::DirtyTest if n.flaws.kept_unflushed => {
                self.give_up(&mut n, f, b);
                format!("finds frame {f} dirty and leaves it to the flusher: unlocks it, back to the list")
            }
            Pc::DirtyTest => match b {
                Batching::None => {
                    self.pc = if self.writable && !n.flaws.io_before_flush {
                        Pc::Flush(0, Then::Pageout)
                    } else {
                        Pc::Count
                    };
                    format!("finds frame {f} dirty")
                }
                Batching::Unlocked { .. } => {
                    self.wait |= bit(f);
                    self.queued |= bit(f);
                    self.note_home(&n, f);
                    if !n.flaws.no_unlock {
                        n.unlock(f);
                    }
                    self.advance(&n, b);
                    let unlocked = if n.flaws.no_unlock { "" } else { ", unlocked" };
                    format!("finds frame {f} dirty: into the batch{unlocked}")
                }
                Batching::Locked => {
                    self.wait |= bit(f);
                    self.advance(&n, b);
                    format!("finds frame {f} dirty: into the batch, still locked")
                }
            },
            Pc::Relock => {
                if n.try_lock(f) {
                    self.pc = Pc::Recheck;
                    format!("locks frame {f} of the batch again")
                } else {
                    self.leave_batch(&n, f);
                    self.turn_away(&n, f, b);
                    format!("finds frame {f} of the batch locked: back to the list")
                }
            }
            Pc::Recheck => {
                let Batching::Unlocked { pin_check, cleaned } = b else {
                    unreachable!("only batches that wait unlocked are looked at again")
                };
                let why = if n.flaws.no_recheck {
                    None
                } else if fr.writeback {
                    Some("under writeback")
                } else if s.mapped(f) && !n.flaws.no_mapped_check {
                    Some("mapped again")
                } else if fr.pins > 0 && pin_check {
                    Some("pinned")
                } else if !fr.dirty && cleaned == Cleaned::Rejected {
                    Some("clean")
                } else {
                    None
                };
                self.leave_batch(&n, f);
                if let Some(why) = why {
                    self.give_up(&mut n, f, b);
                    format!("finds frame {f} {why}: unlocks it, back to the list")
                } else {
                    let mark = !fr.dirty && cleaned == Cleaned::MarkedAtRelock;
                    n.frame(f).dirty |= mark;
                    self.wait &= !bit(f);
                    self.keep |= bit(f);
                    self.advance(&n, b);
                    let marked = if mark { ", marks it dirty again" } else { "" };
                    format!("keeps frame {f} locked{marked}")
                }
            }
            Pc::Count => {
                let page = self.page(&n, f);
                if fr.refs != 2 && !n.flaws.no_count {
                    self.give_up(&mut n, f, b);
                    format!(
                        "counts {} references of frame {f} instead of 2: unlocks it, back to the list",
                        fr.refs
                    )
                } else if page == NONE {
                    self.give_up(&mut n, f, b);
                    format!("finds frame {f} without a mapping: unlocks it, back to the list")
                } else {
                    self.pc = Pc::Write;
                    format!("counts on nobody else holding frame {f}")
                }
            }
            Pc::Write if !fr.dirty => {
                self.pc = Pc::FreeTest;
                format!("finds frame {f} clean: somebody else has written it")
            }
            Pc::Write => {
                let page = usize::from(self.page(&n, f));
                n.start_write(f, page, true);
                self.pc = Pc::Unlock;
                format!("takes the dirty mark off frame {f} and starts its write-out to the block of page {page}")
            }
            Pc::Unlock => {
                n.unlock(f);
                self.pc = Pc::Again;
                format!("unlocks frame {f}")
            }
            Pc::Again => {
                if fr.writeback || fr.dirty || !n.try_lock(f) {
                    self.turn_away(&n, f, b);
                    format!("leaves frame {f} to its write-out: back to the list")
                } else {
                    self.pc = Pc::AgainTest;
                    format!("finds frame {f} written already and locks it")
                }
            }
            Pc::AgainTest => {
                if fr.writeback || fr.dirty {
                    self.give_up(&mut n, f, b);
                    format!("finds frame {f} dirty or being written: unlocks it, back to the list")
                } else {
                    self.pc = Pc::FreeTest;
                    format!("finds frame {f} clean")
                }
            }
            Pc::FreeTest => {
                if self.page(&n, f) != NONE {
                    if n.flaws.dirty_before_freeze && fr.dirty {
                        self.give_up(&mut n, f, b);
                        format!("finds frame {f} dirty: unlocks it, back to the list")
                    } else {
                        self.pc = Pc::Freeze;
                        format!("goes on to free frame {f}")
                    }
                } else if fr.refs == 1 {
                    n.frame(f).refs = 0;
                    n.unlock(f);
                    self.free |= bit(f);
                    self.advance(&n, b);
                    format!("finds frame {f} truncated and held by nobody else: to be freed")
                } else {
                    self.give_up(&mut n, f, b);
                    format!("finds frame {f} truncated but held: unlocks it, back to the list")
                }
            }
            Pc::Freeze => {
                if fr.refs == 2 {
                    n.frame(f).refs = 0;
                    self.pc = Pc::Remove;
                    format!("freezes the reference count of frame {f} at 2")
                } else {
                    self.give_up(&mut n, f, b);
                    format!(
                        "cannot freeze frame {f} with {} references: unlocks it, back to the list",
                        fr.refs
                    )
                }
            }
            Pc::Remove => {
                if fr.dirty && !n.flaws.dirty_before_freeze {
                    n.frame(f).refs = 2;
                    self.give_up(&mut n, f, b);
                    format!(
                        "finds frame {f} dirty after all: lets it live, unlocks it, back to the list"
                    )
                } else {
                    let page = usize::from(self.page(&n, f));
                    n.leave_index(f, page);
                    n.unlock(f);
                    self.free |= bit(f);
                    self.advance(&n, b);
                    format!("takes frame {f} out of the index at page {page} and unlocks it: to be freed")
                }
            }
            Pc::Flush(cpu, then) => {
                n.flush_cpu(usize::from(cpu));
                if usize::from(cpu) + 1 < CPUS {
                    self.pc = Pc::Flush(cpu + 1, then);
                } else {
                    self.required = false;
                    self.writable = false;
                    self.after_flush(&n, then, b);
                }
                format!("flushes CPU {cpu}")
            }
            Pc::Mark(then) => {
                let f = lowest(self.queued);
                self.queued &= self.queued - 1;
                let frame = n.frame(f);
                let mark = frame.page != NONE && !frame.dirty;
                frame.dirty |= mark;
                self.after_flush(&n, then, b);
                if mark {
                    format!(
                        "marks frame {f} dirty again: a store may have come after its write-out"
                    )
                } else {
                    format!("finds that frame {f} need not be marked")
                }
            }
            Pc::Free => {
                let freed = names(self.free);
                for f in 0..FRAMES {
                    if self.free & bit(f) != 0 {
                        n.free(f);
                    }
                }
                self.queued &= !self.free;
                self.home &= !(self.free | self.free << FRAMES);
                self.free = 0;
                self.advance(&n, b);
                format!("frees {freed}")
            }
            Pc::PutBack => {
                let f = lowest(self.ret);
                self.ret &= self.ret - 1;
                n.frame(f).on_lru = true;
                n.put(f);
                self.advance(&n, b);
                format!("puts frame {f} back on the LRU")
            }
        };
        if self.done() {
            self.end(&mut n);
        }
        sink.put(n, Task::Reclaim(self), || text);
    }

    fn after_flush(&mut self, n: &Next, then: Then, b: Batching) {
        let marks = matches!(
            b,
            Batching::Unlocked {
                cleaned: Cleaned::MarkedAfterFlush,
                ..
            }
        );
        if marks && self.queued != 0 {
            self.pc = Pc::Mark(then);
            return;
        }
        self.queued = 0;
        match then {
            Then::Resume => self.advance(n, b),
            Then::Pageout => self.pc = Pc::Count,
            Then::Free => self.pc = Pc::Free,
        }
    }

    /// The folio goes back to the list, unlocked already.
    fn turn_away(&mut self, n: &Next, f: usize, b: Batching) {
        if self.wait & bit(f) == 0 {
            self.ret |= bit(f);
        }
        self.advance(n, b);
    }

    /// The folio is unlocked and goes back to the list.
    fn give_up(&mut self, n: &mut Next, f: usize, b: Batching) {
        n.unlock(f);
        self.turn_away(n, f, b);
    }

    /// The folio is no longer waiting in the batch.
    fn leave_batch(&mut self, n: &Next, f: usize) {
        if !n.flaws.no_advance {
            self.wait &= !bit(f);
        }
    }

    /// Nothing may be left over.
    fn end(&mut self, n: &mut Next) {
        self.cur = 0;
        self.queued = 0;
        self.home = 0;
        let kept = n.s.frames.iter().position(|f| usize::from(f.lock) == n.who);
        if let Some(f) = kept {
            n.raise(Alarm::LockKept { frame: f as u8 });
        }
    }
}

/// "frame 0", "frames 0 and 1", "nothing".
fn names(mask: u8) -> String {
    let all: Vec<String> = (0..FRAMES)
        .filter(|&f| mask & bit(f) != 0)
        .map(|f| f.to_string())
        .collect();
    match all.len() {
        0 => "nothing".into(),
        1 => format!("frame {}", all[0]),
        _ => format!("frames {}", all.join(" and ")),
    }
}
