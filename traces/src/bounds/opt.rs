//! Belady's optimal replacement, exactly: give up the page whose next reference is
//! farthest away.

use super::positions::Positions;
use super::{Bound, Sequence};

/// The page is not referenced again.
const NEVER: u32 = u32::MAX;

/// Misses of OPT with `capacity` page frames.
///
/// Resident pages are known by the position of their next reference alone. These
/// positions differ, a reference hits exactly if its own position is among them, and the
/// page to give up is the highest. Pages without a next reference are the best victims
/// and interchangeable, so they are only counted.
pub fn opt(sequence: &Sequence, capacity: u32) -> Bound {
    if capacity == 0 {
        return Bound::new(sequence, sequence.len() as u64);
    }
    if capacity >= sequence.unique() {
        return Bound::new(sequence, u64::from(sequence.unique()));
    }
    let next = next_references(sequence);
    let mut awaited = Positions::new(next.len());
    let (mut alive, mut dead) = (0u32, 0u32);
    let mut misses = 0;
    for (position, &next) in next.iter().enumerate() {
        if awaited.remove(position) {
            alive -= 1;
        } else {
            misses += 1;
            if alive + dead == capacity {
                if dead > 0 {
                    dead -= 1;
                } else {
                    awaited
                        .pop_last()
                        .expect("every frame holds an awaited page");
                    alive -= 1;
                }
            }
        }
        if next == NEVER {
            dead += 1;
        } else {
            awaited.insert(next as usize);
            alive += 1;
        }
    }
    Bound::new(sequence, misses)
}

/// For each reference, the position of the next one to the same page.
fn next_references(sequence: &Sequence) -> Vec<u32> {
    let mut upcoming = vec![NEVER; sequence.unique() as usize];
    let mut next = vec![NEVER; sequence.len()];
    for (position, &page) in sequence.keys().iter().enumerate().rev() {
        next[position] = std::mem::replace(&mut upcoming[page as usize], position as u32);
    }
    next
}
