//! A state of the whole: the world, and how far each actor is.

use crate::alarm::{broken, Alarm};
use crate::flusher::{device, Flusher};
use crate::program::Program;
use crate::reclaimer::Reclaimer;
use crate::sink::{Sink, Step};
use crate::truncation::Truncation;
use crate::world::{World, ACTORS};
use std::hash::Hash;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Who acts, and how far it is.
#[derive(Clone)]
pub(crate) enum Actor {
    /// Nobody in this place, or one that only lets others fail.
    Absent,
    /// A task of the engine.
    Reclaimer(Reclaimer),
    /// A thread of the program.
    Program(Program),
    Truncation(Truncation),
    Flusher(Flusher),
}

/// A state of the whole.
#[derive(Clone)]
pub(crate) struct State {
    pub world: World,
    pub actors: [Actor; ACTORS],
}

/// A state that a step leads to.
pub(crate) struct Successor {
    pub state: State,
    /// Who stepped; [`ACTORS`] is the device.
    pub who: usize,
    pub text: Option<String>,
}

/// The successors of a state.
#[derive(Default)]
pub(crate) struct Successors {
    pub out: Vec<Successor>,
    /// Also say each step in words.
    pub texts: bool,
}

impl Successors {
    /// Takes all of `state`. An assertion of the engine that fails is one, too.
    pub fn all(&mut self, state: &State) {
        self.out.clear();
        let w = &state.world;
        for (who, actor) in state.actors.iter().enumerate() {
            match actor {
                Actor::Absent => {}
                Actor::Reclaimer(a) => {
                    self.take(state, who, Actor::Reclaimer, |sink| a.step(w, sink));
                }
                Actor::Program(a) => {
                    self.take(state, who, Actor::Program, |sink| a.step(w, who, sink));
                }
                Actor::Truncation(a) => {
                    self.take(state, who, Actor::Truncation, |sink| a.step(w, who, sink));
                }
                Actor::Flusher(a) => {
                    self.take(state, who, Actor::Flusher, |sink| a.step(w, who, sink));
                }
            }
        }
        self.take(state, ACTORS, |()| Actor::Absent, |sink| device(w, sink));
    }

    fn take<A>(
        &mut self,
        from: &State,
        who: usize,
        wrap: impl Fn(A) -> Actor,
        step: impl FnOnce(&mut Sink<A>),
    ) {
        let mut sink = Sink::new(self.texts);
        let broke = catch_unwind(AssertUnwindSafe(|| step(&mut sink))).is_err();
        let successor = |Step { world, actor, text }| {
            let mut actors = from.actors.clone();
            if let Some(place) = actors.get_mut(who) {
                *place = wrap(actor);
            }
            let state = State { world, actors };
            Successor { state, who, text }
        };
        self.out.extend(sink.out.into_iter().map(successor));
        if broke {
            let mut state = from.clone();
            state.world.alarm = Some(Alarm::Check);
            let text = Some("breaks off".into());
            self.out.push(Successor { state, who, text });
        }
    }
}

impl State {
    /// All that decides what can happen from here on.
    pub fn key(&self) -> Vec<u8> {
        let mut key = self.world.key();
        for actor in &self.actors {
            std::mem::discriminant(actor).hash(&mut key);
            match actor {
                Actor::Absent => {}
                Actor::Reclaimer(a) => a.key(&|id| self.world.name_of(id), &mut key),
                Actor::Program(a) => a.hash(&mut key),
                Actor::Truncation(a) => a.hash(&mut key),
                Actor::Flusher(a) => a.hash(&mut key),
            }
        }
        key.0
    }

    /// Everybody is at the end.
    pub fn over(&self) -> bool {
        self.actors.iter().all(|a| match a {
            Actor::Absent => true,
            Actor::Reclaimer(a) => a.done(),
            Actor::Program(a) => a.done(),
            Actor::Truncation(a) => a.done(),
            Actor::Flusher(a) => a.done(),
        })
    }

    /// What must hold and does not.
    pub fn broken(&self) -> Option<Alarm> {
        broken(&self.world, self.over())
    }
}
