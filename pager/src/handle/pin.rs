//! Pages that stay in memory, for system calls.

use super::region::Region;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::plant::{self, Plant};
use crate::sys::PAGE;
use std::ops::Range;
use std::sync::Arc;

/// Pages that stay in memory while the pin lives.
#[derive(Debug)]
pub struct Pin<'a> {
    region: &'a Region,
    pages: Range<usize>,
    write: bool,
}

impl Pin<'_> {
    /// Bytes it keeps, whole pages.
    pub fn range(&self) -> Range<usize> {
        self.pages.start * PAGE..self.pages.end * PAGE
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.region.unpin(self.pages.clone(), self.write);
    }
}

/// A [`Pin`] that shares the region instead of borrowing it, for callers that cannot name a lifetime.
#[derive(Debug)]
pub struct SharedPin {
    region: Arc<Region>,
    pages: Range<usize>,
    write: bool,
}

impl SharedPin {
    /// Bytes it keeps, whole pages.
    pub fn range(&self) -> Range<usize> {
        self.pages.start * PAGE..self.pages.end * PAGE
    }
}

impl Drop for SharedPin {
    fn drop(&mut self) {
        self.region.unpin(self.pages.clone(), self.write);
    }
}

/// What is to be done about a pin for which there is no memory.
fn told_of_pins(mut e: Error) -> Error {
    if let Error::NoMemory { pinning, .. } = &mut e {
        *pinning = true;
    }
    e
}

impl Region {
    /// Brings in a byte range, in whole pages, and keeps it in memory until the pin is dropped. System calls may use
    /// the range meanwhile; with `write` they may store to it. A pin of an empty range keeps nothing.
    ///
    /// # Errors
    /// [`Error::Forked`]; a range outside of the region; `write` on a read-only region; no memory.
    pub fn pin(&self, range: Range<usize>, write: bool) -> Result<Pin<'_>> {
        let pages = self.pages_of(&range)?;
        if write && self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let _shield = self.pool.res.enter()?;
        let mut pin = Pin {
            region: self,
            pages: pages.start..pages.start,
            write,
        };
        for p in pages {
            while !self.area.words().try_pin(p) {
                let done = self.pool.misses.bring_in(&self.area, p, write);
                done.map_err(told_of_pins)?;
                meanwhile();
            }
            pin.pages.end = p + 1;
            if plant::on(Plant::PinLost) {
                self.area.words().unpin(p, write);
            }
        }
        Ok(pin)
    }

    /// As [`Self::pin`]; the region lives at least as long as the pin.
    ///
    /// # Errors
    /// As [`Self::pin`].
    pub fn pin_shared(self: &Arc<Self>, range: Range<usize>, write: bool) -> Result<SharedPin> {
        let pin = self.pin(range, write)?;
        let pages = pin.pages.clone();
        // The shared pin lets the pages go instead.
        std::mem::forget(pin);
        Ok(SharedPin {
            region: self.clone(),
            pages,
            write,
        })
    }

    fn unpin(&self, pages: Range<usize>, write: bool) {
        if plant::on(Plant::PinLost) {
            return;
        }
        for p in pages.clone() {
            // A store through a descriptor may come after the kernel last looked at the entry.
            self.area.words().unpin(p, write);
        }
        if write {
            meanwhile();
            pages.for_each(|p| self.area.note_dirty(p));
        }
    }
}
