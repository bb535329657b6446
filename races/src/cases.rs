//! What is proved: forms of the engine, kinds of memory, adversaries; and the faults that must show.

use coldset_engine::{presets, Switches};

/// What the pages are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// Shared memory: each page has a block in its store.
    Shmem,
    /// Anonymous memory: a page gets a swap slot when it is reclaimed.
    Anon,
    /// Page cache that reclaim leaves to the flusher, as since 6.19.
    File,
    /// Page cache that kswapd writes, as before.
    FileKswapd,
}

/// A kind of memory, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Nothing may get lost in it; otherwise a planted bug tells how it does.
    pub sound: bool,
    pub(crate) kind: Kind,
}

/// All kinds of memory.
pub const MEMORY: &[Memory] = &[
    Memory {
        name: "shmem",
        doc: "a shared mapping; each page has a block in its store",
        sound: true,
        kind: Kind::Shmem,
    },
    Memory {
        name: "anon",
        doc: "anonymous memory; a page gets a swap slot when it is reclaimed",
        sound: true,
        kind: Kind::Anon,
    },
    Memory {
        name: "file-kswapd",
        doc: "page cache, written by kswapd on a node of dirty folios (before 6.19)",
        sound: true,
        kind: Kind::FileKswapd,
    },
    Memory {
        name: "file",
        doc: "page cache that reclaim leaves to the flusher; loses stores, see kept-unflushed",
        sound: false,
        kind: Kind::File,
    },
];

/// A form of the engine: a value of `batched_dirty_flush`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protocol {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Nothing may get lost with it; otherwise a planted bug tells how it does.
    pub sound: bool,
    pub(crate) switch: &'static str,
}

const fn protocol(
    name: &'static str,
    switch: &'static str,
    sound: bool,
    doc: &'static str,
) -> Protocol {
    Protocol {
        name,
        doc,
        sound,
        switch,
    }
}

/// The forms of the engine.
pub const PROTOCOLS: &[Protocol] = &[
    protocol(
        "unbatched",
        "off",
        true,
        "batched_dirty_flush=off: each dirty folio is flushed and written on its own, locked all the time",
    ),
    protocol(
        "batched-v2",
        "v2",
        true,
        "batched_dirty_flush=v2: dirty folios wait unlocked for the end of the list, one flush for all",
    ),
    protocol(
        "batched-1",
        "1",
        true,
        "batched_dirty_flush=1: as v2 with batches of one: a full batch before the rest of the list",
    ),
    protocol(
        "batched-locked",
        "locked",
        true,
        "batched_dirty_flush=locked: variant B, folios of the batch stay locked, nothing to check again",
    ),
    protocol(
        "batched-v1",
        "v1",
        false,
        "batched_dirty_flush=v1: as posted, nothing looked at for pins; loses stores, see item-8",
    ),
];

/// What a faulty host does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Fault {
    /// A flush asked for a write is done after the write has been started.
    LateFlush,
    /// No flush is done.
    NoFlush,
    /// The last CPU is not flushed.
    ForgottenCpu,
    /// Deferred flushes are not told.
    DeferredUntold,
    /// Deferred flushes are told, but not that somebody can write.
    WritableUntold,
    /// The dirty mark of a cleared entry is not told.
    DirtyUntold,
    /// Pins are neither flags nor references.
    PinsUntold,
    /// Entries that a fault makes are neither counted nor references.
    MappingsUntold,
    /// Host-side holders of a folio lock do not set the flag.
    LocksUntold,
    /// Write-out by others is not told.
    WritebackUntold,
    /// Truncation is not told.
    TruncationUntold,
    /// Frames are free memory as soon as they are detached.
    FreedAtDetach,
    /// Unmapping a range trusts that reclaim has flushed.
    PendingUnflushed,
    /// An entry is cleaned without a flush.
    CleanedUnflushed,
    /// A pin is let go before the folio is marked dirty.
    MarkedAfterUnpin,
    /// The marks that the engine makes after a flush are taken back.
    Unsettled,
    /// A CPU takes a clean cached entry as leave to store.
    BlindHardware,
}

/// A bug put in on purpose, to see that it is found.
#[derive(Clone, Copy, Debug)]
pub struct Plant {
    /// Name on the command line.
    pub name: &'static str,
    /// What is wrong.
    pub doc: &'static str,
    /// Name of the form of the engine.
    pub protocol: &'static str,
    /// Value of `batched_dirty_flush`.
    pub(crate) switch: &'static str,
    pub(crate) kind: Kind,
    pub(crate) fault: Option<Fault>,
}

const fn plant(name: &'static str, fault: Fault, doc: &'static str) -> Plant {
    Plant {
        name,
        doc,
        protocol: "batched-v2",
        switch: "v2",
        kind: Kind::Shmem,
        fault: Some(fault),
    }
}

const fn unbatched(name: &'static str, fault: Fault, doc: &'static str) -> Plant {
    Plant {
        protocol: "unbatched",
        switch: "off",
        ..plant(name, fault, doc)
    }
}

