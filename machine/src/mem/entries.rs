//! The page-table entries of a mapping: 64 together, a word for each of their bits.
//!
//! What looks at many of them at once (a walk, look-around, a run of loads) takes a few instructions for 64, and an access
//! finds all bits of its entry in one cache line.

use super::per_page::PerPage;
use bitflags::bitflags;
use std::ops::Range;

bitflags! {
    /// One page-table entry. Which folio it maps is told by the object's slot.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Pte: u8 {
        /// Maps the folio in the object's slot.
        const PRESENT = 1;
        /// Accessed since last cleared.
        const YOUNG = 2;
        /// Written since last cleared.
        const DIRTY = 4;
        /// Stores need no fault.
        const WRITABLE = 8;
    }
}

/// Entries of a group.
const GROUP: u32 = 64;

/// 64 entries, bit 0 the first.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Group {
    present: u64,
    young: u64,
    dirty: u64,
    writable: u64,
}

impl Group {
    fn pte(&self, bit: u64) -> Pte {
        let has = |word: u64, flag: Pte| match word & bit {
            0 => Pte::empty(),
            _ => flag,
        };
        has(self.present, Pte::PRESENT)
            | has(self.young, Pte::YOUNG)
            | has(self.dirty, Pte::DIRTY)
            | has(self.writable, Pte::WRITABLE)
    }

    /// Sets bits of the entries whose bits are in `which`.
    fn add(&mut self, which: u64, bits: Pte) {
        for (word, flag) in self.words() {
            *word |= if bits.contains(flag) { which } else { 0 };
        }
    }

    /// Clears bits of the entries whose bits are in `which`.
    fn take(&mut self, which: u64, bits: Pte) {
        for (word, flag) in self.words() {
            *word &= !if bits.contains(flag) { which } else { 0 };
        }
    }

    fn words(&mut self) -> [(&mut u64, Pte); 4] {
        [
            (&mut self.present, Pte::PRESENT),
            (&mut self.young, Pte::YOUNG),
            (&mut self.dirty, Pte::DIRTY),
            (&mut self.writable, Pte::WRITABLE),
        ]
    }
}

/// Group of an entry, and its bit there.
#[inline]
const fn place(e: u32) -> (usize, u64) {
    ((e / GROUP) as usize, 1 << (e % GROUP))
}

/// The bits of a group that belong to a range which has at least one entry there.
fn bits_of(group: u32, entries: &Range<u32>) -> u64 {
    let first = group * GROUP;
    let from = entries.start.saturating_sub(first);
    let count = (entries.end - first).min(GROUP) - from;
    (!0 >> (GROUP - count)) << from
}

/// The groups of a range that is not empty.
fn groups(entries: &Range<u32>) -> Range<u32> {
    entries.start / GROUP..entries.end.div_ceil(GROUP)
}

/// Entries of a mapping, all empty at first.
#[derive(Debug)]
pub struct Entries {
    len: u32,
    /// A leaf has one group.
    groups: PerPage<Group, 1>,
}

impl Entries {
    /// `len` entries in one array.
    pub fn whole(len: u32) -> Self {
        let groups = PerPage::whole(len.div_ceil(GROUP) as usize);
        Self { len, groups }
    }

    /// The same, taking memory by the entries that are used.
    pub fn scattered(len: u32) -> Self {
        let groups = PerPage::scattered(len.div_ceil(GROUP) as usize);
        Self { len, groups }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// An entry; beyond the end, an empty one.
    #[inline]
    pub fn get(&self, e: u32) -> Pte {
        let (group, bit) = place(e);
        self.groups.find(group).map_or(Pte::empty(), |g| g.pte(bit))
    }

    /// Brings an entry into the CPU's cache.
    #[inline]
    pub fn prefetch(&self, e: u32) {
        self.groups.prefetch(place(e).0);
    }

    /// The entry maps a folio.
    #[inline]
    pub fn is_present(&self, e: u32) -> bool {
        let (group, bit) = place(e);
        self.groups
            .find(group)
            .is_some_and(|g| g.present & bit != 0)
    }

    /// Whether an entry has been accessed; none where it is not present.
    #[inline]
    pub fn accessed(&self, e: u32) -> Option<bool> {
        let (group, bit) = place(e);
        let g = self.groups.find(group)?;
        (g.present & bit != 0).then_some(g.young & bit != 0)
    }

    /// Sets bits of an entry.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline]
    pub fn add(&mut self, e: u32, bits: Pte) {
        assert!(e < self.len, "entry {e} of {}", self.len);
        let (group, bit) = place(e);
        self.groups[group].add(bit, bits);
    }

    /// Sets bits of the entries from `first` on whose bits are in `which`.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn add_some(&mut self, first: u32, which: u64, bits: Pte) {
        let end = first + (u64::BITS - which.leading_zeros());
        assert!(end <= self.len, "entry {end} of {}", self.len);
        let (group, shift) = ((first / GROUP) as usize, first % GROUP);
        if which << shift != 0 {
            self.groups[group].add(which << shift, bits);
        }
        let above = which.checked_shr(GROUP - shift).unwrap_or(0);
        if above != 0 {
            self.groups[group + 1].add(above, bits);
        }
    }

