//! Memory cgroups, files and anonymous memory of a workload.

use super::fields::{Fields, Item};
use super::machine::MachineSpec;
use super::WorkloadError;
use coldset_machine::Advice;
use coldset_machine::MappingFlags;

/// A memory cgroup; sizes in pages.
#[derive(Clone, Debug)]
pub(super) struct Cgroup {
    pub name: String,
    pub on: On,
    pub parent: Option<String>,
    pub limit: Option<u64>,
    pub high: Option<u64>,
    pub low: Option<u64>,
    pub min: Option<u64>,
    pub swap_limit: Option<u64>,
}

/// Something with pages.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub name: String,
    pub on: On,
    pub pages: u32,
    pub kind: Kind,
    /// Of its mappings.
    pub flags: MappingFlags,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file on the device of this number; `own`: each process has one.
    File {
        device: usize,
        own: bool,
        advice: Advice,
    },
    /// Anonymous memory.
    Anon(Fill),
}

/// What anonymous pages hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Mixed,
    Same,
    Random,
}

/// The only machine that has something; none: all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct On(Option<String>);

impl On {
    /// Reads `machine = "name"`.
    pub fn read(fields: &Fields<'_>, machines: &[MachineSpec]) -> Result<Self, WorkloadError> {
        let name = fields.read("machine", |item| {
            let name = item.text()?;
            match machines.iter().any(|m| m.name == name && !name.is_empty()) {
                true => Ok(name),
                false => {
                    let known = machines.iter().map(|m| m.name.as_str());
                    Err(item.unknown("machine", known.filter(|n| !n.is_empty())))
                }
            }
        })?;
        Ok(Self(name))
    }

    /// That a machine has it.
    pub fn has(&self, machine: &str) -> bool {
        self.0.as_deref().is_none_or(|own| own == machine)
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.is_none() || other.0.is_none() || self.0 == other.0
    }
}

/// That no other of the name is on the same machine.
fn single<'a>(
    fields: &Fields<'_>,
    name: &str,
    on: &On,
    mut others: impl Iterator<Item = (&'a str, &'a On)>,
) -> Result<(), WorkloadError> {
    match others.any(|(other, there)| other == name && there.meets(on)) {
        true => Err(fields.error(format!("a second one is called '{name}'"))),
        false => Ok(()),
    }
}

/// The cgroups, those above before those below.
pub(super) fn cgroups(
    top: &Fields<'_>,
    machines: &[MachineSpec],
) -> Result<Vec<Cgroup>, WorkloadError> {
    let mut all: Vec<Cgroup> = Vec::new();
    for fields in &top.tables("cgroups")? {
        let name = fields.need("name")?.name()?;
        let on = On::read(fields, machines)?;
        single(
            fields,
            &name,
            &on,
            all.iter().map(|c| (c.name.as_str(), &c.on)),
        )?;
        let parent = fields.read("parent", |item| {
            let parent = item.text()?;
            let above = all.iter().filter(|c| c.on.meets(&on));
            match above.clone().any(|c| c.name == parent) {
                true => Ok(parent),
                false => Err(item.unknown("cgroup above", above.map(|c| c.name.as_str()))),
            }
        })?;
        let size = |key: &str, least| fields.read(key, |item: &Item<'_>| item.pages(least));
        let limit = size("limit", 16)?;
        // The kernel would take it. Side by side in one table, one of the two is a mistake; a `low` above the limit is common.
        fields.read("min", |item| {
            match item.pages(0)? > limit.unwrap_or(u64::MAX) {
                true => {
                    Err(item.error("more than the cgroup's limit; write a smaller size, or none"))
                }
                false => Ok(()),
            }
        })?;
        all.push(Cgroup {
            parent,
            limit,
            high: size("high", 16)?,
            low: size("low", 0)?,
            min: size("min", 0)?,
            swap_limit: size("swap_limit", 0)?,
            name,
            on,
        });
    }
    Ok(all)
}

/// The files, then the anonymous memory.
pub(super) fn regions(
    top: &Fields<'_>,
    machines: &[MachineSpec],
) -> Result<Vec<Region>, WorkloadError> {
    let mut all: Vec<Region> = Vec::new();
    for (list, read) in [("files", file as Read), ("memory", anon as Read)] {
        for fields in &top.tables(list)? {
            let name = fields.need("name")?.name()?;
            let on = On::read(fields, machines)?;
            single(
                fields,
                &name,
                &on,
                all.iter().map(|r| (r.name.as_str(), &r.on)),
            )?;
            let (kind, flags) = read(fields, machines, &on)?;
            all.push(Region {
                pages: fields.need("size")?.pages(1)? as u32,
                name,
                on,
                kind,
                flags,
            });
        }
    }
    Ok(all)
}

type Read = fn(&Fields<'_>, &[MachineSpec], &On) -> Result<(Kind, MappingFlags), WorkloadError>;

fn file(
    fields: &Fields<'_>,
    machines: &[MachineSpec],
    on: &On,
) -> Result<(Kind, MappingFlags), WorkloadError> {
    let random = MappingFlags::NO_RECENCY;
    let advice = [
        ("normal", (Advice::Normal, MappingFlags::empty())),
        ("random", (Advice::Random, random)),
        (
            "sequential",
            (Advice::Sequential, random | MappingFlags::SEQUENTIAL),
        ),
    ];
    let (advice, mut flags) = fields
        .read("advice", |item| item.one_of(&advice))?
        .unwrap_or_default();
    if fields.flag("exec", false)? {
        flags |= MappingFlags::EXEC;
    }
    let device = fields.read("device", |item| {
        let name = item.text()?;
        let mut at = None;
        for machine in machines.iter().filter(|m| on.has(&m.name)) {
            let devices = || machine.host.devices.iter().map(|d| d.name());
            let here = devices().position(|d| d == name);
            let here = here.ok_or_else(|| item.unknown("device of its machine", devices()))?;
            if at.is_some_and(|other| other != here) {
                return Err(item.error("list the devices of all machines in the same order"));
            }
            at = Some(here);
        }
        Ok(at.unwrap_or(0))
    })?;
    let kind = Kind::File {
        device: device.unwrap_or(0),
        own: fields.flag("own", false)?,
        advice,
    };
    Ok((kind, flags))
}

fn anon(
    fields: &Fields<'_>,
    _: &[MachineSpec],
    _: &On,
) -> Result<(Kind, MappingFlags), WorkloadError> {
    let fills = [
        ("mixed", Fill::Mixed),
        ("same", Fill::Same),
        ("random", Fill::Random),
    ];
    let fill = fields.read("fill", |item| item.one_of(&fills))?;
    let flags = match fields.flag("locked", false)? {
        true => MappingFlags::LOCKED,
        false => MappingFlags::empty(),
    };
    Ok((Kind::Anon(fill.unwrap_or(Fill::Mixed)), flags))
}
