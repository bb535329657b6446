//! The zones of a machine's memory (`docs/rules/zones.md`).

use crate::config::{MachineConfig, MachineError, ZoneSpec};
use crate::vm::pcp::HIGH_BATCHES;
use coldset_engine::zone::{
    set_watermarks, CpuLists, WatermarkConfig, WatermarkError, Zone, ZoneClass,
};
use coldset_engine::{NodeId, Pages};

/// Classes of several zones, by position. Nothing but their order matters.
const CLASSES: [ZoneClass; 4] = [
    ZoneClass::Dma,
    ZoneClass::Dma32,
    ZoneClass::Normal,
    ZoneClass::Movable,
];

/// Pages that may move at once between a zone and a CPU's list.
const BATCHES: std::ops::RangeInclusive<u64> = 1..=1 << 20;

/// Zones of a machine with so many nodes and so much memory, all of it free.
pub(crate) fn zones(
    cfg: &MachineConfig,
    nodes: u32,
    ram: Pages,
) -> Result<Vec<Zone>, MachineError> {
    let lists = |batch: Option<u64>| match cfg.cpu_lists {
        true => {
            let batch = batch.unwrap_or(cfg.params.pcp_batch_pages);
            CpuLists::new(batch, HIGH_BATCHES * batch * u64::from(cfg.cpus))
        }
        false => CpuLists::default(),
    };
    let zones = match cfg.zones.as_slice() {
        [] => usual(cfg, nodes, ram, lists)?,
        specs => given(specs, nodes, ram, lists)?,
    };
    // A task's order of them names each by a byte.
    if zones.len() > usize::from(u8::MAX) {
        return Err(MachineError::Range {
            what: "zones",
            value: zones.len().to_string(),
            range: "at most 255 of all nodes",
        });
    }
    Ok(zones)
}

/// One of each node, with the marks that follow from its size.
fn usual(
    cfg: &MachineConfig,
    nodes: u32,
    ram: Pages,
    lists: impl Fn(Option<u64>) -> CpuLists,
) -> Result<Vec<Zone>, MachineError> {
    let of_node = |n| Zone {
        lists: lists(None),
        ..Zone::new(NodeId(n), ZoneClass::Normal, ram / u64::from(nodes))
    };
    let mut zones: Vec<Zone> = (0..nodes).map(of_node).collect();
    let marks = WatermarkConfig {
        scale_factor: cfg.watermark_scale_factor,
        ..WatermarkConfig::default()
    };
    set_watermarks(&mut zones, &marks).map_err(|e| match e {
        WatermarkError::Scale(value) => MachineError::Range {
            what: "watermark_scale_factor",
            value: value.to_string(),
            range: "1 to 3000 ten-thousandths",
        },
        e => MachineError::Range {
            what: "RAM",
            value: format!("{ram} pages ({e})"),
            range: "more memory",
        },
    })?;
    Ok(zones)
}

/// Zones of the node that has most.
pub(crate) fn zones_a_node(specs: &[ZoneSpec]) -> u8 {
    let of_node = specs.chunk_by(|a, b| a.node == b.node).map(<[_]>::len);
    of_node.max().unwrap_or(1) as u8
}

fn given(
    specs: &[ZoneSpec],
    nodes: u32,
    ram: Pages,
    lists: impl Fn(Option<u64>) -> CpuLists,
) -> Result<Vec<Zone>, MachineError> {
    let all: Pages = specs.iter().map(|s| s.pages).sum();
    let most = usize::from(zones_a_node(specs));
    let by_node: Vec<&[ZoneSpec]> = specs.chunk_by(|a, b| a.node == b.node).collect();
    let each_once = by_node.iter().map(|of_node| of_node[0].node).eq(0..nodes);
    if most > CLASSES.len() || !each_once || all != ram {
        return Err(MachineError::Range {
            what: "zones",
            value: format!("{} with {all} pages on {nodes} nodes", specs.len()),
            range: "at most 4 of each node, node by node, with all of its memory",
        });
    }
    let mut zones = Vec::with_capacity(most * by_node.len());
    for of_node in by_node {
        // A node that has fewer has the highest.
        let lacks = most - of_node.len();
        for (i, class) in CLASSES.into_iter().enumerate().take(most) {
            let class = if most == 1 { ZoneClass::Normal } else { class };
            let node = NodeId(of_node[0].node);
            let Some(spec) = i.checked_sub(lacks).map(|i| of_node[i]) else {
                let empty = Zone::new(node, class, 0);
                zones.push(Zone {
                    lists: lists(None),
                    ..empty
                });
                continue;
            };
            // A zone may have less than its marks: others have what it lacks.
            spec.marks.check(ram)?;
            if let Some(batch) = spec.batch.filter(|n| !BATCHES.contains(n)) {
                return Err(MachineError::Range {
                    what: "batch of a zone's CPU lists",
                    value: batch.to_string(),
                    range: "1 to 1,048,576 pages",
                });
            }
            let mut z = Zone::new(node, class, spec.pages);
            (z.min, z.low, z.high) = (spec.marks.min, spec.marks.low, spec.marks.high);
            z.lowmem_reserve[class.idx() + 1..].fill(spec.reserve);
            z.lists = lists(spec.batch);
            zones.push(z);
        }
    }
    Ok(zones)
}