    /// Clears bits of an entry.
    #[inline]
    pub fn take(&mut self, e: u32, bits: Pte) {
        let (group, bit) = place(e);
        if let Some(g) = self.groups.get_mut(group) {
            g.take(bit, bits);
        }
    }

    /// Empties an entry. What it was.
    #[inline]
    pub fn clear(&mut self, e: u32) -> Pte {
        let (group, bit) = place(e);
        let Some(g) = self.groups.get_mut(group) else {
            return Pte::empty();
        };
        let was = g.pte(bit);
        g.take(bit, Pte::all());
        was
    }

    /// An access to an entry sets its bits as hardware does. False, and nothing is set: it is not present or, for a store,
    /// not writable.
    #[inline]
    pub fn touch(&mut self, e: u32, write: bool) -> bool {
        let (group, bit) = place(e);
        let Some(g) = self.groups.get_mut(group) else {
            return false;
        };
        let able = if write {
            g.present & g.writable
        } else {
            g.present
        };
        if able & bit == 0 {
            return false;
        }
        g.young |= bit;
        g.dirty |= if write { bit } else { 0 };
        true
    }

    /// Loads from consecutive entries, as far as they are present. How many were.
    pub fn touch_run(&mut self, entries: Range<u32>) -> u32 {
        if entries.is_empty() {
            return 0;
        }
        for group in groups(&entries) {
            let bits = bits_of(group, &entries);
            let Some(g) = self.groups.get_mut(group as usize) else {
                return (group * GROUP).max(entries.start) - entries.start;
            };
            // The lowest one that is wanted and absent ends the run, and all below it are loaded from.
            let absent = bits & !g.present;
            let below = (absent & absent.wrapping_neg()).wrapping_sub(1);
            g.young |= bits & below;
            if absent != 0 {
                return group * GROUP + absent.trailing_zeros() - entries.start;
            }
        }
        entries.end - entries.start
    }

    /// Which of at most 64 entries are present: a bit each, the first is bit 0.
    #[inline]
    pub fn present(&self, entries: Range<u32>) -> u64 {
        self.word(entries, |g| g.present)
    }

    /// Which of at most 64 entries are present and have been accessed, likewise.
    #[inline]
    pub fn used(&self, entries: Range<u32>) -> u64 {
        self.word(entries, |g| g.present & g.young)
    }

    /// Which of at most 64 entries are dirty, likewise.
    #[inline]
    pub fn dirty(&self, entries: Range<u32>) -> u64 {
        self.word(entries, |g| g.dirty)
    }

    #[inline]
    fn word(&self, entries: Range<u32>, of: impl Fn(&Group) -> u64) -> u64 {
        let (first, shift) = ((entries.start / GROUP) as usize, entries.start % GROUP);
        let of = |group| self.groups.find(group).map_or(0, &of);
        let mut bits = of(first) >> shift;
        if shift > 0 {
            bits |= of(first + 1) << (GROUP - shift);
        }
        let count = entries.end - entries.start;
        let beyond = u64::MAX.checked_shl(count).unwrap_or(0);
        bits & !beyond
    }

    /// Clears the accessed bits of the entries from `first` on whose bits are in `which`.
    #[inline]
    pub fn take_young(&mut self, first: u32, which: u64) {
        let (group, shift) = ((first / GROUP) as usize, first % GROUP);
        if let Some(g) = self.groups.get_mut(group) {
            g.young &= !(which << shift);
        }
        let above = which.checked_shr(GROUP - shift).unwrap_or(0);
        if above == 0 {
            return;
        }
        if let Some(g) = self.groups.get_mut(group + 1) {
            g.young &= !above;
        }
    }

