//! Fuzzes a range of seeds: `fuzz FIRST SEEDS OPS`.

use coldset_fuzz::run;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>());
    let mut next = |default| args.next().and_then(Result::ok).unwrap_or(default);
    let (first, seeds, ops) = (next(0), next(1), next(10_000));
    let started = std::time::Instant::now();
    let (mut done, mut failed) = (0, 0);
    for seed in first..first + seeds {
        match run(seed, ops) {
            Ok(r) => {
                done += r.ops;
                if seeds == 1 {
                    println!("{r}");
                }
            }
            Err(f) => {
                failed += 1;
                println!("{f}");
            }
        }
    }
    let s = started.elapsed().as_secs_f64();
    println!(
        "{failed} of {seeds} seeds failed; {done} operations, {:.0} a second",
        done as f64 / s
    );
}
