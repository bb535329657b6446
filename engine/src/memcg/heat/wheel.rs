//! The lazy decay wheel (`docs/rules/heat.md#decay-wheel`): the coldest memcg in constant time.
//!
//! A memcg's heat is kept as a stamp, the epoch in which it will have become cold. Heat falls by one
//! an epoch without anybody writing anything, and the order of two memcgs never changes by itself. A
//! ring of FIFO buckets holds the memcgs by stamp; as epochs go by, whole buckets join the cold list.
//!
//! Memcgs that would only cost time stand aside: protected ones, and ones of which nothing was
//! scanned at the priority of the call. They come back in the course of the next epoch, or when a call
//! has found nothing else.

use super::clock::EpochClock;
use super::config::{HeatConfig, HeatLevel, RING};
use super::links::Lists;
use super::rules::{adjusted, posted_delta, refault_rule};
use super::score::{Means, Score};
use super::visit::VisitStats;
use crate::ids::{MemcgId, Nanos};

/// Priorities a call can have: 0 to 12.
const PRIORITIES: usize = 13;
/// Memcgs that come back from the side lists at a pick.
const BACK_AT_ONCE: usize = 4;

// Lists by number: the cold one, the ring, the side lists, those being reclaimed from.
const COLD: usize = 0;
const FIRST: usize = 1;
const PROTECTED: usize = FIRST + RING;
const DEFERRED: usize = PROTECTED + 1;
const BUSY: usize = DEFERRED + PRIORITIES;
const LISTS: usize = BUSY + 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
enum Place {
    /// Not a member.
    Absent,
    /// On the cold list or in the ring, as the stamp says.
    Heat,
    Protected,
    Deferred(u8),
    Busy,
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
struct Member {
    place: Place,
    offline: bool,
    /// Calls that reclaim from it now.
    users: u32,
    /// The epoch in which it is cold.
    stamp: u64,
    /// The call that picked it last.
    call: u64,
    /// Serial number of its standing aside.
    aside: u64,
    /// Epoch of the last rise for aging, plus one.
    aged: u64,
    score: Score,
    /// Refaults so far at the last visit.
    refaults: u64,
}

const ABSENT: Member = Member {
    place: Place::Absent,
    offline: false,
    users: 0,
    stamp: 0,
    call: 0,
    aside: 0,
    aged: 0,
    score: Score {
        yields: 0,
        cost: 0,
        known: false,
    },
    refaults: 0,
};

/// One call of reclaim: it is handed no memcg twice.
#[derive(Clone, Debug)]
pub struct WheelCall {
    id: u64,
    /// Picks left: a bound, should others keep taking what this call has visited.
    left: u32,
    priority: u8,
}

/// The wheel of one walk root on one node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct DecayWheel {
    cfg: HeatConfig,
    clock: EpochClock,
    lists: Lists<LISTS>,
    members: Vec<Member>,
    nr: u32,
    /// Buckets up to this epoch have joined the cold list.
    last_epoch: u64,
    calls: u64,
    /// Next serial number of standing aside, and the one up to which memcgs come back.
    aside: (u64, u64),
    /// Generation of the limits that the wheel has seen.
    limits: u64,
    means: Means,
}

