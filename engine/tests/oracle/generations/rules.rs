//! What the presets differ in, and what a page remembers of its uses.

use crate::host::Name;

/// Stands among the victims where the OOM killer was called.
pub(crate) const KILL: Name = (usize::MAX, 0);

/// The form of the reclaim loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// Before the series.
    Base,
    /// The series as posted in version 5: a budget of at least 32 pages below priority 12.
    V5,
    /// As merged: without that, and a visit ends at the target.
    Merged,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) form: Form,
    /// 7.2: a referenced page enters as one of the working set does; a fault marks what it does not activate; the
    /// second use activates and the third joins the working set; only a restore counts as an activation; what tasks free
    /// brings kswapd back on a balanced node only; a walk leaves pages that are on no list alone.
    pub(crate) since_72: bool,
    /// The first use of an executable page of a file makes it part of the working set: in the reverse map, in a walk.
    pub(crate) exec_joins: [bool; 2],
    /// A request for anonymous memory only takes nothing if none can go.
    pub(crate) anon_only: bool,
}

pub(crate) const PRESETS: [&str; 6] = ["base", "v618", "v5", "merged", "v72", "v73"];

impl Rules {
    pub(crate) fn of(preset: &str) -> Self {
        let plain = Rules {
            form: Form::Base,
            since_72: false,
            exec_joins: [false; 2],
            anon_only: false,
        };
        let form = Form::Merged;
        match preset {
            "base" | "v618" => plain,
            "v5" => Rules {
                form: Form::V5,
                ..plain
            },
            "merged" => Rules {
                form,
                since_72: false,
                exec_joins: [true, false],
                anon_only: true,
            },
            "v72" => Rules {
                form,
                since_72: true,
                ..plain
            },
            "v73" => Rules {
                form,
                since_72: true,
                exec_joins: [true; 2],
                anon_only: true,
            },
            _ => panic!("no model of {preset}"),
        }
    }

    /// The machine's counts of scanned and freed pages see limit reclaim, too.
    pub(crate) fn counts_limits(&self) -> bool {
        self.form == Form::Merged
    }

    /// The scan takes what is locked as it takes the rest, and finds out later.
    pub(crate) fn isolates_locked(&self) -> bool {
        self.form == Form::Merged
    }

    /// The loop before the series.
    pub(crate) fn old_loop(&self) -> bool {
        self.form == Form::Base
    }
}

/// Where a page is: the generation that it belongs to, the one whose list it is on, and its place there: the largest
/// is the newest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct On {
    pub(crate) gen: u64,
    pub(crate) list: u64,
    pub(crate) at: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// Its pages are 2 to the power of this.
    pub(crate) order: u8,
    pub(crate) node: usize,
    /// Locked into memory.
    pub(crate) locked: bool,
    /// It is on the unevictable list, or on its way there.
    pub(crate) unevictable: bool,
    /// Accesses that count: 0 to 4. Above 0 is "referenced".
    pub(crate) refs: u64,
    /// What a refault has left in the field, without "referenced".
    pub(crate) hidden: u64,
    pub(crate) workingset: bool,
    pub(crate) active: bool,
    pub(crate) dirty: bool,
    pub(crate) reclaim: bool,
    pub(crate) writeback: bool,
    pub(crate) anon: bool,
    /// It has a swap slot and is in the swap cache.
    pub(crate) slot: bool,
    pub(crate) mapped: bool,
    /// The accessed bit of its page-table entry.
    pub(crate) young: bool,
    pub(crate) exec: bool,
    /// None: in a batch, or isolated.
    pub(crate) on: Option<On>,
}

impl Page {
    pub(crate) fn size(&self) -> u64 {
        1 << self.order
    }

    pub(crate) fn kind(&self) -> usize {
        usize::from(!self.anon)
    }

    pub(crate) fn tier(&self) -> usize {
        match (self.workingset, self.refs) {
            (true, _) => 3,
            (_, 0 | 1) => 0,
            (_, 2) => 1,
            _ => 2,
        }
    }

    pub(crate) fn lazily_promoted(&self) -> bool {
        self.workingset && self.refs == 4
    }

    /// An access through a descriptor.
    pub(crate) fn use_once(&mut self) {
        self.hidden = 0;
        match self.refs {
            4 => self.workingset = true,
            _ => self.refs += 1,
        }
    }

    pub(crate) fn forget_uses(&mut self) {
        (self.refs, self.hidden) = (0, 0);
    }

    /// The reverse map has found the accessed bit. True: to be activated.
    pub(crate) fn found_used(&mut self, rules: &Rules) -> bool {
        if self.refs == 0 && !self.workingset {
            (self.refs, self.hidden) = (1, 0);
            return false;
        }
        if rules.since_72 && self.refs <= 1 {
            self.use_once();
        } else {
            self.forget_uses();
            self.workingset = true;
        }
        true
    }
}
