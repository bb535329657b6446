//! Files that are read in order, mapped from the kernel's page cache.
//!
//! A page that is copied costs 4 us, most of them for the copy and for taking it out again: of a file that is read once, in
//! order, 512 pages in a row come and go for nothing. So a stream (`region/stream.rs`) that comes to the
//! beginning of a block of 2 MiB of which nothing is in memory gets the file's own pages in its place, as the kernel maps
//! any file: a loan. The kernel reads ahead; nothing is copied, and a few blocks later this one is taken back. No more than
//! three blocks of a region are lent at a time.
//!
//! - Loans count: to the budget and to the group, with what the kernel reads ahead of them, for which there is room before it
//!   begins.
//! - The policy hears nothing of them, so there must be nothing to decide. A block is lent only where reading on would push out
//!   other pages, and if it was not lent before within as many pages as fit into memory: what comes back so soon is worth keeping,
//!   and is copied.
//! - Only of files that can only be read: a store to the page cache would be one to the file.
//! - Who misses in a lent block has come late, or the page cannot be read: after some such misses the block
//!   is taken back, and the error is met where all errors are.

use super::fill::{claim_evicted, Misses};
use crate::budget::resources::Resources;
use crate::error::Result;
use crate::meanwhile::meanwhile;
use crate::region::area::{Area, BLOCK};
use crate::region::lent::{Lender, Loan, Loans};
use crate::sys::cachestat::{cached, read_ahead_pages};
use crate::sys::maps::Maps;
use crate::sys::{clock, PAGE};
use rustix::fs::{fadvise, Advice};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Blocks lent at a time, at most.
const LENT: u64 = 3;
/// Of the limit, the share that they may take.
const SHARE: u64 = 8;
/// Of the limit, the share that the kernel may read ahead of them.
const AHEAD_SHARE: u64 = 3;
/// Of the limit, the share that is left free of copies: what is lent is not to push them out.
const SPARE_SHARE: u64 = 4;
/// Windows of the kernel's read-ahead that are there at a time: one that is being used, and the next.
const WINDOWS: u64 = 2;
/// Pages of a window where the kernel does not say.
const WINDOW: u64 = 2048;
/// How far behind a block pages are looked for that the kernel has read ahead, in bytes.
const AHEAD: u64 = 16 << 20;
/// Ranges kept that could not leave the page cache, at most.
const LEFT: usize = 4;
/// Misses in lent blocks before one is taken back.
const LATE: u32 = 64;
/// A loan that nobody has followed for so long is taken back when there is little room.
const IDLE_NS: u64 = 1_000_000_000;
/// How long a region that goes away waits for reads of the kernel whose pages are to leave the page cache.
const PATIENCE_NS: u64 = 100_000_000;

const BLOCK_BYTES: u64 = (BLOCK * PAGE) as u64;

impl Misses {
    /// For a thread that has missed: true if the file's own page is mapped now.
    pub(super) fn lend(&self, area: &Arc<Area>, page: usize) -> bool {
        let _passage = self.res.traffic.enter();
        if area.memory().is_lent(page) {
            return self.res.has_come_late(area, page);
        }
        let most = self.res.config.read_ahead;
        if !page.is_multiple_of(BLOCK)
            || most < 2
            || area.stream().window(page, most) < most
            || !self.may_be_lent(area, page)
        {
            return false;
        }
        let Some(from) = self.res.lender(area) else {
            return false;
        };
        let start = clock::now();
        let _reading = self.res.reads.begin();
        meanwhile();
        let mut loans = lock(area);
        if area.memory().is_lent(page) {
            // Another thread, which came here at the same time, has lent it.
            return true;
        }
        if !area.memory().lends(self.res.passed())
            || !self.lend_block(area, &mut loans, page / BLOCK, from)
        {
            return false;
        }
        area.stream().filled(page + BLOCK, most);
        let c = &self.res.counts;
        c.misses.fetch_add(1, Relaxed);
        c.lent.fetch_add(BLOCK as u64, Relaxed);
        c.miss_ns.add(clock::now() - start);
        true
    }

