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
const CPU_TIMES: [&str; 16] = [
    "context_switch_direct_ns",
    "context_switch_refill_ns",
    "kswapd_wake_ns",
    "buffered_io_page_ns",
    "flush_page_ns",
    "rmap_first_ns",
    "rmap_next_ns",
    "rmap_lock_ns",
    "list_op_ns",
    "scan_page_ns",
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
            of_host: false,
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
    use crate::fidelity::{Run, KERNELS};
    use rayon::prelude::*;

    /// The recorded guests ran in software emulation, 20 to 50 times slower than the machine.
    const EMULATED: [u64; 2] = [20, 50];
    /// The kernels that make large folios, and what stands for them.
    const VARIANTS: [(&str, &str); 2] = [("6.18", "v618"), ("7.2", "v72")];

    /// At eight moments within the two seconds between two reads of the statistics.
    fn runs(case: Writer, variant: &str, slowdown: u64) -> Vec<Written> {
        let begins = (0..8u64).into_par_iter();
        let run = |i| run_writer(case, variant, slowdown, i * 250_000_000).unwrap();
        begins.map(run).collect()
    }

    /// What the kernel did, each time.
    fn recorded(kernel: &str, case: Writer) -> Vec<Run> {
        let kernel = KERNELS.iter().find(|k| k.name == kernel).unwrap();
        let table = kernel.reference().unwrap();
        let runs = table.runs_under(case.name, "mglru-0x7");
        runs.cloned().collect()
    }

    fn of_run(run: &Run, counter: &str) -> f64 {
        run.root().unwrap().totals.get(counter).unwrap_or(0) as f64
    }

    fn youngest(run: &Run) -> f64 {
        let series = &run.root().unwrap().series;
        let end = series.iter().rev().find_map(|p| p.lru_gen.as_ref()?.last());
        end.map_or(0.0, |g| g[0] as f64)
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        let values: Vec<f64> = values.collect();
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn case(name: &str) -> Writer {
        WRITERS.into_iter().find(|w| w.name == name).unwrap()
    }

    /// Where nothing hangs on time: one reclaim for each call once the memcg is full, of one folio.
    #[test]
    fn a_plain_writer_reclaims_as_the_kernel_did() {
        for (kernel, variant) in VARIANTS {
            let case = case("k_seqwrite");
            let theirs = recorded(kernel, case);
            for ours in runs(case, variant, 20) {
                assert!(!ours.killed && ours.calls == case.calls);
                for run in &theirs {
                    assert_eq!(ours.events_max as f64, of_run(run, "events_max"));
                    assert_eq!(ours.pgsteal as f64, of_run(run, "pgsteal"));
                }
                assert_eq!(ours.max_seq, 3);
            }
        }
    }

    /// Everything dirty, writes that take a second, limits of dirty pages out of the way: 6.18 kills a
    /// writer with large folios. It does not with single pages, for 18 reclaims of them take longer than
    /// the device, nor does 7.2, which sleeps in between.
    #[test]
    fn a_writer_of_large_folios_is_killed_before_the_series() {
        let (large, single) = (
            case("k_seqwrite_delay_dirtyfull"),
            case("k_seqwrite_delay_dirtyfull+order0"),
        );
        for run in runs(large, "v618", 20) {
            assert!(run.killed && run.calls == 124, "{run:?}");
        }
        for slowdown in EMULATED {
            for (variant, case) in [("v618", single), ("v72", single), ("v72", large)] {
                for run in runs(case, variant, slowdown) {
                    assert!(!run.killed && run.calls == case.calls, "{variant} {run:?}");
                }
            }
        }
        let killed = |kernel, case| recorded(kernel, case).iter().filter(|r| r.killed).count();
        assert_eq!(killed("6.18", large), 2);
        assert_eq!(
            killed("6.18", single) + killed("7.2", single) + killed("7.2", large),
            0
        );
    }

    /// Within a factor of two: how often folios were activated on 7.2, and how many generations the killed
    /// writer of 6.18 had opened.
    #[test]
    fn levels_are_those_of_the_kernels() {
        let case = case("k_seqwrite_delay_dirtyfull");
        let near = |what: &str, ours: f64, theirs: f64| {
            assert!(
                (theirs / 2.0..=theirs * 2.0).contains(&ours),
                "{what}: {ours} of {theirs}"
            );
        };
        let theirs = recorded("7.2", case);
        for slowdown in EMULATED {
            let ours = runs(case, "v72", slowdown);
            let activated = mean(ours.iter().map(|w| w.pgactivate as f64));
            let kernel = mean(theirs.iter().map(|r| of_run(r, "pgactivate")));
            near("pgactivate", activated, kernel);
            let opened = mean(ours.iter().map(|w| w.max_seq as f64));
            near("max_seq of 7.2", opened, mean(theirs.iter().map(youngest)));
        }
        let ours = runs(case, "v618", 20);
        let opened = mean(ours.iter().map(|w| w.max_seq as f64));
        let theirs = recorded("6.18", case);
        let kernel = mean(theirs.iter().filter(|r| r.killed).map(youngest));
        near("max_seq of 6.18", opened, kernel);
    }

    /// The table of `docs/rules/large-folios.md`: `cargo test -p coldset-lab --lib writers -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints a table"]
    fn all_writers() {
        let range = |values: Vec<u64>| {
            let (least, most) = (values.iter().min(), values.iter().max());
            match (least, most) {
                (Some(a), Some(b)) if a == b => a.to_string(),
                (Some(a), Some(b)) => format!("{a} to {b}"),
                _ => String::new(),
            }
        };
        println!("| kernel | case | CPU times | killed | calls | reclaims at the limit | pgsteal | pgactivate | max_seq |");
        for case in WRITERS {
            for (kernel, variant) in VARIANTS {
                let theirs = recorded(kernel, case);
                let of = |name| range(theirs.iter().map(|r| of_run(r, name) as u64).collect());
                if !theirs.is_empty() {
                    println!(
                        "| {kernel} | {} | recorded | {} of {} | | {} | {} | {} | {} |",
                        case.name,
                        theirs.iter().filter(|r| r.killed).count(),
                        theirs.len(),
                        of("events_max"),
                        of("pgsteal"),
                        of("pgactivate"),
                        range(theirs.iter().map(|r| youngest(r) as u64).collect()),
                    );
                }
                for slowdown in [1, 20, 50] {
                    let ours = runs(case, variant, slowdown);
                    let of = |get: fn(&Written) -> u64| range(ours.iter().map(get).collect());
                    println!(
                        "| {variant} | {} | {slowdown} | {} of {} | {} | {} | {} | {} | {} |",
                        case.name,
                        ours.iter().filter(|w| w.killed).count(),
                        ours.len(),
                        of(|w| w.calls.into()),
                        of(|w| w.events_max),
                        of(|w| w.pgsteal),
                        of(|w| w.pgactivate),
                        of(|w| w.max_seq),
                    );
                }
            }
        }
    }
}
