//! W-TinyLFU: new folios pass through a small LRU window; the one that leaves it and the next victim of
//! the rest are compared, and the one that was asked for more often stays.
//!
//! G. Einziger, R. Friedman, B. Manes, "TinyLFU: a highly efficient cache admission policy", ACM
//! Transactions on Storage 13(4), 2017. The window has a hundredth of the capacity, the rest is a segmented
//! LRU with four fifths protected, and the sample is ten times the capacity, as there; without the
//! doorkeeper.

use super::{ListPolicy, Pages, Queue};
use crate::ids::FolioId;
use crate::splitmix::{finalise, GAMMA};

/// New folios.
const WINDOW: usize = 0;
/// Of the others, those used once since they came here.
const PROBATION: usize = 1;
/// Those used again.
const PROTECTED: usize = 2;

/// Three lists in the order of last use, and the frequencies of all pages asked for recently.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct WTinyLfu {
    lists: [Queue; 3],
    sketch: Sketch,
    /// Pages that fit, as of the last eviction; before, what the limits allow.
    capacity: u64,
    evicting: bool,
}

impl WTinyLfu {
    fn window_share(&self) -> u64 {
        (self.capacity / 100).max(1)
    }

    fn main_share(&self) -> u64 {
        self.capacity - self.window_share().min(self.capacity)
    }

    fn main_pages(&self) -> u64 {
        self.lists[PROBATION].pages() + self.lists[PROTECTED].pages()
    }

    /// What leaves the window goes to the rest while that has room.
    fn fill(&mut self, p: &mut Pages<'_>, window: u64) {
        while self.lists[WINDOW].pages() >= window {
            let Some(id) = self.lists[WINDOW].tail() else {
                return;
            };
            if self.main_pages() + p.size(id) > self.main_share() {
                return;
            }
            self.to(p, id, PROBATION);
        }
    }

    fn to(&mut self, p: &mut Pages<'_>, id: FolioId, list: usize) {
        self.lists[p.list(id)].remove(p, id);
        p.set_list(id, list);
        self.lists[list].push_head(p, id);
    }
}

impl ListPolicy for WTinyLfu {
    fn queues(&self) -> &[Queue] {
        &self.lists
    }

    fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.lists
    }

    fn victim(&mut self, p: &mut Pages<'_>) -> Option<FolioId> {
        self.capacity = p.capacity();
        self.evicting = true;
        let window = self.window_share();
        self.fill(p, window);
        let kept = self.lists[PROBATION]
            .tail()
            .or(self.lists[PROTECTED].tail());
        let newcomer = self.lists[WINDOW].tail();
        let (Some(kept), Some(newcomer)) = (kept, newcomer) else {
            return kept.or(newcomer);
        };
        if self.lists[WINDOW].pages() < window {
            return Some(kept);
        }
        let [old, new] = [kept, newcomer].map(|id| self.sketch.estimate(p.name(id)));
        if new <= old {
            return Some(newcomer);
        }
        self.to(p, newcomer, PROBATION);
        Some(kept)
    }

    fn insert(&mut self, p: &mut Pages<'_>, id: FolioId) {
        if p.list(id) != WINDOW {
            // It has been off its list for a while, and is not new.
            return self.put_back(p, id);
        }
        if !self.evicting {
            self.capacity = p.limit();
        }
        self.lists[WINDOW].push_head(p, id);
        let pages = self.main_pages() + self.lists[WINDOW].pages();
        self.sketch.count(p.name(id), pages, self.capacity);
        if !self.evicting {
            self.fill(p, self.window_share().saturating_add(1));
        }
    }

    /// As its list orders it, without another count.
    fn put_back(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.lists[p.list(id)].push_head(p, id);
    }

    fn accessed(&mut self, p: &mut Pages<'_>, id: FolioId) {
        self.sketch.count(p.name(id), 0, self.capacity);
        if !p.listed(id) {
            return;
        }
        let list = p.list(id);
        self.to(p, id, if list == WINDOW { WINDOW } else { PROTECTED });
        while self.lists[PROTECTED].pages()
            > self.main_share() / 5 * 4 + self.main_share() % 5 * 4 / 5
        {
            let Some(last) = self.lists[PROTECTED].tail() else {
                return;
            };
            self.to(p, last, PROBATION);
        }
    }

    fn wants_limit(&self) -> bool {
        !self.evicting
    }
}

/// How often pages were asked for: four rows of counters up to 15, the lowest of which is the estimate. Only
/// the lowest are incremented. After so many counts all are halved.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct Sketch {
    /// Rows one after the other, each of a power of two of counters.
    rows: Vec<u8>,
    counts: u64,
}

impl Sketch {
    const ROWS: usize = 4;
    /// Counters of the shortest row.
    const SHORTEST: usize = 1 << 12;
    const MOST: u8 = 15;
    /// Counts until the next halving, per page of capacity.
    const SAMPLE: u64 = 10;

    fn width(&self) -> usize {
        self.rows.len() / Self::ROWS
    }

    fn places(&self, name: u64) -> [usize; Self::ROWS] {
        let mut h = name.wrapping_add(GAMMA);
        std::array::from_fn(|row| {
            h = finalise(h);
            row * self.width() + (h as usize & (self.width() - 1))
        })
    }

    fn estimate(&self, name: u64) -> u8 {
        if self.rows.is_empty() {
            return 0;
        }
        let places = self.places(name);
        places
            .map(|at| self.rows[at])
            .into_iter()
            .min()
            .unwrap_or(0)
    }

    /// A page was asked for. `pages`: how many are held; there are at least as many counters in a row.
    fn count(&mut self, name: u64, pages: u64, capacity: u64) {
        while self.rows.is_empty() || (self.width() as u64) < pages {
            self.grow();
        }
        let places = self.places(name);
        let least = self.estimate(name);
        if least < Self::MOST {
            for at in places {
                if self.rows[at] == least {
                    self.rows[at] += 1;
                }
            }
        }
        self.counts += 1;
        if self.counts >= capacity.saturating_mul(Self::SAMPLE) {
            self.rows.iter_mut().for_each(|n| *n /= 2);
            self.counts /= 2;
        }
    }

    /// Twice as many counters, each with what it had as far as anybody knows.
    fn grow(&mut self) {
        if self.rows.is_empty() {
            self.rows = vec![0; Self::SHORTEST * Self::ROWS];
            return;
        }
        let width = self.width();
        self.rows = self
            .rows
            .chunks(width)
            .flat_map(|row| [row, row].concat())
            .collect();
    }
}
