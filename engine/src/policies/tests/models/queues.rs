//! Policies of one queue or several, and a mark or a count for each page.

use super::{drop_from, run, Deque};
use std::collections::BTreeMap;

pub(super) fn fifo(pages: &[u32], c: usize) -> Vec<bool> {
    let mut q = Deque::new();
    run(pages, |p| {
        let hit = q.contains(&p);
        if !hit {
            q.push_front(p);
            q.truncate(c);
        }
        hit
    })
}

pub(super) fn lru(pages: &[u32], c: usize) -> Vec<bool> {
    let mut q = Deque::new();
    run(pages, |p| {
        let hit = drop_from(&mut q, p);
        q.push_front(p);
        q.truncate(c);
        hit
    })
}

pub(super) fn clock(pages: &[u32], c: usize) -> Vec<bool> {
    let (mut q, mut used) = (Deque::new(), BTreeMap::new());
    run(pages, |p| {
        if q.contains(&p) {
            used.insert(p, true);
            return true;
        }
        while q.len() == c {
            let victim = q.pop_back().unwrap();
            if used.insert(victim, false) == Some(true) {
                q.push_front(victim);
            }
        }
        q.push_front(p);
        used.insert(p, false);
        false
    })
}

pub(super) fn sieve(pages: &[u32], c: usize) -> Vec<bool> {
    let (mut q, mut used, mut hand) = (Deque::new(), BTreeMap::new(), None);
    run(pages, |p| {
        if q.contains(&p) {
            used.insert(p, true);
            return true;
        }
        if q.len() == c {
            let mut at = hand.map_or(c - 1, |h| q.iter().position(|&p| p == h).unwrap());
            while used.insert(q[at], false) == Some(true) {
                at = at.checked_sub(1).unwrap_or(c - 1);
            }
            hand = at.checked_sub(1).map(|newer| q[newer]);
            q.remove(at);
        }
        q.push_front(p);
        used.insert(p, false);
        false
    })
}

pub(super) fn twoq(pages: &[u32], c: usize) -> Vec<bool> {
    let (mut a1in, mut am, mut a1out) = (Deque::new(), Deque::new(), Deque::new());
    run(pages, |p| {
        if drop_from(&mut am, p) {
            am.push_front(p);
            return true;
        }
        if a1in.contains(&p) {
            return true;
        }
        let again = drop_from(&mut a1out, p);
        if a1in.len() + am.len() == c {
            if a1in.len() > c / 4 || am.is_empty() {
                a1out.push_front(a1in.pop_back().unwrap());
                a1out.truncate(c / 2);
            } else {
                am.pop_back();
            }
        }
        if again { &mut am } else { &mut a1in }.push_front(p);
        false
    })
}

pub(super) fn slru(pages: &[u32], c: usize) -> Vec<bool> {
    let (mut probation, mut protected) = (Deque::new(), Deque::new());
    run(pages, |p| {
        if drop_from(&mut probation, p) || drop_from(&mut protected, p) {
            protected.push_front(p);
            return true;
        }
        if probation.len() + protected.len() == c {
            while protected.len() > c * 4 / 5 {
                probation.push_front(protected.pop_back().unwrap());
            }
            probation.pop_back().or_else(|| protected.pop_back());
        }
        probation.push_front(p);
        false
    })
}

/// T1, T2, B1, B2 and the target of T1, exact; cases as the paper numbers them.
#[derive(Default)]
struct Four {
    t1: Deque,
    t2: Deque,
    b1: Deque,
    b2: Deque,
    target: u128,
}

impl Four {
    /// A page. It can be divided by every number up to 40, so that the ratio of two lists of no more pages is whole.
    const ONE: u128 = 5_342_931_457_063_200;

    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as u128 * Self::ONE;
        if t1 > 0 && (t1 > self.target || (in_b2 && t1 == self.target)) {
            self.b1.push_front(self.t1.pop_back().unwrap());
        } else {
            self.b2.push_front(self.t2.pop_back().unwrap());
        }
    }

    fn read(&mut self, x: u32, c: usize) -> bool {
        let (n1, n2) = (self.b1.len() as u128, self.b2.len() as u128);
        let step = |other: u128, own: u128| {
            assert_eq!(other * Self::ONE % own, 0, "{own} pages");
            (other * Self::ONE / own).max(Self::ONE)
        };
        if drop_from(&mut self.t1, x) || drop_from(&mut self.t2, x) {
            // Case I.
            self.t2.push_front(x);
            return true;
        }
        if self.b1.contains(&x) {
            // Case II.
            self.target = (self.target + step(n2, n1)).min(c as u128 * Self::ONE);
            self.replace(false);
            drop_from(&mut self.b1, x);
            self.t2.push_front(x);
        } else if self.b2.contains(&x) {
            // Case III.
            self.target = self.target.saturating_sub(step(n1, n2));
            self.replace(true);
            drop_from(&mut self.b2, x);
            self.t2.push_front(x);
        } else {
            // Case IV.
            let l1 = self.t1.len() + self.b1.len();
            let all = l1 + self.t2.len() + self.b2.len();
            if l1 == c && self.t1.len() < c {
                self.b1.pop_back();
                self.replace(false);
            } else if l1 == c {
                self.t1.pop_back();
            } else if all >= c {
                if all == 2 * c {
                    self.b2.pop_back();
                }
                self.replace(false);
            }
            self.t1.push_front(x);
        }
        false
    }
}

pub(super) fn arc(pages: &[u32], c: usize) -> Vec<bool> {
    let mut four = Four::default();
    run(pages, |x| four.read(x, c))
}

pub(super) fn s3fifo(pages: &[u32], c: usize) -> Vec<bool> {
    let (mut small, mut main, mut ghost) = (Deque::new(), Deque::new(), Deque::new());
    let (mut uses, mut full, share) = (BTreeMap::<u32, u32>::new(), false, (c / 10).max(1));
    run(pages, |p| {
        if let Some(n) = uses.get_mut(&p) {
            *n = 3.min(*n + 1);
            return true;
        }
        let again = drop_from(&mut ghost, p);
        full |= uses.len() == c;
        if uses.len() == c {
            let mut victim = None;
            while victim.is_none() && small.len() >= share {
                while let Some(p) = small.pop_back() {
                    if uses[&p] > 1 {
                        uses.insert(p, 0);
                        main.push_front(p);
                    } else {
                        ghost.push_front(p);
                        ghost.truncate(c * 9 / 10);
                        victim = Some(p);
                        break;
                    }
                }
            }
            while victim.is_none() {
                let Some(p) = main.pop_back() else { break };
                match uses[&p] {
                    0 => victim = Some(p),
                    n => {
                        uses.insert(p, n - 1);
                        main.push_front(p);
                    }
                }
            }
            let victim = victim.or_else(|| small.pop_back()).unwrap();
            uses.remove(&victim);
        }
        let to_main = again || (!full && small.len() >= share);
        if to_main { &mut main } else { &mut small }.push_front(p);
        uses.insert(p, 0);
        false
    })
}
