//! The swap area: slots, and what each holds.

use crate::config::{MachineConfig, MachineError, SwapConfig};
use crate::device::{Device, FaultPlan, ZramAlgorithm, ZramTiming};
use crate::params::Params;
use coldset_engine::swap::slots::{SwapSlot, SwapSlots};
use coldset_engine::swap::zram::{Zram, ZramParams};
use coldset_engine::workingset::Shadow;
use std::collections::VecDeque;

/// Where swapped pages go.
#[derive(Debug)]
pub(super) enum Store {
    Zram { pool: Box<Zram>, timing: ZramTiming },
    Disk(Box<Device>),
}

/// What a used slot holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Encoded shadow: 0 none, else shadow << 1 | 1.
    pub(super) shadow: u64,
    /// Version of the contents.
    pub(super) version: u32,
    /// css id of the memcg charged.
    pub(super) owner: u16,
}

/// The swap area.
#[derive(Debug)]
pub struct Swap {
    pub(super) slots: SwapSlots,
    pub(super) held: Vec<Held>,
    pub(super) store: Store,
    /// Pages of each zone that compressed contents occupy.
    pub(super) pool_from: Vec<u64>,
    /// When the writes end that are on their way, in order of submission.
    pub(super) writes: VecDeque<u64>,
}

impl Swap {
    /// Pages of each zone that compressed contents occupy.
    pub(crate) fn pool_from(&self) -> &[u64] {
        &self.pool_from
    }

    pub(crate) fn new(
        cfg: &SwapConfig,
        machine: &MachineConfig,
        zones: usize,
    ) -> Result<Option<Self>, MachineError> {
        let (pages, store) = match cfg {
            SwapConfig::None => return Ok(None),
            SwapConfig::Zram { pages, algorithm } => {
                let params = ZramParams::new(algorithm)?;
                let timing =
                    zram_timing(algorithm, &machine.params).ok_or_else(|| MachineError::Range {
                        what: "zram algorithm",
                        value: algorithm.clone(),
                        range: "lz4, lzo, lzo-rle, zstd",
                    })?;
                let pool = Box::new(Zram::new(params, *pages)?);
                (*pages, Store::Zram { pool, timing })
            }
            SwapConfig::Disk { pages, device } => {
                let spec = device.spec(&machine.params);
                (
                    *pages,
                    Store::Disk(Box::new(Device::new(spec, machine.seed ^ 0x5_3A9))),
                )
            }
        };
        let range = |_| MachineError::Range {
            what: "swap size",
            value: format!("{pages} pages"),
            range: "at least one page",
        };
        let mut slots = SwapSlots::new(512, None).map_err(range)?;
        slots.add_area(pages, 0).map_err(range)?;
        Ok(Some(Self {
            slots,
            held: vec![Held::default(); pages as usize],
            store,
            pool_from: vec![0; zones],
            writes: VecDeque::new(),
        }))
    }

    /// Slots not in use.
    pub fn free(&self) -> u64 {
        self.slots.free()
    }

    /// Slots in use or not.
    pub fn total(&self) -> u64 {
        self.slots.total()
    }

    /// Pages of memory that compressed contents take.
    pub fn pool_pages(&self) -> u64 {
        match &self.store {
            Store::Zram { pool, .. } => pool.pool_pages(),
            Store::Disk(_) => 0,
        }
    }

    /// Forgets the compressed contents of a slot.
    pub(super) fn drop_compressed(&mut self, slot: u32) {
        if let Store::Zram { pool, .. } = &mut self.store {
            pool.free(slot);
        }
    }

    /// I/O finishes inside the call.
    pub(super) fn synchronous(&self) -> bool {
        matches!(self.store, Store::Zram { .. })
    }

    /// The version of the contents in a slot.
    pub(crate) fn version(&self, slot: u32) -> u32 {
        self.held[slot as usize].version
    }

    pub(crate) fn is_used(&self, slot: u32) -> bool {
        self.slots.is_used(SwapSlot {
            area: 0,
            offset: slot,
        })
    }

    pub(crate) fn set_faults(&mut self, plan: FaultPlan) {
        if let Store::Disk(device) = &mut self.store {
            device.set_faults(plan);
        }
    }

    /// The eviction record in a slot.
    pub(crate) fn shadow(&self, slot: u32) -> Option<Shadow> {
        let word = self.held[slot as usize].shadow;
        (word & 1 == 1).then_some(Shadow(word >> 1))
    }

    /// The memcg charged for a slot, by css id.
    pub(crate) fn owner(&self, slot: u32) -> u16 {
        self.held[slot as usize].owner
    }

    pub(crate) fn set_shadow(&mut self, slot: u32, shadow: u64) {
        self.held[slot as usize].shadow = shadow;
    }
}

/// Timing of a zram algorithm by name.
fn zram_timing(name: &str, params: &Params) -> Option<ZramTiming> {
    name.parse::<ZramAlgorithm>().ok().map(|a| a.timing(params))
}
