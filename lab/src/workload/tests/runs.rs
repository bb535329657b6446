//! What comes of a workload, by arithmetic that anyone can follow.

use super::{good, number, once, PLAIN};
use crate::runner::Variant;

/// Tasks over a file of 8 MiB in a cgroup that holds it.
fn roomy(tasks: &str) -> String {
    format!(
        r#"
results = ["ops", "pages", "finished", "seconds", "elapsed_ns", "pgpgin", "pgfault", "pgscan", "mean_us", "max_us", "ops_per_s"]
[[files]]
name = "f"
size = "8MiB"
[[memory]]
name = "heap"
size = "8MiB"
{tasks}"#
    )
}

#[test]
fn counts_are_those_that_are_written() {
    let run = once(&roomy(
        r#"
[[tasks]]
name = "a"
count = 3
[[tasks.phases]]
count = 10
steps = [{ load = "f", size = "16KiB", times = 2 }, { store = "heap", size = "8KiB" }]
"#,
    ));
    assert_eq!(number(&run, "ops"), 30.0);
    assert_eq!(number(&run, "pages"), 30.0 * (2.0 * 4.0 + 2.0));
    assert_eq!(number(&run, "finished"), 3.0);
    assert_eq!(number(&run, "pgscan"), 0.0);
}

#[test]
fn a_sequential_pass_faults_each_page_once_and_ends() {
    let text = |at: &str, tasks: u64| {
        roomy(&format!(
            "[[tasks]]\nname = \"a\"\ncount = {tasks}\n[[tasks.phases]]\nsteps = [{{ pread = \"f\", at = \"{at}\", size = \"64KiB\" }}]"
        ))
    };
    let run = once(&text("sequential", 1));
    assert_eq!(number(&run, "ops"), 128.0);
    assert_eq!(number(&run, "pages"), 2048.0);
    // The group shares the file out: together once through it.
    let run = once(&text("share", 5));
    assert_eq!(number(&run, "ops"), 128.0);
    assert_eq!(number(&run, "finished"), 5.0);
}

#[test]
fn times_are_those_that_are_written() {
    // 50 operations of 2 ms and of nothing else, 20 of them before measuring.
    let run = once(&roomy(
        r#"
[[tasks]]
name = "a"
start = "100ms"
[[tasks.phases]]
time = "40ms"
steps = [{ sleep = "2ms" }]
[[tasks.phases]]
time = "60ms"
measured = true
steps = [{ sleep = "2ms" }]
"#,
    ));
    assert_eq!(number(&run, "seconds"), 0.06);
    let ops = number(&run, "ops");
    assert!((28.0..=30.0).contains(&ops), "{ops}");
    assert!((number(&run, "ops_per_s") - ops / 0.06).abs() < 1e-6);
    let mean = number(&run, "mean_us");
    assert!((2000.0..2100.0).contains(&mean), "{mean}");
    let elapsed = number(&run, "elapsed_ns") / 1e6;
    assert!((100.0..103.0).contains(&elapsed), "{elapsed}");
}

#[test]
fn scale_and_effort_shrink_what_they_should() {
    let text = roomy("[[tasks]]\nname = \"a\"\n[[tasks.phases]]\ncount = 1000\nsteps = [{ load = \"f\", at = \"cyclic\" }]");
    let experiment = good(&text);
    let base = Variant::parse("base", &[]).unwrap();
    let mut input = experiment.input("base", base.switches);
    input.scale = 4;
    input.effort_permille = 500;
    let run = (experiment.run)(&input).unwrap();
    assert_eq!(number(&run, "ops"), 125.0);
    // Round and round in a file of 512 pages: no page is read twice.
    input.effort_permille = 4000;
    let run = (experiment.run)(&input).unwrap();
    assert_eq!(number(&run, "ops"), 1000.0);
    assert_eq!(number(&run, "pgpgin"), 2048.0);
    input.scale = 1 << 16;
    let error = (experiment.run)(&input).unwrap_err().to_string();
    assert!(
        error.contains("files[1].size") && error.contains("a larger scale"),
        "{error}"
    );
}

