//! Throttling OOM (`workloads.md` 5): one program writes a file half as large again as its memcg,
//! to a device that needs a second for each write. Nobody may be killed: the pages become clean if
//! only reclaim waits for them.

use super::{Experiment, ExperimentError, ParamDoc, RunInput};
use crate::draw::Stream;
use crate::report::{Band, Claim, RunResult};
use coldset_engine::memcg::CounterKind;
use coldset_engine::{Counter, MemcgId};
use coldset_machine::device::DeviceKind;
use coldset_machine::sim::{Affinity, TimeClass};
use coldset_machine::{MachineConfig, MachineRun, OpError};
use std::cell::Cell;
use std::rc::Rc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "throttling-oom",
    doc: "dd into a 128 MiB memcg on a device with 1000 ms a write",
    section: "workloads.md 5",
    before: "base",
    after: "v5",
    extra: &[CLASSIC],
    scale: 1,
    params: PARAMS,
    run,
    claims,
    mechanism: &[
        "written_mib",
        "scanned_per_freed",
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

/// Parameters. The scale is fixed at 1.
const PARAMS: &[ParamDoc] = &[
    ParamDoc {
        name: "limit_mib",
        default: "128",
        doc: "limit of the memcg, MiB",
    },
    ParamDoc {
        name: "blocks",
        default: "192",
        doc: "blocks of 1 MiB to write",
    },
    ParamDoc {
        name: "write_delay_ms",
        default: "1000",
        doc: "time each write of the device takes, ms",
    },
    ParamDoc {
        name: "read_delay_ms",
        default: "0",
        doc: "time each read of the device takes, ms",
    },
    ParamDoc {
        name: "request_kib",
        default: "1024",
        doc: "largest request, KiB",
    },
    ParamDoc {
        name: "dirty_balance",
        default: "off",
        doc: "throttle the writer at the dirty limits (on, off)",
    },
    ParamDoc {
        name: "cgroup",
        default: "v2",
        doc: "hierarchy of the memcg: v2 or v1 (no writeback by memcg)",
    },
    ParamDoc {
        name: "hz",
        default: "250",
        doc:
            "timer ticks a second: a sleep for congestion is one tick (not published; 500 and more \
              kill every variant, `writeback.md` 9)",
    },
    ParamDoc {
        name: "ram_mib",
        default: "131072",
        doc: "RAM of the host, MiB",
    },
    ParamDoc {
        name: "cpus",
        default: "4",
        doc: "CPUs",
    },
];

/// Pages of a MiB.
const MIB: u64 = 256;
/// The program starts up to this much later, ns: nothing else is random here.
const START_NS: u64 = 2_000_000_000;

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    if input.scale != 1 {
        return Err(ExperimentError::Scale {
            scale: input.scale,
            what: "the file against one write of the device",
            left: 0,
            max: 1,
        });
    }
    let mut r = RunResult::new(&input.variant, input.seed);
    let delay = input.number(PARAMS, "write_delay_ms")?;
    run_one(input, "", delay, &mut r)?;
    run_one(input, "nodelay.", 0, &mut r)?;
    Ok(r)
}

/// One run of the program; `delay` of a write in ms.
fn run_one(
    input: &RunInput,
    prefix: &str,
    delay: u64,
    r: &mut RunResult,
) -> Result<(), ExperimentError> {
    let n = |name| input.number(PARAMS, name);
    let word = |name: &str, yes: &str, no: &str, expected| {
        let text = input.text(PARAMS, name);
        match text {
            t if t == yes => Ok(true),
            t if t == no => Ok(false),
            other => Err(ExperimentError::Param {
                name: name.into(),
                value: other.into(),
                expected,
            }),
        }
    };
    let ms = 1_000_000;
    let mut cfg = MachineConfig::new(input.switches.clone());
    cfg.cpus = n("cpus")?.clamp(1, 256) as u16;
    cfg.params = input.costs.clone();
    cfg.sample_points = input.sample_points;
    cfg.params.delay_write_ns = delay * ms;
    cfg.params.delay_read_ns = n("read_delay_ms")? * ms;
    cfg.params.nvme_max_req_bytes = n("request_kib")?.max(4) * 1024;
    cfg.engine.cgroup_v2 = word("cgroup", "v2", "v1", "v2 or v1")?;
    cfg.params.timer_hz = n("hz")?.clamp(1, 10_000);
    cfg.engine.hz = cfg.params.timer_hz as u32;
    cfg.dirty.hz = cfg.params.timer_hz;
    cfg.engine.seed = input.seed;
    cfg.seed = input.seed;
    cfg.devices = vec![DeviceKind::Delayed];
    cfg.ram = Some(n("ram_mib")? * MIB);
    cfg.dirty_balance = word("dirty_balance", "on", "off", "on or off")?;
    cfg.stop_at_oom = true;
    let mut run = MachineRun::new(&cfg)?;
    let machine = run.machine.clone();
    let memcg = {
        let mut w = machine.world_mut();
        let memcg = w.engine.memcg_create(MemcgId::ROOT)?;
        let limit = n("limit_mib")? * MIB;
        w.engine.memcgs.set_max(memcg, CounterKind::Memory, limit)?;
        memcg
    };
    let blocks = n("blocks")?;
    let file = machine.create_file(0, (blocks * MIB) as u32);
    let mm = machine.create_mm(memcg);
    let begin = Stream::new(input.seed, "throttling-oom", 0).below(START_NS);
    let written = Rc::new(Cell::new(0));
    let failure: Rc<Cell<Option<OpError>>> = Rc::default();
    let (done, failed) = (written.clone(), failure.clone());
    machine.spawn("dd", Affinity::Any, mm, move |m, ctx| async move {
        ctx.sleep_until(TimeClass::Idle, begin).await;
        for block in 0..blocks {
            let page = (block * MIB) as u32;
            if let Err(e) = m.write(&ctx, file, page, MIB as u32, true).await {
                failed.set(Some(e));
                break;
            }
            done.set(done.get() + 1);
        }
        if let Some(t) = ctx.task() {
            t.settle().await;
        }
        m.sim.stop();
    });
    run.executor.run();
    let w = machine.world();
    if let Some(error) = failure.get().filter(|_| w.ooms().is_empty()) {
        return Err(ExperimentError::Op { what: "dd", error });
    }
    let live = |c: Counter| w.engine.memcgs.live(memcg, c).max(0) as u64;
    let mut set = |name: &str, value: u64| r.set(format!("{prefix}{name}"), value);
    set("written_mib", written.get());
    set("finished", u64::from(written.get() == blocks));
    set("oom_kill", live(Counter::OomKill));
    set("virtual_ms", run.executor.now().saturating_sub(begin) / ms);
    for c in [
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
    ] {
        set(c.name(), live(c));
    }
    // What the scan looked at: isolated pages, and those it only moved.
    let scanned = live(Counter::PgscanDirect) + live(Counter::Pgrefill);
    let freed = live(Counter::PgstealDirect);
    set("pgscan", live(Counter::PgscanDirect));
    set("pgsteal", freed);
    r.set(
        format!("{prefix}scanned_per_freed"),
        scanned as f64 / freed.max(1) as f64,
    );
    drop(w);
    r.take_samples(prefix, run.samples());
    Ok(())
}

/// Acceptance rows (`workloads.md` 5.3).
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
            format!("scanned per freed page, {before} / {after}"),
            "scanned_per_freed",
            after,
            before,
        )
        .within_band(Band::at_least(20.0)),
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
