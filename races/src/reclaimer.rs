//! A task of the engine, and the host's half of it: what the task asks for is done by steps that
//! anybody may come between.
//!
//! The task is the engine's own code. What it does between two requests is one step, for no host lets
//! anybody at the engine meanwhile; whatever it asks for is done in a step of its own, a flush in one
//! for each CPU, and another step takes the answer to the task.

use crate::alarm::Alarm;
use crate::cases::{Fault, Kind};
use crate::sink::Sink;
use crate::world::{World, CPUS, FRAMES, NONE};
use coldset_engine::reclaim::{Answer, PageoutTask, ReclaimKind, ScanControl, Work, Written};
use coldset_engine::{Flags, FolioId, MemcgId};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// What is next.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Next {
    Isolate,
    /// Step the task with this answer. It may be killed where it rests.
    Step {
        answer: Option<Answer>,
        rests: bool,
    },
    Unmap(u8),
    Slot(u8),
    Write(u8),
    Wait(u8),
    Detach,
    Free,
    /// Flush this CPU, then the others, then go on.
    Flush(u8, Then),
    Done,
}

/// What comes after a flush.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Then {
    Step(Option<Answer>),
    Free,
    Abandon,
}

const GO_ON: Next = Next::Step {
    answer: None,
    rests: false,
};

/// A reclaimer.
#[derive(Clone)]
pub(crate) struct Reclaimer {
    next: Next,
    /// Folios it isolates at most.
    quota: u8,
    cpu: u16,
    task: Option<Rc<PageoutTask>>,
    /// Frames of folios that the task has reclaimed and that are not free memory yet: a bit each.
    held: u8,
    /// A faulty host has a flush to catch up on.
    owed: bool,
    /// A flush has ended since the last step of the task.
    flushed: bool,
}

fn bit(f: usize) -> u8 {
    1 << f
}

impl Reclaimer {
    /// A task on `cpu` for `quota` folios.
    pub fn new(quota: u8, cpu: u16) -> Self {
        Self {
            next: Next::Isolate,
            quota,
            cpu,
            task: None,
            held: 0,
            owed: false,
            flushed: false,
        }
    }

    pub fn done(&self) -> bool {
        self.next == Next::Done
    }

    /// All that decides what it does from here on.
    pub fn key(&self, name: &dyn Fn(FolioId) -> u8, key: &mut impl Hasher) {
        (self.next, self.held, self.owed, self.flushed).hash(key);
        if let Some(task) = &self.task {
            task.key(name, key);
        }
    }

    /// One step, in every way it can go.
    pub fn step(&self, w: &World, sink: &mut Sink<Self>) {
        let mut r = self.clone();
        let mut w = w.clone();
        let text = match self.next {
            Next::Done => return,
            Next::Isolate => r.isolate(&mut w),
            Next::Step { answer, rests } => {
                if rests {
                    r.killed(&w, sink);
                }
                r.run(&mut w, answer)
            }
            Next::Unmap(f) => r.unmap(&mut w, f),
            Next::Slot(f) => {
                let slot = u32::from(w.frames[usize::from(f)].page);
                r.answer(Answer::Slot(Some(slot)));
                format!("host: gives frame {f} slot {slot}")
            }
            Next::Write(f) => {
                if let Some(w) = w.device_fails() {
                    let mut r = r.clone();
                    r.answer(Answer::Written(Written::Failed));
                    sink.put(w, r, || format!("host: the device refuses frame {f}"));
                }
                r.write(&mut w, f)
            }
            Next::Wait(f) => {
                if w.has(usize::from(f), Flags::WRITEBACK) {
                    return;
                }
                r.next = Next::Step {
                    answer: None,
                    rests: true,
                };
                format!("host: the writeback of frame {f} has ended")
            }
            Next::Detach => {
                r.detach(&mut w);
                if w.setting.fault == Some(Fault::FreedAtDetach) {
                    r.free(&mut w);
                }
                r.next = GO_ON;
                "host: empties the slots of what is to be freed".into()
            }
            Next::Free => {
                r.detach(&mut w);
                let freed = names(r.held);
                r.free(&mut w);
                r.next = GO_ON;
                format!("host: frees {freed}")
            }
            Next::Flush(cpu, then) => r.flush(&mut w, cpu, then),
        };
        sink.put(w, r, || text);
    }

    fn answer(&mut self, answer: Answer) {
        self.next = Next::Step {
            answer: Some(answer),
            rests: false,
        };
    }

