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
/// page to give up is the highest. Pages without a next reference, or of which the next reads
/// nothing, are the best victims and interchangeable, so they are only counted. Pages that are gone for good are among
/// them: whether their frames are free, or the first to become free, is the same.
pub fn opt(sequence: &Sequence, capacity: u32) -> Bound {
    if let Some(bound) = Bound::trivial(sequence, capacity) {
        return bound;
    }
    let next = next_references(sequence);
    let mut awaited = Positions::new(next.len());
    let mut taken = sequence.taken();
    let (mut alive, mut dead) = (0u32, 0u32);
    let mut misses = 0;
    for (position, &next) in next.iter().enumerate() {
        if awaited.remove(position) {
            alive -= 1;
        } else {
            misses += u64::from(!sequence.is_free(position));
        }
        // One reference at a time is served in any case. Its own page is not among those to go.
        let others = capacity.saturating_sub(taken.at(position)).max(1) - 1;
        while alive + dead > others {
            if dead > 0 {
                dead -= 1;
            } else {
                awaited.pop_last().expect("a page that is awaited");
                alive -= 1;
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

/// For each reference, the position of the next one to the same page, if keeping the page until then saves a read.
fn next_references(sequence: &Sequence) -> Vec<u32> {
    let mut upcoming = vec![NEVER; sequence.unique() as usize];
    let mut next = vec![NEVER; sequence.len()];
    for (position, &page) in sequence.keys().iter().enumerate().rev() {
        let reads = match sequence.is_free(position) {
            true => NEVER,
            false => position as u32,
        };
        next[position] = std::mem::replace(&mut upcoming[page as usize], reads);
    }
    next
}
