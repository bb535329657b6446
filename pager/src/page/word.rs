//! The word and its transitions.
//!
//! ```text
//!             fill                 filled
//!  EVICTED ----------> BUSY ------------------> RESIDENT <-----------+
//!     ^                 | ^                      |    |              |
//!     +-----------------+ +----------------------+    +-> WRITEBACK -+
//!          emptied              evict (no pins)       start       end
//! ```
//!
//! The thread that moves a page into BUSY owns it alone: contents, swap slot, shadow. Nobody else fills it,
//! punches it or reads its slot until the owner moves it out again.

/// Where a page stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum PageState {
    /// Not in memory: contents are in the store, or zero.
    Evicted = 0,
    /// Somebody owns it and moves contents in or out.
    Busy = 1,
    /// In memory.
    Resident = 2,
    /// In memory; a copy is on its way to the file.
    Writeback = 3,
}

const STATE: u32 = 3;
const AHEAD: u32 = 1 << 2;
const WAITERS: u32 = 1 << 3;
const SEEN: u32 = 1 << 4;
const YOUNG: u32 = 1 << 5;
const DIRTIED: u32 = 1 << 6;
const EXCLUSIVE: u32 = 1 << 7;
const PIN: u32 = 1 << 8;

/// PageState, marks and pin count of a page. Zero: evicted, no marks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Word(pub u32);

impl Word {
    /// The state, without marks and pins.
    #[inline]
    pub const fn state(self) -> PageState {
        match self.0 & STATE {
            0 => PageState::Evicted,
            1 => PageState::Busy,
            2 => PageState::Resident,
            _ => PageState::Writeback,
        }
    }

    const fn with(self, s: PageState) -> Self {
        Self(self.0 & !STATE | s as u32)
    }

    /// Somebody sleeps until the state changes.
    #[inline]
    pub const fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    /// Its presence has been told since the last zap.
    #[inline]
    pub const fn seen(self) -> bool {
        self.0 & SEEN != 0
    }

    /// Used, and nobody has asked yet.
    #[inline]
    pub const fn young(self) -> bool {
        self.0 & YOUNG != 0
    }

    /// Newer than the store whatever the write-protect mark says.
    #[inline]
    pub const fn dirtied(self) -> bool {
        self.0 & DIRTIED != 0
    }

    /// Mapped since it was read ahead: that it is says nothing about its use.
    #[inline]
    pub const fn ahead(self) -> bool {
        self.0 & AHEAD != 0
    }

    /// Users that keep it in memory.
    #[inline]
    pub const fn pins(self) -> u32 {
        self.0 / PIN
    }

    /// One user has it alone.
    #[inline]
    pub const fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }

    /// In memory, and readable through the mapping or the descriptor.
    #[inline]
    pub const fn in_memory(self) -> bool {
        matches!(self.state(), PageState::Resident | PageState::Writeback)
    }

    /// To bring contents in.
    #[inline]
    pub const fn fill(self) -> Option<Self> {
        match self.state() {
            PageState::Evicted => Some(self.with(PageState::Busy)),
            _ => None,
        }
    }

    /// To take contents out. Not while pinned.
    #[inline]
    pub const fn evict(self) -> Option<Self> {
        match self.state() {
            PageState::Resident if self.pins() == 0 => Some(self.with(PageState::Busy)),
            _ => None,
        }
    }

    /// The owner has brought contents in. `dirtied`: they are newer than the store's.
    #[inline]
    pub const fn filled(self, dirtied: bool) -> Self {
        let dirt = if dirtied { DIRTIED } else { 0 };
        Self(self.with(PageState::Resident).0 & !WAITERS | dirt)
    }

    /// The owner has taken contents out, or could not bring them in.
    #[inline]
    pub const fn emptied(self) -> Self {
        Self(PageState::Evicted as u32)
    }

    /// To copy contents to the file.
    #[inline]
    pub const fn start_writeback(self) -> Option<Self> {
        match self.state() {
            PageState::Resident => Some(self.with(PageState::Writeback)),
            _ => None,
        }
    }

    /// The same for a page that is used through guards: not beside a writer. Readers may go on; a writer waits.
    #[inline]
    pub const fn start_copy(self) -> Option<Self> {
        if self.is_exclusive() {
            return None;
        }
        self.start_writeback()
    }

    /// The copy has been made, or has failed (`dirtied`).
    #[inline]
    pub const fn end_writeback(self, dirtied: bool) -> Self {
        self.filled(dirtied)
    }

    /// One more user. Not beside an exclusive one, and not beyond the most that can be counted (guards that were
    /// forgotten never unpin).
    #[inline]
    pub const fn pin(self) -> Option<Self> {
        if self.in_memory() && !self.is_exclusive() {
            match self.0.checked_add(PIN) {
                Some(pinned) => Some(Self(pinned)),
                None => None,
            }
        } else {
            None
        }
    }

    /// The only user.
    #[inline]
    pub const fn pin_exclusive(self) -> Option<Self> {
        match self.state() {
            PageState::Resident if self.pins() == 0 => {
                Some(Self((self.0 + PIN) | EXCLUSIVE | YOUNG))
            }
            _ => None,
        }
    }

    /// One user less. `wrote`: it may have stored. The last one lets those in who wait.
    #[inline]
    pub const fn unpin(self, wrote: bool) -> Self {
        let dirt = if wrote { DIRTIED } else { 0 };
        let less = (self.0 - PIN) | dirt;
        if self.pins() == 1 {
            Self(less & !(EXCLUSIVE | WAITERS))
        } else {
            Self(less)
        }
    }

    /// Somebody will sleep.
    #[inline]
    pub const fn waiting(self) -> Self {
        Self(self.0 | WAITERS)
    }

    /// Marks a use.
    #[inline]
    pub const fn used(self) -> Self {
        Self(self.0 | YOUNG)
    }

    /// Mask of [`Self::ahead`].
    pub const AHEAD: u32 = AHEAD;
    /// Mask of [`Self::seen`].
    pub const SEEN: u32 = SEEN;
    /// Mask of [`Self::young`].
    pub const YOUNG: u32 = YOUNG;
    /// Mask of [`Self::dirtied`].
    pub const DIRTIED: u32 = DIRTIED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pin_is_lost_at_the_most_that_can_be_counted() {
        let mut word = Word::default().fill().unwrap().filled(false);
        for pins in 0..u32::MAX / PIN {
            assert_eq!(word.pins(), pins);
            word = word.pin().unwrap();
        }
        assert!(word.pin().is_none());
        assert!(word.evict().is_none(), "still in use");
        let less = word.unpin(false);
        assert_eq!(less.pin(), Some(word));
    }
}
