//! Switches: one plain field for each behaviour change of the sources (`docs/rules/series.md`).
//!
//! A preset ([`presets`]) is a whole set of values; every switch can be changed on its own by name,
//! so that before and after run side by side and each change can be looked at alone.

pub mod patches;
pub mod presets;

use crate::policies::ListKind;
use coldset_nearest::did_you_mean;
use std::fmt;

/// Which lists an lruvec has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum PolicyKind {
    /// Active and inactive lists (`docs/rules/classic.md`).
    Classic,
    /// Generations (`docs/rules/generations.md`).
    MultiGen,
    /// Lists of a policy of the literature ([`crate::policies`]).
    List(ListKind),
}

/// How references of a folio are counted (`docs/rules/generations.md#references`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum RefsModel {
    /// Linux 6.12.
    V612,
    /// Linux 6.14 and later.
    V614,
}

/// Where the first use of executable file memory makes it part of the working set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum ExecutableJoins {
    /// Nowhere.
    Never,
    /// Where the reverse map finds it.
    ReverseMap,
    /// Where a page-table walk finds it, too.
    Always,
}

/// Least scan budget of the fixed-budget loop (`docs/rules/reclaim-loop.md#after-the-series`, `docs/rules/series.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum BudgetFloor {
    /// No least budget.
    None,
    /// At least 32 pages at any priority (series v2).
    V2,
    /// At least min(size, 32) below the default priority (series v5).
    V5,
}

/// When empty old generations are dropped relative to isolation (`docs/rules/series.md`, patch 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum MinSeqFlush {
    /// After each isolation, as before the series.
    After,
    /// Before each isolation, as in version 2.
    Before,
    /// Before, and after if anything was scanned.
    Both,
}

/// When a refault counts as recent under the multi-gen LRU (`docs/rules/workingset.md#recent-multi-gen`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum RecentTest {
    /// Evicted from the generation that is still the oldest (6.12).
    MinSeq,
    /// Evicted within the window of the four youngest generations (6.14+).
    Window,
}

/// When isolation refuses a folio that may need swap I/O (`docs/rules/kernels.md`, `docs/rules/eviction.md#isolation`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum SwapCheck {
    /// Never: the common path decides (`no_isolate_swap_check`).
    Never,
    /// Without I/O permission, if dirty and anonymous (late 6.12).
    DirtyAnon,
    /// Without I/O permission, if dirty or anonymous outside the swap cache (base).
    DirtyOrAnon,
}

/// How dirty folios on their way out share one TLB flush (`docs/rules/tlb.md#batched-write-out`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum DirtyFlush {
    /// A flush for each folio.
    Off,
    /// As posted in version 1: 31 folios, unlocked while they wait, not looked at for pins.
    Posted,
    /// This many folios, unlocked while they wait, looked at again in full. 31 is version 2 and later;
    /// [`Self::LIST`] waits for the end of the list.
    Checked(u32),
    /// 31 folios that stay locked while they wait and need no second look (variant B).
    Locked,
}

impl DirtyFlush {
    /// Size of a batch that only the end of the list fills.
    pub const LIST: u32 = u32::MAX;

    /// Folios that wait for a flush together; 0 = none wait.
    #[inline]
    pub fn capacity(self) -> usize {
        match self {
            Self::Off => 0,
            Self::Posted | Self::Locked => crate::batch::BATCH_MAX,
            Self::Checked(n) => n as usize,
        }
    }
}

impl SwitchValue for DirtyFlush {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Self::Off),
            "v1" => Some(Self::Posted),
            "v2" => Some(Self::Checked(crate::batch::BATCH_MAX as u32)),
            "list" => Some(Self::Checked(Self::LIST)),
            "locked" => Some(Self::Locked),
            n => n
                .parse()
                .ok()
                .filter(|n| (1..=4096).contains(n))
                .map(Self::Checked),
        }
    }
    fn text(self) -> String {
        match self {
            Self::Off => "off".into(),
            Self::Posted => "v1".into(),
            Self::Checked(Self::LIST) => "list".into(),
            Self::Checked(n) if n as usize == crate::batch::BATCH_MAX => "v2".into(),
            Self::Checked(n) => n.to_string(),
            Self::Locked => "locked".into(),
        }
    }
    fn accepts() -> &'static str {
        "off, v1, v2, locked, list, or a batch size of 1 to 4096"
    }
}

