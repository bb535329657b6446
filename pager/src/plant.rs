//! Bugs on purpose, to see whether the tests find them (feature `plants`; in other builds there are none).
//!
//! `COLDSET_PLANT` names the one of a process. Each is a line at the place where a programmer could have
//! written it.

/// A bug that can be planted.
#[cfg_attr(
    not(feature = "plants"),
    allow(dead_code, reason = "nobody looks at the list")
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Whether an unmapped page was freed is told from the page that was freed last.
    LastFreed,
    /// Errors of syncs go through one slot: the first to come takes them.
    OneErrorSlot,
    /// Contents are copied before the page is taken away.
    CopyThenPunch,
    /// One written page of 32 counts as clean when it is evicted.
    MarkIgnored,
    /// Memory that is dropped keeps its swap slot.
    SlotLeaked,
    /// A swap slot is given back before it has been read.
    SlotEarly,
    /// Pins are counted, and not looked at.
    PinLost,
    /// Writeback arms the written marks after it has copied.
    ArmAfterCopy,
    /// `DontNeed` on a file syncs and drops, without a look at what was stored in between.
    DropUnseen,
    /// A page counts in its block only when the engine knows it.
    CountLate,
    /// Who takes pages to fill them does not look whether their block has been lent in between.
    LentUnseen,
}

#[cfg(feature = "plants")]
impl Plant {
    /// All of them.
    pub const ALL: [Plant; 11] = [
        Plant::LastFreed,
        Plant::OneErrorSlot,
        Plant::CopyThenPunch,
        Plant::MarkIgnored,
        Plant::SlotLeaked,
        Plant::SlotEarly,
        Plant::PinLost,
        Plant::ArmAfterCopy,
        Plant::DropUnseen,
        Plant::CountLate,
        Plant::LentUnseen,
    ];
}

#[cfg(not(feature = "plants"))]
mod state {
    use super::Plant;
    use std::io;

    /// Is the bug there?
    #[inline(always)]
    pub(crate) const fn on(_: Plant) -> bool {
        false
    }

    /// As [`on`], once in so many times.
    #[inline(always)]
    pub(crate) const fn sometimes(_: Plant, _: u32) -> bool {
        false
    }

    /// What [`Plant::OneErrorSlot`] makes of a result.
    #[inline(always)]
    pub(crate) fn one_slot(own: io::Result<()>) -> io::Result<()> {
        own
    }
}

#[cfg(feature = "plants")]
mod state {
    use super::Plant;
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::{Mutex, OnceLock};

    fn planted() -> Option<Plant> {
        static PLANTED: OnceLock<Option<Plant>> = OnceLock::new();
        *PLANTED.get_or_init(|| {
            let name = std::env::var("COLDSET_PLANT").ok()?;
            let plant = Plant::ALL.into_iter().find(|p| format!("{p:?}") == name);
            Some(plant.unwrap_or_else(|| panic!("COLDSET_PLANT is {name}, which is no plant")))
        })
    }

    /// Is the bug there?
    pub(crate) fn on(plant: Plant) -> bool {
        planted() == Some(plant)
    }

    /// As [`on`], once in so many times.
    pub(crate) fn sometimes(plant: Plant, every: u32) -> bool {
        static TIMES: AtomicU32 = AtomicU32::new(0);
        on(plant) && TIMES.fetch_add(1, Relaxed).is_multiple_of(every)
    }

    /// What [`Plant::OneErrorSlot`] makes of a result.
    pub(crate) fn one_slot(own: io::Result<()>) -> io::Result<()> {
        static SLOT: Mutex<Option<io::Error>> = Mutex::new(None);
        if !on(Plant::OneErrorSlot) {
            return own;
        }
        if let Err(e) = own {
            SLOT.lock().expect("slot").get_or_insert(e);
        }
        // The sync of the file took its time.
        std::thread::sleep(std::time::Duration::from_micros(300));
        SLOT.lock().expect("slot").take().map_or(Ok(()), Err)
    }
}

pub(crate) use state::{on, one_slot, sometimes};
