//! What a workload may say, what is said of its mistakes, and what comes of it.

mod built_in;
mod keys;
mod mistakes;
mod runs;

use crate::experiment::Experiment;
use crate::report::RunResult;
use crate::runner::Variant;
use crate::workload::of_toml;

/// Something that can be run.
const PLAIN: &str = r#"
[[cgroups]]
name = "g"
limit = "4MiB"
[[files]]
name = "f"
size = "8MiB"
[[memory]]
name = "heap"
size = "2MiB"
[[tasks]]
name = "t"
cgroup = "g"
[[tasks.phases]]
count = 100
steps = [{ load = "f", cpu = "1us" }]
"#;

/// An experiment that must be right.
fn good(text: &str) -> &'static Experiment {
    of_toml("test.toml", "test", text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// One run under `base`, seed 1, at its own scale and effort 1.
fn once(text: &str) -> RunResult {
    let experiment = good(text);
    let variant = Variant::parse("base", &[]).unwrap();
    let input = experiment.input("base", variant.switches);
    (experiment.run)(&input).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A number of a run.
fn number(run: &RunResult, name: &str) -> f64 {
    let found = run.counters.get(name);
    found
        .unwrap_or_else(|| panic!("no {name}: {:?}", run.counters))
        .as_f64()
}
