//! Throttling OOM (`docs/reference/experiments.md#throttling-oom`): one program writes a file half as large again as its memcg,
//! to a device that needs a second for each write. Nobody may be killed: the pages become clean if
//! only reclaim waits for them.

use crate::draw::Stream;
use crate::experiment::{
    Deviation, Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput, MIB,
};
use crate::rig::Rig;
use coldset_engine::Counter;
use coldset_machine::device::DeviceKind;
use coldset_machine::sim::{Affinity, TimeClass};
use coldset_report::{Band, Claim, RunResult};
use std::cell::Cell;
use std::rc::Rc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "throttling-oom",
    doc: "dd into a 128 MiB memcg on a device with 1000 ms a write",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[CLASSIC],
    effort: Effort::Fixed("192 MiB"),
    quick: Quick::WHOLE,
    scale: 1,
    params: PARAMS,
    costs: &[],
    deviations: DEVIATIONS,
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "written_mib",
        "freed_per_1000_scanned",
        "throttle_waits",
        "throttle_writeback",
        "throttle_congested",
        "flusher_wakeups",
        "dirty_moved_up",
        "dirty_reactivated",
        "unqueued_dirty",
        "writeback_seen",
        "limit_reclaim",
        "zero_progress",
    ],
};

/// The third column of the published table.
const CLASSIC: &str = "classic";

/// Most blocks: the file may have 4 TiB.
const BLOCKS_MAX: u64 = 1 << 22;

/// Parameters. The scale is fixed at 1.
const PARAMS: &[ParamDoc] = &[
    ParamDoc::new("limit_mib", "128", "limit of the memcg, MiB"),
    ParamDoc::new("blocks", "192", "blocks of 1 MiB to write").up_to(BLOCKS_MAX),
    ParamDoc::new(
        "dirty_balance",
        "off",
        "throttle the writer at the dirty limits (on, off)",
    ),
    ParamDoc::new(
        "cgroup",
        "v2",
        "hierarchy of the memcg: v2 or v1 (no writeback by memcg)",
    ),
    ParamDoc::new("ram_mib", "131072", "RAM of the host, MiB"),
    ParamDoc::new("cpus", "4", "CPUs"),
    ParamDoc::new(
        "start_ms",
        "2000",
        "the program starts up to so much later, ms: nothing else is random here",
    ),
];

/// The run without the delay, to see that nothing else is in the way.
const CONTROL: &str = "nodelay.";

const DEVIATIONS: &[Deviation] = &[
    Deviation {
        name: "timer_hz",
        value: 250,
        machine: "",
        why: "a sleep for congestion is one tick; at 1,000 classic is killed",
        source: "not published; a usual setting of distributions",
    },
    Deviation {
        name: "delay_write_ns",
        value: 0,
        machine: CONTROL,
        why: "the control: the same drive without the delay",
        source: "control",
    },
];

fn host(input: &RunInput, name: &str) -> Result<Host, ExperimentError> {
    let n = |name| input.number(name);
    let versions = [("v2", true), ("v1", false)];
    let switch = [("on", true), ("off", false)];
    Ok(Host {
        name: name.into(),
        cpus: n("cpus")?,
        ram: Some(n("ram_mib")? * MIB),
        devices: vec![DeviceKind::Delayed],
        cgroup_v2: input.word("cgroup", &versions, "v2 or v1")?,
        dirty_balance: input.word("dirty_balance", &switch, "on or off")?,
        stop_at_oom: true,
        ..Host::default()
    })
}

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    ["", CONTROL]
        .map(|name| host(input, name))
        .into_iter()
        .collect()
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    if input.scale != 1 {
        return Err(ExperimentError::Unscalable {
            scale: input.scale,
            why: "the machine and each write of the device have one size",
        });
    }
    let mut r = RunResult::new(&input.variant, input.seed);
    for host in hosts(input)? {
        run_one(input, host, &mut r)?;
    }
    Ok(r)
}

