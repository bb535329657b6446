//! Browsers and their servers (`docs/reference/experiments.md#fairness`): the load of the experiments `fairness` and
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

use crate::experiment::{ExperimentError, Host, RunInput};
use crate::rig::Rig;
use coldset_engine::{MemcgId, NodeId};
use coldset_machine::SwapConfig;
use std::cell::RefCell;
use std::rc::Rc;
use worker::{Load, Worker};

/// Samples of the heat histogram in a run.
const SAMPLES: u64 = 64;

/// Rows of the table of costs that it charges.
pub const COSTS: &[&str] = &["script_touch_page_ns", "browser_request_ns"];

/// The machine of a load; its counters begin with `name`.
pub fn host(name: &str, shape: &Shape) -> Host {
    let pages = shape.swap_pages;
    Host {
        name: name.into(),
        cpus: shape.cpus.into(),
        nodes: shape.nodes,
        ram: Some(shape.ram_pages),
        swap: match shape.swap {
            Backing::None => SwapConfig::None,
            Backing::Zram => SwapConfig::Zram {
                pages,
                algorithm: "lz4".into(),
            },
            Backing::Disk(device) => SwapConfig::Disk { pages, device },
        },
        ..Host::default()
    }
}

/// Runs the load once on its machine.
///
/// # Errors
/// A machine that cannot be built; an operation that failed for another reason than memory.
pub fn run(input: &RunInput, name: &str, shape: &Shape) -> Result<Outcome, ExperimentError> {
    let mut rig = Rig::new(input, host(name, shape))?;
    let machine = rig.machine().clone();
    let memcgs: Vec<MemcgId> = (0..shape.memcgs)
        .map(|_| rig.memcg())
        .collect::<Result<_, _>>()?;
    let nodes: Vec<NodeId> = (0..shape.nodes).map(NodeId).collect();
    let text = machine.create_file(0, shape.text_pages);
    let until = shape.start_ns + shape.duration_ns;
    let load = Rc::new(Load {
        shape: shape.clone(),
        until,
        failure: rig.failure(),
        outcome: RefCell::new(Outcome::new(shape, input.scale)),
    });
    for (m, &memcg) in memcgs.iter().enumerate() {
        for &node in &nodes {
            let number = m as u64 * u64::from(shape.nodes) + u64::from(node.0);
            let worker = Worker::new(&machine, shape, memcg, text, input.seed, number);
            let s = load.clone();
            let mm = worker.server();
            machine.spawn_on("browser", node, mm, move |m, ctx| worker.run(m, ctx, s));
        }
    }
    for n in 1..=SAMPLES {
        let (m, s) = (machine.clone(), load.clone());
        let at = shape.start_ns + shape.duration_ns * n / SAMPLES;
        machine.sim.call_at(at, move || {
            s.outcome.borrow_mut().sample(&m.world().engine, at);
        });
    }
    let sim = machine.sim.clone();
    machine.sim.call_at(until, move || sim.stop());
    rig.run_or_oom("browser worker")?;
    let mut outcome = load.outcome.replace(Outcome::new(shape, input.scale));
    outcome.count(&machine);
    outcome.sampled(rig.samples());
    Ok(outcome)
}
