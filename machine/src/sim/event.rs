//! The event queue, ordered by (time, sequence number).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What happens at an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Something ends for the task in this slot, unless it has moved on to another epoch.
    Task { slot: u32, epoch: u32 },
    /// The closure in this slot is called.
    Call { slot: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub time: u64,
    seq: u64,
    pub action: Action,
}

impl Ord for Event {
    /// Reversed, because `BinaryHeap` gives its greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.seq).cmp(&(self.time, self.seq))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A heap of events; equal times come out in the order they went in.
#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Event>,
    next_seq: u64,
    /// Events in the heap that are out of date.
    stale: usize,
}

/// Fewer events than this that are out of date are not worth a sweep.
const SWEEP_MIN: usize = 1024;

impl EventQueue {
    pub fn push(&mut self, time: u64, action: Action) {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.heap.push(Event { time, seq, action });
    }

    pub fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|event| event.time)
    }

    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop()
    }

    /// An event in the heap has gone out of date.
    pub fn note_stale(&mut self) {
        self.stale += 1;
    }

    /// An event that was out of date has been popped.
    pub fn note_stale_popped(&mut self) {
        self.stale -= 1;
    }

    /// True if more than half of the heap is out of date, as timeouts are that never fire.
    pub fn wants_sweep(&self) -> bool {
        self.stale >= SWEEP_MIN && self.stale * 2 > self.heap.len()
    }

    /// Keeps only what is up to date.
    pub fn sweep(&mut self, is_valid: impl Fn(&Action) -> bool) {
        self.heap.retain(|event| is_valid(&event.action));
        self.stale = 0;
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut queue = EventQueue::default();
        for (time, slot) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            queue.push(time, Action::Call { slot });
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|event| event.action)
            .collect();
        assert_eq!(order, [1, 3, 0, 2].map(|slot| Action::Call { slot }));
    }
}
