//! The table of list policies: one line each makes it a variant of everything that has to know.

use super::outside::{Outside, OutsideKind};
use super::*;
use crate::ids::LruType;

/// Calls the given macro with every policy: module, type, name, what it is, where it is from.
macro_rules! list_policies {
    ($then:ident) => {
        $then! {
            fifo Fifo "fifo" "one list, no second chance: the floor to compare with"
                "Belady, IBM Systems Journal 1966";
            lru Lru "lru" "least recently used, in exact order"
                "Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 1970";
            clock Clock "clock" "FIFO with a second chance for folios in use"
                "Corbató, MIT Project MAC 1968";
            twoq TwoQ "2q" "a probation queue with ghosts before the LRU list"
                "Johnson, Shasha, VLDB 1994";
            slru Slru "slru" "a hit moves to a protected segment"
                "Karedla, Love, Wherry, IEEE Computer 1994";
            lirs Lirs "lirs" "folios whose last two uses were close stay, the others pass through a short queue"
                "Jiang, Zhang, SIGMETRICS 2002";
            arc Arc "arc" "recency and frequency lists, balanced by their ghosts"
                "Megiddo, Modha, FAST 2003";
            clockpro ClockPro "clock-pro" "LIRS as a clock with three hands, cold pages on probation"
                "Jiang, Chen, Zhang, USENIX ATC 2005";
            wtinylfu WTinyLfu "w-tinylfu" "a window, and admission to the rest by frequency"
                "Einziger, Friedman, Manes, ACM TOS 2017";
            lhd Lhd "lhd" "the worst of a sample by hits expected for room and time"
                "Beckmann, Chen, Cidon, NSDI 2018";
            s3fifo S3Fifo "s3fifo" "small and main FIFO queues with ghosts"
                "Yang, Zhang, Qiu, Yue, Rashmi, SOSP 2023";
            sieve Sieve "sieve" "a hand over a FIFO list, survivors stay in place"
                "Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024";
        }
    };
}
pub(crate) use list_policies;

macro_rules! declare {
    ($($module:ident $type:ident $name:literal $doc:literal $paper:literal;)*) => {
        /// A policy of the literature, by name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
        pub enum ListKind {
            $(#[doc = $doc] $type,)*
            /// The host names the victims. It has no preset, for the host has to answer.
            Outside(OutsideKind),
        }

        impl ListKind {
            /// All with a preset, in the order in which they are listed.
            pub const ALL: &'static [ListKind] = &[$(ListKind::$type,)*];
            /// What the switch `policy` takes.
            pub(crate) const ACCEPTS: &'static str = concat!("classic, mglru", $(", ", $name,)*);

            /// Its name: of the preset, and as a value of the switch `policy`.
            pub const fn name(self) -> &'static str {
                match self { $(ListKind::$type => $name,)* ListKind::Outside(_) => "outside" }
            }

            /// What it is, in one line.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(ListKind::$type => $doc,)*
                    ListKind::Outside(_) => "a policy outside of the engine",
                }
            }

            /// Authors, venue and year.
            pub const fn paper(self) -> &'static str {
                match self { $(ListKind::$type => $paper,)* ListKind::Outside(_) => "the host's" }
            }
        }

        /// The lists of an lruvec under some policy, by type.
        #[derive(Clone, Debug)]
        #[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
        #[allow(missing_docs, reason = "as in ListKind")]
        pub enum Lists { $($type([$module::$type; 2]),)* Outside([Outside; 2]) }

        impl Lists {
            /// The lists of a policy, all empty.
            pub fn new(kind: ListKind) -> Self {
                match kind {
                    $(ListKind::$type => Lists::$type(Default::default()),)*
                    ListKind::Outside(kind) => {
                        Lists::Outside([Outside::new(kind), Outside::new(kind)])
                    }
                }
            }

            /// Which policy it is.
            pub fn kind(&self) -> ListKind {
                match self {
                    $(Lists::$type(_) => ListKind::$type,)*
                    Lists::Outside(lists) => ListKind::Outside(lists[0].kind()),
                }
            }

            /// The lists of a type.
            #[inline]
            pub fn of(&self, t: LruType) -> &dyn ListPolicy {
                match self {
                    $(Lists::$type(lists) => &lists[t.idx()],)*
                    Lists::Outside(lists) => &lists[t.idx()],
                }
            }

            /// The lists of a type.
            #[inline]
            pub(crate) fn of_mut(&mut self, t: LruType) -> &mut dyn ListPolicy {
                match self {
                    $(Lists::$type(lists) => &mut lists[t.idx()],)*
                    Lists::Outside(lists) => &mut lists[t.idx()],
                }
            }
        }
    };
}
list_policies!(declare);

/// Lists, and the number of evictions from them.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct ListState {
    /// Lists and ghosts of each type.
    pub lists: Lists,
    pub(super) evictions: u64,
}

impl ListState {
    /// The lists of a policy, all empty.
    pub fn new(kind: ListKind) -> Self {
        Self {
            lists: Lists::new(kind),
            evictions: 0,
        }
    }
}