    /// Accessed and dirty bits of any of the entries.
    pub fn marks(&self, entries: Range<u32>) -> Pte {
        let mut marks = Pte::empty();
        if entries.is_empty() {
            return marks;
        }
        for group in groups(&entries) {
            let Some(g) = self.groups.find(group as usize) else {
                continue;
            };
            let bits = bits_of(group, &entries);
            marks.set(
                Pte::YOUNG,
                marks.contains(Pte::YOUNG) || g.young & bits != 0,
            );
            marks.set(
                Pte::DIRTY,
                marks.contains(Pte::DIRTY) || g.dirty & bits != 0,
            );
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: u32 = 300;

    #[derive(Clone, Debug)]
    enum Op {
        Add(u32, u8),
        AddSome(u32, u64, u8),
        Take(u32, u8),
        Clear(u32),
        Touch(u32, bool),
        Run(u32, u32),
        Used(u32, u32),
        TakeYoung(u32, u64),
        Marks(u32, u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        let e = 0..LEN;
        let range = (0..LEN, 0..LEN).prop_map(|(a, b)| (a.min(b), a.max(b)));
        prop_oneof![
            4 => (e.clone(), 0u8..16).prop_map(|(e, b)| Op::Add(e, b)),
            2 => (e.clone(), any::<u64>(), 0u8..16).prop_map(|(e, w, b)| Op::AddSome(e, w, b)),
            2 => (e.clone(), 0u8..16).prop_map(|(e, b)| Op::Take(e, b)),
            1 => e.clone().prop_map(Op::Clear),
            2 => (e, any::<bool>()).prop_map(|(e, w)| Op::Touch(e, w)),
            1 => range.clone().prop_map(|(a, b)| Op::Run(a, b)),
            2 => range.clone().prop_map(|(a, b)| Op::Used(a, b.min(a + GROUP))),
            1 => (0..LEN, any::<u64>()).prop_map(|(e, w)| Op::TakeYoung(e, w)),
            1 => range.prop_map(|(a, b)| Op::Marks(a, b)),
        ]
    }

    proptest! {
        /// The same as an array of entries, in one piece and scattered.
        #[test]
        fn entries_are_an_array(
            filled in any::<bool>(),
            scattered in any::<bool>(),
            ops in prop::collection::vec(op(), 1..200),
        ) {
            let mut entries = if scattered { Entries::scattered(LEN) } else { Entries::whole(LEN) };
            let mut model = vec![Pte::empty(); LEN as usize];
            if filled {
                // So that runs are long.
                (0..LEN).for_each(|e| entries.add(e, Pte::PRESENT));
                model.fill(Pte::PRESENT);
            }
            for op in ops {
                match op {
                    Op::Add(e, b) => {
                        entries.add(e, Pte::from_bits_truncate(b));
                        model[e as usize] |= Pte::from_bits_truncate(b);
                    }
                    Op::AddSome(e, which, b) => {
                        let which = which & !u64::MAX.checked_shl(LEN - e).unwrap_or(0);
                        entries.add_some(e, which, Pte::from_bits_truncate(b));
                        let added = (e..LEN.min(e + 64)).filter(|&p| which >> (p - e) & 1 != 0);
                        added.for_each(|p| model[p as usize] |= Pte::from_bits_truncate(b));
                    }
                    Op::Take(e, b) => {
                        entries.take(e, Pte::from_bits_truncate(b));
                        model[e as usize] -= Pte::from_bits_truncate(b);
                    }
                    Op::Clear(e) => {
                        let was = std::mem::take(&mut model[e as usize]);
                        prop_assert_eq!(entries.clear(e), was);
                    }
                    Op::Touch(e, write) => {
                        let need = if write { Pte::PRESENT | Pte::WRITABLE } else { Pte::PRESENT };
                        let able = model[e as usize].contains(need);
                        if able {
                            model[e as usize] |= if write { Pte::YOUNG | Pte::DIRTY } else { Pte::YOUNG };
                        }
                        prop_assert_eq!(entries.touch(e, write), able);
                    }
                    Op::Run(a, b) => {
                        let wanted = &mut model[a as usize..b as usize];
                        let run = wanted.iter().take_while(|p| p.contains(Pte::PRESENT)).count();
                        wanted[..run].iter_mut().for_each(|p| *p |= Pte::YOUNG);
                        prop_assert_eq!(entries.touch_run(a..b), run as u32);
                    }
                    Op::Used(a, b) => {
                        let used = |e: &u32| model[*e as usize].contains(Pte::PRESENT | Pte::YOUNG);
                        let bits: u64 = (a..b).filter(used).map(|e| 1 << (e - a)).sum();
                        prop_assert_eq!(entries.used(a..b), bits);
                        let present = |e: &u32| model[*e as usize].contains(Pte::PRESENT);
                        let bits: u64 = (a..b).filter(present).map(|e| 1 << (e - a)).sum();
                        prop_assert_eq!(entries.present(a..b), bits);
                        let dirty = |e: &u32| model[*e as usize].contains(Pte::DIRTY);
                        let bits: u64 = (a..b).filter(dirty).map(|e| 1 << (e - a)).sum();
                        prop_assert_eq!(entries.dirty(a..b), bits);
                    }
                    Op::TakeYoung(e, which) => {
                        entries.take_young(e, which);
                        let taken = (e..LEN.min(e + 64)).filter(|&p| which >> (p - e) & 1 != 0);
                        taken.for_each(|p| model[p as usize] -= Pte::YOUNG);
                    }
                    Op::Marks(a, b) => {
                        let all = model[a as usize..b as usize].iter().copied();
                        let marks = all.fold(Pte::empty(), Pte::union) & (Pte::YOUNG | Pte::DIRTY);
                        prop_assert_eq!(entries.marks(a..b), marks);
                    }
                }
                for e in 0..LEN {
                    prop_assert_eq!(entries.get(e), model[e as usize], "entry {}", e);
                    prop_assert_eq!(entries.is_present(e), model[e as usize].contains(Pte::PRESENT));
                }
            }
        }
    }
}
