//! LHD: the folio that promises the fewest hits for the room and the time it takes goes.
//!
//! N. Beckmann, H. Chen, A. Cidon, "LHD: improving cache hit rate by maximizing hit density", NSDI 2018. The
//! hit density of a folio is what is to be expected of one of its age and class: hits over the time spent in
//! memory. Classes go by the time between the last three uses; the victim is the worst of a sample; statistics are
//! averages that fade; one newcomer in 32 is kept for ten capacities whatever is expected of it, so that
//! late hits are seen at all. Time is counted in uses. Ages are told apart on a logarithmic scale, so that no
//! length of time needs to be chosen for them.

use super::{ListPolicy, Pages, Queue};
use crate::folio::FolioTable;
use crate::ids::FolioId;
use crate::splitmix::{finalise, GAMMA};

/// Folios to choose from.
const SAMPLED: usize = 0;
/// Folios that have been written and go first.
const DUE: usize = 1;
/// In the bits of the folio: it has been on a list before.
const KNOWN: u32 = 1;
/// It stays to the end of the ages.
const EXPLORER: u32 = 2;

/// Folios looked at for a victim; all of them if there are no more.
const SAMPLE: usize = 64;
/// Ages that are told apart: eight in each power of two.
const AGES: usize = 256;
/// Ages below are told apart one by one.
const EXACT: u64 = 8;
/// Statistics are of this time, and explorers stay so long; in capacities.
const REACH: u64 = 10;
/// Classes by the time between the last three uses, one of them for folios used once.
const CLASSES: usize = 16;
/// Least time of statistics.
const LEAST: u64 = 64;
/// One newcomer in so many explores, as long as explorers have at most a hundredth of the capacity.
const EXPLORERS: u64 = 32;
/// A hit or an eviction in the statistics, of which nine tenths are left when densities are computed anew.
const ONE: u64 = 1 << 16;
/// A hit for each unit of time.
const CERTAIN: u64 = 1 << 48;

/// Resident folios in no order, what is known of each, and what is expected of its like.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Lhd {
    lists: [Queue; 2],
    /// Those on the first list.
    here: Vec<FolioId>,
    /// By number of the folio. It stays while a folio is off its list.
    known: Vec<Known>,
    statistics: Statistics,
    /// Uses so far.
    now: u64,
    newcomers: u64,
    /// Pages of explorers on the lists.
    exploring: u64,
    /// Random numbers drawn.
    drawn: u64,
    /// Pages that fit, as of the last eviction; before, what the limits allow.
    capacity: u64,
    evicting: bool,
}

/// What is known of a folio.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct Known {
    /// Index among those on the first list.
    place: u32,
    class: u8,
    /// Time of last use.
    used: u64,
    /// Time between the last two uses; 0: there was one.
    gap: u64,
}

impl Lhd {
    fn known(&mut self, id: FolioId) -> &mut Known {
        let at = id.0 as usize;
        if at >= self.known.len() {
            self.known.resize(at + 1, Known::default());
        }
        &mut self.known[at]
    }

    fn age(&self, id: FolioId) -> u64 {
        self.now - self.known[id.0 as usize].used
    }

    fn reach(&self) -> u64 {
        self.capacity.saturating_mul(REACH)
    }

    /// The class of a folio with so much time between its last three uses: one more for each half of the reach.
    fn class(&self, time: u64) -> u8 {
        let halves = (self.reach() / (time + 1)).max(1).ilog2() as usize;
        (1 + halves).min(CLASSES - 1) as u8
    }

    /// Hits to be expected for a page and a unit of time.
    fn density(&self, p: &Pages<'_>, id: FolioId) -> u64 {
        let class = self.known[id.0 as usize].class.into();
        let age = self.age(id);
        if p.refs(id) & EXPLORER != 0 && age < self.reach() {
            return u64::MAX;
        }
        self.statistics.density(class, age) / p.size(id)
    }

    /// The worse of two: among equals the one not used for longer.
    fn worse(&self, p: &Pages<'_>, a: FolioId, b: FolioId) -> FolioId {
        let [x, y] = [a, b].map(|id| self.density(p, id));
        if x < y || (x == y && self.age(a) >= self.age(b)) {
            a
        } else {
            b
        }
    }

    /// The next number of SplitMix64, from the seed 0.
    fn random(&mut self, below: usize) -> usize {
        self.drawn += 1;
        let drawn = finalise(self.drawn.wrapping_mul(GAMMA));
        ((u128::from(drawn) * below as u128) >> 64) as usize
    }

    /// A use: time goes on, and densities follow now and then.
    fn tick(&mut self) {
        self.now += 1;
        if self.capacity < u64::MAX && self.now >= self.statistics.due {
            self.statistics.update();
            self.statistics.due = self.now + self.reach().max(LEAST);
        }
    }

    fn enter(&mut self, p: &mut Pages<'_>, id: FolioId) {
        let list = p.list(id);
        self.lists[list].push_head(p, id);
        if p.refs(id) & EXPLORER != 0 {
            self.exploring += p.size(id);
        }
        if list == SAMPLED {
            self.known(id).place = self.here.len() as u32;
            self.here.push(id);
        }
    }
}

impl ListPolicy for Lhd {
    fn queues(&self) -> &[Queue] {
        &self.lists
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.lists
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        self.capacity = p.capacity();
        self.evicting = true;
        if let Some(id) = self.lists[DUE].tail() {
            return Some(id);
        }
        if self.here.len() <= SAMPLE {
            let all = self.here.iter().copied();
            return all.reduce(|worst, id| self.worse(p, worst, id));
        }
        let mut worst = None;
        for _ in 0..SAMPLE {
            let at = self.random(self.here.len());
            let id = self.here[at];
            worst = Some(worst.map_or(id, |worst| self.worse(p, worst, id)));
        }
        worst
    }