    /// Is the block that begins with this page one to be lent, if a stream comes to it?
    pub(super) fn may_be_lent(&self, area: &Area, page: usize) -> bool {
        let (res, block) = (&self.res, page / BLOCK);
        let whole = (page + BLOCK) as u64 * PAGE as u64;
        let fit = res.config.map_streams
            && res.config.background
            && area
                .backing()
                .is_some_and(|b| !b.writable && b.len >= whole)
            && area.memory().lends(res.passed());
        if !fit || area.in_block(block) > 0 {
            return false;
        }
        let limit = res.limit_of(area);
        // Is there room for all that follows, and for what others will lend?
        if res.gate.free() >= (area.pages() - page) as u64 + limit / SPARE_SHARE {
            return false;
        }
        let back_so_soon = match area.lent_at(block) {
            0 => false,
            at => res.passed().saturating_sub(at) < limit,
        };
        limit / SHARE >= BLOCK as u64 && !back_so_soon
    }

    /// Pages from this one on up to the next block that may be lent, or to the end. What is copied is to end there: a
    /// block of which a part is in memory is not lent.
    pub(super) fn pages_before_a_loan(&self, area: &Area, page: usize) -> usize {
        let next = page.next_multiple_of(BLOCK);
        if next < area.pages() && self.may_be_lent(area, next) {
            next - page
        } else {
            area.pages() - page
        }
    }

    fn lend_block(&self, area: &Area, loans: &mut Loans, block: usize, from: Lender<'_>) -> bool {
        let limit = self.res.limit_of(area);
        if loans.reach == 0 {
            loans.reach = WINDOWS * read_ahead_pages(from.file).unwrap_or(WINDOW);
        }
        let reach = loans.reach.min(limit / AHEAD_SHARE);
        let most = (limit / SHARE / BLOCK as u64).min(LENT) as usize;
        while loans.lent.len() >= most.max(1) {
            if self.res.end_first(area, loans, from).is_err() {
                return false;
            }
        }
        self.res.drop_passed_over(area, loans, block, from);
        drop_left(loans, from);
        let memcg = area.book().memcg;
        let at = block as u64 * BLOCK_BYTES;
        let has = cached(from.file, at, BLOCK_BYTES).unwrap_or(0);
        // What was read ahead is charged already.
        let charged = loans.ahead.min(has);
        let more = reach.saturating_sub(loans.ahead - charged);
        let room = BLOCK as u64 - charged + more;
        if room > 0 && !matches!(self.room.make_room(memcg, room, false), Ok(true)) {
            // Others lend, and have what the kernel reads ahead for them: not at each block anew.
            area.memory().lends_not_before(self.res.passed() + limit);
            return false;
        }
        loans.ahead -= charged;
        let pages = block * BLOCK..(block + 1) * BLOCK;
        meanwhile();
        let taken = claim_evicted(area, pages.start, pages.end);
        meanwhile();
        let lent = taken == BLOCK && area.memory().lend(block, from);
        meanwhile();
        (pages.start..pages.start + taken).for_each(|p| area.words().emptied(p));
        if !lent {
            if taken == BLOCK {
                area.memory().lends_no_more();
            }
            if charged > 0 {
                drop_cached(loans, from, at, BLOCK_BYTES);
            }
            self.res.give_back(area, BLOCK as u64 + more);
            return false;
        }
        loans.lent.push_back(Loan {
            block,
            ours: has - charged < BLOCK as u64 / 2,
        });
        (loans.since, loans.late, loans.next) = (clock::now(), 0, block + 1);
        let ahead = || cached(from.file, at + BLOCK_BYTES, AHEAD).unwrap_or(0);
        let before = ahead();
        meanwhile();
        let populated = area.memory().populate(block);
        meanwhile();
        let come = ahead().saturating_sub(before);
        loans.ahead += come.min(more);
        self.res.give_back(area, more.saturating_sub(come));
        if come > more && !self.charge_more(area, loans, come - more) {
            // The kernel reads more than there is room for, each time.
            area.memory().lends_no_more();
            self.res.drop_ahead(area, loans, from);
            drop_cached(loans, from, at + BLOCK_BYTES, AHEAD);
        }
        if populated.is_err() {
            // Who needs a page that cannot be read gets the error.
            let _ = self.res.end_last(area, loans, from);
            return false;
        }
        true
    }

