//! All interleavings: breadth first, so that the first state that breaks a property has a shortest
//! way to it.

use crate::alarm::Alarm;
use crate::cases::{Adversary, Role, Setting};
use crate::flusher::Flusher;
use crate::program::Program;
use crate::reclaimer::Reclaimer;
use crate::state::{Actor, State, Successor, Successors};
use crate::truncation::Truncation;
use crate::world::{World, ACTORS, BEGINNINGS};
use std::collections::hash_map::{Entry, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// What is explored: a form of the engine against some adversaries.
pub(crate) struct Model {
    pub setting: Setting,
    pub adversaries: Vec<Adversary>,
    /// What each adversary does at most: accesses, folios.
    pub work: u8,
}

/// What a search found.
pub(crate) struct Found {
    pub alarm: Alarm,
    /// Number of the beginning.
    pub beginning: usize,
    /// "actor: what", one after the other.
    pub steps: Vec<String>,
}

/// A finished search.
pub(crate) struct Search {
    pub states: u64,
    pub transitions: u64,
    /// Steps of the longest shortest way to a state.
    pub depth: u64,
    /// States in which every actor is at its end.
    pub ends: u64,
    pub found: Option<Found>,
}

impl Model {
    fn actor(&self, who: usize) -> &'static str {
        match who {
            0 => "reclaimer",
            ACTORS => "device",
            _ => self.adversaries[who - 1].name,
        }
    }

    fn beginnings(&self) -> impl Iterator<Item = State> + '_ {
        let mut actors = [const { Actor::Absent }; ACTORS];
        actors[0] = Actor::Reclaimer(Reclaimer::new(2, 0));
        for (actor, a) in actors[1..].iter_mut().zip(&self.adversaries) {
            *actor = match a.role {
                Role::Stale | Role::Refault => Actor::Program(Program::new(a.role, self.work)),
                // Once: pins are many steps.
                Role::Pin => Actor::Program(Program::new(a.role, 1)),
                Role::Truncate => Actor::Truncation(Truncation::new()),
                Role::Reclaim => Actor::Reclaimer(Reclaimer::new(1, 1)),
                Role::Flush => Actor::Flusher(Flusher::new(self.work)),
                Role::Device | Role::Kill => Actor::Absent,
            };
        }
        let count = |role| self.adversaries.iter().filter(|a| a.role == role).count() as u8;
        let (failures, kills) = (count(Role::Device), count(Role::Kill));
        BEGINNINGS.iter().map(move |b| State {
            world: World::new(self.setting, b, failures, kills),
            actors: actors.clone(),
        })
    }
}

/// A step: number of the state it leaves, and which of its successors it leads to.
type Edge = (u32, u16);

/// The graph as far as it is known.
struct Graph<'m> {
    model: &'m Model,
    states: HashMap<Box<[u8]>, u32>,
    /// By state: how it was first reached; of a beginning, its number.
    parents: Vec<Result<Edge, usize>>,
    /// States that are to be looked at, in the order of their numbers.
    fresh: Vec<State>,
    /// Successors of each state, one after the other, and where they begin.
    edges: Vec<u32>,
    begin: Vec<u32>,
}

/// Explores everything that `model` can do, or, to see whether something breaks sooner, only what it
/// can do in `limit` steps.
pub(crate) fn search(model: &Model, limit: u64) -> Search {
    let mut g = Graph {
        model,
        states: HashMap::new(),
        parents: Vec::new(),
        fresh: Vec::new(),
        edges: Vec::new(),
        begin: vec![0],
    };
    for (i, w) in model.beginnings().enumerate() {
        g.add(w, Err(i), false);
    }
    let (mut depth, mut ends) = (0, 0);
    let mut mild: Option<(Alarm, Edge)> = None;
    let mut grave: Option<(Alarm, Edge)> = None;
    let mut next = Successors::default();
    let mut at = 0;
    while !g.fresh.is_empty() && grave.is_none() && depth < limit {
        for w in std::mem::take(&mut g.fresh) {
            next.all(&w);
            if next.out.is_empty() {
                ends += 1;
                if !w.over() {
                    grave.get_or_insert((Alarm::Stuck, (at, u16::MAX)));
                }
            }
            for (n, Successor { mut state, .. }) in next.out.drain(..).enumerate() {
                let edge = (at, n as u16);
                let told = state.world.alarm.take();
                let checked = state.world.same_engine(&w.world);
                let (to, fault) = g.add(state, Ok(edge), checked);
                if let Some(a) = told.filter(|a| !a.mild()).or(fault).or(told) {
                    let worst = if a.mild() { &mut mild } else { &mut grave };
                    worst.get_or_insert((a, edge));
                }
                g.edges.push(to);
            }
            g.begin.push(g.edges.len() as u32);
            at += 1;
        }
        depth += u64::from(!g.fresh.is_empty());
    }
    let found = match grave {
        Some((alarm, edge)) => Some(g.found(alarm, &[edge])),
        None if !g.fresh.is_empty() => None,
        None => g
            .cycle()
            .or_else(|| mild.map(|(alarm, edge)| g.found(alarm, &[edge]))),
    };
    Search {
        states: g.states.len() as u64,
        transitions: g.edges.len() as u64,
        depth,
        ends,
        found,
    }
}

