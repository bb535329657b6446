//! The policies in a few lines each, without any list but a deque, compared read by read.

use crate::policies::ListKind;
use crate::testing::Cache;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Front = newest.
type Deque = VecDeque<u32>;

fn drop_from(q: &mut Deque, page: u32) -> bool {
    let at = q.iter().position(|&p| p == page);
    at.map(|at| q.remove(at)).is_some()
}

/// Which reads miss, given what a read of a page does.
fn run(pages: &[u32], mut read: impl FnMut(u32) -> bool) -> Vec<bool> {
    pages.iter().map(|&p| !read(p)).collect()
}

fn fifo(pages: &[u32], c: usize) -> Vec<bool> {
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

fn lru(pages: &[u32], c: usize) -> Vec<bool> {
    let mut q = Deque::new();
    run(pages, |p| {
        let hit = drop_from(&mut q, p);
        q.push_front(p);
        q.truncate(c);
        hit
    })
}

fn clock(pages: &[u32], c: usize) -> Vec<bool> {
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

fn sieve(pages: &[u32], c: usize) -> Vec<bool> {
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

fn twoq(pages: &[u32], c: usize) -> Vec<bool> {
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

fn slru(pages: &[u32], c: usize) -> Vec<bool> {
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

/// T1, T2, B1, B2 and the target of T1 in units of 2^-20 pages; cases as the paper numbers them.
#[derive(Default)]
struct Four {
    t1: Deque,
    t2: Deque,
    b1: Deque,
    b2: Deque,
    target: u64,
}

impl Four {
    const ONE: u64 = 1 << 20;

    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as u64 * Self::ONE;
        if t1 > 0 && (t1 > self.target || (in_b2 && t1 == self.target)) {
            self.b1.push_front(self.t1.pop_back().unwrap());
        } else {
            self.b2.push_front(self.t2.pop_back().unwrap());
        }
    }

    fn read(&mut self, x: u32, c: usize) -> bool {
        let (n1, n2) = (self.b1.len() as u64, self.b2.len() as u64);
        let step = |other: u64, own: u64| (other * Self::ONE / own).max(Self::ONE);
        if drop_from(&mut self.t1, x) || drop_from(&mut self.t2, x) {
            // Case I.
            self.t2.push_front(x);
            return true;
        }
        if self.b1.contains(&x) {
            // Case II.
            self.target = (self.target + step(n2, n1)).min(c as u64 * Self::ONE);
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

fn arc(pages: &[u32], c: usize) -> Vec<bool> {
    let mut four = Four::default();
    run(pages, |x| four.read(x, c))
}

fn s3fifo(pages: &[u32], c: usize) -> Vec<bool> {
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

fn lirs(pages: &[u32], c: usize) -> Vec<bool> {
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

fn clockpro(pages: &[u32], c: usize) -> Vec<bool> {
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

/// With exact frequencies in place of a sketch.
fn wtinylfu(pages: &[u32], c: usize) -> Vec<bool> {
    let (mut window, mut probation, mut protected) = (Deque::new(), Deque::new(), Deque::new());
    let (mut asked, mut counts) = (BTreeMap::<u32, u32>::new(), 0);
    let short = (c / 100).max(1);
    let main = c - short;
    let mut count = |asked: &mut BTreeMap<u32, u32>, p| {
        let n = asked.entry(p).or_default();
        *n = 15.min(*n + 1);
        counts += 1;
        if counts == 10 * c {
            asked.values_mut().for_each(|n| *n /= 2);
            counts /= 2;
        }
    };
    run(pages, |p| {
        if drop_from(&mut window, p) {
            window.push_front(p);
            count(&mut asked, p);
            return true;
        }
        if drop_from(&mut probation, p) || drop_from(&mut protected, p) {
            protected.push_front(p);
            if protected.len() > main * 4 / 5 {
                probation.push_front(protected.pop_back().unwrap());
            }
            count(&mut asked, p);
            return true;
        }
        if window.len() == short {
            let newcomer = window.pop_back().unwrap();
            let room = probation.len() + protected.len() < main;
            let from = if probation.is_empty() {
                &mut protected
            } else {
                &mut probation
            };
            let of = |p: &u32| asked.get(p).copied().unwrap_or(0);
            let wins = |kept: Option<&u32>| kept.is_some_and(|kept| of(&newcomer) > of(kept));
            if room {
                probation.push_front(newcomer);
            } else if wins(from.back()) {
                from.pop_back();
                probation.push_front(newcomer);
            }
        }
        window.push_front(p);
        count(&mut asked, p);
        false
    })
}

/// All pages are looked at for a victim, as where there are at most 64; explorers are for a hundred pages and
/// more. What has been seen is a map of class and youngest age of a step of the scale to hits and evictions.
fn lhd(pages: &[u32], c: usize) -> Vec<bool> {
    let reach = c as u64 * 10;
    // Four binary digits of an age are looked at.
    let step = |age: u64| {
        let dropped = (64 - age.leading_zeros()).saturating_sub(4);
        age >> dropped << dropped
    };
    let width = |age: u64| 1u64 << (64 - age.leading_zeros()).saturating_sub(4);
    let class_of = |time: u64| {
        let halves = (1..).take_while(|&n| (time + 1) << n <= reach);
        (1 + halves.count() as u64).min(15)
    };
    // Page: time of last use, class, time between the last two.
    let mut here = BTreeMap::<u32, (u64, u64, u64)>::new();
    let mut seen = BTreeMap::<(u64, u64), [u64; 2]>::new();
    let mut before: Option<BTreeMap<(u64, u64), [u64; 2]>> = None;
    let (mut now, mut due) = (0, None);
    run(pages, |p| {
        if here.len() == c && !here.contains_key(&p) {
            let value = |&(used, class, _): &(u64, u64, u64)| {
                let Some(before) = &before else {
                    return ((class + 1) << 48) / (now - used + 1);
                };
                // Hits of its class from this age on, and the time until they or evictions come.
                let age = step(now - used);
                let (mut hits, mut halves) = (0, 0);
                for (&(_, at), &[h, e]) in before.range((class, age)..(class + 1, 0)) {
                    hits += u128::from(h);
                    halves += u128::from(h + e) * u128::from(2 * (at - age) + width(at) + 1);
                }
                ((hits << 49) / halves.max(1)) as u64
            };
            let worst = here.iter().min_by_key(|(_, k)| (value(k), k.0));
            let (&victim, &(used, class, _)) = worst.unwrap();
            here.remove(&victim);
            seen.entry((class, step(now - used))).or_default()[1] += 1 << 16;
        }
        now += 1;
        match due {
            None => due = Some(now + reach.max(64)),
            Some(at) if now >= at => {
                due = Some(now + reach.max(64));
                before = Some(seen.clone());
                for counts in seen.values_mut() {
                    *counts = counts.map(|n| n - n / 10);
                }
            }
            Some(_) => {}
        }
        let Some(&(used, class, gap)) = here.get(&p) else {
            here.insert(p, (now, 0, 0));
            return false;
        };
        let age = now - used;
        seen.entry((class, step(age))).or_default()[0] += 1 << 16;
        here.insert(p, (now, class_of(gap + age), age));
        true
    })
}

/// Which reads miss in a cache of so many pages.
type Model = fn(&[u32], usize) -> Vec<bool>;

/// A policy without a model is tested by the battery alone.
const MODELS: &[(ListKind, Model)] = &[
    (ListKind::Fifo, fifo),
    (ListKind::Lru, lru),
    (ListKind::Clock, clock),
    (ListKind::TwoQ, twoq),
    (ListKind::Slru, slru),
    (ListKind::Lirs, lirs),
    (ListKind::Arc, arc),
    (ListKind::ClockPro, clockpro),
    (ListKind::WTinyLfu, wtinylfu),
    (ListKind::Lhd, lhd),
    (ListKind::S3Fifo, s3fifo),
    (ListKind::Sieve, sieve),
];

fn pages() -> impl Strategy<Value = Vec<u32>> {
    let page = prop_oneof![4 => 0u32..10, 2 => 0u32..30, 1 => 0u32..100];
    let part = prop_oneof![
        3 => prop::collection::vec(page, 1..80),
        1 => (0u32..100, 1u32..40).prop_map(|(from, n)| (from..from + n).collect()),
    ];
    prop::collection::vec(part, 1..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_read_is_as_in_the_model(capacity in 1usize..40, pages in pages()) {
        for (kind, model) in MODELS {
            let mut cache = Cache::new(*kind, capacity);
            prop_assert_eq!(cache.misses(&pages), model(&pages, capacity), "{}", kind.name());
        }
    }
}
