//! Policies by how often, or how soon, pages have been used before.

use super::{drop_from, run, Deque};
use std::collections::BTreeMap;

/// With exact frequencies in place of a sketch.
pub(super) fn wtinylfu(pages: &[u32], c: usize) -> Vec<bool> {
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
pub(super) fn lhd(pages: &[u32], c: usize) -> Vec<bool> {
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
