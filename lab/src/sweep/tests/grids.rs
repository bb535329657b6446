use super::{cells, data, refused};
use crate::sweep::{means, render_means, Grid, Rows, Runner, What};
use std::path::Path;

#[test]
fn lists_are_multiplied_and_tables_added() {
    let all = cells(
        "effort = 0.5
         [[grid]]
         experiments = ['mongodb', 'fio-mmap']
         variants = ['base', 'v5']
         scales = ['1/64', '1/128']
         seeds = 3
         set = { smaller_batch = [true, false] }
         [[grid]]
         experiment = 'mongodb'
         variant = 'base'
         effort = '1/8'
         seeds = [7, 3]
         params = { threads = 8 }
         costs = { nvme_read_lat_ns = [10_000, 20000] }",
    );
    assert_eq!(all.len(), 2 * 2 * 2 * 3 * 2 + 2 * 2);
    let text: Vec<String> = all.iter().map(|c| c.describe()).collect();
    assert_eq!(
        text[0],
        "mongodb: scale=1/64, effort=0.5, set smaller_batch=on, variant=base, seed=1"
    );
    assert_eq!(text[1].replace("seed=2", "seed=1"), text[0]);
    assert_eq!(text[3].replace("variant=v5", "variant=base"), text[0]);
    let last = "mongodb: scale=1/64, effort=0.125, param threads=8, cost nvme_read_lat_ns=20000, \
                variant=base, seed=3";
    assert_eq!(text.last().unwrap(), last);
    // The same again, in the same order.
    assert_eq!(all, cells(&GRID.replace("GRID", "")));
}

const GRID: &str = "GRID
    [[grid]]
    effort = 0.5
    experiments = ['mongodb', 'fio-mmap']
    variants = ['base', 'v5']
    scales = ['1/64', '1/128']
    seeds = 3
    set = { smaller_batch = ['on', 'off'] }
    [[grid]]
    experiment = 'mongodb'
    variant = 'base'
    effort = 0.125
    seeds = [7, 3]
    params = { threads = '8' }
    costs = { nvme_read_lat_ns = [10_000, 20000] }";

#[test]
fn defaults_are_those_of_the_experiment() {
    let all = cells("experiments = 'tlb-stress'");
    let labels: Vec<_> = all.iter().map(|c| c.variant.as_str()).collect();
    assert_eq!(labels, ["base", "base+tlbbatch"]);
    assert!(all.iter().all(|c| c.seed == 1));
    assert_eq!(all[0].settings()["scale"], "1/64");
}

#[test]
fn traces_have_limits() {
    let all = cells("traces = 'sqlite.pageops.zst'\nmemory = ['25%', '2MiB']\nvariants = 'v5'");
    let pages: Vec<u64> = all
        .iter()
        .map(|c| match &c.what {
            What::Replay { memory, .. } => memory.pages,
            What::Experiment { .. } => 0,
        })
        .collect();
    assert_eq!(pages, [553, 512]);
    assert_eq!(cells("traces = 'sqlite.pageops.zst'").len(), 9);
}

#[test]
fn a_folder_is_all_traces_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Path::new(data()).join("sqlite.pageops.zst");
    let grid = || {
        let text = "traces = 'traces'\nmemory = '25%'\nvariants = 'v5'";
        Grid::from_toml("grid.toml", text, folder.path()).and_then(|g| g.cells())
    };
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    let message = grid().unwrap_err().to_string();
    assert!(message.contains("no trace in the folder"), "{message}");
    let pages: String = (0..1000).map(|page| format!("{page}\n")).collect();
    std::fs::write(traces.join("b.csv"), format!("page\n{pages}")).unwrap();
    for name in ["a.pageops.zst", ".hidden"] {
        std::fs::copy(&sample, traces.join(name)).unwrap();
    }
    std::fs::create_dir(traces.join("more")).unwrap();
    let names: Vec<_> = grid()
        .unwrap()
        .iter()
        .map(|c| match &c.what {
            What::Replay { trace, .. } => trace.clone(),
            What::Experiment { .. } => String::new(),
        })
        .collect();
    assert_eq!(names, ["traces/a.pageops.zst", "traces/b.csv"]);
    std::fs::write(traces.join("notes"), "not a trace").unwrap();
    let message = grid().unwrap_err().to_string();
    assert!(message.contains("notes"), "{message}");
}

