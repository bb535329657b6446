//! Whose wb an inode is attached to, and when it moves (`docs/rules/writeback.md#owners`).

use crate::ids::{MemcgId, Pages, WbId};

/// Of the last sixteen rounds that count, more than so many were mostly another memcg's: the inode moves to it.
const MANY: u32 = 8;
/// A round of less than an eighth of the average does not count, and one that counts changes the average by an eighth.
const PART: Pages = 8;

/// An inode's wb, and what its last rounds of writing were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub wb: WbId,
    /// Pages of the round that is under way, by memcg.
    round: Vec<(MemcgId, Pages)>,
    /// A bit a round, the last one lowest: most of it belonged to another memcg.
    foreign: u16,
    /// Pages of a round, about.
    average: Pages,
}

impl Owner {
    pub fn new(wb: WbId) -> Self {
        Self {
            wb,
            round: Vec::new(),
            foreign: 0,
            average: 0,
        }
    }

    /// So many pages of `memcg` are written in this round.
    pub fn wrote(&mut self, memcg: MemcgId, pages: Pages) {
        match self.round.iter_mut().find(|(of, _)| *of == memcg) {
            Some((_, sum)) => *sum += pages,
            None => self.round.push((memcg, pages)),
        }
    }

    /// The round is over; `own` is the memcg of the wb. Returns the memcg that the inode should move to.
    pub fn round_over(&mut self, own: MemcgId) -> Option<MemcgId> {
        let all: Pages = self.round.iter().map(|(_, pages)| pages).sum();
        let most = self.round.iter().max_by_key(|(_, pages)| *pages).copied();
        self.round.clear();
        let (memcg, _) = most.filter(|(_, pages)| 2 * pages > all)?;
        if all < self.average / PART {
            return None;
        }
        self.average = match self.average {
            0 => all,
            average => average - average / PART + all / PART,
        };
        self.foreign = self.foreign << 1 | u16::from(memcg != own);
        (memcg != own && self.foreign.count_ones() > MANY).then_some(memcg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MemcgId = MemcgId(1);
    const OTHER: MemcgId = MemcgId(2);

    fn round(owner: &mut Owner, own: Pages, other: Pages) -> Option<MemcgId> {
        owner.wrote(OWN, own);
        owner.wrote(OTHER, other);
        owner.round_over(OWN)
    }

    #[test]
    fn nine_of_sixteen_rounds_move_an_inode() {
        let mut owner = Owner::new(WbId(0));
        for _ in 0..8 {
            assert_eq!(round(&mut owner, 10, 90), None);
        }
        for _ in 0..7 {
            assert_eq!(round(&mut owner, 90, 10), None);
        }
        assert_eq!(round(&mut owner, 10, 90), Some(OTHER));
        // The oldest is forgotten.
        let mut owner = Owner::new(WbId(0));
        for _ in 0..8 {
            round(&mut owner, 10, 90);
        }
        for _ in 0..9 {
            assert_eq!(round(&mut owner, 90, 10), None);
        }
        assert_eq!(round(&mut owner, 10, 90), None);
    }

    #[test]
    fn short_rounds_and_those_of_nobody_do_not_count() {
        let mut owner = Owner::new(WbId(0));
        for _ in 0..8 {
            assert_eq!(round(&mut owner, 0, 800), None);
        }
        assert_eq!(round(&mut owner, 0, 99), None);
        assert_eq!(round(&mut owner, 400, 400), None);
        assert_eq!(owner.round_over(OWN), None);
        assert_eq!(round(&mut owner, 0, 100), Some(OTHER));
    }
}