    fn insert(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.refs(id) & KNOWN != 0 {
            return self.enter(p, id);
        }
        if !self.evicting {
            self.capacity = p.limit();
        }
        self.tick();
        let now = self.now;
        *self.known(id) = Known {
            used: now,
            ..Known::default()
        };
        self.newcomers += 1;
        let explores = self.newcomers.is_multiple_of(EXPLORERS)
            && self.exploring + p.size(id) <= self.capacity / 100;
        p.set_refs(id, KNOWN | if explores { EXPLORER } else { 0 });
        self.enter(p, id);
    }

    fn insert_oldest(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.refs(id) & KNOWN == 0 {
            self.insert(p, id);
            self.remove(p, id);
        }
        p.set_list(id, DUE);
        self.enter(p, id);
    }

    fn remove(&mut self, p: &mut Pages<'_>, id: FolioId) {
        let list = p.list(id);
        self.lists[list].remove(p, id);
        if p.refs(id) & EXPLORER != 0 {
            self.exploring -= p.size(id);
        }
        if list == SAMPLED {
            let at = self.known(id).place;
            self.here.swap_remove(at as usize);
            if let Some(&moved) = self.here.get(at as usize) {
                self.known(moved).place = at;
            }
        }
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.refs(id) & KNOWN == 0 {
            return; // Not inserted yet.
        }
        self.tick();
        let known = *self.known(id);
        let age = self.now - known.used;
        Statistics::count(&mut self.statistics.hits, known.class, age);
        *self.known(id) = Known {
            class: self.class(known.gap + age),
            used: self.now,
            gap: age,
            ..known
        };
        if p.refs(id) & EXPLORER != 0 {
            if p.listed(id) {
                self.exploring -= p.size(id);
            }
            p.set_refs(id, KNOWN);
        }
        if p.list(id) == DUE {
            if p.listed(id) {
                self.remove(p, id);
                p.set_list(id, SAMPLED);
                self.enter(p, id);
            } else {
                p.set_list(id, SAMPLED);
            }
        }
    }

    fn evicted(&mut self, _p: &mut Pages<'_>, id: FolioId) {
        let (class, age) = (self.known(id).class, self.age(id));
        Statistics::count(&mut self.statistics.evictions, class, age);
    }

    fn wants_limit(&self) -> bool {
        !self.evicting
    }

    fn check(&self, folios: &FolioTable) {
        let (mut pages, mut exploring) = (0, 0);
        for (at, &id) in self.here.iter().enumerate() {
            assert_eq!(self.known[id.0 as usize].place as usize, at, "{id:?}");
            pages += folios[id].nr_pages();
            if folios[id].word().refs() & EXPLORER != 0 {
                exploring += folios[id].nr_pages();
            }
        }
        assert_eq!(pages, self.lists[SAMPLED].pages(), "pages to choose from");
        assert!(
            (exploring..=exploring + self.lists[DUE].pages()).contains(&self.exploring),
            "pages of explorers"
        );
    }
}

/// Hits and evictions by class and age, and the densities that follow.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct Statistics {
    /// Time of the next update.
    due: u64,
    hits: Vec<u64>,
    evictions: Vec<u64>,
    /// Empty: not computed yet.
    densities: Vec<u64>,
}

impl Statistics {
    /// Index of an age. The last has all that are beyond.
    fn index(age: u64) -> usize {
        if age < EXACT {
            return age as usize;
        }
        let octave = age.ilog2() - EXACT.ilog2();
        let part = (age >> octave) - EXACT;
        ((u64::from(octave) + 1) * EXACT + part).min(AGES as u64 - 1) as usize
    }

    /// Ages that have an index in common.
    fn width(index: usize) -> u64 {
        1 << (index as u64 / EXACT).saturating_sub(1)
    }

    fn density(&self, class: usize, age: u64) -> u64 {
        // As long as nothing is known, more for folios hit soon, less with age.
        let before = || CERTAIN * (class as u64 + 1) / (age + 1);
        let computed = self.densities.get(class * AGES + Self::index(age));
        computed.copied().unwrap_or_else(before)
    }

    /// One more of the hits or of the evictions.
    fn count(counts: &mut [u64], class: u8, age: u64) {
        if let Some(n) = counts.get_mut(usize::from(class) * AGES + Self::index(age)) {
            *n += ONE;
        }
    }

    /// What has been seen becomes what is expected.
    fn update(&mut self) {
        if self.hits.is_empty() {
            self.hits = vec![0; CLASSES * AGES];
            self.evictions = self.hits.clone();
            return;
        }
        self.densities.resize(CLASSES * AGES, 0);
        for class in 0..CLASSES {
            // Time is in halves: what happens at an index happens in the middle of its width.
            let (mut hits, mut later, mut time) = (0, 0, 0);
            for index in (0..AGES).rev() {
                let at = class * AGES + index;
                let width = u128::from(Self::width(index));
                let events = u128::from(self.hits[at] + self.evictions[at]);
                hits += u128::from(self.hits[at]);
                time += 2 * later * width + events * (width + 1);
                later += events;
                self.densities[at] = (2 * hits * u128::from(CERTAIN) / time.max(1)) as u64;
                for counts in [&mut self.hits, &mut self.evictions] {
                    counts[at] -= counts[at] / 10;
                }
            }
        }
    }
}
