//! Machines of a workload.

use super::fields::{Fields, Item};
use super::WorkloadError;
use crate::experiment::{DirtySettings, Host};
use crate::runner::SwapSpec;
use coldset_machine::device::DeviceKind;
use coldset_machine::{FileSystem, ReadAhead, SwapConfig};

/// A machine, and what it is called.
#[derive(Clone, Debug)]
pub(super) struct MachineSpec {
    /// Empty: it has no name.
    pub name: String,
    /// What it is.
    pub host: Host,
}

/// Most slots of a swap area.
const SLOTS: u64 = 1 << 30;

fn device(item: &Item<'_>) -> Result<DeviceKind, WorkloadError> {
    let kinds = DeviceKind::ALL.map(DeviceKind::name);
    let device = item.text()?.parse();
    device.map_err(|_| item.unknown("device", kinds))
}

/// `none`, `zram:SIZE[:ALGORITHM]` or `DEVICE:SIZE`; the size shrinks with the scale.
fn swap(item: &Item<'_>) -> Result<SwapConfig, WorkloadError> {
    let said = |e: crate::runner::RunnerError| item.error(e.to_string());
    let spec = SwapSpec::parse(&item.text()?).map_err(said)?;
    let scaled = |pages: u32| match u64::from(pages) / item.setting.scale {
        n @ 1..SLOTS => Ok(n as u32),
        _ => Err(item.error("nothing is left of the swap area at this scale; make it larger")),
    };
    Ok(match spec.config(SLOTS).map_err(said)? {
        SwapConfig::None => SwapConfig::None,
        SwapConfig::Zram { pages, algorithm } => SwapConfig::Zram {
            pages: scaled(pages)?,
            algorithm,
        },
        SwapConfig::Disk { pages, device } => SwapConfig::Disk {
            pages: scaled(pages)?,
            device,
        },
    })
}

fn one(fields: &Fields<'_>) -> Result<MachineSpec, WorkloadError> {
    let name = fields.read("name", Item::name)?.unwrap_or_default();
    let default = Host::default();
    let percent = |key: &str| fields.read(key, |item| item.number(0..=100));
    let devices = fields.read("devices", |item| {
        let all: Result<Vec<_>, _> = item.list()?.iter().map(device).collect();
        match all? {
            none if none.is_empty() => Err(item.error("name at least one device")),
            some => Ok(some),
        }
    })?;
    let host = Host {
        name: match name.as_str() {
            "" => String::new(),
            name => format!("{name}."),
        },
        cpus: fields.number("cpus", 1..=256, CPUS)?,
        nodes: fields.number("nodes", 1..=8, 1)? as u32,
        ram: fields.read("ram", |item| item.pages(1024))?,
        swap: fields.read("swap", swap)?.unwrap_or(SwapConfig::None),
        devices: devices.unwrap_or(default.devices),
        swappiness: fields.number("swappiness", 0..=200, default.swappiness.into())? as u16,
        page_cluster: fields.number("page_cluster", 0..=8, default.page_cluster.into())? as u32,
        read_ahead: match fields.read("read_ahead_kb", |item| item.number(0..=65_536))? {
            Some(kb) => ReadAhead::Windows { kb: kb as u32 },
            None => default.read_ahead,
        },
        file_system: fields
            .read("file_system", |item| {
                item.one_of(&FileSystem::ALL.map(|f| (f.name(), f)))
            })?
            .unwrap_or_default(),
        large_folios: fields.number("large_folios", 0..=9, 0)? as u8,
        cgroup_v2: fields
            .read("cgroup", |item| item.one_of(&[("v2", true), ("v1", false)]))?
            .unwrap_or(true),
        dirty: DirtySettings {
            ratio: percent("dirty_ratio")?,
            background_ratio: percent("dirty_background_ratio")?,
            ..DirtySettings::default()
        },
        dirty_balance: fields.flag("dirty_balance", true)?,
        memcg_writeback: fields.flag("memcg_writeback", true)?,
        stop_at_oom: fields.flag("stop_at_oom", false)?,
        ..Host::default()
    };
    Ok(MachineSpec { name, host })
}

/// CPUs of a machine that says nothing about them.
const CPUS: u64 = 4;

/// All machines; one if none is described.
pub(super) fn read(top: &Fields<'_>) -> Result<Vec<MachineSpec>, WorkloadError> {
    let tables = top.tables("machines")?;
    let mut all: Vec<MachineSpec> = Vec::new();
    for fields in &tables {
        let machine = one(fields)?;
        if all.iter().any(|m| m.name == machine.name) {
            return Err(fields.error(match machine.name.as_str() {
                "" => "a second machine without a name; give it one".to_owned(),
                name => format!("a second machine called '{name}'"),
            }));
        }
        all.push(machine);
    }
    if all.is_empty() {
        let host = Host {
            cpus: CPUS,
            ..Host::default()
        };
        let name = String::new();
        all.push(MachineSpec { name, host });
    }
    Ok(all)
}
