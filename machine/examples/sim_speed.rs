//! Host time of the executor's primitives. Prints nanoseconds per operation; run with `--release`.

use std::hint::black_box;
use std::time::Instant;

use coldset_machine::params::Params;
use coldset_machine::sim::{Affinity, Executor, SimConfig, WaitQueue};

fn executor(cpus: u16) -> Executor {
    Executor::new(SimConfig::from_params(&Params::default(), cpus))
}

fn report(what: &str, operations: u64, mut run: impl FnMut()) {
    let begin = Instant::now();
    run();
    let ns = begin.elapsed().as_nanos() as f64 / operations as f64;
    println!("{what:<44} {ns:>8.1} ns");
}

fn main() {
    const N: u64 = 2_000_000;
    for tasks in [1u64, 32] {
        report(&format!("sleep and wake, {tasks} tasks"), N, || {
            let mut ex = executor(32);
            for nr in 0..tasks {
                let sim = ex.handle();
                ex.spawn("sleeper", Affinity::Any, async move {
                    let task = sim.current();
                    for _ in 0..N / tasks {
                        task.sleep_as(task.class(), 1_000 + nr).await;
                    }
                });
            }
            ex.run();
        });
        report(
            &format!("settle of 20 us, {tasks} tasks on 32 CPUs"),
            N,
            || {
                let mut ex = executor(32);
                for nr in 0..tasks {
                    let sim = ex.handle();
                    ex.spawn("worker", Affinity::Any, async move {
                        let task = sim.current();
                        for _ in 0..N / tasks {
                            task.run_for(20_000 + nr).await;
                        }
                    });
                }
                ex.run();
            },
        );
    }
    report("settle of 20 us, 96 tasks on 32 CPUs", N, || {
        let mut ex = executor(32);
        for nr in 0..96 {
            let sim = ex.handle();
            ex.spawn("worker", Affinity::Any, async move {
                let task = sim.current();
                for _ in 0..N / 96 {
                    task.run_for(20_000 + nr).await;
                }
            });
        }
        ex.run();
    });
    report("wait queue ping-pong, per wake", N, || {
        let mut ex = executor(2);
        let (ping, pong) = (WaitQueue::new(&ex), WaitQueue::new(&ex));
        for (mine, other) in [(ping.clone(), pong.clone()), (pong, ping)] {
            ex.spawn("player", Affinity::Any, async move {
                for _ in 0..N / 2 {
                    other.wake_one();
                    mine.wait_timeout(1_000_000).await;
                }
            });
        }
        ex.run();
    });
    report("charge and maybe_settle below the quantum", 100 * N, || {
        let mut ex = executor(1);
        let sim = ex.handle();
        ex.spawn("toucher", Affinity::Any, async move {
            let task = sim.current();
            for i in 0..100 * N {
                task.charge(black_box(i & 1));
                task.maybe_settle().await;
            }
        });
        ex.run();
    });
}
