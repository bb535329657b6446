//! Random programs, and the rules once more in another way.

use super::*;
use proptest::prelude::*;

/// Reads of a program: (where, pages). Where: goes on, skips, goes back, jumps.
fn programs() -> impl Strategy<Value = (u32, Vec<(u32, u32)>)> {
    let step = (0..8u32, 0..FILE, 1..40u32, 1..6u32);
    let kb = prop::sample::select(vec![0u32, 4, 8, 16, 64, 128, 512]);
    (kb, prop::collection::vec(step, 1..60)).prop_map(|(kb, steps)| {
        let mut at = 0;
        let reads = steps.into_iter().map(|(kind, page, many, few)| {
            let pages = if kind % 2 == 0 { few } else { many };
            let from = match kind {
                0..=3 => at,
                4 => at + few,
                5 => at.saturating_sub(pages),
                _ => page,
            };
            let from = from.min(FILE - 1);
            at = from + pages;
            (from, pages)
        });
        (kb, reads.collect())
    })
}

/// The rules once more, literally: lists of booleans, the last window by its first page, its end and its
/// mark.
#[derive(Default)]
struct Model {
    most: u32,
    cached: Vec<bool>,
    marked: Vec<bool>,
    from: u32,
    to: u32,
    mark: u32,
    position: Option<u32>,
}

impl Model {
    fn new(kb: u32) -> Self {
        Self {
            most: kb / 4,
            cached: vec![false; FILE as usize],
            marked: vec![false; FILE as usize],
            ..Self::default()
        }
    }

    fn fill(&mut self, from: u32, to: u32, mark: Option<u32>) {
        for page in from..to.min(FILE) {
            if !std::mem::replace(&mut self.cached[page as usize], true) {
                self.marked[page as usize] = mark == Some(page);
            }
        }
    }

    fn read(&mut self, page: u32, pages: u32) {
        let end = (page + pages).min(FILE);
        for at in page..end {
            let wanted = end - at;
            let most = if wanted > self.most {
                wanted.min(REQUEST)
            } else {
                self.most
            };
            let was_cached = self.cached[at as usize];
            if self.most == 0 {
                self.cached[at as usize] = true;
                continue;
            }
            if !was_cached {
                self.missing(at, wanted, most);
            }
            if std::mem::take(&mut self.marked[at as usize]) {
                self.met(at, wanted, most);
            }
        }
        self.position = Some(end);
    }

    fn missing(&mut self, at: u32, wanted: u32, most: u32) {
        let sequential = self.position.is_some_and(|p| p == at || p + 1 == at);
        let (size, mark) = if at == 0 || sequential || wanted > most {
            let mut p = 1;
            while p < wanted {
                p *= 2;
            }
            let size = match p {
                p if 32 * p <= most => 4 * p,
                p if 4 * p <= most => 2 * p,
                _ => most,
            };
            (
                size,
                if wanted < size {
                    at + wanted
                } else {
                    at + size - size / 2
                },
            )
        } else {
            let mut before = 0;
            while before < most && before < at && self.cached[(at - before - 1) as usize] {
                before += 1;
            }
            if before <= wanted {
                return self.fill(at, at + wanted, None);
            }
            let before = if before == at {
                before + before
            } else {
                before
            };
            let size = if before + wanted < most {
                before + wanted
            } else {
                most
            };
            (size, at + size - 1)
        };
        (self.from, self.to, self.mark) = (at, at + size, mark);
        self.fill(at, at + size, Some(mark));
    }

    fn met(&mut self, at: u32, wanted: u32, most: u32) {
        let larger = |x: u32| match x {
            x if x < most / 16 => 4 * x,
            x if x <= most / 2 => 2 * x,
            _ => most,
        };
        let size = if at == self.mark {
            let old = self.to - self.from;
            self.from = self.to;
            if larger(old) > old {
                larger(old)
            } else {
                old
            }
        } else {
            let mut gap = 1;
            while at + gap < FILE && self.cached[(at + gap) as usize] {
                gap += 1;
            }
            if gap > most || at + gap >= FILE {
                return;
            }
            self.from = at + gap;
            larger(gap + wanted)
        };
        self.to = self.from + size;
        let multiple = match most {
            n if n % 4 == 0 => 4,
            n if n % 2 == 0 => 2,
            _ => 1,
        };
        let end = self.to / multiple * multiple;
        if end > self.from {
            self.to = end;
        }
        self.mark = self.from;
        self.fill(self.from, self.to, Some(self.mark));
    }
}

proptest! {
    #[test]
    fn two_models_agree((kb, reads) in programs()) {
        let mut cache = Cache::new(kb);
        let mut model = Model::new(kb);
        for (page, pages) in reads {
            cache.read(page, pages);
            model.read(page, pages);
            let marks = cache.pages.iter().map(|p| *p == Some(true));
            prop_assert!(marks.eq(model.marked.iter().copied()), "marks after {page}+{pages}");
            let cached = cache.pages.iter().map(Option::is_some);
            prop_assert!(cached.eq(model.cached.iter().copied()), "pages after {page}+{pages}");
        }
    }

    #[test]
    fn windows_stay_within_their_bounds((kb, reads) in programs()) {
        let mut cache = Cache::new(kb);
        // A window that has grown for one large read keeps its size.
        let mut most = (kb / 4).max(1);
        for (page, pages) in reads {
            cache.read(page, pages);
            if kb > 0 {
                most = most.max(pages);
            }
            for (at, _, window) in cache.windows.drain(..) {
                prop_assert!(window.pages.start >= at, "{window:?} behind {at}");
                prop_assert!(window.pages.len() as u32 <= most, "{window:?} of {most}");
                prop_assert!(window.mark.is_none_or(|m| m >= at), "{window:?}");
            }
        }
    }
}
