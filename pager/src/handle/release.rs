//! Releasing pages: those of a file are evicted, contents of anonymous memory are thrown away.

use super::region::Region;
use crate::error::{Error, Result};
use crate::evict::victim::Victim;
use crate::meanwhile::meanwhile;
use crate::page::PageState;
use crate::region::area::BLOCK;
use std::ops::Range;

const PINNED: Error = Error::Mode("a pinned page cannot be dropped");

impl Region {
    /// Takes pages of a writable file out of memory. Others may store to them until they are out, so they leave as
    /// evicted pages do, and what is newer than the file is written.
    pub(super) fn let_go(&self, pages: Range<usize>) -> Result<()> {
        let words = self.area.words();
        let mut taken = Vec::new();
        let mut result = Ok(());
        for p in pages {
            loop {
                let w = words.get(p);
                match w.state() {
                    PageState::Evicted => break,
                    s @ (PageState::Busy | PageState::Writeback) => {
                        // Its owner may wait for one of ours.
                        self.evict_taken(&mut taken)?;
                        words.wait_while(p, s);
                    }
                    PageState::Resident if w.pins() > 0 => {
                        result = Err(PINNED);
                        break;
                    }
                    PageState::Resident if words.try_evict(p) => {
                        meanwhile();
                        taken.push(p);
                        break;
                    }
                    PageState::Resident => {}
                }
            }
            if taken.len() >= self.pool.res.config.batch {
                self.evict_taken(&mut taken)?;
            }
        }
        self.evict_taken(&mut taken).and(result)
    }

    /// Evicts file pages that the caller has claimed.
    fn evict_taken(&self, taken: &mut Vec<usize>) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        let res = &self.pool.res;
        let mut core = res.core();
        for &p in taken.iter() {
            core.policy.forget(self.area.book(), res.swap.as_ref(), p);
        }
        drop(core);
        meanwhile();
        res.gate.leaving(taken.len() as u64);
        let victims = taken.drain(..);
        let victims = victims.map(|page| Victim::of_file(self.area.clone(), page));
        self.pool.evictor.evict(victims.collect(), &mut 0)
    }

    /// Throws contents away, in memory and in the store, neighbours with one call. `last`: for good.
    pub(super) fn drop_pages(&self, pages: Range<usize>, last: bool) -> Result<()> {
        let mut taken = 0..0;
        for p in self.area.known(pages) {
            if self.area.words().try_evict(p) {
                if p != taken.end || p % BLOCK == 0 {
                    self.drop_taken(taken, last);
                    taken = p..p;
                }
                taken.end = p + 1;
                continue;
            }
            // Whoever has this page may wait for one of ours.
            self.drop_taken(std::mem::take(&mut taken), last);
            self.drop_page(p, last)?;
        }
        self.drop_taken(taken, last);
        Ok(())
    }

    /// Throws a page's contents away, in memory and in the store. `last`: for good.
    fn drop_page(&self, p: usize, last: bool) -> Result<()> {
        let (area, words) = (&self.area, self.area.words());
        loop {
            let w = words.get(p);
            match w.state() {
                PageState::Evicted if area.slot(p).is_none() && !last => return Ok(()),
                PageState::Evicted => {
                    meanwhile();
                    if words.try_fill(p) {
                        self.forget_taken(p..p + 1, false);
                        return Ok(());
                    }
                }
                s @ (PageState::Busy | PageState::Writeback) => words.wait_while(p, s),
                PageState::Resident if w.pins() > 0 && last => {
                    unreachable!("pins have ended before")
                }
                PageState::Resident if w.pins() > 0 => return Err(PINNED),
                PageState::Resident => {
                    if words.try_evict(p) {
                        self.drop_taken(p..p + 1, last);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Removes pages of a block, which the caller owns (BUSY), from memory and forgets them.
    fn drop_taken(&self, pages: Range<usize>, last: bool) {
        if pages.is_empty() {
            return;
        }
        let (area, block) = (&self.area, pages.start / BLOCK);
        area.memory().check();
        meanwhile();
        area.memory().remove(pages.start, pages.len());
        meanwhile();
        if self.forget_taken(pages, true) && !last {
            meanwhile();
            area.release_table(block);
        }
    }

    /// Makes the engine forget pages of a block, which the caller owns, and counts those that were in memory out of
    /// it. True if the block then has none in memory.
    fn forget_taken(&self, pages: Range<usize>, were_in_memory: bool) -> bool {
        let (res, area) = (&self.pool.res, &self.area);
        let mut last_of_block = false;
        let mut core = res.core();
        for p in pages.clone() {
            core.policy.forget(area.book(), res.swap.as_ref(), p);
            last_of_block |= were_in_memory && area.count_out(p);
        }
        let gone = if were_in_memory { pages.len() } else { 0 };
        res.gone(&mut core, gone as u64);
        drop(core);
        meanwhile();
        pages.for_each(|p| area.words().emptied(p));
        last_of_block
    }

    /// Pins and guards borrow the region: those that are left when it goes were forgotten, and end now.
    pub(super) fn end_forgotten(&self) {
        let (area, words) = (&self.area, self.area.words());
        let wrote = area.writable_file().is_some();
        for p in area.known(0..area.pages()) {
            while words.get(p).pins() > 0 {
                words.unpin(p, wrote);
                area.note_dirty(p);
            }
        }
    }

    /// Throws all contents away, for good.
    pub(super) fn drop_all(&self) -> Result<()> {
        let area = &self.area;
        for b in 0..area.blocks() {
            // Of an evicted page of a file nothing needs to be forgotten but its shadow.
            if area.in_block(b) > 0 || area.is_anon() {
                self.drop_pages(area.block(b), true)?;
            }
        }
        Ok(())
    }
}