/// Which memcg root reclaim turns to next, by heat (`docs/rules/heat.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum MemcgHeat {
    /// Heat is not kept: memcg LRU or plain walk.
    Off,
    /// As posted: up to three walks, coldest memcgs first.
    Posted,
    /// The lazy decay wheel.
    Wheel,
}

/// Which refaults make a memcg hot (`docs/rules/heat.md#decay-wheel`). Their number:
/// [`WorkingSet::refaults`](crate::workingset::WorkingSet::refaults).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum RefaultKind {
    /// All refaults.
    Refault = 0,
    /// Recent refaults, which are activated.
    Activate = 1,
    /// Recent ones of former working-set folios.
    Restore = 2,
}

/// What the wheel compares a memcg with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum HeatRule {
    /// The mean of the memcgs of its node.
    Relative,
    /// The fixed shares of the posted design.
    Absolute,
}

/// Where the wheel's levels begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum HeatLevelsBy {
    /// At fixed heats.
    Heat,
    /// At thirds of the memcgs.
    Quantile,
}

/// How many index nodes with nothing but shadows a memcg may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub enum ShadowNodeLimit {
    /// Any number.
    None,
    /// An eighth of the pages on its lists and in slab.
    Lists,
    /// The same, but lists with generations do not count.
    Slab,
}

/// Text form of a switch value.
pub trait SwitchValue: Sized + Copy {
    /// Reads the value; `None` if it is not one of [`Self::accepts`].
    fn parse(text: &str) -> Option<Self>;
    /// The text that [`Self::parse`] reads back.
    fn text(self) -> String;
    /// What may be written.
    fn accepts() -> &'static str;
}

impl SwitchValue for bool {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "1" | "on" | "yes" | "true" => Some(true),
            "0" | "off" | "no" | "false" => Some(false),
            _ => None,
        }
    }
    fn text(self) -> String {
        if self { "on" } else { "off" }.into()
    }
    fn accepts() -> &'static str {
        "on, off"
    }
}

impl SwitchValue for u64 {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn text(self) -> String {
        self.to_string()
    }
    fn accepts() -> &'static str {
        "a whole number"
    }
}

/// Implements [`SwitchValue`] for an enum.
macro_rules! switch_enum {
    ($ty:ty, $accepts:literal, $($text:literal => $value:expr),+ $(,)?) => {
        impl SwitchValue for $ty {
            fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some($value),)+ _ => None }
            }
            fn text(self) -> String {
                $(if self == $value { return $text.into(); })+
                unreachable!("every value has a text")
            }
            fn accepts() -> &'static str { $accepts }
        }
    };
}

impl SwitchValue for PolicyKind {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "classic" => Some(Self::Classic),
            "mglru" => Some(Self::MultiGen),
            list => {
                let kind = ListKind::ALL.iter().find(|k| k.name() == list);
                kind.copied().map(Self::List)
            }
        }
    }
    fn text(self) -> String {
        match self {
            Self::Classic => "classic",
            Self::MultiGen => "mglru",
            Self::List(kind) => kind.name(),
        }
        .into()
    }
    fn accepts() -> &'static str {
        ListKind::ACCEPTS
    }
}

switch_enum!(RefsModel, "612, 614", "612" => RefsModel::V612, "614" => RefsModel::V614);
switch_enum!(ExecutableJoins, "never, reverse-map, always",
    "never" => ExecutableJoins::Never, "reverse-map" => ExecutableJoins::ReverseMap,
    "always" => ExecutableJoins::Always);
switch_enum!(BudgetFloor, "none, v2, v5",
    "none" => BudgetFloor::None, "v2" => BudgetFloor::V2, "v5" => BudgetFloor::V5);
switch_enum!(MinSeqFlush, "after, before, both",
    "after" => MinSeqFlush::After, "before" => MinSeqFlush::Before, "both" => MinSeqFlush::Both);
switch_enum!(RecentTest, "min-seq, window",
    "min-seq" => RecentTest::MinSeq, "window" => RecentTest::Window);
