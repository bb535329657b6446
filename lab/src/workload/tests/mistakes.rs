//! One line for each mistake, with the place and what to write.

use super::{good, PLAIN};
use crate::workload::{of_json, of_toml};

/// The message of a workload with a mistake.
fn message(text: &str) -> String {
    let error = of_toml("mine.toml", "mine", text)
        .map(|e| e.name)
        .unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

/// `PLAIN` with one line replaced; the message must name the line, the key and `part`.
fn line_of(old: &str, new: &str, key: &str, part: &str) {
    let at = PLAIN
        .lines()
        .position(|l| l == old)
        .unwrap_or_else(|| panic!("no line {old}"));
    let text = PLAIN.replacen(&format!("\n{old}\n"), &format!("\n{new}\n"), 1);
    let message = message(&text);
    let begin = format!("mine.toml, line {}: {key}: ", at + 1);
    assert!(
        message.starts_with(&begin),
        "{message}\nbegins not with {begin}"
    );
    assert!(message.contains(part), "{message}\nhas no {part}");
}

#[test]
fn lines_and_keys_are_named() {
    good(PLAIN);
    for (old, new, key, part) in [
        (
            "limit = \"4MiB\"",
            "limti = \"4MiB\"",
            "cgroups[1].limti",
            "did you mean 'limit'?",
        ),
        (
            "limit = \"4MiB\"",
            "limit = 4",
            "cgroups[1].limit",
            "'4' cannot be used; write a size",
        ),
        (
            "limit = \"4MiB\"",
            "limit = \"4KiB\"",
            "cgroups[1].limit",
            "give at least",
        ),
        (
            "limit = \"4MiB\"",
            "min = \"5MiB\"\nlimit = \"4MiB\"",
            "cgroups[1].min",
            "more than the cgroup's limit",
        ),
        (
            "limit = \"4MiB\"",
            "parent = \"g\"",
            "cgroups[1].parent",
            "there is no cgroup above 'g'",
        ),
        (
            "size = \"8MiB\"",
            "size = \"8\"",
            "files[1].size",
            "write a size such as",
        ),
        (
            "size = \"8MiB\"",
            "size = [8]",
            "files[1].size",
            "a list stands here",
        ),
        (
            "size = \"8MiB\"",
            "size = \"900TiB\"",
            "files[1].size",
            "less than 16TiB",
        ),
        (
            "cgroup = \"g\"",
            "cgroup = \"h\"",
            "tasks[1].cgroup",
            "there is no cgroup 'h' (known: g)",
        ),
        (
            "cgroup = \"g\"",
            "count = 0",
            "tasks[1].count",
            "a whole number from 1 to 10000",
        ),
        (
            "cgroup = \"g\"",
            "count = 2.5",
            "tasks[1].count",
            "'2.5' cannot be used",
        ),
        (
            "cgroup = \"g\"",
            "threads = 1",
            "tasks[1].threads",
            "true or false",
        ),
        (
            "cgroup = \"g\"",
            "start = [\"2s\", \"1s\"]",
            "tasks[1].start",
            "before the first",
        ),
        (
            "count = 100",
            "time = \"5\"",
            "tasks[1].phases[1].time",
            "a time up to a day",
        ),
        (
            "count = 100",
            "count = \"$n\"",
            "tasks[1].phases[1].count",
            "there is no parameter 'n'",
        ),
    ] {
        line_of(old, new, key, part);
    }
}

#[test]
fn steps_are_checked() {
    let steps = "steps = [{ load = \"f\", cpu = \"1us\" }]";
    for (new, key, part) in [
        ("{ laod = \"f\" }", "steps[1].laod", "did you mean 'load'?"),
        (
            "{ load = \"g\" }",
            "steps[1].load",
            "there is no file or memory 'g' (known: f, heap)",
        ),
        (
            "{ pread = \"heap\" }",
            "steps[1].pread",
            "there is no file 'heap' (known: f)",
        ),
        (
            "{ load = \"f\", store = \"f\" }",
            "steps[1]",
            "load and store are in one step",
        ),
        ("{ at = \"uniform\" }", "steps[1]", "it does nothing"),
        (
            "{ sleep = \"1ms\", size = \"4KiB\" }",
            "steps[1]",
            "'size' goes with load",
        ),
        (
            "{ load = \"f\", partial = true }",
            "steps[1]",
            "'partial' goes with pwrite",
        ),
        (
            "{ load = \"f\", at = \"random\" }",
            "steps[1].at",
            "uniform, sequential, cyclic",
        ),
        (
            "{ load = \"f\", at = { zipf = 1.0 } }",
            "steps[1].at.zipf",
            "0.01 away from 1",
        ),
        (
            "{ load = \"f\", at = { zipf = 9 } }",
            "steps[1].at.zipf",
            "from 0.1 to 4",
        ),
        (
            "{ load = \"f\", at = { hot = \"0%\" } }",
            "steps[1].at.hot",
            "0 of 2048 blocks are hot",
        ),
        (
            "{ load = \"f\", at = { hot = \"1%\", own_hot = true } }",
            "steps[1].at",
            "'own_hot' goes with zipf",
        ),
        ("{ load = \"f\", at = {} }", "steps[1].at", "{ zipf = 1.1 }"),
        (
            "{ load = \"f\", size = \"16MiB\" }",
            "steps[1]",
            "no block fits",
        ),
        (
            "{ load = \"f\", part = [\"50%\", \"20%\"] }",
            "steps[1].part",
            "ends before it begins",
        ),
        (
            "{ load = \"f\", chance = 0.5 }",
            "steps[1].chance",
            "a share such as",
        ),
        (
            "{ cpu = \"buffered_io_page\" }",
            "steps[1].cpu",
            "did you mean 'buffered_io_page_ns'?",
        ),
    ] {
        line_of(
            steps,
            &format!("steps = [{new}]"),
            &format!("tasks[1].phases[1].{key}"),
            part,
        );
    }
    let none = PLAIN.replace(steps, "steps = []");
    assert!(message(&none).contains("tasks[1].phases[1]: it has no steps"));
}

#[test]
fn what_is_missing_or_too_much_is_named() {
    for (text, part) in [
        ("", "mine.toml: there are no tasks"),
        ("x", "mine.toml, line 1: this is no TOML"),
        (
            "[[tasks]]\nname = \"t\"",
            "tasks[1]: the tasks have nothing to do",
        ),
        ("[[tasks]]\nphases = []", "tasks[1]: 'name' is missing"),
        (
            "tasks = 3",
            "line 1: tasks: '3' cannot be used; write a list",
        ),
        (
            "scale = \"1/0\"",
            "line 1: scale: scale '1/0' cannot be used",
        ),
    ] {
        let message = message(text);
        assert!(message.contains(part), "{message}\nhas no {part}");
    }
    let with = |extra: &str| message(&format!("{extra}\n{PLAIN}"));
    for (extra, part) in [
        ("before = \"v55\"", "line 1: before: there is no variant 'v55'"),
        ("results = [\"opps\"]", "results[1]: there is no quantity 'opps'"),
        ("results = [\"x = 1 +\"]", "results[1]: it ends too early"),
        ("results = [\"ops\", \"ops\"]", "results[2]: 'ops' is listed twice"),
        ("results = []", "results: name at least one"),
        ("mechanism = [\"misses\"]", "mechanism[1]: there is no result 'misses'"),
        ("params = { n = [1] }", "params.n: a list stands here"),
        ("costs = [{ name = \"timer_hx\", value = 1 }]", "did you mean 'timer_hz'?"),
        ("costs = [{ name = \"timer_hz\", value = 0 }]", "costs[1].value: "),
        ("machines = [{ devices = [\"floppy\"] }]", "machines[1].devices[1]: there is no device 'floppy'"),
        ("machines = [{}, {}]", "machines[2]: a second machine without a name"),
        ("machines = [{ swap = \"zram\" }]", "machines[1].swap: "),
        ("machines = [{ name = \"a\" }, { name = \"b\" }]\n[[files]]\nname = \"f\"\nsize = \"1MiB\"", "files[2]: a second one is called 'f'"),
        ("claims = [{ name = \"c\" }]", "claims[1]: it measures nothing"),
        ("claims = [{ name = \"c\", value = \"opss\", at_least = 1 }]", "claims[1].value: there is no result 'opss'; did you mean 'ops'?"),
        ("claims = [{ name = \"c\", value = \"ops\" }]", "claims[1]: nothing says what is expected"),
        ("claims = [{ name = \"c\", value = \"ops\", class = \"A\" }]", "claims[1]: class A needs a band"),
        ("claims = [{ name = \"c\", value = \"ops\", class = \"N\" }]", "class N is about a ratio"),
        ("claims = [{ name = \"c\", ratio = \"ops\", of = \"after\" }]", "'of' does not go with ratio"),
        ("claims = [{ name = \"c\", ratio = \"ops\", band = [2, 1] }]", "claims[1].band: the band is empty"),
        ("claims = [{ name = \"c\", ratio = \"ops\", at_most = 2, at_least = 1 }]", "at_least and at_most"),
    ] {
        let message = with(extra);
        assert!(message.contains(part), "{message}\nhas no {part}");
    }
    let background = PLAIN.replace("cgroup = \"g\"\n", "background = true\n");
    assert!(message(&background).contains("all tasks are in the background"));
    let endless = PLAIN.replace("count = 100\n", "");
    assert!(message(&endless).contains("nothing ends it"));
    let twice = PLAIN.replace("count = 100\n", "count = 1\ntime = \"1s\"\n");
    assert!(message(&twice).contains("a time and a count"));
}

#[test]
fn json_has_keys_and_no_lines() {
    let error = of_json("a dict", "mine", r#"{"tasks": [{"nmae": "t"}]}"#);
    let text = error.map(|e| e.name).unwrap_err().to_string();
    assert_eq!(
        text,
        "a dict: tasks[1].nmae: there is no such key here; did you mean 'name'?"
    );
}
