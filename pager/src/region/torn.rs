//! What programs do to a region behind the pager's back.
//!
//! A library cannot intercept system calls. What a sweep meets is noticed: a hole in the range
//! (`munmap`, `mremap`), something else in it (`MAP_FIXED`), locked pages (`mlock`). Memory that is not
//! the pager's is not touched then, and what was in the region is kept, written, and told by `sync`. A sweep looks and then
//! drops, in two calls: between them nothing helps.

use super::memory::Memory;
use crate::error::Error;
use crate::sys::exit::say;
use crate::sys::pagemap::{Pagemap, Scan};
use crate::sys::PAGE;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

impl Memory {
    /// True if the range is not, or not wholly, the region's any more.
    pub(crate) fn is_torn(&self) -> bool {
        self.torn.load(Relaxed)
    }

    /// Notes that it is not, and says so once.
    pub(super) fn tear(&self) {
        if !self.torn.swap(true, Relaxed) {
            // What is left of it cannot be told from what has come in its place.
            self.map.disown();
            say(&format!(
                "coldset: a region of {} bytes at {:#x} has been unmapped, moved or mapped over by the \
                 program; what it held is written back, and it is not swept any more\n",
                self.map.len(),
                self.map.addr()
            ));
        }
    }

    /// A page could neither be stored nor be put back. Of a torn region nobody can miss it; else the process
    /// ends, for the page would read as zeroes.
    pub(crate) fn lost(&self, page: usize, e: &Error) {
        self.check_whole();
        if !self.is_torn() {
            say(&format!(
                "coldset: page {page} of a region could not be stored, and cannot be put back into memory \
                 ({e}): its contents would be lost, so the process ends here\n"
            ));
            std::process::abort();
        }
    }

    /// Before a sweep, and before the end: is the range still there?
    pub(crate) fn check_whole(&self) {
        if !self.is_torn() && !self.map.is_whole() {
            self.tear();
        }
    }

    /// Before the end: is all of it still the region's?
    pub(crate) fn check_all(&self, pagemap: &Pagemap) {
        self.check_whole();
        if !self.is_torn() {
            self.scan(pagemap, Scan::Present, 0..self.len() / PAGE, |_| ());
        }
    }

    /// What the kernel said to a scan. True if it has been done.
    pub(super) fn scanned(&self, done: Result<(), Errno>) -> bool {
        if done == Err(Errno::PERM) {
            self.tear();
        }
        done.is_ok()
    }

    /// Takes the entries of a byte range away. Undoes `mlock`, which keeps them.
    pub(crate) fn zap(&self, offset: usize, len: usize) {
        if self.is_torn() {
            return;
        }
        match self.map.zap(offset, len) {
            Ok(()) => {}
            Err(Errno::NOMEM) => self.tear(),
            Err(_) => {
                static SAID: AtomicBool = AtomicBool::new(false);
                let unlocked = self.map.unlock();
                let again = unlocked.and_then(|()| self.map.zap(offset, len));
                if !SAID.swap(true, Relaxed) {
                    say(match again {
                        Ok(()) => {
                            "coldset: mlock on a region has been undone; Region::pin keeps pages in \
                             memory\n"
                        }
                        Err(_) => {
                            "coldset: a region cannot be swept; has it been changed by mlock or \
                             mprotect?\n"
                        }
                    });
                }
            }
        }
    }
}
