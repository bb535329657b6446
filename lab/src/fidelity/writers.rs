//! The writers among the recorded cases: a program that writes a new file in calls of 1 MiB, under a limit
//! smaller than the file (`docs/rules/large-folios.md#how-close`).
//!
//! Unlike the sequences of accesses they hang on time: on what a writer can do while a write of the device
//! takes its second. So they are not replayed by a recorded clock but run as a program of the machine.

use crate::experiment::{Deviation, DirtySettings, ExperimentError, Host, RunInput};
use crate::rig::Rig;
use coldset_engine::presets;
use coldset_engine::Counter;
use coldset_machine::device::DeviceKind;
use coldset_machine::sim::{Affinity, TimeClass};
use std::cell::Cell;
use std::rc::Rc;

/// Pages of one `write()` call.
const CALL_PAGES: u32 = 256;
/// Memory of the recorded machine, pages.
const RAM_PAGES: u64 = (2 << 30) / 4096;

/// A recorded case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    /// Name in the tables.
    pub name: &'static str,
    /// Limit of the memcg, pages.
    limit: u64,
    /// Calls.
    calls: u32,
    /// Every write of the device takes a second longer.
    delayed: bool,
    /// Dirty limits of 90 and 95 %, and no periodic flusher.
    dirty_full: bool,
    /// Greatest order of the file system.
    order: u8,
}

/// All of them.
pub const WRITERS: [Writer; 8] = [
    writer("k_seqwrite", false, false, 8),
    writer("k_seqwrite+order0", false, false, 0),
    writer("k_seqwrite_dirtyfull", false, true, 8),
    writer("k_seqwrite_dirtyfull+order0", false, true, 0),
    writer("k_seqwrite_delay", true, false, 8),
    writer("k_seqwrite_delay+order0", true, false, 0),
    writer("k_seqwrite_delay_dirtyfull", true, true, 8),
    writer("k_seqwrite_delay_dirtyfull+order0", true, true, 0),
];

const fn writer(name: &'static str, delayed: bool, dirty_full: bool, order: u8) -> Writer {
    Writer {
        name,
        limit: if delayed { 32_768 } else { 16_384 },
        calls: if delayed { 192 } else { 512 },
        delayed,
        dirty_full,
        order,
    }
}

/// The recorded machine, as far as it is not that of the table.
const DEVIATIONS: &[Deviation] = &[Deviation {
    name: "timer_hz",
    value: 250,
    machine: "",
    why: "the recorded kernels have it",
    source: "configuration of the recorded kernels",
}];

/// CPU time of a program that writes and of its reclaim: what takes longer on a slower machine.
const CPU_TIMES: [&str; 14] = [
    "context_switch_direct_ns",
    "context_switch_refill_ns",
    "kswapd_wake_ns",
    "buffered_io_page_ns",
    "rmap_first_ns",
    "rmap_next_ns",
    "rmap_lock_ns",
    "list_op_ns",
    "lru_lock_ns",
    "page_free_ns",
    "page_alloc_ns",
    "pcp_batch_ns",
    "shrinker_call_ns",
    "shrinker_each_ns",
];

/// What became of a writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// It was killed for memory.
    pub killed: bool,
    /// Calls that it finished.
    pub calls: u32,
    /// Pages activated.
    pub pgactivate: u64,
    /// Pages isolated for reclaim.
    pub pgscan: u64,
    /// Pages reclaimed.
    pub pgsteal: u64,
    /// Pages moved on within the lists.
    pub pgrefill: u64,
    /// Reclaims at the limit.
    pub events_max: u64,
    /// Number of the youngest generation (multi-gen).
    pub max_seq: u64,
    /// Virtual time, ms.
    pub ms: u64,
}

