//! Whether a row of the table of costs can have an effect on a machine at all.

use crate::experiment::{Host, RunInput};
use crate::experiments::EXPERIMENTS;
use coldset_machine::device::{DeviceKind, ZramAlgorithm};
use coldset_machine::SwapConfig;

/// Why `row` has no effect on any of the machines of a run; none if it has on one of them.
#[must_use]
pub(super) fn idle(row: &str, input: &RunInput, hosts: &[Host]) -> Option<String> {
    let mut why = None;
    for host in hosts {
        why = Some(idle_on(row, input, host)?);
    }
    why
}

fn idle_on(row: &str, input: &RunInput, host: &Host) -> Option<String> {
    if input.charged.contains(&row) {
        return None;
    }
    let params = input.costs_on(&host.name);
    let info = params.describe().into_iter().find(|i| i.name == row)?;
    if info.load {
        let by = EXPERIMENTS.iter().filter(|e| e.costs.contains(&row));
        let by: Vec<&str> = by.map(|e| e.name).collect();
        return Some(format!("only the load of {} charges it", by.join(", ")));
    }
    let mut changed = params.clone();
    if changed.set(row, info.value + 1).is_err() {
        changed.set(row, info.value.saturating_sub(1)).ok()?;
    }
    let devices: Vec<DeviceKind> = host
        .devices
        .iter()
        .chain(swap_device(host))
        .copied()
        .collect();
    let is_of = |d: &DeviceKind| d.spec(&params) != d.spec(&changed);
    if DeviceKind::ALL.iter().any(is_of) {
        let names: Vec<&str> = devices.iter().map(|d| d.name()).collect();
        let why = format!("its devices are {}", names.join(", "));
        return (!devices.iter().any(is_of)).then_some(why);
    }
    let is_of = |a: &ZramAlgorithm| a.timing(&params) != a.timing(&changed);
    if ZramAlgorithm::ALL.iter().any(is_of) {
        return match &host.swap {
            SwapConfig::Zram { algorithm, .. } => {
                let ours = algorithm.parse().is_ok_and(|a| is_of(&a));
                (!ours).then(|| format!("its zram compresses with {algorithm}"))
            }
            _ => Some("it has no zram".into()),
        };
    }
    let off = match row {
        "kernel_base_page_ppm" | "index_node_page_ppm" | "written_page_kernel_ppm" => {
            (params.kernel_memory_enabled == 0).then_some("kernel memory is not charged there")
        }
        "kswapd_wake_ns" => host
            .ram
            .is_none()
            .then_some("without an end of RAM kswapd sleeps"),
        "swap_slot_scan_ns" | "dev_queue_requests" => swap_device(host)
            .is_none()
            .then_some("it has no swap on a device"),
        _ => None,
    };
    off.map(str::to_owned)
}

fn swap_device(host: &Host) -> Option<&DeviceKind> {
    match &host.swap {
        SwapConfig::Disk { device, .. } => Some(device),
        _ => None,
    }
}
