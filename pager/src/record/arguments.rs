//! What the arguments of operations are, and the numbers that they are written as.

use coldset_engine::reclaim::{Answer, References, Work, Written};
use coldset_engine::{FolioId, MemcgId, ObjectId};

/// An argument: one number in a journal, or two.
pub(super) trait Argument: Sized {
    const NUMBERS: usize = 1;

    fn put(self, to: &mut impl FnMut(u64));

    /// The opposite. None: the numbers stand for nothing.
    fn take(from: &mut impl Iterator<Item = u64>) -> Option<Self>;
}

/// An argument of one number, by its two directions.
macro_rules! number {
    ($type:ty, $put:expr, $take:expr) => {
        impl Argument for $type {
            fn put(self, to: &mut impl FnMut(u64)) {
                let put: fn(Self) -> u64 = $put;
                to(put(self));
            }

            fn take(from: &mut impl Iterator<Item = u64>) -> Option<Self> {
                let take: fn(u64) -> Option<Self> = $take;
                take(from.next()?)
            }
        }
    };
}

fn id(v: u64) -> Option<u32> {
    u32::try_from(v).ok()
}

number!(u64, |v| v, Some);
number!(u32, u64::from, id);
number!(bool, u64::from, |v| Some(v == 1));
number!(MemcgId, |v| v.0.into(), |v| id(v).map(MemcgId));
number!(ObjectId, |v| v.0.into(), |v| id(v).map(ObjectId));
number!(FolioId, |v| v.0.into(), |v| id(v).map(FolioId));
// None is 0, and all others are one more.
number!(Option<u64>, |v| v.map_or(0, |v| v + 1), |v| Some(
    v.checked_sub(1)
));
number!(
    Option<u32>,
    |v| v.map_or(0, |v| u64::from(v) + 1),
    |v| match v.checked_sub(1) {
        None => Some(None),
        Some(v) => id(v).map(Some),
    }
);

/// How a page comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    /// The fault was for this very page.
    pub(crate) wanted: bool,
    /// It will be stored to at once.
    pub(crate) write: bool,
    /// It comes back because it could not be stored: no refault.
    pub(crate) returned: bool,
    /// Its swap slot stays with it as a clean copy, unless it is about to be stored to.
    pub(crate) keep: bool,
}

number!(
    Arrival,
    |a| u64::from(a.wanted)
        | u64::from(a.write) << 1
        | u64::from(a.returned) << 2
        | u64::from(a.keep) << 3,
    |v| {
        let bit = |n: u32| v >> n & 1 == 1;
        Some(Arrival {
            wanted: bit(0),
            write: bit(1),
            returned: bit(2),
            keep: bit(3),
        })
    }
);

/// What became of a page that was taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Contents are in its slot or file.
    Stored,
    /// It was all zeroes: the slot is not needed.
    Zero,
    /// It could not be stored and stays.
    Back,
}

number!(Left, |l| l as u64, |v| match v {
    0 => Some(Left::Stored),
    1 => Some(Left::Zero),
    2 => Some(Left::Back),
    _ => None,
});

/// What a step of a charge, or of a write to a limit, is told first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fed {
    /// So many pages have been reclaimed.
    Reclaimed(u64),
    /// Out of memory: is another attempt worth it?
    Oom(bool),
}

number!(
    Option<Fed>,
    |fed| match fed {
        None => 0,
        Some(Fed::Oom(again)) => 1 + u64::from(again),
        Some(Fed::Reclaimed(n)) => 3 + n,
    },
    |v| Some(match v {
        0 => None,
        1 | 2 => Some(Fed::Oom(v == 2)),
        n => Some(Fed::Reclaimed(n - 3)),
    })
);

impl Argument for Option<Answer> {
    const NUMBERS: usize = 2;

    fn put(self, to: &mut impl FnMut(u64)) {
        let (kind, value) = pack_answer(self);
        to(kind);
        to(value);
    }

    fn take(from: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let (kind, value) = (from.next()?, from.next()?);
        unpack_answer(kind, value)
    }
}

/// An answer as a kind and a value.
fn pack_answer(a: Option<Answer>) -> (u64, u64) {
    match a {
        None => (0, 0),
        Some(Answer::References(r)) => {
            let bits = u64::from(r.locked) | u64::from(r.unknown) << 1 | u64::from(r.exec) << 2;
            (1, bits | u64::from(r.accessed) << 3)
        }
        Some(Answer::Walked) => (2, 0),
        Some(Answer::Unmapped { deferred, writable }) => {
            (3, u64::from(deferred) | u64::from(writable) << 1)
        }
        Some(Answer::Written(w)) => (
            4,
            match w {
                Written::Submitted => 0,
                Written::Activate => 1,
                Written::Failed => 2,
                Written::NoRoom => unreachable!("the pager's folios are single pages"),
            },
        ),
        Some(Answer::Slot(s)) => (5, s.map_or(0, |s| u64::from(s) + 1)),
        Some(Answer::Victim(id)) => (6, id.map_or(0, |id| u64::from(id.0) + 1)),
        Some(Answer::Stretch { .. }) => unreachable!("the pager walks in one go"),
        Some(Answer::Split(_)) => unreachable!("the pager's folios are single pages"),
    }
}

/// The opposite of [`pack_answer`]. None: no such kind.
fn unpack_answer(kind: u64, value: u64) -> Option<Option<Answer>> {
    let bit = |n: u32| value >> n & 1 == 1;
    Some(match kind {
        0 => None,
        1 => Some(Answer::References(References {
            locked: bit(0),
            unknown: bit(1),
            exec: bit(2),
            accessed: (value >> 3) as u32,
        })),
        2 => Some(Answer::Walked),
        3 => Some(Answer::Unmapped {
            deferred: bit(0),
            writable: bit(1),
        }),
        4 => Some(Answer::Written(match value {
            0 => Written::Submitted,
            1 => Written::Activate,
            _ => Written::Failed,
        })),
        5 => Some(Answer::Slot((value as u32).checked_sub(1))),
        6 => Some(Answer::Victim((value as u32).checked_sub(1).map(FolioId))),
        _ => return None,
    })
}

/// A request in one number: enough to notice that two differ.
pub(crate) fn digest(w: &Work) -> u64 {
    let of = |kind: u64, id: u32| kind | u64::from(id) << 4;
    match w {
        Work::Test { folio, .. } => of(1, folio.0),
        Work::Walk(w) => of(2, w.mm.0),
        Work::Unmap { folio } => of(3, folio.0),
        Work::Write { folio } => of(4, folio.0),
        Work::AllocSwap { folio } => of(5, folio.0),
        Work::FreeSwap { slot, .. } => of(6, *slot),
        Work::WaitWriteback { folio } => of(7, folio.0),
        Work::Free | Work::Detach => 8,
        Work::Done => 9,
        Work::Victim { lruvec, .. } => of(11, lruvec.0),
        _ => 10,
    }
}
