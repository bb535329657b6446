//! Policies outside of the engine in a replay: pages by the numbers that they have in its curves.

use crate::bounds::{Sequence, TooLong};
use crate::traces::Trace;
use coldset_engine::policies::desk::{self, Desk, Makes};
use coldset_engine::policies::outside::OutsideKind;
use coldset_engine::policies::ListKind;
use coldset_engine::switches::PolicyKind;
use coldset_engine::ObjectId;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

/// A policy that is not one of the engine.
#[derive(Clone, Debug)]
pub struct OutsidePolicy(pub Arc<dyn Makes>);

impl PartialEq for OutsidePolicy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OutsidePolicy {}

impl OutsidePolicy {
    /// The lists that go with it.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        let kind: OutsideKind = self.0.kind();
        PolicyKind::List(ListKind::Outside(kind))
    }

    /// Where the machine meets it, under a limit of `memory` pages. `objects`: what those of the trace are called
    /// in the machine.
    pub(super) fn desk(
        &self,
        trace: &Trace,
        memory: u64,
        objects: &[ObjectId],
    ) -> Result<Desk, TooLong> {
        let numbers = Numbers::of(trace, objects)?;
        Ok(Desk::new(self.0.clone(), memory, Box::new(numbers)))
    }
}

type Page = (ObjectId, u32);

/// Numbers of pages: those of [`Sequence::of_trace`], in the order of first use, anonymous or not. Memory that is
/// given back and used again is new pages there, and has other numbers from then on; pages of a file that was cut keep the
/// ones they had. Pages that the trace does not use (read ahead, or the program's own) follow in the order in which they come in.
struct Numbers {
    first: HashMap<Page, u64>,
    /// Of pages with more than one number: from which access on they have it.
    later: HashMap<Page, Vec<(u64, u64)>>,
    next: u64,
}

impl Numbers {
    fn of(trace: &Trace, objects: &[ObjectId]) -> Result<Self, TooLong> {
        let first_uses = Sequence::first_uses(trace)?;
        let mut numbers = Self {
            first: HashMap::new(),
            later: HashMap::new(),
            next: first_uses.len() as u64,
        };
        for (number, at) in (0..).zip(first_uses) {
            let op = &trace.ops()[at as usize];
            let page = (objects[usize::from(op.object)], op.page);
            match numbers.first.entry(page) {
                Entry::Vacant(new) => {
                    new.insert(number);
                }
                // What was cut off a file may still be on a list under its number, or be read ahead again before it is used.
                Entry::Occupied(_) if !op.kind.is_anon() => {}
                Entry::Occupied(_) => {
                    let later = numbers.later.entry(page).or_default();
                    later.push((at, number));
                }
            }
        }
        Ok(numbers)
    }
}

impl desk::Numbers for Numbers {
    fn number(&mut self, at: u64, object: ObjectId, index: u32) -> u64 {
        let page = (object, index);
        let next = self.next;
        let first = *self.first.entry(page).or_insert(next);
        self.next += u64::from(first == next);
        let later = self.later.get(&page).map_or(&[][..], Vec::as_slice);
        let passed = later.partition_point(|&(from, _)| from <= at);
        passed.checked_sub(1).map_or(first, |n| later[n].1)
    }

    fn spare(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

#[cfg(test)]
mod tests;
