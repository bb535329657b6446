//! Letting pages go: those of a file are evicted, contents of anonymous memory are thrown away.

use super::region::Region;
use crate::error::{Error, Result};
use crate::evict::victim::Victim;
use crate::page::PageState;
use crate::region::area::BLOCK;
use std::ops::Range;

const PINNED: Error = Error::Mode("a pinned page cannot be dropped");

impl Region {
    /// Takes pages of a writable file out of memory. Others may store to them until they are out: they
    /// go as evicted pages do, and what is newer than the file is written.
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

    /// Evicts pages of a file that the caller has taken.
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
        res.gate.leaving(taken.len() as u64);
        let victims = taken.drain(..);
        let victims = victims.map(|page| Victim::of_file(self.area.clone(), page));
        self.pool.evictor.evict(victims.collect(), &mut 0)
    }

    /// Throws a page's contents away, in memory and in the store. `last`: for good.
    pub(super) fn drop_page(&self, p: usize, last: bool) -> Result<()> {
        let (area, words) = (&self.area, self.area.words());
        loop {
            let w = words.get(p);
            match w.state() {
                PageState::Evicted if area.slot(p).is_none() && !last => return Ok(()),
                PageState::Evicted => {
                    if words.try_fill(p) {
                        self.forget_taken(p, false);
                        return Ok(());
                    }
                }
                s @ (PageState::Busy | PageState::Writeback) => words.wait_while(p, s),
                PageState::Resident if w.pins() > 0 && last => {
                    unreachable!("a pin borrows the region")
                }
                PageState::Resident if w.pins() > 0 => return Err(PINNED),
                PageState::Resident => {
                    if words.try_evict(p) {
                        area.memory().check();
                        area.memory().remove(p, 1);
                        if self.forget_taken(p, true) && !last {
                            area.release_table(p / BLOCK);
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The engine forgets a page that the caller has taken, and out of memory if it was there. True if it
    /// was the last of its block there.
    fn forget_taken(&self, p: usize, was_in_memory: bool) -> bool {
        let (res, area) = (&self.pool.res, &self.area);
        let mut core = res.core();
        core.policy.forget(area.book(), res.swap.as_ref(), p);
        let last_of_block = was_in_memory && area.count_out(p);
        res.gone(&mut core, was_in_memory.into());
        drop(core);
        area.words().emptied(p);
        last_of_block
    }

    /// Throws all contents away, for good.
    pub(super) fn drop_all(&self) -> Result<()> {
        let area = &self.area;
        let mut result = Ok(());
        for b in 0..area.blocks() {
            // Of an evicted page of a file nothing needs to be forgotten but its shadow.
            if area.in_block(b) == 0 && !area.is_anon() {
                continue;
            }
            for p in area.known(area.block(b)) {
                result = result.and(self.drop_page(p, true));
            }
        }
        result
    }
}