#[test]
fn a_dictionary_is_the_same_grid() {
    let json = r#"{"experiments": "mongodb", "set": {"smaller_batch": [true, false]}, "seeds": 2}"#;
    let json = Grid::from_json("grid", json, Path::new(data())).unwrap();
    let toml = "experiments = 'mongodb'\nseeds = 2\n[set]\nsmaller_batch = [true, false]";
    assert_eq!(json.cells().unwrap(), cells(toml));
}

#[test]
fn the_same_is_listed_once() {
    assert_eq!(
        cells("[[grid]]\nexperiments='mongodb'\n[[grid]]\nexperiments='mongodb'\nseeds=2").len(),
        6,
        "base, classic and v5, two seeds"
    );
}

#[test]
fn mistakes_are_named() {
    for (text, parts) in [
        (
            "experimets = 'mongodb'",
            &["'experimets'", "did you mean 'experiments'"][..],
        ),
        ("experiments = 'mongo'", &["did you mean 'mongodb'"]),
        ("variants = 'v5'", &["nothing to run"]),
        ("experiments = []", &["'experiments' is an empty list"]),
        ("experiments = 'mongodb'\ntraces = 'x'", &["write two"]),
        (
            "experiments = 'mongodb'\nmemory = '25%'",
            &["'memory' does not go with experiments"],
        ),
        (
            "experiments = 'mongodb'\nexperiment = 'mysql'",
            &["given twice"],
        ),
        ("experiments = 'mongodb'\nvariants = 'v6'", &["'v6'"]),
        ("experiments = 'mongodb'\nseeds = 0", &["1 to N"]),
        ("experiments = 'mongodb'\nseeds = '3'", &["1 to N"]),
        ("experiments = 'mongodb'\nset = ['a=b']", &["[grid.set]"]),
        (
            "experiments = 'mongodb'\nset = {smaler_batch = 1}",
            &["did you mean 'smaller_batch'"],
        ),
        (
            "experiments = 'mongodb'\ncosts = {nvme_read_lat = 1}",
            &["nvme_read_lat"],
        ),
        (
            "experiments = 'mongodb'\ncosts = {nvme_read_lat_ns = 'x'}",
            &["whole number"],
        ),
        (
            "experiments = 'mongodb'\nparams = {thread = 1}",
            &["did you mean 'threads'"],
        ),
        (
            "experiments = 'mongodb'\nparams = {threads = [8, 'many']}",
            &["mongodb", "'threads'", "'many'", "a whole number"],
        ),
        (
            "experiments = 'mongodb'\nparams = {cgroup = 'v3'}",
            &["'cgroup'", "'v3'", "v2 or v1"],
        ),
        (
            "experiments = 'mongodb'\nparams = {device = 'floppy'}",
            &["'device'", "'floppy'"],
        ),
        (
            "experiments = 'mongodb'\nparams = {limit_mib = 99999999999999}",
            &["'limit_mib'", "largest value that fits"],
        ),
        ("experiments = 'mongodb'\nscales = 64", &["1/64"]),
        ("experiments = 'mongodb'\neffort = 0", &["0.001"]),
        ("experiments = [['mongodb']]", &["a text, a number"]),
        ("grid = 3", &["[[grid]]"]),
        (
            "[[grid]]\nexperiments = 'mongodb'\n[[grid]]\nexperiments = 'mysql'\nmemory = '1%'",
            &["[[grid]] 2", "does not go with experiments"],
        ),
        ("traces = 'nothing.trace'", &["nothing.trace"]),
        (
            "traces = 'sqlite.pageops.zst'\nmemory = '1%'",
            &["22 pages", "128"],
        ),
        ("traces = 'sqlite.pageops.zst'\nswap = 'disk'", &["disk"]),
        ("traces = 'sqlite.pageops.zst'\nswappiness = 300", &["300"]),
        ("a = ", &["line 1"]),
    ] {
        let message = refused(text);
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}

#[test]
fn a_key_without_an_effect_is_refused() {
    let traces = "traces = 'sqlite.pageops.zst'\nvariants = 'v5'\nmemory = '25%'\n";
    for (key, value) in [
        ("scales", "'1/128'"),
        ("effort", "0.5"),
        ("seeds", "3"),
        ("params", "{ threads = 8 }"),
    ] {
        let message = refused(&format!("{traces}{key} = {value}"));
        assert!(
            message.contains(&format!("'{key}' does not go with traces")),
            "{message}"
        );
    }
    let message = refused("experiments = 'mongodb'\nmemory = '25%'");
    assert!(
        message.contains("'memory' does not go with experiments"),
        "{message}"
    );
    // Beside a table of the other kind it has one.
    let both = "seeds = 2\n[[grid]]\nexperiments = 'mongodb'\nvariants = 'v5'\n[[grid]]\n"
        .to_owned()
        + traces;
    assert_eq!(cells(&both).len(), 3);
}

#[test]
fn costs_of_a_trace_are_cells_of_their_own() {
    let traces =
        "traces = 'sqlite.pageops.zst'\nvariants = 'v5'\nmemory = '25%'\nswap = 'nvme:16MiB'\n";
    let all = cells(&format!(
        "{traces}costs = {{ nvme_read_lat_ns = [20_000, 800_000] }}"
    ));
    assert_eq!(all.len(), 2);
    assert_ne!(all[0].key, all[1].key);
    assert_eq!(all[1].settings()["cost nvme_read_lat_ns"], "800000");
    let time = |cell| {
        let row = Runner::new().run(cell).unwrap();
        let found = row.counters.iter().find(|(name, _)| name == "time_ns");
        assert!(row.costs.contains("nvme_read_lat_ns"), "{}", row.costs);
        found.expect("replays take time").1
    };
    let [fast, slow] = [&all[0], &all[1]].map(time);
    assert!(slow > 5.0 * fast, "{fast} {slow}");
    let message = refused(&format!("{traces}costs = {{ nvme_read_lat_ns = -5 }}"));
    assert!(message.contains("nvme_read_lat_ns"), "{message}");
}

#[test]
fn equal_traces_under_two_names_are_two_rows() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Path::new(data()).join("sqlite.pageops.zst");
    for name in ["a.pageops.zst", "b.pageops.zst"] {
        std::fs::copy(&sample, folder.path().join(name)).unwrap();
    }
    let text = "traces = ['a.pageops.zst', 'b.pageops.zst', './a.pageops.zst']\nvariants = 'fifo'\nmemory = '25%'";
    let grid = Grid::from_toml("grid.toml", text, folder.path()).unwrap();
    let all = grid.cells().unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].key, all[1].key);
    let rows = Rows(vec![Runner::new().run(&all[0]).unwrap()]);
    let table = render_means(&means(&all, &rows), &[], crate::report::Style::Plain);
    assert!(
        table.contains("a.pageops") && table.contains("b.pageops"),
        "{table}"
    );
}

