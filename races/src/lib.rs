//! The race proof: the engine's own eviction of dirty folios, in every order of what may come between
//! its steps.
//!
//! The engine does no I/O and waits for nobody: a task says what must happen next, and the host
//! decides when it does. Here the host is a search. A small [world](world) holds what the kernel keeps
//! outside of `struct folio`: page table, cached translations, memory, blocks. Actors change it by
//! steps: [tasks of the engine](reclaimer), threads of the [program](program), [truncation], a
//! [flusher], the device. The [search] visits every state that any order of steps can reach and
//! compares each with what must hold ([alarm]). [Planted faults](cases) show that it would notice.

mod alarm;
mod cases;
mod flusher;
mod program;
mod reclaimer;
mod report;
mod search;
mod sink;
mod state;
#[cfg(test)]
mod tests;
mod truncation;
mod verbs;
mod world;

pub use alarm::Property;
pub use cases::{Adversary, Memory, Plant, Protocol, ADVERSARIES, MEMORY, PLANTS, PROTOCOLS};
pub use report::{find, find_all, prove, prove_against};
pub use report::{Counterexample, PlantReport, ProtocolReport, RaceReport, RunReport};

/// Adversaries of one run at most.
pub const MAX_ADVERSARIES: usize = world::ACTORS - 1;
