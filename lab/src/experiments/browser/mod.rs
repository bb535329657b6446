//! Browsers and their servers (`workloads.md` 3.2): the load of the experiments `fairness` and
//! `memcg-heat`.
//!
//! A worker is a server and a browser in the same memcg, bound to the same node. The browser asks, the
//! server writes through one of its buffers, the browser renders; then it asks again at once. Memcgs
//! have no limit: the pressure is that of the whole machine. Every worker does the same, so whatever
//! inequality there is comes from reclaim.

mod outcome;
pub mod params;
mod shape;
mod worker;

pub use outcome::Outcome;
pub use shape::{Backing, Fill, Shape};

use super::{ExperimentError, RunInput};
use coldset_engine::{MemcgId, NodeId, Scale};
use coldset_machine::device::DeviceKind;
use coldset_machine::{MachineConfig, MachineRun, OpError, SwapConfig};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use worker::{Shared, Worker};

/// Samples of the heat histogram in a run.
const SAMPLES: u64 = 64;

/// Runs the load once.
///
/// # Errors
/// A machine that cannot be built; an operation that failed for another reason than memory.
pub fn run(input: &RunInput, shape: &Shape) -> Result<Outcome, ExperimentError> {
    let mut run = MachineRun::new(&config(input, shape))?;
    let machine = run.machine.clone();
    let memcgs: Vec<MemcgId> = {
        let mut w = machine.world_mut();
        (0..shape.memcgs)
            .map(|_| w.engine.memcg_create(MemcgId::ROOT))
            .collect::<Result<_, _>>()?
    };
    let nodes: Vec<NodeId> = (0..shape.nodes).map(NodeId).collect();
    let text = machine.create_file(0, shape.text_pages);
    let until = shape.start_ns + shape.duration_ns;
    let shared = Rc::new(Shared {
        shape: shape.clone(),
        until,
        failure: Cell::new(None),
        outcome: RefCell::new(Outcome::new(shape, input.scale)),
    });
    for (m, &memcg) in memcgs.iter().enumerate() {
        for &node in &nodes {
            let number = m as u64 * u64::from(shape.nodes) + u64::from(node.0);
            let worker = Worker::new(&machine, shape, memcg, text, input.seed, number);
            let s = shared.clone();
            let mm = worker.server();
            machine.spawn_on("browser", node, mm, move |m, ctx| worker.run(m, ctx, s));
        }
    }
    for n in 1..=SAMPLES {
        let (m, s) = (machine.clone(), shared.clone());
        let at = shape.start_ns + shape.duration_ns * n / SAMPLES;
        machine.sim.call_at(at, move || {
            s.outcome.borrow_mut().sample(&m.world().engine, at);
        });
    }
    let sim = machine.sim.clone();
    machine.sim.call_at(until, move || sim.stop());
    run.executor.run();
    match shared.failure.get() {
        Some(error) if error != OpError::NoMemory => {
            return Err(ExperimentError::Op {
                what: "browser worker",
                error,
            })
        }
        _ => {}
    }
    let mut outcome = shared.outcome.replace(Outcome::new(shape, input.scale));
    outcome.count(&machine.world().engine);
    outcome.sampled(run.samples());
    Ok(outcome)
}

fn config(input: &RunInput, shape: &Shape) -> MachineConfig {
    let mut cfg = MachineConfig::new(input.switches.clone());
    cfg.cpus = shape.cpus;
    cfg.params = input.costs.clone();
    cfg.sample_points = input.sample_points;
    cfg.engine.nr_nodes = shape.nodes;
    cfg.engine.scale = Scale::one_over(input.scale);
    cfg.engine.time_scale = input.scale;
    cfg.engine.fold_interval = (cfg.engine.fold_interval / input.scale).max(1);
    cfg.engine.fold_phase = cfg.engine.fold_interval;
    cfg.engine.seed = input.seed;
    cfg.seed = input.seed;
    cfg.devices = vec![DeviceKind::Nvme];
    cfg.ram = Some(shape.ram_pages);
    cfg.swap = match shape.swap {
        Backing::None => SwapConfig::None,
        Backing::Zram => SwapConfig::Zram {
            pages: shape.swap_pages,
            algorithm: "lz4".into(),
        },
        Backing::Disk => SwapConfig::Disk {
            pages: shape.swap_pages,
            device: DeviceKind::NvmeSwap,
        },
    };
    cfg
}