switch_enum!(ShadowNodeLimit, "none, lists, slab",
    "none" => ShadowNodeLimit::None, "lists" => ShadowNodeLimit::Lists, "slab" => ShadowNodeLimit::Slab);
switch_enum!(SwapCheck, "never, dirty-anon, dirty-or-anon",
    "never" => SwapCheck::Never, "dirty-anon" => SwapCheck::DirtyAnon,
    "dirty-or-anon" => SwapCheck::DirtyOrAnon);

switch_enum!(MemcgHeat, "off, posted, wheel",
    "off" => MemcgHeat::Off, "posted" => MemcgHeat::Posted, "wheel" => MemcgHeat::Wheel);
switch_enum!(RefaultKind, "refault, activate, restore",
    "refault" => RefaultKind::Refault, "activate" => RefaultKind::Activate,
    "restore" => RefaultKind::Restore);
switch_enum!(HeatRule, "relative, absolute",
    "relative" => HeatRule::Relative, "absolute" => HeatRule::Absolute);
switch_enum!(HeatLevelsBy, "heat, quantile",
    "heat" => HeatLevelsBy::Heat, "quantile" => HeatLevelsBy::Quantile);

/// A switch that does not exist or does not take the given value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SwitchError {
    /// No switch has this name.
    #[error("no switch is named '{name}'{hint}")]
    Unknown {
        /// The name given.
        name: String,
        /// See [`did_you_mean`].
        hint: String,
    },
    /// No preset, or suffix of one, has this name.
    #[error("no policy is named '{name}'{hint}")]
    Preset {
        /// The name given.
        name: String,
        /// See [`did_you_mean`].
        hint: String,
    },
    /// The value cannot be read.
    #[error("switch '{name}' does not take '{value}': write one of {accepts}")]
    Value {
        /// Name of the switch.
        name: String,
        /// The value given.
        value: String,
        /// What is accepted.
        accepts: &'static str,
    },
    /// Not of the form `switch=value`.
    #[error("'{0}' is not of the form switch=value")]
    Form(String),
}

/// One line of `coldset lab params`: a switch, its value and what it does.
#[derive(Clone, Debug)]
pub struct SwitchInfo {
    /// Name on the command line.
    pub name: &'static str,
    /// Its value here, as text.
    pub value: String,
    /// Values it takes, as text.
    pub accepts: &'static str,
    /// What it changes.
    pub doc: String,
}

