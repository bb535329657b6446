//! The journal: everything the engine was told, so that it can be told again.
//!
//! A file of zstd frames with checksums; each holds whole operations, so a journal that ends early
//! (a kill, a full disk) is good up to its last whole frame. First lines of text: `coldset-journal
//! 2`, `written-by`, `budget` (pages), `slots`, one `switch name=value` for each switch, `state
//! BYTES` if the journal begins in the middle of a pool's life, an empty line, and those bytes. Then
//! operations: a byte that names it and its arguments as LEB128 numbers. `Op` has them all. `Did` and
//! `Victim` are not told but expected: what the engine asked for and which pages it gave up, in
//! order.

mod accesses;
mod encode;
mod fits;
mod quiet;
mod read;
mod replay;
mod write;

pub use accesses::{accesses, Access, Accesses, GroupInfo, RegionInfo};
pub(crate) use encode::{digest, pack_answer, unpack_answer, victim};
pub(crate) use quiet::quietly;
pub use read::is_journal;
pub use replay::{replay, JournalError, Replayed, Victim};
pub(crate) use write::{NewJournal, Recorder};

use std::io;

/// Replays, and gives the policy's state in the end.
#[cfg(test)]
pub(crate) fn final_state(path: &std::path::Path) -> Result<(Replayed, Vec<u8>), JournalError> {
    let r = replay::run(path, None)?;
    Ok((r.out, r.policy.save()))
}

/// First line of a journal.
pub(crate) const MAGIC: &str = "coldset-journal 2";
/// Without the version.
const MAGIC_NAME: &str = "coldset-journal";

/// The same error once more, with its text.
fn copy(e: &io::Error) -> io::Error {
    match e.raw_os_error() {
        Some(n) => io::Error::from_raw_os_error(n),
        None => io::Error::new(e.kind(), e.to_string()),
    }
}

macro_rules! ops {
    ($($(#[doc = $doc:literal])+ $name:ident $args:literal,)*) => {
        /// One operation.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(crate) enum Op {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Op {
            const ALL: &'static [(Op, usize)] = &[$((Op::$name, $args),)*];

            /// The operation of a byte, and how many arguments it has.
            pub(crate) fn of(byte: u8) -> Option<(Op, usize)> {
                Self::ALL.get(usize::from(byte)).copied()
            }

            /// Arguments.
            pub(crate) fn args(self) -> usize {
                Self::ALL[self as usize].1
            }
        }
    };
}

ops! {
    /// Nanoseconds have passed.
    Now 1,
    /// Parent.
    Group 1,
    /// Group, min + 1 or 0, low + 1 or 0.
    Protect 3,
    /// Pages of the budget that the store leaves.
    Room 1,
    /// Task, group, is it max, pages.
    Limit 4,
    /// Task, what came of its last request.
    LimitStep 2,
    /// Batches are drained.
    Drain 0,
    /// Group, pages.
    Charge 2,
    /// Task, group, pages, group that refused.
    ChargeOn 4,
    /// Task, what came of its last request.
    ChargeStep 2,
    /// Task, group, pages above high.
    High 3,
    /// Task, what came of its last request.
    HighStep 2,
    /// Group, pages.
    Uncharge 2,
    /// Group, pages, anonymous.
    Open 3,
    /// Object.
    Close 1,
    /// Object, page, bits of the arrival.
    Insert 3,
    /// Object, page.
    Forget 2,
    /// Object, page, what became of it, slot + 1, shadow + 1.
    Left 5,
    /// Task, group, pages, on request.
    Reclaim 4,
    /// Task, kind of the answer, answer.
    Step 3,
    /// Expected: what the step asked for.
    Did 1,
    /// Task: the pages it has given up are taken.
    Collect 1,
    /// Expected: object, page, slot + 1, shadow + 1.
    Victim 4,
    /// Folio, mapped.
    Map 2,
    /// Task, folio.
    Neighbour 2,
    /// Task, key of the block, pages, young.
    NeighboursDone 4,
    /// Task, folio.
    WalkYoung 2,
    /// Task, key of the block, pages, young.
    WalkBlock 4,
    /// Folio.
    Dirty 1,
    /// Folio.
    WritebackStart 1,
    /// Folio, failed.
    WritebackEnd 2,
    /// Folio.
    AllocSlot 1,
    /// Slot.
    FreeSlot 1,
    /// Recording was stopped, or the pool is gone.
    End 0,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_name_operations() {
        for (i, &(op, args)) in Op::ALL.iter().enumerate() {
            assert_eq!((op as usize, op.args()), (i, args));
            assert_eq!(Op::of(i as u8), Some((op, args)));
        }
        assert_eq!(Op::of(Op::ALL.len() as u8), None);
    }
}
