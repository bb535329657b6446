//! What each page must hold, kept apart from the machine: the number of stores it has seen.

use coldset_engine::ObjectId;
use coldset_machine::World;

/// Stores to one page.
#[derive(Clone, Copy, Default)]
struct Page {
    /// Stores that are known to have happened.
    sure: u32,
    /// Stores that have begun; an operation that failed may or may not have stored.
    begun: u32,
}

struct Held {
    object: ObjectId,
    /// Grows when the contents are dropped: stores begun before count for nothing then.
    epoch: u32,
    pages: Vec<Page>,
}

/// The flat model of all objects.
#[derive(Default)]
pub(super) struct Model {
    held: Vec<Held>,
}

/// A store under way.
#[derive(Clone, Copy)]
pub(super) struct Store {
    at: usize,
    page: u32,
    epoch: u32,
}

impl Model {
    /// Enters an object that nobody has stored to. Returns its place here.
    pub fn add(&mut self, object: ObjectId, pages: u32) -> usize {
        self.held.push(Held {
            object,
            epoch: 0,
            pages: vec![Page::default(); pages as usize],
        });
        self.held.len() - 1
    }

    pub fn begin(&mut self, at: usize, page: u32) -> Store {
        let h = &mut self.held[at];
        h.pages[page as usize].begun += 1;
        Store {
            at,
            page,
            epoch: h.epoch,
        }
    }

    pub fn done(&mut self, s: Store) {
        let h = &mut self.held[s.at];
        if h.epoch == s.epoch {
            h.pages[s.page as usize].sure += 1;
        }
    }

    /// The contents are gone for good.
    pub fn dropped(&mut self, at: usize) {
        let h = &mut self.held[at];
        h.epoch += 1;
        h.pages.fill(Page::default());
    }

    /// The contents may go at any time from now on: nobody looks any more.
    pub fn released(&mut self, at: usize) {
        let h = &mut self.held[at];
        h.epoch += 1;
        h.pages.clear();
    }

    /// A store that the machine never sees: the planted defect.
    pub fn lie(&mut self, at: usize, page: u32) {
        let p = &mut self.held[at].pages[page as usize];
        p.sure += 1;
        p.begun += 1;
    }

    /// Stores that each page must have on its device once a sync that begins now is over.
    pub fn must_be_durable(&self, at: usize) -> Vec<u32> {
        self.held[at].pages.iter().map(|p| p.sure).collect()
    }

    /// Panics if a page lacks stores on its device.
    pub fn check_durable(&self, w: &World, at: usize, must: &[u32]) {
        let Some(c) = &w.object(self.held[at].object).contents else {
            assert!(
                must.iter().all(|&n| n == 0),
                "fsync of a file that never was stored to"
            );
            return;
        };
        for (page, &must) in must.iter().enumerate().take(c.disk.len()) {
            let disk = c.disk[page];
            assert!(
                disk >= must,
                "fsync returned with version {disk} of {must} of page {page} of object {} on the device",
                self.held[at].object.0
            );
        }
    }

    /// Panics if a page has other stores than it should.
    pub fn check(&self, w: &World) {
        for h in &self.held {
            let stored = w.object(h.object).contents.as_ref().map(|c| &c.stored);
            for (page, p) in h.pages.iter().enumerate() {
                let n = stored.map_or(0, |s| s[page]);
                assert!(
                    (p.sure..=p.begun).contains(&n),
                    "page {page} of object {} has seen {n} stores, must have seen {} to {}",
                    h.object.0,
                    p.sure,
                    p.begun
                );
            }
        }
    }
}
