//! Large folios that cannot leave memory as a whole, steps 10 and 11 of the path of one folio
//! (`docs/rules/shrink-list.md#large-folios`).
//!
//! The first page goes on where the whole stopped. The other pages are input of the same list: they
//! are next, in the order of their addresses, so that neighbours get neighbouring slots. Each of them
//! counts as scanned when its turn comes, so what the whole has counted for them is taken back.

use super::scan_control::ScanControl;
use super::shrink_list::{FolioStep, ShrinkList};
use super::work::Work;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::split::HUGE_ORDER;
use crate::folio::Flags;

/// Why a folio is split, hence where its first page goes on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum SplitFor {
    /// Parts of it are not mapped any more and need no swap.
    Unmapped,
    /// No run of swap slots for the whole.
    Slots,
    /// Its writer has no room for the whole.
    Write,
}

impl ShrinkList {
    /// Splits the folio at hand, or activates it.
    pub(super) fn split(&mut self, eng: &mut Engine, why: SplitFor) -> Option<Work> {
        if !eng.folios.split_begin(self.folio, &mut self.pieces) {
            return self.activate(eng);
        }
        self.at = FolioStep::Split(why);
        Some(Work::Split { folio: self.folio })
    }

    /// Pieces that nobody has but this list are free: the split has freed them, and they count neither as scanned nor
    /// as reclaimed.
    fn drop_unmapped(&mut self, eng: &mut Engine) {
        self.pieces.retain(|&piece| {
            let wanted = eng.folios[piece].refcount() > 1;
            if !wanted {
                eng.folio_put(piece, 1);
            }
            wanted
        });
    }

    /// The host has answered.
    pub(super) fn split_over(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        why: SplitFor,
        done: bool,
    ) -> Option<Work> {
        if !done {
            eng.folios.split_undo(self.folio, &mut self.pieces);
            return self.activate(eng);
        }
        if eng.folios.split_commit(self.folio, &self.pieces) {
            eng.files_dirtied(&self.pieces);
        }
        let n = self.pieces.len() as u64 + 1;
        if why == SplitFor::Unmapped {
            self.drop_unmapped(eng);
        }
        // 11
        sc.nr_scanned -= n - 1;
        if self.batch.last {
            self.ret.append(&mut self.pieces);
        } else {
            let next = self.next;
            self.input.splice(next..next, self.pieces.drain(..));
        }
        match why {
            SplitFor::Unmapped if eng.folios[self.folio].refcount() == 1 => {
                eng.folios[self.folio].clear(Flags::LOCKED);
                eng.folio_put(self.folio, 1);
                self.at = FolioStep::Next;
                None
            }
            SplitFor::Unmapped => self.take_slot(eng, sc),
            SplitFor::Slots => {
                if n >= 1 << HUGE_ORDER {
                    let lruvec = eng.folios[self.folio].lruvec();
                    eng.count(eng.memcg_of(lruvec), Counter::ThpSwpoutFallback, 1);
                }
                self.at = FolioStep::Slot;
                Some(Work::AllocSwap { folio: self.folio })
            }
            SplitFor::Write => {
                eng.clear_dirty(self.folio);
                eng.folios[self.folio].set(Flags::RECLAIM);
                self.at = FolioStep::Write;
                Some(Work::Write { folio: self.folio })
            }
        }
    }
}
