//! Look-around: when the reverse map meets an accessed entry during eviction, its neighbours in the
//! page table are looked at as well (`docs/rules/eviction.md#look-around`).

pub use super::mms::LookAround;
use super::walk::suitable;
use super::MultiGen;
use crate::engine::Engine;
use crate::ids::FolioId;

/// Entries a window has at most: one machine word of accessed bits.
pub const WINDOW_MAX: u64 = 64;

/// The window around the victim: `at`, `start` and `end` are entry numbers, `start..end` being the
/// part of the leaf table inside the mapping. Returns the half-open window.
pub fn window(at: u64, start: u64, end: u64) -> (u64, u64) {
    debug_assert!((start..end).contains(&at));
    if end - start <= WINDOW_MAX {
        (start, end)
    } else if at - start < WINDOW_MAX / 2 {
        (start, start + WINDOW_MAX)
    } else if end - at < WINDOW_MAX / 2 {
        (end - WINDOW_MAX, end)
    } else {
        (at - WINDOW_MAX / 2, at + WINDOW_MAX / 2)
    }
}

impl Engine {
    /// May the host clear the accessed bit of this neighbour? It must belong to the same lruvec and, since
    /// 6.14, be on a list.
    #[inline]
    pub fn look_around_wants(&self, la: &LookAround, id: FolioId) -> bool {
        let f = &self.folios[id];
        let on_list = f.word().gen().is_some() || !self.rules.kernel.looks_around_on_lists;
        f.lruvec() == la.lruvec && on_list
    }

    /// The host cleared the accessed bit of a neighbour. True: another accessed bit of it, in an entry that is not dirty,
    /// would change nothing, as long as nothing else happens to it.
    pub fn look_around_young(
        &mut self,
        la: &LookAround,
        cpu: u16,
        id: FolioId,
        pte_dirty: bool,
    ) -> bool {
        self.walk_dirty(id, pte_dirty);
        let m = self.lruvecs[la.lruvec].gens();
        let youngest = MultiGen::slot(m.max_seq);
        if la.walk_context {
            let before = self.folios[id].word();
            self.gen_promote(id, youngest);
            return self.folios[id].word() == before;
        }
        if (self.rules.kernel.neighbour_found)(self.folios[id].word_mut(), youngest) {
            self.activate(cpu, id);
        }
        false
    }

    /// The host is done with a window of `len` entries, `young` of which (the victim included) were
    /// accessed.
    pub fn look_around_done(&mut self, la: &LookAround, key: u64, len: u64, young: u64) {
        if suitable(len, young, self.config().cacheline) {
            let m = self.lruvecs[la.lruvec].gens_mut();
            let seq = m.max_seq;
            m.walk.filters.add(seq, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e12_look_around_window() {
        assert_eq!(window(10, 0, 512), (0, 64));
        assert_eq!(window(100, 0, 512), (68, 132));
        assert_eq!(window(500, 0, 512), (448, 512));
        assert_eq!(window(70, 64, 100), (64, 100));
        assert!(suitable(64, 8, 64) && !suitable(64, 7, 64));
    }
}
