//! Policies by the distance from use to use: the stack of LIRS, the clock of CLOCK-Pro.

use super::{drop_from, run, Deque};
use std::collections::VecDeque;

/// Somebody on the stack of LIRS.
#[derive(Clone, Copy, PartialEq)]
enum Is {
    Lir,
    Hir,
    Gone,
}

/// S with the newest in front; Q and the evicted with the next to go at the back.
#[derive(Default)]
struct Stack {
    s: VecDeque<(u32, Is)>,
    q: Deque,
    gone: Deque,
    lirs: usize,
}

impl Stack {
    fn off(&mut self, x: u32) -> Option<Is> {
        let at = self.s.iter().position(|e| e.0 == x)?;
        self.s.remove(at).map(|e| e.1)
    }

    fn push(&mut self, x: u32, is: Is, most: usize) {
        self.s.push_front((x, is));
        if is == Is::Lir {
            self.lirs += 1;
        }
        loop {
            match self.s.back() {
                Some(&(y, Is::Lir)) if self.lirs > most => {
                    self.s.pop_back();
                    self.q.push_front(y);
                    self.lirs -= 1;
                }
                Some(&(_, Is::Lir)) | None => break,
                Some(&(y, _)) => {
                    drop_from(&mut self.gone, y);
                    self.s.pop_back();
                }
            }
        }
    }
}

pub(super) fn lirs(pages: &[u32], c: usize) -> Vec<bool> {
    let (most, mut st) = (c - (c / 100).max(1), Stack::default());
    run(pages, |x| {
        let lir = st.s.contains(&(x, Is::Lir));
        if lir {
            st.off(x);
            st.lirs -= 1;
            st.push(x, Is::Lir, most);
            return true;
        }
        if drop_from(&mut st.q, x) {
            match st.off(x) {
                Some(_) => st.push(x, Is::Lir, most),
                None => {
                    st.q.push_front(x);
                    st.push(x, Is::Hir, most);
                }
            }
            return true;
        }
        let again = drop_from(&mut st.gone, x);
        if again {
            st.off(x);
        }
        if st.lirs + st.q.len() == c {
            let y = st.q.pop_back().unwrap();
            if let Some(e) = st.s.iter_mut().find(|e| e.0 == y) {
                e.1 = Is::Gone;
                st.gone.push_front(y);
                if st.gone.len() > c {
                    let z = st.gone.pop_back().unwrap();
                    st.off(z);
                }
            }
        }
        if again || st.lirs < most {
            st.push(x, Is::Lir, most);
        } else {
            st.q.push_front(x);
            st.push(x, Is::Hir, most);
        }
        false
    })
}

/// A page on the clock of CLOCK-Pro.
#[derive(Clone, Copy, Default)]
struct Dial {
    page: u32,
    hot: bool,
    gone: bool,
    test: bool,
    used: bool,
}

/// The clock from the tail, where HAND_hot is. The other hands are marks between pages: the pages before
/// them have been passed.
#[derive(Default)]
struct Dials {
    ring: VecDeque<Dial>,
    cold_hand: usize,
    test_hand: usize,
    cold_target: usize,
}

impl Dials {
    fn count(&self, what: impl Fn(&Dial) -> bool) -> usize {
        self.ring.iter().filter(|d| what(d)).count()
    }

    fn take(&mut self, at: usize) -> Dial {
        self.cold_hand -= usize::from(at < self.cold_hand);
        self.test_hand -= usize::from(at < self.test_hand);
        self.ring.remove(at).unwrap()
    }

    fn less_cold(&mut self) {
        self.cold_target = (self.cold_target - 1).max(1);
    }

    fn more_cold(&mut self, c: usize) {
        self.cold_target = (self.cold_target + 1).min(c);
    }

    fn cool(&mut self, c: usize) {
        while self.count(|d| d.hot) > c - self.cold_target {
            let mut d = self.take(0);
            if d.test {
                self.less_cold();
                d.test = false;
            }
            if d.hot && !d.used {
                d.hot = false;
            } else if d.hot {
                d.used = false;
            }
            if !d.gone {
                self.ring.push_back(d);
            }
        }
    }

    fn next(&self, hand: usize, what: impl Fn(&Dial) -> bool) -> usize {
        let n = self.ring.len();
        let mut round = (hand..n).chain(0..hand.min(n));
        round.find(|&at| what(&self.ring[at])).unwrap()
    }

    fn make_room(&mut self, c: usize) {
        loop {
            let at = self.next(self.cold_hand, |d| !d.hot && !d.gone);
            self.cold_hand = at;
            let d = self.ring[at];
            if !d.used {
                if d.test {
                    self.ring[at].gone = true;
                } else {
                    self.take(at);
                }
                break;
            }
            self.take(at);
            let hot = d.test;
            if hot {
                self.more_cold(c);
            }
            self.ring.push_back(Dial {
                hot,
                test: !hot,
                used: false,
                ..d
            });
            if hot {
                self.cool(c);
            }
        }
        while self.count(|d| d.gone) > c {
            let at = self.next(self.test_hand, |d| d.test);
            self.less_cold();
            self.ring[at].test = false;
            self.test_hand = at + 1;
            if self.ring[at].gone {
                self.take(at);
            }
        }
    }
}

pub(super) fn clockpro(pages: &[u32], c: usize) -> Vec<bool> {
    let (mut dials, mut full) = (Dials::default(), false);
    dials.cold_target = 1;
    run(pages, |page| {
        let at = dials.ring.iter().position(|d| d.page == page);
        if let Some(at) = at.filter(|&at| !dials.ring[at].gone) {
            dials.ring[at].used = true;
            return true;
        }
        if let Some(at) = at {
            dials.take(at);
            dials.more_cold(c);
        }
        full |= dials.count(|d| !d.gone) == c;
        if full {
            dials.make_room(c);
        }
        let hot = at.is_some() || (!full && dials.count(|d| d.hot) < c - 1);
        dials.ring.push_back(Dial {
            page,
            hot,
            test: !hot,
            ..Dial::default()
        });
        dials.cool(c);
        false
    })
}
