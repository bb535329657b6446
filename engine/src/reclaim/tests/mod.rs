//! The worked examples of `shrink-folio-list.md` by label (S10 is beside `node.rs`), and the exits
//! of the 17-step path that none of them takes.

mod path;
mod steps;
mod tlb;

use super::{ReclaimKind, ScanControl};

/// Direct global reclaim.
fn direct() -> ScanControl {
    ScanControl::new(32, None)
}

/// kswapd.
fn kswapd() -> ScanControl {
    let mut sc = direct();
    sc.kind = ReclaimKind::Kswapd;
    sc
}