    fn isolate(&mut self, w: &mut World) -> String {
        w.eng_mut().lru_add_drain(self.cpu);
        w.reap();
        let taken: Vec<usize> = (0..FRAMES)
            .filter(|&f| w.refs(f) > 0 && w.has(f, Flags::LRU))
            .take(usize::from(self.quota))
            .collect();
        let limit = (!w.eng().config().cgroup_v2).then_some(MemcgId::ROOT);
        let mut sc = ScanControl::new(u64::from(self.quota), limit);
        if w.setting.kind == Kind::FileKswapd {
            sc.kind = ReclaimKind::Kswapd;
        }
        let ids: Vec<FolioId> = taken.iter().map(|&f| w.id(f)).collect();
        let lruvec = w.lruvec();
        let task = PageoutTask::new(w.eng_mut(), sc, lruvec, self.cpu, &ids);
        self.task = Some(Rc::new(task));
        self.next = GO_ON;
        let mask = taken.iter().fold(0, |all, &f| all | bit(f));
        format!("isolates {} from the LRU", names(mask))
    }

    /// Steps the task.
    fn run(&mut self, w: &mut World, answer: Option<Answer>) -> String {
        let before = Seen::of(w);
        let task = Rc::make_mut(self.task.as_mut().expect("it has isolated"));
        if let Some(answer) = answer {
            task.answer(answer);
        }
        let work = task.step(w.eng_mut());
        let after = Seen::of(w);
        if work != Work::Done {
            let gone = before.alive & !after.alive;
            self.held |= gone;
            for f in (0..FRAMES).filter(|&f| gone & bit(f) != 0) {
                w.frames[f].held = true;
            }
        }
        if w.setting.fault == Some(Fault::Unsettled) && self.flushed {
            let marked = after.dirty & !before.dirty;
            for f in (0..FRAMES).filter(|&f| marked & bit(f) != 0) {
                w.clear_dirty(f);
            }
        }
        self.flushed = false;
        let frame = |id: FolioId| w.frame_of(id).map_or(NONE, |f| f as u8);
        let (next, asks) = match work {
            Work::Unmap { folio } => (
                Next::Unmap(frame(folio)),
                format!("asks to unmap frame {}", frame(folio)),
            ),
            Work::AllocSwap { folio } => (
                Next::Slot(frame(folio)),
                format!("asks for a slot for frame {}", frame(folio)),
            ),
            Work::Write { folio } => (
                Next::Write(frame(folio)),
                format!("asks to write frame {}", frame(folio)),
            ),
            Work::WaitWriteback { folio } => (
                Next::Wait(frame(folio)),
                format!("waits for the writeback of frame {}", frame(folio)),
            ),
            Work::FlushTlb { for_write } if for_write && self.late(w) => {
                self.owed = true;
                (GO_ON, "asks for a flush, which the host puts off".into())
            }
            Work::FlushTlb { for_write } => {
                let why = if for_write { "writing" } else { "freeing" };
                (
                    Next::Flush(0, Then::Step(None)),
                    format!("asks for a flush before {why}"),
                )
            }
            Work::Detach => (Next::Detach, "asks to empty slots".into()),
            Work::Free => {
                let late = std::mem::take(&mut self.owed);
                let next = if late {
                    Next::Flush(0, Then::Free)
                } else {
                    Next::Free
                };
                (next, format!("asks to free {}", names(self.held)))
            }
            Work::Yield => (
                Next::Step {
                    answer: None,
                    rests: true,
                },
                "lets others run".into(),
            ),
            Work::Done => {
                self.task = None;
                (Next::Done, "is done".into())
            }
            other => unreachable!("single pages, named by the host, never need {other:?}"),
        };
        self.next = next;
        if let Next::Unmap(frame) | Next::Write(frame) | Next::Slot(frame) = next {
            if w.frames[usize::from(frame)].lock != NONE {
                w.raise(Alarm::LockForeign { frame });
            }
        }
        format!("{}{asks}", before.changes(after))
    }

    fn late(&self, w: &World) -> bool {
        w.setting.fault == Some(Fault::LateFlush)
    }

    fn unmap(&mut self, w: &mut World, frame: u8) -> String {
        let mapped = w.pages.iter().position(|p| p.entry == frame);
        let dirty = mapped.and_then(|p| w.clear_entry(p));
        w.mm_pending |= dirty.is_some();
        let fault = w.setting.fault;
        self.answer(Answer::Unmapped {
            deferred: dirty.is_some() && fault != Some(Fault::DeferredUntold),
            writable: dirty == Some(true) && fault != Some(Fault::WritableUntold),
        });
        match dirty {
            Some(true) => format!("host: unmaps frame {frame}: the entry was dirty, so the folio is; the flush is put off"),
            Some(false) => format!("host: unmaps frame {frame}: the entry was clean; the flush is put off"),
            None => format!("host: finds frame {frame} not mapped"),
        }
    }

