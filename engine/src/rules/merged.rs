//! Generations of the 7.2 development tree, as merged with the series (`docs/rules/kernels.md`).

use super::kernel::{Fate, Kernel};
use super::v614;
use crate::folio::flags::FlagWord;
use crate::folio::Flags;
use crate::ids::LruType;
use crate::reclaim::work::References;

/// The rules of 6.14 but for executable files.
pub(super) const KERNEL: Kernel = Kernel {
    referenced,
    ..v614::KERNEL
};

/// The first use of executable file memory makes it part of the working set.
fn referenced(w: &mut FlagWord, r: References, t: LruType) -> Fate {
    if r.accessed > 0 && r.exec && t == LruType::File {
        w.set(Flags::WORKINGSET);
    }
    v614::referenced(w, r, t)
}