/// The planted bugs: faults of the host, and forms of the engine that are known to be wrong.
pub const PLANTS: &[Plant] = &[
    plant(
        "io-before-flush",
        Fault::LateFlush,
        "the host writes the first folio of a batch before it flushes",
    ),
    unbatched(
        "io-before-flush-unbatched",
        Fault::LateFlush,
        "the host writes a folio before it flushes",
    ),
    plant("no-flush", Fault::NoFlush, "the host does not flush"),
    plant(
        "forgotten-cpu",
        Fault::ForgottenCpu,
        "the host does not flush one of the CPUs",
    ),
    plant(
        "deferred-untold",
        Fault::DeferredUntold,
        "the engine is not told that a flush has been put off",
    ),
    plant(
        "writable-untold",
        Fault::WritableUntold,
        "the engine is not told that a flush put off is one of a dirty entry",
    ),
    plant(
        "dirty-untold",
        Fault::DirtyUntold,
        "the dirty mark of an entry is lost when the entry is cleared",
    ),
    plant(
        "pin-untold",
        Fault::PinsUntold,
        "the engine sees neither the flag nor the reference of a pin",
    ),
    plant(
        "mapped-untold",
        Fault::MappingsUntold,
        "the engine sees neither the count nor the reference of a mapping that comes later",
    ),
    plant(
        "lock-untold",
        Fault::LocksUntold,
        "the engine does not see that others have a folio locked",
    ),
    plant(
        "writeback-untold",
        Fault::WritebackUntold,
        "the engine does not see that others write a folio",
    ),
    plant(
        "truncation-untold",
        Fault::TruncationUntold,
        "the engine is not told that a folio has left the index",
    ),
    plant(
        "free-before-flush",
        Fault::FreedAtDetach,
        "the host uses frames again when they are out of their slots: before the flush",
    ),
    plant(
        "no-pending-flush",
        Fault::PendingUnflushed,
        "unmapping a range trusts that reclaim has flushed",
    ),
    plant(
        "cleaned-unflushed",
        Fault::CleanedUnflushed,
        "a flusher takes the dirty mark off an entry without a flush",
    ),
    unbatched(
        "marked-after-unpin",
        Fault::MarkedAfterUnpin,
        "a pinned folio is marked dirty after the pin is gone",
    ),
    plant(
        "blind-hardware",
        Fault::BlindHardware,
        "a CPU stores by a clean cached entry without a look at the page table",
    ),
    Plant {
        protocol: "batched-v1",
        switch: "v1",
        fault: None,
        ..plant(
            "item-8",
            Fault::Unsettled,
            "batched_dirty_flush=v1, as posted: a folio that somebody else cleaned in the window is taken as clean",
        )
    },
    plant(
        "item-8-marked-early",
        Fault::Unsettled,
        "folios that were turned away are not marked dirty after the flush, only those found clean before it",
    ),
    Plant {
        kind: Kind::File,
        fault: None,
        ..unbatched(
            "kept-unflushed",
            Fault::Unsettled,
            "no fault: dirty page cache is unmapped, kept and unlocked before any flush; item 8 without a batch",
        )
    },
];

/// An adversary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Stale,
    Refault,
    Pin,
    Truncate,
    Reclaim,
    Flush,
    Device,
    Kill,
}

/// An adversary, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adversary {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    pub(crate) role: Role,
}

/// All adversaries.
pub const ADVERSARIES: &[Adversary] = &[
    Adversary {
        name: "stale-writer",
        doc: "a thread on CPU 1 that stores by the translations it has cached, until it faults",
        role: Role::Stale,
    },
    Adversary {
        name: "refault",
        doc: "a thread on CPU 0 that loads or stores and faults the page in again",
        role: Role::Refault,
    },
    Adversary {
        name: "pin",
        doc: "a thread on CPU 0 that pins a page for DMA, may unmap it, lets the device write, marks it dirty, unpins",
        role: Role::Pin,
    },
    Adversary {
        name: "truncation",
        doc: "cuts the mapping off before a page",
        role: Role::Truncate,
    },
    Adversary {
        name: "reclaimer-2",
        doc: "another task of the engine, on CPU 1",
        role: Role::Reclaim,
    },
    Adversary {
        name: "async-writer",
        doc: "a flusher that writes a dirty folio out and so cleans it",
        role: Role::Flush,
    },
    Adversary {
        name: "io-error",
        doc: "the device, whose completions come at any time anyway, refuses or fails a write",
        role: Role::Device,
    },
    Adversary {
        name: "killer",
        doc: "kills the reclaimer where it lets others run",
        role: Role::Kill,
    },
];

/// What a world is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub kind: Kind,
    /// Value of `batched_dirty_flush`.
    pub switch: &'static str,
    pub fault: Option<Fault>,
}

impl Setting {
    /// The engine's switches. Which policy's they are does not matter: nothing looks for victims.
    pub fn switches(&self) -> Switches {
        let mut sw = presets::preset("classic").expect("a preset");
        let writes = if self.kind == Kind::FileKswapd {
            "on"
        } else {
            "off"
        };
        for (name, value) in [
            ("batched_dirty_flush", self.switch),
            ("file_writeback_from_reclaim", writes),
        ] {
            sw.set(name, value).expect("a value of this switch");
        }
        sw
    }
}
