//! All interleavings: breadth first, so that the first state that breaks a property has a shortest
//! way to it.

use super::alarm::{broken, Alarm};
use super::next::{Sink, Successor};
use super::others::device;
use super::state::{State, Task, ACTORS};
use super::Model;
use indexmap::IndexSet;
use std::hash::{BuildHasherDefault, Hasher};

/// One step of a counterexample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Who.
    pub actor: String,
    /// What.
    pub text: String,
}

/// What a search found.
pub(super) struct Found {
    pub alarm: Alarm,
    pub initial: usize,
    pub steps: Vec<Step>,
}

/// A finished search.
pub(super) struct Search {
    pub states: u64,
    pub transitions: u64,
    /// Steps of the longest shortest way to a state.
    pub depth: u64,
    /// States in which every actor is at its end.
    pub ends: u64,
    pub found: Option<Found>,
}

/// Multiply and rotate, word by word: states are hashed often and nobody attacks them.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Mix {
    fn word(&mut self, w: u64) {
        self.0 = (self.0.rotate_left(5) ^ w).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, i: u64) {
        self.word(i);
    }
    fn write_u8(&mut self, i: u8) {
        self.word(u64::from(i));
    }
    fn write_usize(&mut self, i: usize) {
        self.word(i as u64);
    }
    fn write_isize(&mut self, i: isize) {
        self.word(i as u64);
    }
}

type States = IndexSet<State, BuildHasherDefault<Mix>>;

/// Appends every successor of `s` to `sink`, and for each the actor that steps ([`ACTORS`] is the
/// device).
fn successors(model: &Model, s: &State, sink: &mut Sink, who: &mut Vec<usize>) {
    sink.out.clear();
    who.clear();
    for i in 0..ACTORS {
        match s.tasks[i] {
            Task::Absent | Task::Device(_) => {}
            Task::Reclaim(t) => t.step(s, i, model, sink),
            Task::Program(t) => t.step(s, i, model, sink),
            Task::Truncate(t) => t.step(s, i, model, sink),
            Task::Writer(t) => t.step(s, i, model, sink),
        }
        who.resize(sink.out.len(), i);
    }
    device(s, model, sink);
    who.resize(sink.out.len(), ACTORS);
}

fn at_the_end(s: &State) -> bool {
    s.tasks.iter().all(|t| match t {
        Task::Absent | Task::Device(_) => true,
        Task::Reclaim(t) => t.done(),
        Task::Program(t) => t.done(),
        Task::Truncate(t) => t.done(),
        Task::Writer(t) => t.done(),
    })
}

/// The graph as far as it is known.
struct Graph<'m> {
    model: &'m Model,
    states: States,
    /// By state: where it was first reached from; itself for an initial state.
    parents: Vec<u32>,
}

/// Explores everything that `model` can do.
pub(super) fn search(model: &Model) -> Search {
    let mut g = Graph {
        model,
        states: States::default(),
        parents: Vec::new(),
    };
    for s in model.initial() {
        g.add(s, None);
    }
    let initial = g.states.len();
    let mut sink = Sink {
        out: Vec::new(),
        texts: false,
    };
    let mut who = Vec::new();
    // Successors of each state, one after the other, and where they begin.
    let mut edges: Vec<u32> = Vec::new();
    let mut begin: Vec<u32> = vec![0];
    let mut ends = 0;
    let mut mild: Option<(Alarm, u32, State)> = None;
    let mut grave: Option<(Alarm, u32, State)> = None;
    let mut at = 0;
    while at < g.states.len() && grave.is_none() {
        let s = g.states[at];
        successors(model, &s, &mut sink, &mut who);
        if sink.out.is_empty() {
            ends += 1;
            if !at_the_end(&s) {
                grave = Some((Alarm::Stuck, g.parents[at], s));
            }
        }
        for Successor { state, alarm, .. } in sink.out.drain(..) {
            let alarm = match alarm {
                Some(a) if !a.mild() => Some(a),
                a => broken(&state).or(a),
            };
            if let Some(a) = alarm {
                let worst = if a.mild() { &mut mild } else { &mut grave };
                worst.get_or_insert((a, at as u32, state));
            }
            edges.push(g.add(state, Some(at as u32)));
        }
        begin.push(edges.len() as u32);
        at += 1;
    }
    let found = match grave {
        Some((alarm, parent, last)) => Some(g.found(alarm, parent, last)),
        None => g
            .cycle(&edges, &begin)
            .or_else(|| mild.map(|(alarm, parent, last)| g.found(alarm, parent, last))),
    };
    Search {
        states: g.states.len() as u64,
        transitions: edges.len() as u64,
        depth: g.depth(initial),
        ends,
        found,
    }
}

