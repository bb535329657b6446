//! What Linux 7.2 and 7.3 changed about generations besides the series, a switch for each rule
//! (`docs/rules/kernels.md`).

use super::kernel::{Kernel, Refaulted};
use super::v614;
use crate::folio::flags::FlagWord;
use crate::folio::Flags;
use crate::ids::LruType;
use crate::mglru::MultiGen;
use crate::switches::{ExecutableJoins, Switches};

/// Puts those that are switched on in place of the kernel's own.
pub(super) fn put_in(kernel: &mut Kernel, sw: &Switches) {
    if sw.entry_by_reference {
        kernel.entry = entry;
    }
    if sw.fault_marks_accessed {
        kernel.added_in_fault = added_in_fault;
    }
    if sw.second_use_activates {
        kernel.neighbour_found = |w, youngest| second_use(w) && v614::below(w, youngest);
        kernel.referenced = |w, r, _t| v614::fate(w, r, second_use);
    }
    if sw.restore_only_activate {
        kernel.refaulted = refaulted;
    }
    kernel.walks_on_lists = sw.walk_on_lists;
    kernel.executable_joins = match sw.executable_joins {
        ExecutableJoins::Never => [false, false],
        ExecutableJoins::ReverseMap => [true, false],
        ExecutableJoins::Always => [true, true],
    };
}

/// On probation, a folio that has been referenced is worth as much as one of the working set.
fn entry(m: &MultiGen, w: FlagWord, t: LruType, reclaiming: bool) -> u64 {
    let wanted = w.any(Flags::WORKINGSET.union(Flags::REFERENCED));
    v614::entry_of(m, w, t, reclaiming, wanted)
}

/// Only the working set starts as active. The fault itself is the first use of the rest.
fn added_in_fault(w: &mut FlagWord) {
    if w.has(Flags::WORKINGSET) {
        w.set(Flags::ACTIVE);
    } else if !w.has(Flags::REFERENCED) {
        v614::accessed(w);
    }
}

/// The first use marks, the second activates, the third makes the folio part of the working set.
fn second_use(w: &mut FlagWord) -> bool {
    if !w.any(Flags::REFERENCED | Flags::WORKINGSET) {
        w.set(Flags::REFERENCED);
        w.set_refs(0);
        return false;
    }
    if w.has(Flags::REFERENCED) && w.refs() >= 1 {
        v614::join_workingset(w);
    } else {
        v614::accessed(w);
    }
    true
}

/// A refault inside a fault activates only the working set.
fn refaulted(w: &mut FlagWord, low: u32, workingset: bool, in_fault: bool) -> Refaulted {
    Refaulted {
        activate: in_fault && workingset,
        ..v614::refaulted(w, low, workingset, in_fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_use_activates_and_the_third_joins() {
        let mut w = FlagWord::default();
        let used = |w: &mut FlagWord| (second_use(w), w.has(Flags::WORKINGSET));
        assert_eq!(used(&mut w), (false, false));
        assert_eq!(used(&mut w), (true, false));
        assert_eq!(used(&mut w), (true, true));
        assert!(!w.has(Flags::REFERENCED));
        assert_eq!(used(&mut w), (true, true), "once more");
    }

    #[test]
    fn a_refault_in_a_fault_counts_as_activation_only_if_it_restores() {
        for workingset in [false, true] {
            let counts = refaulted(&mut FlagWord::default(), 0, workingset, true);
            assert_eq!((counts.activate, counts.restore), (workingset, workingset));
            assert!(v614::refaulted(&mut FlagWord::default(), 0, workingset, true).activate);
        }
    }
}
