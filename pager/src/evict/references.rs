//! Has a page been used since somebody asked last? For the engine's tests of single folios.

use crate::budget::core::Core;
use crate::budget::resources::Resources;
use crate::meanwhile::meanwhile;
use crate::page::{PageState, Word};
use crate::policy::Task;
use crate::region::area::Area;
use crate::sys::pagemap::Scan;
use coldset_engine::reclaim::References;
use coldset_engine::FolioId;
use std::sync::MutexGuard;

/// Pages looked at together when one of them is tested: one word of bits.
const WINDOW: usize = 64;
/// Windows remembered during a run; the oldest is forgotten first.
const WINDOWS: usize = 32;

/// Pages mapped, by region and window, as of one run of reclaim.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<(u32, usize, u64)>);

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
        let window = page / WINDOW;
        let known = self.0.iter().find(|k| k.0 == object.0 && k.1 == window);
        let (mask, mut core) = match known {
            Some(k) => (k.2, core),
            None => {
                drop(core);
                let mask = present(res, &area, window);
                meanwhile();
                if self.0.len() >= WINDOWS {
                    self.0.remove(0);
                }
                self.0.push((object.0, window, mask));
                (mask, res.core())
            }
        };
        let accessed = used(&area, page, mask);
        if accessed {
            tell_neighbours(&mut core, &area, task, page, mask);
        }
        let references = References {
            accessed: accessed.into(),
            ..References::default()
        };
        (if stays() { references } else { unknown }, core)
    }
}

/// Pages of a window that are mapped.
fn present(res: &Resources, area: &Area, window: usize) -> u64 {
    let Some(pm) = res.pagemap.as_ref().filter(|_| !area.is_explicit()) else {
        return 0;
    };
    let first = window * WINDOW;
    let pages = WINDOW.min(area.pages() - first);
    // What is only coming in may be mapped for a moment without having been used.
    let here = |p: &usize| area.words().get(*p).in_memory();
    let came = (first..first + pages).filter(here);
    let came = came.fold(0u64, |bits, p| bits | 1 << (p - first));
    let mut mask = 0u64;
    // Unknown counts as unused.
    area.memory()
        .scan(pm, Scan::Present, first..first + pages, |run| {
            for p in run.first..run.first + run.pages {
                mask |= 1 << (p - first);
            }
        });
    mask & came
}

/// Used since last told: marked by a sweep or a guard, or mapped and not told since the zap.
fn used(area: &Area, page: usize, mask: u64) -> bool {
    let young = area.words().unmark(page, Word::YOUNG).young();
    let mapped = mask >> (page % WINDOW) & 1 == 1;
    young | (mapped && !area.words().mark(page, Word::SEEN).seen())
}

fn tell_neighbours(core: &mut Core, area: &Area, task: &Task, page: usize, mask: u64) {
    let first = page / WINDOW * WINDOW;
    let end = (first + WINDOW).min(area.pages());
    let mut young = 1;
    for p in (first..end).filter(|&p| p != page) {
        let w = area.words().get(p);
        if !w.in_memory() || !(w.young() || mask >> (p - first) & 1 == 1) {
            continue;
        }
        let Some(id) = area.folio(p) else { continue };
        if core.policy.wants_neighbour(task, id) && used(area, p, mask) {
            young += 1;
            core.policy.neighbour(task, id);
        }
    }
    let key = area.table_key(page);
    core.policy
        .neighbours_done(task, key, (end - first) as u64, young);
}