#[test]
fn a_cgroup_limits_and_counts() {
    let run = once(PLAIN);
    assert_eq!(number(&run, "ops"), 100.0);
    let more = PLAIN.replace("count = 100", "count = 20000");
    let run = once(&more);
    assert!(number(&run, "pgsteal") > 1000.0);
    assert!(number(&run, "workingset_refault_file") > 1000.0);
    assert_eq!(number(&run, "oom_kill"), 0.0);
    // All in a part that fits.
    let part = more.replace("load = \"f\",", "load = \"f\", part = [\"0%\", \"25%\"],");
    let run = once(&format!("results = [\"pgpgin\", \"pgsteal\"]\n{part}"));
    assert_eq!(number(&run, "pgsteal"), 0.0);
    // These 512 pages once, and what one or two windows at the end of the part read beyond it.
    let read = number(&run, "pgpgin");
    assert!((2048.0..=2048.0 + 2.0 * 128.0).contains(&read), "{read}");
}

#[test]
fn running_out_of_memory_is_a_result() {
    // 16 MiB of anonymous memory in 4 MiB without swap.
    let text = r#"
results = ["killed", "finished", "oom_kill", "ops"]
[[cgroups]]
name = "g"
limit = "4MiB"
[[memory]]
name = "heap"
size = "16MiB"
[[tasks]]
name = "hog"
cgroup = "g"
[[tasks.phases]]
steps = [{ store = "heap", at = "sequential" }]
[[tasks]]
name = "other"
[[tasks.phases]]
count = 5
steps = [{ sleep = "1ms" }]
"#;
    let run = once(text);
    assert_eq!(number(&run, "killed"), 1.0);
    assert_eq!(number(&run, "finished"), 1.0);
    assert!(number(&run, "oom_kill") >= 1.0);
}

#[test]
fn nobody_waits_for_the_dead() {
    // One of the two runs out of memory before the gate; the other must pass it.
    let text = r#"
results = ["killed", "finished"]
[[cgroups]]
name = "g"
limit = "4MiB"
[[memory]]
name = "heap"
size = "3MiB"
[[tasks]]
name = "t"
count = 2
cgroup = "g"
[[tasks.phases]]
steps = [{ store = "heap", at = "sequential", cpu = "10us" }]
[[tasks.phases]]
count = 3
together = true
steps = [{ cpu = "1ms" }]
"#;
    let run = once(text);
    assert_eq!(number(&run, "killed"), 1.0);
    assert_eq!(number(&run, "finished"), 1.0);
}

#[test]
fn a_phase_that_takes_no_time_is_an_error() {
    let text = PLAIN
        .replace("count = 100", "time = \"1s\"")
        .replace(", cpu = \"1us\"", "")
        .replace("load = \"f\"", "load = \"f\", part = [\"0%\", \"1%\"]");
    let experiment = good(&text);
    let base = Variant::parse("base", &[]).unwrap();
    let error = (experiment.run)(&experiment.input("base", base.switches)).unwrap_err();
    assert!(
        error.to_string().contains("phase 1 of 't' never ends"),
        "{error}"
    );
}

#[test]
fn the_background_is_not_waited_for() {
    let run = once(&roomy(
        r#"
[[tasks]]
name = "a"
[[tasks.phases]]
count = 10
steps = [{ sleep = "1ms" }]
[[tasks]]
name = "b"
background = true
[[tasks.phases]]
count = 1000000
steps = [{ sleep = "1ms" }]
"#,
    ));
    assert_eq!(number(&run, "ops"), 10.0);
    assert!(number(&run, "elapsed_ns") < 12e6);
}

/// A limit is met in its cgroup, and machines before 7.2 do not count that: so the cgroup's scans are shown, too.
#[test]
fn scans_of_limits_are_shown_without_being_asked_for() {
    let run = once(
        r#"
[[machines]]
cpus = 1
ram = "256MiB"
[[cgroups]]
name = "top"
limit = "4MiB"
[[cgroups]]
name = "a"
parent = "top"
[[files]]
name = "f"
size = "8MiB"
[[tasks]]
name = "reader"
cgroup = "a"
[[tasks.phases]]
count = 1000
steps = [{ pread = "f", at = "cyclic", size = "64KiB" }]
"#,
    );
    assert_eq!(number(&run, "pgscan"), 0.0);
    assert!(number(&run, "top.pgscan") > 1_000.0);
    assert!(number(&run, "top.pgsteal") > 1_000.0);
    assert!(number(&run, "workingset_refault_file") > 1_000.0);
}
