//! Which region an address belongs to: for misses that come as signals or messages.

use super::fill::Misses;
use crate::error::Result;
use crate::meanwhile::meanwhile;
use crate::region::area::Area;
use crate::sys::exit::say;
use crate::sys::fork::OfProcess;
use crate::sys::fuse::Fuse;
use crate::sys::sigbus::{Handling, Miss};
use crate::sys::PAGE;
use std::cell::Cell;
use std::sync::{Arc, RwLock};

/// Regions by address.
static REGISTRY: OfProcess<RwLock<Vec<Mapped>>> = OfProcess::new();

/// Faults in a row on a page that is in memory before they are taken for somebody else's.
const SPURIOUS: u32 = 1000;

thread_local! {
    /// Address of the last fault on a page that was in memory, and how often in a row.
    static AGAIN: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// A region that can miss, and who brings its pages in.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    pub(super) area: Arc<Area>,
    pub(super) misses: Arc<Misses>,
}

impl Mapped {
    fn addr(&self) -> usize {
        self.area.memory().addr()
    }

    /// The page of an address in it.
    pub(super) fn page(&self, addr: usize) -> usize {
        (addr - self.addr()) / PAGE
    }

    /// Brings a page in, or maps that of the file. A failure is told on standard error: an access can only be given SIGBUS.
    pub(super) fn bring_in(&self, page: usize, write: bool) -> Result<()> {
        if self.misses.lend(&self.area, page) {
            return Ok(());
        }
        let done = self.misses.bring_in(&self.area, page, write);
        if let Err(e) = &done {
            say(&format!(
                "coldset: page {page} of {} cannot be brought in: {e}\n",
                self.area.name()
            ));
        }
        done
    }
}

/// Makes a region known.
pub(crate) fn register(area: Arc<Area>, misses: Arc<Misses>) {
    let new = Mapped { area, misses };
    let mut all = REGISTRY.get().write().expect("registry");
    let at = all.partition_point(|r| r.addr() < new.addr());
    all.insert(at, new);
}

/// Misses in the region are foreign from now on.
pub(crate) fn unregister(area: &Area) {
    let mut all = REGISTRY.get().write().expect("registry");
    all.retain(|r| r.addr() != area.memory().addr());
}

/// The region that holds an address.
pub(super) fn find(addr: usize) -> Option<Mapped> {
    let all = REGISTRY.known()?.read().ok()?;
    let at = all.partition_point(|r| r.addr() <= addr).checked_sub(1)?;
    let r = &all[at];
    (addr < r.addr() + r.area.memory().len()).then(|| r.clone())
}

/// The SIGBUS handler's entry: a miss, in the thread that missed.
pub(crate) fn on_miss(miss: Miss) -> Handling {
    let _fuse = Fuse::new();
    let Some(mapped) = find(miss.addr) else {
        return Handling::NotOurs;
    };
    let page = mapped.page(miss.addr);
    if miss.write && mapped.area.is_read_only() {
        return Handling::NotOurs;
    }
    if mapped.area.words().get(page).in_memory() {
        // Another thread has just brought it in; or the memory itself is broken.
        let (addr, n) = AGAIN.get();
        let n = if addr == miss.addr { n + 1 } else { 0 };
        AGAIN.set((miss.addr, n));
        if n < SPURIOUS {
            return Handling::Done;
        }
        say(&format!(
            "coldset: page {page} of {} is in memory and cannot be used: broken memory, or the \
             program has removed it (MADV_REMOVE)\n",
            mapped.area.name()
        ));
        return Handling::NotOurs;
    }
    meanwhile();
    match mapped.bring_in(page, miss.write) {
        Ok(()) => Handling::Done,
        // As with a kernel's mapping, the access gets SIGBUS; unlike there, the reason is told.
        Err(_) => Handling::NotOurs,
    }
}