    /// The kernel has read more ahead than was expected: room for that, too, if there is.
    fn charge_more(&self, area: &Area, loans: &mut Loans, pages: u64) -> bool {
        let memcg = area.book().memcg;
        let fits = loans.ahead + pages <= self.res.limit_of(area) / AHEAD_SHARE
            && matches!(self.room.make_room(memcg, pages, false), Ok(true));
        loans.ahead += if fits { pages } else { 0 };
        fits
    }
}

impl Resources {
    /// What blocks of a region can be lent from, if they can.
    fn lender<'a>(&'a self, area: &'a Area) -> Option<Lender<'a>> {
        let file = area.backing()?.storage.file()?;
        let maps = self.maps.get_or_init(|| Maps::open().ok()).as_ref()?;
        Some(Lender { maps, file })
    }

    /// Pages that a region's group and the budget allow.
    fn limit_of(&self, area: &Area) -> u64 {
        let core = self.core();
        let groups = &core.policy.engine().memcgs;
        let limit = |g| {
            let memory = groups[g].memory();
            memory.max().min(memory.high())
        };
        let least = groups.ancestors(area.book().memcg).map(limit).min();
        least.unwrap_or(u64::MAX).min(self.gate.budget())
    }

    /// Pages that have come in so far, copied or lent.
    fn passed(&self) -> u64 {
        self.counts.filled.load(Relaxed) + self.counts.lent.load(Relaxed)
    }

    /// A miss in a lent block. True: another thread has lent it meanwhile.
    fn has_come_late(&self, area: &Area, page: usize) -> bool {
        let mut loans = lock(area);
        loans.late += 1;
        loans.late <= LATE && area.memory().is_lent(page)
    }

    /// The region's own pages are needed in the place of one that is lent.
    pub(super) fn end_loan_of(&self, area: &Area, page: usize) -> Result<()> {
        let Some(from) = self.lender(area) else {
            return Ok(());
        };
        let mut loans = lock(area);
        match loans.lent.iter().position(|l| l.block == page / BLOCK) {
            Some(at) => self.end_loan(area, &mut loans, at, from),
            // It could not be taken back when lending it had failed.
            None if area.memory().is_lent(page) => area.memory().take_back(page / BLOCK, from),
            None => Ok(()),
        }
    }

