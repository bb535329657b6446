//! Has a page been used since somebody asked last? For the engine's tests of single folios.

use crate::budget::core::Core;
use crate::budget::resources::Resources;
use crate::meanwhile::meanwhile;
use crate::page::{PageState, Word};
use crate::policy::Task;
use crate::region::area::Area;
use crate::region::witness;
use crate::sys::pagemap::Scan;
use coldset_engine::reclaim::References;
use coldset_engine::FolioId;
use std::ops::Range;
use std::sync::MutexGuard;

/// Pages looked at together when one of them is tested: one word of bits.
const WINDOW: usize = 64;
/// Windows remembered during a run; the oldest is forgotten first.
const WINDOWS: usize = 32;

/// Pages that lie together, as they were when one of them was tested.
#[derive(Clone, Copy, Debug)]
struct Window {
    object: u32,
    at: usize,
    /// Which are mapped, and not only because they were read ahead.
    mapped: u64,
    /// The engine has been told of those that were used.
    told: bool,
}

/// What is known of pages in one run of reclaim.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<Window>);

impl Windows {
    /// Has the page been used since somebody asked last? Looks at its neighbours with it, without
    /// the lock.
    pub(super) fn test<'a>(
        &mut self,
        res: &'a Resources,
        core: MutexGuard<'a, Core>,
        task: &Task,
        folio: FolioId,
    ) -> (References, MutexGuard<'a, Core>) {
        let (object, page) = core.policy.engine().folio(folio).owner();
        let Some(area) = core.region(object).cloned() else {
            return (References::default(), core);
        };
        let page = page as usize;
        let unknown = References {
            unknown: true,
            ..References::default()
        };
        let stays = || {
            let w = area.words().get(page);
            w.state() == PageState::Resident && w.pins() == 0
        };
        if !stays() {
            return (unknown, core);
        }
        let word = area.words().get(page);
        if word.seen() && !word.young() {
            // Told since the last zap: whatever a look at it says, it is not news.
            return (References::default(), core);
        }
        let at = page / WINDOW;
        // The last first: pages that lie together are often tested one after the other.
        let is_it = |w: &Window| w.object == object.0 && w.at == at;
        let (known, mut core) = match self.0.iter().rposition(is_it) {
            Some(known) => (known, core),
            None => {
                drop(core);
                let mapped = present(res, &area, at);
                meanwhile();
                if self.0.len() >= WINDOWS {
                    self.0.remove(0);
                }
                self.0.push(Window {
                    object: object.0,
                    at,
                    mapped,
                    told: false,
                });
                (self.0.len() - 1, res.core())
            }
        };
        let window = &mut self.0[known];
        let accessed = used(&area, page, window.mapped);
        if accessed {
            // The others are told once a run: what it knows of them is from when it looked at the first.
            let young = match std::mem::replace(&mut window.told, true) {
                false => tell_neighbours(&mut core, &area, task, page, window.mapped),
                true => 0,
            };
            let pages = of_window(&area, at).len() as u64;
            let key = area.table_key(page);
            core.policy.neighbours_done(task, key, pages, 1 + young);
        }
        let references = References {
            accessed: accessed.into(),
            ..References::default()
        };
        (if stays() { references } else { unknown }, core)
    }
}

/// Pages of a window.
fn of_window(area: &Area, at: usize) -> Range<usize> {
    at * WINDOW..((at + 1) * WINDOW).min(area.pages())
}

/// Pages of a window that are mapped because somebody has used them.
fn present(res: &Resources, area: &Area, at: usize) -> u64 {
    let Some(pm) = res.pagemap.as_ref().filter(|_| !area.is_explicit()) else {
        return 0;
    };
    let pages = of_window(area, at);
    let first = pages.start;
    // What is only coming in may be mapped for a moment without having been used.
    let (mut came, mut ahead) = (0u64, 0u64);
    for p in pages.clone() {
        let word = area.words().get(p);
        came |= u64::from(word.in_memory()) << (p - first);
        ahead |= u64::from(word.ahead()) << (p - first);
    }
    let mut mask = 0u64;
    // Unknown counts as unused.
    area.memory().scan(pm, Scan::Present, pages, |run| {
        for p in run.first..run.first + run.pages {
            mask |= 1 << (p - first);
        }
    });
    witness::used(area, first, mask & came, ahead)
}

/// Used since last told: marked by a sweep or a guard, or mapped and not told since the zap.
fn used(area: &Area, page: usize, mask: u64) -> bool {
    let young = area.words().unmark(page, Word::YOUNG).young();
    let mapped = mask >> (page % WINDOW) & 1 == 1;
    young | (mapped && !area.words().mark(page, Word::SEEN).seen())
}

/// Tells the engine of the others in the window of a page that have been used, if it wants to know. Returns how many.
fn tell_neighbours(core: &mut Core, area: &Area, task: &Task, page: usize, mask: u64) -> u64 {
    let mut young = 0;
    let pages = of_window(area, page / WINDOW);
    let first = pages.start;
    for p in pages.filter(|&p| p != page) {
        let w = area.words().get(p);
        let mapped = mask >> (p - first) & 1 == 1;
        if !w.in_memory() || !(w.young() || mapped && !w.seen()) {
            continue;
        }
        let Some(id) = area.folio(p) else { continue };
        if core.policy.wants_neighbour(task, id) && used(area, p, mask) {
            young += 1;
            core.policy.neighbour(task, id);
        }
    }
    young
}