/// As with a replay: who has no memory is a result.
#[test]
fn a_replay_that_is_killed_is_a_result() {
    let text = "traces = 'sqlite.pageops.zst'\nvariants = ['v5', 'fifo']\nmemory = '1MiB'\nswap = 'nvme:4MiB'";
    let all = cells(text);
    let mut runner = Runner::new();
    let rows = Rows(all.iter().map(|cell| runner.run(cell).unwrap()).collect());
    let names: Vec<&str> = rows.0[0]
        .counters
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    for (name, is_there) in [
        ("killed_after", true),
        ("until_killed.misses", true),
        ("misses", false),
    ] {
        assert_eq!(names.contains(&name), is_there, "{name} in {names:?}");
    }
    let groups = means(&all, &rows);
    let table = render_means(&groups, &["misses".into()], crate::report::Style::Plain);
    assert!(
        table.contains("killed") && table.contains("misses"),
        "{table}"
    );
    let only = render_means(
        &groups[..1],
        &["misses".into()],
        crate::report::Style::Plain,
    );
    assert!(only.contains("killed") && only.contains("misses"), "{only}");
}

/// The reader of TOML has tables of its own for them, with a name that nobody has written.
#[test]
fn dates_are_texts() {
    let grid = |line: &str| format!("experiments = \"mongodb\"\n{line}\n");
    for (line, said) in [
        ("params = 2026-11-28", "'params' is a table"),
        ("costs = { timer_hz = [2026-11-28] }", "'2026-11-28'"),
        ("variants = [07:32:00]", "'07:32:00'"),
        ("seeds = 2026-11-28", "'seeds' is a number"),
    ] {
        let message = refused(&grid(line));
        assert!(message.contains(said), "{line}: {message}");
        assert!(!message.contains('$'), "{line}: {message}");
    }
}