/// Runs a writer under a variant, on CPUs `slowdown` times slower than those of the table, beginning
/// `begin` ns after the statistics of the memcg begin to be read every two seconds.
///
/// # Errors
/// A failure other than being killed.
///
/// # Panics
/// If there is no such variant.
pub fn run_writer(
    case: Writer,
    variant: &str,
    slowdown: u64,
    begin: u64,
) -> Result<Written, ExperimentError> {
    let switches = presets::preset(variant).expect("a variant that stands for a kernel");
    let mut input = RunInput {
        deviations: DEVIATIONS,
        ..RunInput::new(variant, switches)
    };
    for name in CPU_TIMES {
        let value = input.costs.table().get(name).expect(ROW);
        input.costs.set(name, value * slowdown).expect(ROW);
    }
    let percent = |n| case.dirty_full.then_some(n);
    let host = Host {
        ram: Some(RAM_PAGES),
        devices: vec![match case.delayed {
            true => DeviceKind::Delayed,
            false => DeviceKind::Nvme,
        }],
        large_folios: case.order,
        dirty: DirtySettings {
            ratio: percent(95),
            background_ratio: percent(90),
            no_periodic: case.dirty_full,
        },
        stop_at_oom: true,
        ..Host::default()
    };
    let mut rig = Rig::new(&input, host)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(case.limit)?;
    let file = machine.create_file(0, case.calls * CALL_PAGES);
    let mm = machine.create_mm(memcg);
    let calls = Rc::new(Cell::new(0));
    let (done, failure) = (calls.clone(), rig.failure());
    machine.spawn("writer", Affinity::Any, mm, move |m, ctx| async move {
        ctx.sleep_until(TimeClass::Idle, begin).await;
        // It reads its statistics now and then, which brings them up to date.
        let read = || m.world_mut().engine.memcgs.fold();
        read();
        for call in 0..case.calls {
            let written = m.write(&ctx, file, call * CALL_PAGES, CALL_PAGES, true);
            if let Err(e) = written.await {
                failure.note(e);
                break;
            }
            done.set(call + 1);
            if (call + 1).is_multiple_of(case.calls / 10) {
                read();
            }
        }
        if let Some(t) = ctx.task() {
            t.settle().await;
        }
        m.sim.stop();
    });
    rig.run_or_oom("a file")?;
    let counts = rig.counts(memcg);
    let generations = rig.machine().world().engine.generations(memcg);
    let youngest = generations.last().map_or(0, |g| g[0]);
    Ok(Written {
        killed: counts.get(Counter::OomKill) > 0,
        calls: calls.get(),
        pgactivate: counts.get(Counter::Pgactivate),
        pgscan: counts.scanned(),
        pgsteal: counts.stolen(),
        pgrefill: counts.get(Counter::Pgrefill),
        events_max: counts.get(Counter::EventsMax),
        max_seq: youngest,
        ms: rig.now().saturating_sub(begin) / 1_000_000,
    })
}

const ROW: &str = "a row of the table";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::KERNELS;
    use rayon::prelude::*;

    /// The recorded guests ran in software emulation, 20 to 50 times slower than the machine.
    const EMULATED: u64 = 50;
    /// Moments within the two seconds between two reads of the statistics at which a writer begins.
    const BEGINS: u64 = 8;

    /// Every case under both kernels, on the CPUs of the table and on slower ones, beside what was
    /// recorded. Run with `--ignored --nocapture` to see it.
    #[test]
    #[ignore = "prints a table"]
    fn all_writers() {
        for slowdown in [1, 20, EMULATED] {
            println!("CPU times {slowdown}-fold");
            for (kernel, variant) in [("6.18", "v618"), ("7.2", "v72")] {
                for case in WRITERS {
                    let ours: Vec<Written> = (0..BEGINS)
                        .into_par_iter()
                        .map(|i| {
                            let begin = i * 2_000_000_000 / BEGINS;
                            run_writer(case, variant, slowdown, begin).unwrap()
                        })
                        .collect();
                    println!("{kernel} {}", case.name);
                    for w in ours {
                        println!("    {w:?}");
                    }
                }
            }
        }
        for kernel in KERNELS {
            let table = kernel.reference().unwrap();
            for run in &table.runs {
                if run.case.starts_with("k_") && run.policy == "mglru-0x7" {
                    let root = run.root().unwrap();
                    let get = |name: &str| root.totals.get(name).unwrap_or(0);
                    println!(
                        "{} {} killed {} pgactivate {} pgscan {} pgsteal {} pgrefill {} max {}",
                        kernel.name,
                        run.case,
                        run.killed,
                        get("pgactivate"),
                        get("pgscan"),
                        get("pgsteal"),
                        get("pgrefill"),
                        get("events_max"),
                    );
                }
            }
        }
    }
}