    /// Takes all lent blocks of a region back. `last`: there will be no more of them. Returns pages.
    pub(crate) fn end_loans(&self, area: &Area, last: bool) -> u64 {
        let mut loans = lock(area);
        if last {
            area.memory().lends_no_more();
        }
        let mut pages = self.end_all(area, &mut loans);
        if last {
            // What the kernel has refused to take back goes with the region.
            let left = loans.lent.drain(..).count() * BLOCK;
            self.give_back(area, left as u64);
        }
        meanwhile();
        let end = clock::now() + PATIENCE_NS;
        while last && !loans.left.is_empty() && clock::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            pages += self.end_all(area, &mut loans);
        }
        pages
    }

    /// Takes lent blocks of all regions back, of `idle` ones only where none has been lent for a while, and passes over those that
    /// are just being lent. Returns pages.
    pub(crate) fn end_loans_of_all(&self, idle: bool) -> u64 {
        if self.counts.lent.load(Relaxed) == 0 {
            return 0;
        }
        let mut pages = 0;
        for area in self.areas() {
            let Ok(mut loans) = area.loans().try_lock() else {
                continue;
            };
            if !idle || clock::now() - loans.since > IDLE_NS {
                pages += self.end_all(&area, &mut loans);
            }
        }
        pages
    }

    fn end_all(&self, area: &Area, loans: &mut Loans) -> u64 {
        if loans.lent.is_empty() && loans.ahead == 0 && loans.left.is_empty() {
            return 0;
        }
        let Some(from) = self.lender(area) else {
            return 0;
        };
        drop_left(loans, from);
        let mut pages = self.drop_ahead(area, loans, from);
        while !loans.lent.is_empty() && self.end_first(area, loans, from).is_ok() {
            pages += BLOCK as u64;
        }
        pages
    }

    /// What the kernel has read ahead of the last lent block leaves the page cache. Returns pages.
    fn drop_ahead(&self, area: &Area, loans: &mut Loans, from: Lender<'_>) -> u64 {
        let end = loans.next as u64 * BLOCK_BYTES;
        let ahead = std::mem::take(&mut loans.ahead);
        if ahead > 0 {
            drop_cached(loans, from, end, AHEAD);
        }
        self.give_back(area, ahead);
        ahead
    }

    /// Blocks up to this one have not been lent, as some of their pages are in memory: what the kernel has read ahead of them
    /// leaves the page cache.
    fn drop_passed_over(&self, area: &Area, loans: &mut Loans, to: usize, from: Lender<'_>) {
        let (end, at) = (loans.next as u64 * BLOCK_BYTES, to as u64 * BLOCK_BYTES);
        if end > at {
            self.drop_ahead(area, loans, from);
        } else if loans.ahead > 0 && end < at {
            let pages = cached(from.file, end, at - end).unwrap_or(0);
            drop_cached(loans, from, end, at - end);
            let pages = pages.min(loans.ahead);
            loans.ahead -= pages;
            self.give_back(area, pages);
        }
    }

    fn end_first(&self, area: &Area, loans: &mut Loans, from: Lender<'_>) -> Result<()> {
        self.end_loan(area, loans, 0, from)
    }

    fn end_last(&self, area: &Area, loans: &mut Loans, from: Lender<'_>) -> Result<()> {
        self.end_loan(area, loans, loans.lent.len() - 1, from)
    }

    fn end_loan(&self, area: &Area, loans: &mut Loans, at: usize, from: Lender<'_>) -> Result<()> {
        let loan = loans.lent[at];
        meanwhile();
        area.memory().take_back(loan.block, from)?;
        meanwhile();
        loans.lent.remove(at);
        area.set_lent_at(loan.block, self.passed());
        if loan.ours {
            drop_cached(loans, from, loan.block as u64 * BLOCK_BYTES, BLOCK_BYTES);
        }
        self.give_back(area, BLOCK as u64);
        Ok(())
    }

    fn give_back(&self, area: &Area, pages: u64) {
        if pages == 0 {
            return;
        }
        self.gate.leave(pages);
        meanwhile();
        self.core().policy.uncharge(area.book().memcg, pages);
    }
}

/// Pages of a range leave the page cache. Advice: without it they stay until the kernel wants their memory.
fn drop_cached(loans: &mut Loans, from: Lender<'_>, at: u64, len: u64) {
    let bytes = at..at + len;
    if leaves(from, &bytes) {
        return;
    }
    if let Some(last) = loans.left.back_mut().filter(|l| l.end == bytes.start) {
        last.end = bytes.end;
        return;
    }
    // What cannot leave for long is in use by others.
    if loans.left.len() == LEFT {
        loans.left.pop_front();
    }
    loans.left.push_back(bytes);
}

/// What could not leave, as it was being read, does if it has been.
fn drop_left(loans: &mut Loans, from: Lender<'_>) {
    loans.left.retain(|bytes| !leaves(from, bytes));
}

fn leaves(from: Lender<'_>, bytes: &Range<u64>) -> bool {
    let (at, len) = (bytes.start, bytes.end - bytes.start);
    let _ = fadvise(from.file, at, NonZeroU64::new(len), Advice::DontNeed);
    cached(from.file, at, len).unwrap_or(0) == 0
}

fn lock(area: &Area) -> MutexGuard<'_, Loans> {
    area.loans().lock().expect("loans")
}