/// Declares the struct, its text interface and its documentation from one list.
macro_rules! switches {
    ($($(#[doc = $doc:literal])+ $name:ident: $ty:ty,)*) => {
        /// One field for each behaviour change. Construct by [`presets::preset`].
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
        pub struct Switches { $($(#[doc = $doc])+ pub $name: $ty,)* }

        impl Switches {
            /// Names of all switches.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// Sets the switch called `name`.
            ///
            /// # Errors
            /// Unknown name or value; the message names the nearest switch or the accepted values.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SwitchError> {
                match name {
                    $(stringify!($name) => {
                        self.$name = <$ty as SwitchValue>::parse(value).ok_or_else(|| SwitchError::Value {
                            name: name.into(),
                            value: value.into(),
                            accepts: <$ty as SwitchValue>::accepts(),
                        })?;
                        Ok(())
                    })*
                    _ => Err(SwitchError::Unknown {
                        name: name.into(),
                        hint: did_you_mean(name, Self::NAMES.iter().copied()),
                    }),
                }
            }

            /// Every switch with its value and meaning.
            pub fn describe(&self) -> Vec<SwitchInfo> {
                vec![$(SwitchInfo {
                    name: stringify!($name),
                    value: self.$name.text(),
                    accepts: <$ty as SwitchValue>::accepts(),
                    doc: [$($doc.trim(),)+].join(" "),
                },)*]
            }
        }
    };
}

switches! {
    /// Which lists an lruvec has.
    policy: PolicyKind,
    /// How references are counted and where folios enter (`docs/rules/generations.md`).
    refs_model: RefsModel,
    /// Folios on probation that have been referenced enter the second oldest generation (7.2).
    entry_by_reference: bool,
    /// A fault activates only the working set; it marks other folios as accessed (7.2).
    fault_marks_accessed: bool,
    /// The second use that the reverse map finds activates, the third makes a working-set folio (7.2; off: the
    /// second does both).
    second_use_activates: bool,
    /// A refault in a fault counts as an activation only if it restores the working set (7.2).
    restore_only_activate: bool,
    /// Walks leave the accessed bits of folios that are on no list: those that still wait in a batch (7.2).
    walk_on_lists: bool,
    /// Where the first use of executable file memory makes it part of the working set (merged: reverse
    /// map; 7.3: always).
    executable_joins: ExecutableJoins,
    /// Fixed scan budget per loop (patch 4).
    scan_budget: bool,
    /// Least budget (patch 4).
    budget_floor: BudgetFloor,
    /// A memcg whose budget is 0 counts as rotated (series v4, v5).
    rotate_on_empty_budget: bool,
    /// Scanned pages are counted exactly, progress is neither faked nor hidden (patch 5).
    exact_scan_count: bool,
    /// When empty old generations are dropped (patch 5).
    min_seq_flush: MinSeqFlush,
    /// Eviction unit of 64 folios instead of 4096 (patch 6).
    smaller_batch: bool,
    /// Root reclaim evicts one batch after aging before it leaves (patch 7).
    no_abort_after_aging: bool,
    /// When isolation refuses folios that may need swap I/O (patch 8).
    isolate_swap_check: SwapCheck,
    /// Dirty and writeback folios are isolated and activated by the common path (patch 9).
    common_dirty_reactivation: bool,
    /// Isolation clears the reclaim mark (before patch 9, not in late 6.12).
    isolate_clears_reclaim: bool,
    /// Unevictable folios are handled by the generic path instead of by the sort step (late 6.12, merged).
    unevictable_generic: bool,
    /// Flushers are woken per batch inside the loop (patch 10).
    flush_in_loop: bool,
    /// Fault (`docs/rules/faults.md`): each round puts the whole evictable size into the loop's budget.
    mut_budget_clobber: bool,
    /// Fault: the loop's budget is never reduced by what was scanned.
    mut_no_decrement: bool,
    /// Fault: the default priority ages, too.
    mut_no_defprio_return: bool,
    /// Fault: memory.low and memory.min do not scale the budget, whatever proportional_protection says.
    mut_no_protection: bool,
    /// Fault: unqueued dirty and taken file pages are not summed, but still compared.
    mut_counters_dropped: bool,
    /// Vendor hook: the budget helper ages and then empties the budget; an aged memcg is not rotated.
    mut_aging_hook: bool,
    /// Dirty and writeback statistics reach the scan control, so that reclaim throttles (patch 14).
    unified_writeback_throttle: bool,
    /// memory.low and memory.min scale the multi-gen scan budget.
    proportional_protection: bool,
    /// The type flips only if the first type scanned nothing (merged).
    strict_type_fallback: bool,
    /// A request for anonymous memory only (swappiness 201) takes nothing if none can be swapped, in
    /// place of files (merged).
    anon_only_strict: bool,
    /// Memcg reclaim, too, stops its loop when the target is met (merged).
    memcg_abort_on_target: bool,
    /// The retry pass skips the writeback helper (merged).
    retry_skips_writeback: bool,
    /// When a multi-gen refault counts as recent.
    recent_test: RecentTest,
    /// Memcgs for which a CPU keeps pages that are charged ahead, at a time, 1 to 64 (6.16: 7).
    charge_stocks: u64,
    /// How many index nodes with nothing but shadows are kept (`docs/rules/workingset.md#shadow-nodes`; 7.2: slab).
    shadow_nodes: ShadowNodeLimit,
    /// Aging walks page tables (lru_gen feature bit 2); off: only look-around.
    page_table_walk: bool,
    /// Reclaim may write single dirty file folios (before 6.19).
    file_writeback_from_reclaim: bool,
    /// A page that comes back from zram or another synchronous device goes through the swap cache, like any
    /// other, so a store to it drains the CPU's batches (7.0 to 7.2).
    swap_cache_always: bool,
    /// A kswapd that has given up is woken again once others free pages of a node that is balanced (7.2, 7.3); off: once they free any
    /// (`docs/rules/zones.md#kswapd`).
    kswapd_stays_down: bool,
    /// Global counters of scanned and freed pages see limit reclaim too, as in the 7.2 development tree.
    counters_72: bool,
    /// Limit on aging protection in milliseconds: 0 = off (`docs/rules/aging.md`).
    min_ttl_ms: u64,
    /// Root reclaim of multi-gen memcgs uses the memcg LRU (`docs/rules/memcg-lru.md`); off: plain hierarchy walk.
    memcg_lru: bool,
    /// Dirty folios are written out in batches that share one TLB flush.
    batched_dirty_flush: DirtyFlush,
    /// Root reclaim turns to cold memcgs first (`docs/rules/heat.md`); goes before the memcg LRU.
    memcg_heat: MemcgHeat,
    /// Time in which heat falls by one, milliseconds at full scale; 0 = wheel: from the time between reclaims.
    heat_interval_ms: u64,
    /// Least heat of a warm memcg.
    heat_warm: u64,
    /// Least heat of a hot memcg.
    heat_hot: u64,
    /// Greatest heat, at most 15.
    heat_max: u64,
    /// Wheel: what the yield and the refault cost of a memcg are compared with.
    heat_rule: HeatRule,
    /// Wheel: where levels begin.
    heat_levels: HeatLevelsBy,
    /// Wheel: which refaults count as the cost of reclaim.
    heat_refaults: RefaultKind,
    /// Freed folios whose only reference is the add batch are filtered out at the drain (`docs/rules/batches.md#dead-folios`).
    drop_dead_on_drain: bool,
    /// Memcg statistics that classic reclaim reads lag until the next fold (`docs/rules/memcg.md#statistics-that-lag`).
    stale_stats: bool,
}

impl Switches {
    /// Applies one `switch=value` assignment.
    ///
    /// # Errors
    /// As [`Self::set`], or if there is no `=` behind the name of a switch.
    pub fn assign(&mut self, text: &str) -> Result<(), SwitchError> {
        let (name, value) =
            text.split_once('=')
                .ok_or_else(|| match Self::NAMES.contains(&text.trim()) {
                    true => SwitchError::Form(text.into()),
                    false => SwitchError::Unknown {
                        name: text.trim().into(),
                        hint: did_you_mean(text.trim(), Self::NAMES.iter().copied()),
                    },
                })?;
        self.set(name.trim(), value.trim())
    }

    /// True for the 6.12 rules.
    #[inline]
    pub fn is_612(&self) -> bool {
        self.refs_model == RefsModel::V612
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for s in self.describe() {
            writeln!(f, "{}={}", s.name, s.value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_reads_back_its_own_text() {
        let base = presets::preset("base").unwrap();
        let mut copy = presets::preset("v5").unwrap();
        for s in base.describe() {
            copy.set(s.name, &s.value).unwrap();
        }
        assert_eq!(copy, base);
    }

    #[test]
    fn sizes_of_dirty_batches_read_back() {
        let mut s = presets::preset("base").unwrap();
        for (text, capacity) in [("off", 0), ("v1", 31), ("v2", 31), ("31", 31), ("8", 8)] {
            s.set("batched_dirty_flush", text).unwrap();
            assert_eq!(s.batched_dirty_flush.capacity(), capacity, "{text}");
            let again = DirtyFlush::parse(&s.batched_dirty_flush.text());
            assert_eq!(again, Some(s.batched_dirty_flush), "{text}");
        }
        for text in ["list", "locked", "1", "64"] {
            assert_eq!(DirtyFlush::parse(text).unwrap().text(), text);
        }
        for text in ["0", "4097", "on", "-1"] {
            assert!(s.set("batched_dirty_flush", text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_names_and_values_are_named_with_a_remedy() {
        let mut s = presets::preset("base").unwrap();
        let e = s.assign("scan_bugdet=on").unwrap_err().to_string();
        assert!(e.contains("did you mean 'scan_budget'"), "{e}");
        let e = s.assign("scan_budget=maybe").unwrap_err().to_string();
        assert!(e.contains("on, off"), "{e}");
        assert!(s.assign("scan_budget").is_err());
    }
}