    fn write(&mut self, w: &mut World, frame: u8) -> String {
        let f = usize::from(frame);
        let page = w.frames[f].page;
        w.start_write(f, usize::from(page), true);
        let answer = Some(Answer::Written(Written::Submitted));
        self.next = if std::mem::take(&mut self.owed) {
            Next::Flush(0, Then::Step(answer))
        } else {
            Next::Step {
                answer,
                rests: false,
            }
        };
        format!("host: starts the write-out of frame {frame} to the block of page {page}")
    }

    fn flush(&mut self, w: &mut World, cpu: u8, then: Then) -> String {
        let fault = w.setting.fault;
        let last = usize::from(cpu) + 1 == CPUS;
        let left_out = fault == Some(Fault::NoFlush) || last && fault == Some(Fault::ForgottenCpu);
        if !left_out {
            w.flush_cpu(usize::from(cpu));
        }
        self.next = match then {
            _ if !last => Next::Flush(cpu + 1, then),
            Then::Step(answer) => {
                self.flushed = true;
                Next::Step {
                    answer,
                    rests: false,
                }
            }
            Then::Free => Next::Free,
            Then::Abandon => {
                let mut task = self.task.take().expect("it is killed before its end");
                Rc::make_mut(&mut task).abandon(w.eng_mut());
                w.reap();
                self.free(w);
                Next::Done
            }
        };
        let what = if left_out {
            "does not flush"
        } else {
            "flushes"
        };
        let ends = if self.done() {
            "; what is isolated goes back"
        } else {
            ""
        };
        format!("host: {what} CPU {cpu}{ends}")
    }

    /// The reclaimer is killed where it rests, if anybody wants to.
    fn killed(&self, w: &World, sink: &mut Sink<Self>) {
        if let Some(kills) = w.kills.checked_sub(1) {
            let mut w = w.clone();
            w.kills = kills;
            let mut r = self.clone();
            r.next = Next::Flush(0, Then::Abandon);
            sink.put(w, r, || "is killed".into());
        }
    }

    /// Takes what the task names out of the index.
    fn detach(&self, w: &mut World) {
        let task = self.task.as_ref().expect("it has asked");
        for freed in task.freed().iter().filter(|f| f.owned) {
            let p = freed.index as usize;
            let f = w.pages[p].frame;
            if f == NONE || self.held & bit(usize::from(f)) == 0 {
                w.raise(Alarm::IndexForeign { page: p as u8 });
            } else {
                w.leave_index(p);
            }
        }
    }

    fn free(&mut self, w: &mut World) {
        let held = std::mem::take(&mut self.held);
        (0..FRAMES)
            .filter(|&f| held & bit(f) != 0)
            .for_each(|f| w.free(f));
    }
}

/// What a step of a task may change, as masks over frames.
#[derive(Clone, Copy)]
struct Seen {
    alive: u8,
    locked: u8,
    dirty: u8,
    listed: u8,
}

impl Seen {
    fn of(w: &World) -> Self {
        let mask = |holds: &dyn Fn(usize) -> bool| {
            (0..FRAMES)
                .filter(|&f| holds(f))
                .fold(0, |all, f| all | bit(f))
        };
        Self {
            alive: mask(&|f| w.refs(f) > 0),
            locked: mask(&|f| w.has(f, Flags::LOCKED)),
            dirty: mask(&|f| w.has(f, Flags::DIRTY)),
            listed: mask(&|f| w.has(f, Flags::LRU)),
        }
    }

    /// In words, for the head of a line.
    fn changes(self, after: Seen) -> String {
        let rest = after.alive;
        [
            ("locks", after.locked & !self.locked),
            ("marks as dirty", after.dirty & !self.dirty),
            ("takes the dirty mark off", self.dirty & !after.dirty & rest),
            ("freezes", self.alive & !after.alive),
            ("unlocks", self.locked & !after.locked & rest),
            ("puts back", after.listed & !self.listed),
        ]
        .iter()
        .filter(|(_, mask)| *mask != 0)
        .map(|(verb, mask)| format!("{verb} {}; ", names(*mask)))
        .collect()
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
