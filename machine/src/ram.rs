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

/// Zones of a machine with so many nodes and so much memory, all of it free.
pub(crate) fn zones(
    cfg: &MachineConfig,
    nodes: u32,
    ram: Pages,
) -> Result<Vec<Zone>, MachineError> {
    let mut zones = match cfg.zones.as_slice() {
        [] => usual(cfg, nodes, ram)?,
        specs => given(specs, nodes, ram)?,
    };
    if cfg.cpu_lists {
        let batch = cfg.params.pcp_batch_pages;
        for z in &mut zones {
            z.lists = CpuLists::new(batch, HIGH_BATCHES * batch * u64::from(cfg.cpus));
        }
    }
    Ok(zones)
}

/// One of each node, with the marks that follow from its size.
fn usual(cfg: &MachineConfig, nodes: u32, ram: Pages) -> Result<Vec<Zone>, MachineError> {
    let mut zones: Vec<Zone> = (0..nodes)
        .map(|n| Zone::new(NodeId(n), ZoneClass::Normal, ram / u64::from(nodes)))
        .collect();
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

fn given(specs: &[ZoneSpec], nodes: u32, ram: Pages) -> Result<Vec<Zone>, MachineError> {
    let all: Pages = specs.iter().map(|s| s.pages).sum();
    if specs.len() > CLASSES.len() || nodes > 1 || all != ram {
        return Err(MachineError::Range {
            what: "zones",
            value: format!("{} with {all} pages on {nodes} nodes", specs.len()),
            range: "at most 4, of one node, with all of its memory",
        });
    }
    let alone = specs.len() == 1;
    let each = specs.iter().zip(CLASSES).map(|(spec, class)| {
        // A zone may have less than its marks: others have what it lacks.
        spec.marks.check(ram)?;
        let class = if alone { ZoneClass::Normal } else { class };
        let mut z = Zone::new(NodeId(0), class, spec.pages);
        (z.min, z.low, z.high) = (spec.marks.min, spec.marks.low, spec.marks.high);
        z.lowmem_reserve[class.idx() + 1..].fill(spec.reserve);
        Ok(z)
    });
    each.collect()
}