impl Graph<'_> {
    /// The number of a state, and what is wrong with it if it is new. `checked`: its engine has been
    /// looked at before.
    fn add(&mut self, w: State, from: Result<Edge, usize>, checked: bool) -> (u32, Option<Alarm>) {
        let new = self.states.len() as u32;
        match self.states.entry(w.key().into()) {
            Entry::Occupied(known) => (*known.get(), None),
            Entry::Vacant(place) => {
                place.insert(new);
                self.parents.push(from);
                let fault = w
                    .broken()
                    .or_else(|| (!checked).then(|| unsound(&w.world)).flatten());
                self.fresh.push(w);
                (new, fault)
            }
        }
    }

    /// The steps from a beginning to `i`, and which beginning.
    fn way(&self, mut i: u32) -> (usize, Vec<u16>) {
        let mut way = Vec::new();
        loop {
            match self.parents[i as usize] {
                Ok((from, n)) => {
                    way.push(n);
                    i = from;
                }
                Err(beginning) => {
                    way.reverse();
                    return (beginning, way);
                }
            }
        }
    }

    /// The way to the first of `edges`, and along them, in words.
    fn found(&self, alarm: Alarm, edges: &[Edge]) -> Found {
        let (beginning, mut way) = self.way(edges[0].0);
        way.extend(edges.iter().map(|e| e.1));
        let mut beginnings = self.model.beginnings();
        let mut w = beginnings.nth(beginning).expect("it is one of them");
        let mut sink = Successors {
            texts: true,
            ..Successors::default()
        };
        let mut steps = Vec::new();
        // A state in which nobody can go on is told by the way to it.
        for n in way.into_iter().filter(|&n| n != u16::MAX) {
            sink.all(&w);
            let next = sink.out.swap_remove(usize::from(n));
            let text = next.text.expect("texts were asked for");
            steps.push(format!("{}: {text}", self.model.actor(next.who)));
            w = next.state;
            w.world.alarm = None;
        }
        Found {
            alarm,
            beginning,
            steps,
        }
    }

    fn successors_of(&self, i: u32) -> &[u32] {
        &self.edges[self.begin[i as usize] as usize..self.begin[i as usize + 1] as usize]
    }

    /// Some steps that can be repeated for ever: what is left when states without a way in are taken
    /// away again and again.
    fn cycle(&self) -> Option<Found> {
        let n = self.states.len() as u32;
        let mut incoming = vec![0u32; n as usize];
        for &to in &self.edges {
            incoming[to as usize] += 1;
        }
        let mut ready: Vec<u32> = (0..n).filter(|&i| incoming[i as usize] == 0).collect();
        let mut left = n;
        while let Some(i) = ready.pop() {
            left -= 1;
            for &to in self.successors_of(i) {
                incoming[to as usize] -= 1;
                if incoming[to as usize] == 0 {
                    ready.push(to);
                }
            }
        }
        if left == 0 {
            return None;
        }
        let on = |i: u32| incoming[i as usize] > 0;
        let circle = (0..n)
            .filter(|&i| on(i))
            .find_map(|i| self.back_to(i, &on))?;
        Some(self.found(Alarm::Spins, &circle))
    }

    /// A shortest way from `start` back to it among the states of `on`.
    fn back_to(&self, start: u32, on: &dyn Fn(u32) -> bool) -> Option<Vec<Edge>> {
        let mut from: HashMap<u32, Edge> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(i) = queue.pop_front() {
            for (n, &to) in self.successors_of(i).iter().enumerate() {
                let edge = (i, n as u16);
                if to == start {
                    let mut back = vec![edge];
                    while back[back.len() - 1].0 != start {
                        back.push(from[&back[back.len() - 1].0]);
                    }
                    back.reverse();
                    return Some(back);
                }
                if on(to) && !from.contains_key(&to) {
                    from.insert(to, edge);
                    queue.push_back(to);
                }
            }
        }
        None
    }
}

/// What is wrong with the engine in its own opinion.
fn unsound(w: &World) -> Option<Alarm> {
    let check = AssertUnwindSafe(|| w.eng().check());
    catch_unwind(check).is_err().then_some(Alarm::Check)
}
