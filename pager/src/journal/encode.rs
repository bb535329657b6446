//! How answers, requests and pages given up are written: as numbers.

use crate::policy::Fed;
use coldset_engine::reclaim::{Answer, Freed, References, Work, Written};

impl Fed {
    pub(crate) fn pack(fed: Option<Fed>) -> u64 {
        match fed {
            None => 0,
            Some(Fed::Oom(go_on)) => 1 + u64::from(go_on),
            Some(Fed::Reclaimed(n)) => 3 + n,
        }
    }

    pub(crate) fn unpack(v: u64) -> Option<Fed> {
        match v {
            0 => None,
            1 | 2 => Some(Fed::Oom(v == 2)),
            n => Some(Fed::Reclaimed(n - 3)),
        }
    }
}

/// What the journal says of a page given up.
pub(crate) fn victim(f: &Freed) -> [u64; 4] {
    [
        f.object.0.into(),
        f.index.into(),
        f.swap.map_or(0, |s| u64::from(s) + 1),
        f.shadow.map_or(0, |s| s.0 + 1),
    ]
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
        _ => 10,
    }
}

/// An answer as a kind and a value.
pub(crate) fn pack_answer(a: Option<&Answer>) -> (u64, u64) {
    match a {
        None => (0, 0),
        Some(Answer::References(r)) => {
            let bits = u64::from(r.locked) | u64::from(r.unknown) << 1 | u64::from(r.exec) << 2;
            (1, bits | u64::from(r.accessed) << 3)
        }
        Some(Answer::Walked { slots }) => (2, *slots),
        Some(Answer::Unmapped { deferred, writable }) => {
            (3, u64::from(*deferred) | u64::from(*writable) << 1)
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
        Some(Answer::Slab(n)) => (6, *n),
        Some(Answer::Stretch { .. }) => unreachable!("the pager walks in one go"),
        Some(Answer::Split(_)) => unreachable!("the pager's folios are single pages"),
    }
}

/// The opposite. None: no such kind.
pub(crate) fn unpack_answer(kind: u64, value: u64) -> Option<Option<Answer>> {
    let bit = |n: u32| value >> n & 1 == 1;
    Some(match kind {
        0 => None,
        1 => Some(Answer::References(References {
            locked: bit(0),
            unknown: bit(1),
            exec: bit(2),
            accessed: (value >> 3) as u32,
        })),
        2 => Some(Answer::Walked { slots: value }),
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
        6 => Some(Answer::Slab(value)),
        _ => return None,
    })
}
