//! Protocols and planted bugs: switches over one program of micro-steps.

/// What becomes of a folio that waited unlocked and may have been written out and cleaned by
/// somebody else meanwhile, while a stale translation could still reach it (`shrink-folio-list.md`
/// 8.4, item 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cleaned {
    /// Nothing is done.
    Unhandled,
    /// A folio found clean goes back to the list.
    Rejected,
    /// A folio found clean is marked dirty again when it is locked again.
    MarkedAtRelock,
    /// Every folio that waited is marked dirty again after the next flush, whether it was kept or
    /// went back to the list.
    MarkedAfterFlush,
}

/// How dirty folios reach write-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Batching {
    /// One by one, with a flush before each.
    None,
    /// In batches that wait unlocked.
    Unlocked {
        /// Looks for pins after locking again.
        pin_check: bool,
        /// Item 8.
        cleaned: Cleaned,
    },
    /// In batches that stay locked.
    Locked,
}

/// A protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protocol {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    pub(super) batching: Batching,
}

/// The protocols that must hold.
pub const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "unbatched",
        doc: "each dirty folio is flushed and written on its own, locked all the time",
        batching: Batching::None,
    },
    Protocol {
        name: "batched-v1",
        doc: "dirty folios wait unlocked, one flush for all; no look at pins after locking again; item 8 handled",
        batching: Batching::Unlocked {
            pin_check: false,
            cleaned: Cleaned::MarkedAfterFlush,
        },
    },
    Protocol {
        name: "batched-v2",
        doc: "as v1, with the look at pins",
        batching: V2,
    },
    Protocol {
        name: "batched-locked",
        doc: "variant B: folios of the batch stay locked, nothing to check again",
        batching: Batching::Locked,
    },
];

const V2: Batching = unlocked(Cleaned::MarkedAfterFlush);

const fn unlocked(cleaned: Cleaned) -> Batching {
    Batching::Unlocked {
        pin_check: true,
        cleaned,
    }
}

/// What a planted bug leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Flaws {
    /// Write-out starts without the flush; it comes at the end of the list.
    pub io_before_flush: bool,
    /// The batch looks at nothing after locking again.
    pub no_recheck: bool,
    /// The batch does not look whether a folio is mapped again.
    pub no_mapped_check: bool,
    /// Pageout does not compare the reference count.
    pub no_count: bool,
    /// The mapping noted before the unlock is believed.
    pub stale_mapping: bool,
    /// Frames are freed before the flush.
    pub free_before_flush: bool,
    /// The dirty mark is looked at before the count is frozen.
    pub dirty_before_freeze: bool,
    /// Unmapping a range does not flush what reclaim has pending.
    pub no_pending_flush: bool,
    /// A folio enters the batch without the unlock.
    pub no_unlock: bool,
    /// The loop over the batch does not step over a folio that it turns away.
    pub no_advance: bool,
    /// A folio that was unmapped dirty is kept, and unlocked before any flush.
    pub kept_unflushed: bool,
    /// A CPU takes a clean cached entry as leave to store.
    pub blind_hardware: bool,
}

/// A bug put in on purpose, to see that it is found.
#[derive(Clone, Copy, Debug)]
pub struct Plant {
    /// Name on the command line.
    pub name: &'static str,
    /// What is wrong.
    pub doc: &'static str,
    /// Name of the protocol it is put into.
    pub protocol: &'static str,
    pub(super) flaws: Flaws,
    /// In place of the protocol's.
    pub(super) batching: Option<Batching>,
}

const SOUND: Flaws = Flaws {
    io_before_flush: false,
    no_recheck: false,
    no_mapped_check: false,
    no_count: false,
    stale_mapping: false,
    free_before_flush: false,
    dirty_before_freeze: false,
    no_pending_flush: false,
    no_unlock: false,
    no_advance: false,
    kept_unflushed: false,
    blind_hardware: false,
};

const fn plant(name: &'static str, doc: &'static str, flaws: Flaws) -> Plant {
    Plant {
        name,
        doc,
        protocol: "batched-v2",
        flaws,
        batching: None,
    }
}

const fn item8(name: &'static str, doc: &'static str, cleaned: Cleaned) -> Plant {
    Plant {
        batching: Some(unlocked(cleaned)),
        ..plant(name, doc, SOUND)
    }
}