/// One run of the program.
fn run_one(input: &RunInput, host: Host, r: &mut RunResult) -> Result<(), ExperimentError> {
    let n = |name| input.number(name);
    let prefix = host.name.clone();
    let mut rig = Rig::new(input, host)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(n("limit_mib")? * MIB)?;
    let blocks = n("blocks")?;
    let file = machine.create_file(0, (blocks * MIB) as u32);
    let mm = machine.create_mm(memcg);
    let ms = 1_000_000;
    let latest = (n("start_ms")? * ms).max(1);
    let begin = Stream::new(input.seed, "throttling-oom", 0).below(latest);
    let written = Rc::new(Cell::new(0));
    let (done, failure) = (written.clone(), rig.failure());
    machine.spawn("dd", Affinity::Any, mm, move |m, ctx| async move {
        ctx.sleep_until(TimeClass::Idle, begin).await;
        for block in 0..blocks {
            let page = (block * MIB) as u32;
            if let Err(e) = m.write(&ctx, file, page, MIB as u32, true).await {
                failure.note(e);
                break;
            }
            done.set(done.get() + 1);
        }
        if let Some(t) = ctx.task() {
            t.settle().await;
        }
        m.sim.stop();
    });
    rig.run_or_oom("dd")?;
    let counts = rig.counts(memcg);
    let mut set = |name: &str, value: u64| r.set(format!("{prefix}{name}"), value);
    set("written_mib", written.get());
    set("finished", u64::from(written.get() == blocks));
    set("oom_kill", counts.get(Counter::OomKill));
    set("virtual_ms", rig.now().saturating_sub(begin) / ms);
    counts.put(&prefix, COUNTED, r);
    // What the scan looked at: isolated pages, and those it only moved.
    let scanned = counts.scanned() + counts.get(Counter::Pgrefill);
    // Not scanned for each that was freed: a variant that is killed frees none.
    r.set(
        format!("{prefix}freed_per_1000_scanned"),
        1000.0 * counts.stolen() as f64 / scanned.max(1) as f64,
    );
    rig.put_samples(&prefix, r);
    Ok(())
}

const COUNTED: &[Counter] = &[
    Counter::ThrottleWaits,
    Counter::ThrottleWriteback,
    Counter::ThrottleCongested,
    Counter::FlusherWakeups,
    Counter::DirtyMovedUp,
    Counter::DirtyReactivated,
    Counter::UnqueuedDirty,
    Counter::WritebackSeen,
    Counter::Pgactivate,
    Counter::Pgrefill,
    Counter::Pgrotated,
    Counter::EventsMax,
    Counter::LimitReclaim,
    Counter::ZeroProgress,
    Counter::AgingRuns,
];

/// Acceptance rows (`docs/reference/experiments.md#throttling-oom`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let mut rows = vec![
        Claim::value(format!("{before} is killed"), "oom_kill", before)
            .always(Band::exactly(1.0))
            .published("killed at once"),
        Claim::value(format!("written by {before}"), "written_mib", before)
            .always(Band::between(110.0, 140.0))
            .unit("MiB"),
        Claim::value(
            format!("{before} never sleeps in reclaim"),
            "throttle_waits",
            before,
        )
        .always(Band::exactly(0.0)),
    ];
    for v in [CLASSIC, after] {
        rows.push(
            Claim::value(format!("{v} writes all of it"), "finished", v)
                .always(Band::exactly(1.0))
                .published("completes"),
        );
        rows.push(
            Claim::value(format!("{v} sleeps in reclaim"), "throttle_waits", v)
                .always(Band::at_least(1.0)),
        );
        rows.push(
            Claim::value(format!("time, {v}"), "virtual_ms", v)
                .always(Band::between(1000.0, 30_000.0))
                .unit("ms"),
        );
    }
    rows.push(
        Claim::ratio(
            format!("freed per 1,000 pages scanned, {before} / {after}"),
            "freed_per_1000_scanned",
            after,
            before,
        )
        .within_band(Band::at_most(0.05)),
    );
    for v in [before, CLASSIC, after] {
        rows.push(
            Claim::value(
                format!("{v} writes all of it without the delay"),
                "nodelay.finished",
                v,
            )
            .always(Band::exactly(1.0)),
        );
    }
    rows
}