impl Graph<'_> {
    fn add(&mut self, s: State, parent: Option<u32>) -> u32 {
        let (i, new) = self.states.insert_full(s);
        if new {
            self.parents.push(parent.unwrap_or(i as u32));
        }
        i as u32
    }

    /// States are in the order of their depth, so the last one is deepest.
    fn depth(&self, initial: usize) -> u64 {
        let mut i = self.states.len() - 1;
        let mut depth = 0;
        while i >= initial {
            i = self.parents[i] as usize;
            depth += 1;
        }
        depth
    }

    /// Indices from an initial state to `i`.
    fn way(&self, mut i: usize) -> Vec<usize> {
        let mut way = vec![i];
        while self.parents[i] as usize != i {
            i = self.parents[i] as usize;
            way.push(i);
        }
        way.reverse();
        way
    }

    fn found(&self, alarm: Alarm, parent: u32, last: State) -> Found {
        // A state in which nobody can go on is told by the way to it.
        let way = self.way(parent as usize);
        let mut states: Vec<State> = way.iter().map(|&i| self.states[i]).collect();
        states.push(last);
        Found {
            alarm,
            initial: way[0],
            steps: self.words(&states),
        }
    }

    /// The steps between neighbours in `states`.
    fn words(&self, states: &[State]) -> Vec<Step> {
        let mut sink = Sink {
            out: Vec::new(),
            texts: true,
        };
        let mut who = Vec::new();
        let mut steps = Vec::new();
        for pair in states.windows(2) {
            successors(self.model, &pair[0], &mut sink, &mut who);
            let i = sink.out.iter().position(|x| x.state == pair[1]);
            let i = i.expect("the way consists of steps");
            steps.push(Step {
                actor: self.model.actor(who[i]),
                text: sink.out[i].text.take().expect("texts were asked for"),
            });
        }
        steps
    }

    /// Some steps that can be repeated for ever: what is left when states without a way on are
    /// taken away again and again.
    fn cycle(&self, edges: &[u32], begin: &[u32]) -> Option<Found> {
        let n = self.states.len();
        let mut incoming = vec![0u32; n];
        for &to in edges {
            incoming[to as usize] += 1;
        }
        let mut ready: Vec<u32> = (0..n as u32)
            .filter(|&i| incoming[i as usize] == 0)
            .collect();
        let mut left = n;
        while let Some(i) = ready.pop() {
            left -= 1;
            let i = i as usize;
            for &to in &edges[begin[i] as usize..begin[i + 1] as usize] {
                incoming[to as usize] -= 1;
                if incoming[to as usize] == 0 {
                    ready.push(to);
                }
            }
        }
        if left == 0 {
            return None;
        }
        // From each state that is left some way leads back into what is left only if it is on a
        // cycle or before one; walk until a state comes again.
        let on = |i: u32| incoming[i as usize] > 0;
        let (start, back) = self.first_return(edges, begin, &on)?;
        let way = self.way(start as usize);
        let mut states: Vec<State> = way.iter().map(|&i| self.states[i]).collect();
        states.extend(back.iter().map(|&i| self.states[i as usize]));
        Some(Found {
            alarm: Alarm::Spins,
            initial: way[0],
            steps: self.words(&states),
        })
    }

    /// The first state, in the order of depth, from which steps among the states of `on` lead back
    /// to it, and a shortest such way.
    fn first_return(
        &self,
        edges: &[u32],
        begin: &[u32],
        on: &dyn Fn(u32) -> bool,
    ) -> Option<(u32, Vec<u32>)> {
        let n = self.states.len();
        let mut from = vec![u32::MAX; n];
        for start in (0..n as u32).filter(|&i| on(i)) {
            from.fill(u32::MAX);
            let mut queue = std::collections::VecDeque::from([start]);
            while let Some(i) = queue.pop_front() {
                let range = begin[i as usize] as usize..begin[i as usize + 1] as usize;
                for &to in edges[range].iter().filter(|&&to| on(to)) {
                    if to == start {
                        let mut back = vec![start];
                        let mut j = i;
                        while j != start {
                            back.push(j);
                            j = from[j as usize];
                        }
                        back.reverse();
                        return Some((start, back));
                    }
                    if from[to as usize] == u32::MAX {
                        from[to as usize] = i;
                        queue.push_back(to);
                    }
                }
            }
        }
        None
    }
}
