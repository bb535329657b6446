//! Foreign dirtying: pages charged to one memcg that are dirtied through another memcg's wb
//! (`docs/rules/writeback.md`). Each memcg remembers up to four such wbs, so that its throttled
//! dirtiers can have them flushed.

use super::params::DirtyParams;
use crate::ids::{Nanos, WbId};

/// Records a memcg keeps.
const SLOTS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    wb: WbId,
    at: Nanos,
}

/// The foreign wbs of one memcg.
#[derive(Clone, Debug, Default)]
pub struct ForeignDirty {
    records: Vec<Record>,
}

impl ForeignDirty {
    /// Notes that a page of the memcg was dirtied through `wb`. The oldest record makes room.
    pub fn note(&mut self, params: &DirtyParams, wb: WbId, now: Nanos) {
        if let Some(r) = self.records.iter_mut().find(|r| r.wb == wb) {
            if now.saturating_sub(r.at) >= params.foreign_refresh {
                r.at = now;
            }
        } else if self.records.len() < SLOTS {
            self.records.push(Record { wb, at: now });
        } else if let Some(oldest) = self.records.iter_mut().min_by_key(|r| r.at) {
            *oldest = Record { wb, at: now };
        }
    }

    /// Takes the wbs noted within the expiry time; the others are forgotten.
    pub fn take(&mut self, params: &DirtyParams, now: Nanos) -> Vec<WbId> {
        let fresh = |r: &Record| now.saturating_sub(r.at) < params.foreign_expire;
        self.records.drain(..).filter(fresh).map(|r| r.wb).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_are_remembered_and_old_ones_forgotten() {
        let p = DirtyParams::default();
        let mut f = ForeignDirty::default();
        for wb in 0..5 {
            f.note(&p, WbId(wb), u64::from(wb));
        }
        assert_eq!(f.take(&p, 10), [WbId(4), WbId(1), WbId(2), WbId(3)]);
        f.note(&p, WbId(7), 0);
        f.note(&p, WbId(7), p.foreign_refresh - 1);
        f.note(&p, WbId(8), 10);
        assert_eq!(f.take(&p, p.foreign_expire), [WbId(8)]);
        assert!(f.take(&p, 0).is_empty());
    }
}
