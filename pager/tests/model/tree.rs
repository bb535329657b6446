//! Shrinking, as a value tree of proptest's.
//!
//! The tree of a vector takes one element away at a time. A program of a hundred operations that has
//! to run several times before it counts as good would take hours to shrink so: here whole threads
//! go first, then halves, quarters, ... of what they do, and numbers at last.

use super::program::{Mode, Op, Program, SwapPlan};
use proptest::strategy::{BoxedStrategy, NewTree, Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// Programs that shrink in large steps.
#[derive(Clone, Debug)]
pub struct Programs(pub BoxedStrategy<Program>);

impl Strategy for Programs {
    type Tree = ProgramTree;
    type Value = Program;
    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        Ok(ProgramTree::new(self.0.new_tree(runner)?.current()))
    }
}

/// A program and the way to smaller ones.
#[derive(Clone, Debug)]
pub struct ProgramTree {
    /// The smallest that is known to fail.
    best: Program,
    current: Program,
    candidates: Vec<Program>,
    at: usize,
    /// Something has become smaller since the candidates were last gone through from the first.
    progress: bool,
}

impl ProgramTree {
    /// The root.
    pub fn new(program: Program) -> Self {
        Self {
            candidates: smaller(&program),
            best: program.clone(),
            current: program,
            at: 0,
            progress: false,
        }
    }

    fn next(&mut self) -> bool {
        loop {
            if let Some(c) = self.candidates.get(self.at) {
                self.at += 1;
                self.current = c.clone();
                return true;
            }
            if !std::mem::replace(&mut self.progress, false) {
                self.current = self.best.clone();
                return false;
            }
            self.at = 0;
        }
    }
}

impl ValueTree for ProgramTree {
    type Value = Program;

    fn current(&self) -> Program {
        self.current.clone()
    }

    /// The current one fails.
    fn simplify(&mut self) -> bool {
        if self.current != self.best {
            self.best = self.current.clone();
            self.candidates = smaller(&self.best);
            self.progress = true;
            // The same place: what came before it did not help.
            self.at = self.at.saturating_sub(1);
        }
        self.next()
    }

    /// The current one does not.
    fn complicate(&mut self) -> bool {
        self.next()
    }
}

fn smaller(p: &Program) -> Vec<Program> {
    let mut out = Vec::new();
    let mut push = |change: &dyn Fn(&mut Program)| {
        let mut q = p.clone();
        change(&mut q);
        if q != *p && q.threads.iter().any(|t| !t.is_empty()) {
            out.push(q);
        }
    };
    for t in 0..p.threads.len() {
        push(&|q| drop(q.threads.remove(t)));
    }
    push(&|q| q.rounds = 1);
    let longest = p.threads.iter().map(Vec::len).max().unwrap_or(0);
    let mut size = longest.div_ceil(2);
    while size > 0 {
        for t in 0..p.threads.len() {
            for from in (0..p.threads[t].len()).step_by(size) {
                let to = (from + size).min(p.threads[t].len());
                push(&|q| drop(q.threads[t].drain(from..to)));
            }
        }
        size /= 2;
    }
    push(&|q| q.mode = Mode::Sigbus);
    for i in 0..p.pools.len() {
        push(&|q| q.pools[i].background = false);
        push(&|q| q.pools[i].busy_flusher = false);
        push(&|q| q.pools[i].read_ahead = 1);
        push(&|q| q.pools[i].swap = SwapPlan::Temporary);
        push(&|q| q.pools[i].policy = "classic".into());
        push(&|q| q.pools[i].budget_pages = 256);
    }
    for i in 0..p.regions.len() {
        push(&|q| q.regions[i].grouped = false);
        push(&|q| q.regions[i].handler_threads = false);
        push(&|q| q.regions[i].pool = 0);
        push(&|q| q.regions[i].pages = (q.regions[i].pages / 2).max(16));
    }
    for t in 0..p.threads.len() {
        for i in 0..p.threads[t].len() {
            push(&|q| halve(&mut q.threads[t][i]));
        }
    }
    out
}

fn halve(op: &mut Op) {
    match op {
        Op::Touch { n, .. }
        | Op::Scan { n, .. }
        | Op::Advise { n, .. }
        | Op::Pin { n, .. }
        | Op::Fix { n, .. } => *n = (*n / 2).max(1),
        Op::Discard { blocks: n, .. } | Op::Reclaim { pages: n, .. } => *n = (*n / 2).max(1),
        _ => {}
    }
}
