//! The race proof: every interleaving of batched and unbatched dirty eviction with whatever may
//! come between its steps (`tlb.md` 5, `shrink-folio-list.md` 8).
//!
//! A model of the protocol, not the code of the engine: the engine runs one step at a time, and
//! what is in question here is what others may do between two of them. Folios, page table, cached
//! translations, reference counts, locks, index, blocks and the actors are a few dozen bytes of
//! state (`state`); actors change them by micro-steps (`next`); the search visits all states
//! that any order of micro-steps can reach (`search`) and compares each with what must hold
//! (`alarm`). Protocols and planted bugs are switches of one program (`protocol`).

mod alarm;
mod next;
mod others;
mod protocol;
mod reclaim;
mod report;
mod search;
mod state;
#[cfg(test)]
mod tests;
mod threads;

pub use alarm::Property;
pub use protocol::{Adversary, Plant, Protocol, ADVERSARIES, PLANTS, PROTOCOLS};
pub use report::{find, prove, prove_against};
pub use report::{Counterexample, PlantReport, ProtocolReport, RaceReport, RunReport};
pub use search::Step;

use protocol::{Batching, Flaws, Kind};
use reclaim::Reclaim;
use state::{Cached, Frame, Page, State, Task, ACTORS, CPUS, FRAMES, NONE, PAGES};

/// Adversaries of one run at most.
pub const MAX_ADVERSARIES: usize = ACTORS - 1;

/// What is explored: a protocol against some adversaries.
struct Model {
    batching: Batching,
    flaws: Flaws,
    adversaries: Vec<Adversary>,
    /// What each adversary does at most: accesses, folios.
    work: u8,
}

impl Model {
    fn actor(&self, who: usize) -> String {
        match who {
            0 => "reclaimer".into(),
            ACTORS => "device".into(),
            _ => self.adversaries[who - 1].name.into(),
        }
    }

    /// Page 0 is mapped and has been written, page 1 one of three ways.
    fn initial(&self) -> Vec<State> {
        let mut tasks = [Task::Absent; ACTORS];
        tasks[0] = Task::Reclaim(Reclaim::new(PAGES as u8));
        for (task, a) in tasks[1..].iter_mut().zip(&self.adversaries) {
            *task = match a.kind {
                Kind::Stale | Kind::Refault | Kind::Pin => {
                    // A pinner pins once: pins are many steps.
                    let work = if a.kind == Kind::Pin { 1 } else { self.work };
                    Task::Program(threads::Program::new(a.kind, work))
                }
                Kind::Truncate => Task::Truncate(others::Truncate::new()),
                Kind::Reclaim => Task::Reclaim(Reclaim::new(1)),
                Kind::Writer => Task::Writer(others::Writer::new(self.work)),
                Kind::Device => Task::Device(1),
            };
        }
        INITIAL.iter().map(|i| first(i.1, tasks)).collect()
    }
}

/// Page 1 at the beginning, in words.
const INITIAL: [(&str, Second); 3] = [
    ("both pages are mapped and have been written; both CPUs cache dirty translations", Second::Dirty),
    ("both pages are mapped, page 0 has been written and both CPUs cache its dirty translation; page 1 is clean", Second::Clean),
    ("page 0 is mapped and has been written, both CPUs cache its dirty translation; page 1 is dirty and not mapped", Second::Unmapped),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    Dirty,
    Clean,
    Unmapped,
}

fn first(second: Second, tasks: [Task; ACTORS]) -> State {
    let mut s = State {
        frames: [Frame::FREE; FRAMES],
        pages: [Page {
            frame: NONE,
            entry: NONE,
            entry_dirty: false,
            block: 0,
            done: 1,
            gone: false,
            block_gone: false,
        }; PAGES],
        tlb: [[None; PAGES]; CPUS],
        mm_pending: false,
        tasks,
    };
    for p in 0..PAGES {
        let kind = if p == 0 { Second::Dirty } else { second };
        let mapped = kind != Second::Unmapped;
        let dirty = kind == Second::Dirty;
        s.frames[p] = Frame {
            page: p as u8,
            refs: 1 + u8::from(mapped),
            data: 1,
            used: true,
            uptodate: true,
            on_lru: true,
            dirty: kind == Second::Unmapped,
            ..Frame::FREE
        };
        let page = &mut s.pages[p];
        page.frame = p as u8;
        page.block = u8::from(kind == Second::Clean);
        if mapped {
            page.entry = p as u8;
            page.entry_dirty = dirty;
            for cpu in &mut s.tlb {
                cpu[p] = Some(Cached {
                    frame: p as u8,
                    dirty,
                });
            }
        }
    }
    s
}