/// The planted bugs.
pub const PLANTS: &[Plant] = &[
    plant(
        "io-before-flush",
        "the batch is written before the flush",
        Flaws {
            io_before_flush: true,
            ..SOUND
        },
    ),
    Plant {
        protocol: "unbatched",
        ..plant(
            "io-before-flush-unbatched",
            "a folio is written before the flush",
            Flaws {
                io_before_flush: true,
                ..SOUND
            },
        )
    },
    plant(
        "no-recheck",
        "nothing is looked at after locking again",
        Flaws {
            no_recheck: true,
            ..SOUND
        },
    ),
    Plant {
        protocol: "batched-v1",
        ..plant(
            "no-pin-recheck",
            "neither the batch nor the reference count at pageout sees a pin",
            Flaws {
                no_count: true,
                ..SOUND
            },
        )
    },
    plant(
        "mapped-again",
        "neither the batch nor the reference count at pageout sees that a folio is mapped again",
        Flaws {
            no_mapped_check: true,
            no_count: true,
            ..SOUND
        },
    ),
    plant(
        "stale-mapping",
        "the mapping noted before the unlock is believed after locking again",
        Flaws {
            stale_mapping: true,
            ..SOUND
        },
    ),
    plant(
        "free-before-flush",
        "frames are freed before the flush",
        Flaws {
            free_before_flush: true,
            ..SOUND
        },
    ),
    item8(
        "item-8",
        "a folio that somebody else cleaned in the window is taken as clean",
        Cleaned::Unhandled,
    ),
    item8(
        "item-8-rejected",
        "a folio found clean after locking again goes back to the list, and that is all",
        Cleaned::Rejected,
    ),
    item8(
        "item-8-marked-early",
        "a folio found clean after locking again is marked dirty before the flush",
        Cleaned::MarkedAtRelock,
    ),
    Plant {
        protocol: "unbatched",
        ..plant(
            "kept-unflushed",
            "a folio is unmapped dirty, then kept and unlocked before any flush: item 8 without a batch",
            Flaws {
                kept_unflushed: true,
                ..SOUND
            },
        )
    },
    plant(
        "dirty-before-freeze",
        "the dirty mark is looked at before the reference count is frozen",
        Flaws {
            dirty_before_freeze: true,
            ..SOUND
        },
    ),
    plant(
        "no-pending-flush",
        "unmapping a range trusts that reclaim has flushed",
        Flaws {
            no_pending_flush: true,
            ..SOUND
        },
    ),
    plant(
        "no-unlock",
        "folios enter the batch without the unlock",
        Flaws {
            no_unlock: true,
            ..SOUND
        },
    ),
    plant(
        "no-advance",
        "the loop over the batch does not step over a folio that it turns away",
        Flaws {
            no_advance: true,
            ..SOUND
        },
    ),
    plant(
        "blind-hardware",
        "a CPU stores by a clean cached entry without a look at the page table",
        Flaws {
            blind_hardware: true,
            ..SOUND
        },
    ),
];

/// An adversary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Stale,
    Refault,
    Pin,
    Truncate,
    Reclaim,
    Writer,
    Device,
}

/// An adversary, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adversary {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    pub(super) kind: Kind,
}

/// All adversaries.
pub const ADVERSARIES: &[Adversary] = &[
    Adversary {
        name: "stale-writer",
        doc: "a thread on CPU 1 that stores by the translations it has cached, until it faults",
        kind: Kind::Stale,
    },
    Adversary {
        name: "refault",
        doc: "a thread on CPU 0 that loads or stores and faults the page in again",
        kind: Kind::Refault,
    },
    Adversary {
        name: "pin",
        doc: "a thread on CPU 0 that pins a page for DMA, may unmap it, lets the device write, marks it dirty, unpins",
        kind: Kind::Pin,
    },
    Adversary {
        name: "truncation",
        doc: "cuts the mapping off before a page",
        kind: Kind::Truncate,
    },
    Adversary {
        name: "reclaimer-2",
        doc: "another reclaimer with the same protocol",
        kind: Kind::Reclaim,
    },
    Adversary {
        name: "async-writer",
        doc: "a flusher that writes a dirty folio out and so cleans it",
        kind: Kind::Writer,
    },
    Adversary {
        name: "io-error",
        doc: "the device, whose completions come at any time anyway, fails a write",
        kind: Kind::Device,
    },
];
