//! What accessed bits mean for active and inactive lists (`docs/rules/classic.md`).

use crate::folio::flags::FlagWord;
use crate::folio::Flags;
use crate::ids::LruType;
use crate::reclaim::work::References;
use crate::rules::kernel::Fate;

/// The first use keeps a folio, the second activates it; so do several mappings at once and executable
/// files. A file that was only read may go as long as it is clean.
pub(crate) fn referenced(w: &mut FlagWord, r: References, t: LruType) -> Fate {
    let file = t == LruType::File;
    let marked = w.test_clear(Flags::REFERENCED);
    if r.accessed > 0 {
        w.set(Flags::REFERENCED);
        if marked || r.accessed > 1 || (r.exec && file) {
            Fate::Activate
        } else {
            Fate::Keep
        }
    } else if marked && file {
        Fate::ReclaimClean
    } else {
        Fate::Reclaim
    }
}