impl DecayWheel {
    /// A wheel without memcgs, whose first epoch begins at `now`.
    pub fn new(cfg: HeatConfig, now: Nanos) -> Self {
        let clock = EpochClock::new(cfg.interval, cfg.time_scale);
        Self {
            cfg,
            clock,
            lists: Lists::new(),
            members: Vec::new(),
            nr: 0,
            last_epoch: clock.epoch(now),
            calls: 0,
            aside: (0, 0),
            limits: 0,
            means: Means::default(),
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.nr as usize
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.nr == 0
    }

    /// True if the memcg is a member.
    pub fn contains(&self, id: MemcgId) -> bool {
        self.members
            .get(id.idx())
            .is_some_and(|m| m.place != Place::Absent)
    }

    /// The decay interval at present, ns.
    pub fn interval(&self) -> Nanos {
        self.clock.interval()
    }

    /// Epoch at a time; never before one that has been seen.
    fn epoch(&self, now: Nanos) -> u64 {
        self.clock.epoch(now).max(self.last_epoch)
    }

    /// Heat of a member now. Writes nothing.
    pub fn heat_at(&self, id: MemcgId, now: Nanos) -> u8 {
        let left = self.members[id.idx()].stamp.saturating_sub(self.epoch(now));
        left.min(self.cfg.levels.max().into()) as u8
    }

    /// Level of a heat: by the thresholds, or by thirds of the members.
    pub fn level_of(&self, heat: u8, now: Nanos) -> HeatLevel {
        let levels = [HeatLevel::Cold, HeatLevel::Warm];
        levels
            .into_iter()
            .find(|&l| heat <= self.bound(l, now))
            .unwrap_or(HeatLevel::Hot)
    }

    /// Greatest heat of a level.
    fn bound(&self, level: HeatLevel, now: Nanos) -> u8 {
        if !self.cfg.quantile || level == HeatLevel::Hot {
            return self.cfg.levels.bound(level);
        }
        let thirds = if level == HeatLevel::Cold { 1 } else { 2 };
        let epoch = self.epoch(now);
        let of = |h: u8| u64::from(self.lists.len(self.list_of(epoch + u64::from(h))));
        let max = self.cfg.levels.max();
        let all: u64 = (0..=max).map(of).sum();
        let mut sum = 0;
        (0..max)
            .find(|&h| {
                sum += of(h);
                3 * sum >= thirds * all
            })
            .unwrap_or(max)
    }

    /// List of a stamp.
    fn list_of(&self, stamp: u64) -> usize {
        if stamp <= self.last_epoch {
            COLD
        } else {
            FIRST + (stamp % RING as u64) as usize
        }
    }

    fn place(&self, id: MemcgId) -> Option<usize> {
        let m = self.members.get(id.idx())?;
        Some(match m.place {
            Place::Absent => return None,
            Place::Heat => self.list_of(m.stamp),
            Place::Protected => PROTECTED,
            Place::Deferred(p) => DEFERRED + usize::from(p),
            Place::Busy => BUSY,
        })
    }

    fn unlink(&mut self, id: MemcgId) {
        let list = self.place(id).expect("member");
        self.lists.unlink(list, id);
    }

    fn link(&mut self, id: MemcgId, place: Place) {
        self.members[id.idx()].place = place;
        let list = self.place(id).expect("member");
        self.lists.push_tail(list, id);
    }

    /// A new memcg: cold. `refaults`: its count so far.
    pub fn insert(&mut self, id: MemcgId, now: Nanos, refaults: u64) {
        if self.members.len() <= id.idx() {
            self.members.resize(id.idx() + 1, ABSENT);
        }
        assert!(!self.contains(id), "memcg {} is on the wheel", id.0);
        self.lists.reserve(id);
        self.advance(now);
        self.members[id.idx()] = Member {
            stamp: self.last_epoch,
            refaults,
            ..ABSENT
        };
        self.link(id, Place::Heat);
        self.nr += 1;
    }

    /// A memcg went offline: it is cold from now on, and the next to give.
    pub fn offline(&mut self, id: MemcgId) {
        if !self.contains(id) {
            return;
        }
        let busy = self.members[id.idx()].place == Place::Busy;
        if !busy {
            self.unlink(id);
        }
        let m = &mut self.members[id.idx()];
        m.offline = true;
        m.stamp = self.last_epoch;
        if !busy {
            m.place = Place::Heat;
            self.lists.push_head(COLD, id);
        }
    }

    /// A memcg is released. No call may stand on it.
    pub fn remove(&mut self, id: MemcgId) {
        if !self.contains(id) {
            return;
        }
        self.unlink(id);
        let m = std::mem::replace(&mut self.members[id.idx()], ABSENT);
        assert_eq!(m.users, 0, "memcg {} is being reclaimed from", id.0);
        self.means.remove(&m.score);
        self.nr -= 1;
    }

    /// Lets time pass: buckets whose epoch has come join the cold list.
    fn advance(&mut self, now: Nanos) {
        let epoch = self.epoch(now);
        if epoch == self.last_epoch {
            return;
        }
        let steps = (epoch - self.last_epoch).min(RING as u64);
        for e in self.last_epoch + 1..=self.last_epoch + steps {
            self.lists.splice(FIRST + (e % RING as u64) as usize, COLD);
        }
        self.last_epoch = epoch;
        self.aside.1 = self.aside.0;
    }

    /// A few of those who stand aside since before come back.
    fn bring_back(&mut self) {
        let mut left = BACK_AT_ONCE;
        for list in PROTECTED..BUSY {
            while let Some(id) = self.lists.head(list) {
                if self.members[id.idx()].aside >= self.aside.1 {
                    break;
                }
                if left == 0 {
                    return;
                }
                left -= 1;
                self.lists.unlink(list, id);
                self.link(id, Place::Heat);
            }
        }
    }

    /// A call of reclaim begins. `limits`: generation of limits and protection; when it has changed,
    /// protected memcgs are looked at again.
    pub fn begin(&mut self, now: Nanos, priority: u8, limits: u64) -> WheelCall {
        self.clock.reclaim_begins(now);
        self.calls += 1;
        if std::mem::replace(&mut self.limits, limits) != limits {
            self.aside.1 = self.aside.0;
        }
        WheelCall {
            id: self.calls,
            left: self.nr,
            priority: priority.min(PRIORITIES as u8 - 1),
        }
    }

    /// Takes the head of a list unless the call has had it.
    fn take_head(&mut self, call: &mut WheelCall, list: usize) -> Option<MemcgId> {
        let id = self.lists.head(list)?;
        if self.members[id.idx()].call == call.id {
            return None;
        }
        call.left -= 1;
        self.lists.unlink(list, id);
        let m = &mut self.members[id.idx()];
        m.call = call.id;
        m.users += 1;
        self.link(id, Place::Busy);
        Some(id)
    }

    /// The coldest memcg of a level or a colder one that this call has not had. To be handed back by
    /// [`Self::visited`], [`Self::put`] or [`Self::protect`].
    pub fn pick(&mut self, call: &mut WheelCall, now: Nanos, level: HeatLevel) -> Option<MemcgId> {
        self.advance(now);
        self.bring_back();
        if call.left == 0 {
            return None;
        }
        let bound = self.bound(level, now);
        let first = self.last_epoch;
        (first..=first + u64::from(bound)).find_map(|stamp| {
            let list = self.list_of(stamp);
            self.take_head(call, list)
        })
    }

    /// When [`Self::pick`] has nothing left: a memcg that stands aside and may give something at
    /// this call's priority, else one that others reclaim from already. The last priority, which
    /// scans whole lists, asks everybody: what its predecessor deactivated can be scanned now.
    pub fn pick_aside(&mut self, call: &mut WheelCall) -> Option<MemcgId> {
        if call.left == 0 {
            return None;
        }
        let above = usize::from(call.priority) + usize::from(call.priority > 0);
        let deferred = DEFERRED + above..BUSY;
        deferred
            .rev()
            .chain([PROTECTED, BUSY])
            .find_map(|list| self.take_head(call, list))
    }

    /// The call is done with a memcg without a result.
    pub fn put(&mut self, id: MemcgId, now: Nanos, d: i8) {
        self.advance(now);
        let heat = adjusted(self.heat_at(id, now), d, &self.cfg.levels);
        let m = &mut self.members[id.idx()];
        let heat = if m.offline { 0 } else { heat };
        m.stamp = self.last_epoch + u64::from(heat);
        self.done(id, Place::Heat);
    }

    /// One user less; the last one puts it to its place.
    fn done(&mut self, id: MemcgId, place: Place) {
        let m = &mut self.members[id.idx()];
        m.users -= 1;
        if m.users > 0 {
            return;
        }
        if place != Place::Heat {
            m.aside = self.aside.0;
            self.aside.0 += 1;
        }
        self.lists.unlink(BUSY, id);
        self.link(id, place);
    }

    /// The call must not reclaim from it: it stands aside until the next epoch.
    pub fn protect(&mut self, id: MemcgId) {
        self.done(id, Place::Protected);
    }

    /// A visit is over. `refaults`: the memcg's count so far. A visit that scanned nothing says
    /// nothing about heat; the memcg stands aside for calls of this priority.
    pub fn visited(
        &mut self,
        call: &WheelCall,
        id: MemcgId,
        now: Nanos,
        visit: &VisitStats,
        refaults: u64,
    ) {
        self.advance(now);
        let epoch = self.last_epoch;
        let m = &mut self.members[id.idx()];
        let mut d = 0;
        if visit.aged && m.aged != epoch + 1 {
            m.aged = epoch + 1;
            d = 1;
        }
        if let Some(by_share) = posted_delta(visit.scanned, visit.reclaimed) {
            let new = refaults.saturating_sub(std::mem::replace(&mut m.refaults, refaults));
            let score = m.score.visited(visit, new);
            let old = std::mem::replace(&mut m.score, score);
            self.means.replace(&old, &score);
            d += if self.cfg.relative {
                self.means.delta(&score)
            } else {
                refault_rule(by_share, new, visit.reclaimed)
            };
            self.put(id, now, d);
            return;
        }
        let heat = adjusted(self.heat_at(id, now), d, &self.cfg.levels);
        let m = &mut self.members[id.idx()];
        if m.offline {
            m.stamp = epoch;
        } else if d != 0 {
            m.stamp = epoch + u64::from(heat);
        }
        self.done(id, Place::Deferred(call.priority));
    }

    /// Members by heat now.
    pub fn histogram(&self, now: Nanos) -> [u64; RING] {
        let mut out = [0; RING];
        for (i, m) in self.members.iter().enumerate() {
            if m.place != Place::Absent {
                out[usize::from(self.heat_at(MemcgId(i as u32), now))] += 1;
            }
        }
        out
    }

    /// Checks the wheel against its definition.
    ///
    /// # Panics
    /// If a member is on no list, on a wrong one or on two, or is hotter than possible.
    pub fn check(&self) {
        let linked = self.lists.check(|id| self.place(id));
        assert_eq!(linked, self.len(), "members of the wheel on its lists");
        let mut means = Means::default();
        for (i, m) in self.members.iter().enumerate() {
            if m.place == Place::Absent {
                continue;
            }
            let most = self.last_epoch + u64::from(self.cfg.levels.max());
            assert!(m.stamp <= most, "memcg {i}: stamp {} > {most}", m.stamp);
            assert_eq!(m.place == Place::Busy, m.users > 0, "users of memcg {i}");
            means.replace(&Score::default(), &m.score);
        }
        assert_eq!(means, self.means, "sums of the scores");
    }
}
