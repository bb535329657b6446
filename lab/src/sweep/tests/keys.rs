use super::{cells, data};
use crate::sweep::{version, Cell, Grid};
use std::collections::BTreeSet;

fn key(text: &str) -> String {
    let all = cells(text);
    assert_eq!(all.len(), 1, "{text}");
    all[0].key.clone()
}

const BASE: &str = "experiments = 'mongodb'\nvariants = 'base'\n";

#[test]
fn a_key_changes_with_every_input() {
    let more = [
        "",
        "seeds = [2]",
        "scales = '1/128'",
        "effort = 0.5",
        "params = { threads = 8 }",
        "params = { threads = 9 }",
        "costs = { nvme_read_lat_ns = 1000 }",
        "costs = { nvme_read_lat_ns = 1001 }",
        "costs = { minor_fault_file_ns = 1000 }",
    ];
    let mut keys: BTreeSet<String> = more.iter().map(|m| key(&format!("{BASE}{m}"))).collect();
    assert_eq!(keys.len(), more.len());
    // Each switch.
    let presets = ["classic", "v612", "v5", "merged", "fifo"];
    for preset in presets {
        keys.insert(key(&format!(
            "experiments = 'mongodb'\nvariants = '{preset}'"
        )));
    }
    keys.insert(key("experiments = 'slow-io'\nvariants = 'base'"));
    assert_eq!(keys.len(), more.len() + presets.len() + 1);
    let replay = "traces = 'sqlite.pageops.zst'\nvariants = 'base'\n";
    for m in [
        "memory = '25%'",
        "memory = '26%'",
        "memory = '25%'\nswappiness = 61",
        "memory = '25%'\nswap = 'zram:16MiB'",
        "memory = '25%'\nkernel_memory = false",
        "memory = '25%'\nset = { smaller_batch = true }",
    ] {
        assert!(keys.insert(key(&format!("{replay}{m}"))), "{m}");
    }
}

#[test]
fn every_switch_and_cost_by_value() {
    let cell = &cells(BASE)[0];
    let preset = coldset_engine::presets::preset("base").unwrap();
    let mut keys = BTreeSet::from([cell.key.clone()]);
    for switch in preset.describe() {
        let other = match switch.value.as_str() {
            "on" => "off",
            "off" if switch.accepts == "on, off" => "on",
            _ => continue,
        };
        let set = vec![format!("{}={other}", switch.name)];
        let cell = Cell {
            set,
            ..cell.clone()
        };
        assert!(
            keys.insert(cell.key_of(version()).unwrap()),
            "{}",
            switch.name
        );
    }
    assert!(keys.len() > 20);
    let costs = coldset_machine::Params::default().describe();
    let text = costs
        .iter()
        .map(|c| format!("{}={}", c.name, c.value))
        .collect::<Vec<_>>();
    assert!(!text.is_empty());
    // Costs given at their default are the default.
    let same = format!(
        "{BASE}costs = {{ {} = {} }}",
        costs[0].name, costs[0].default
    );
    assert_eq!(key(&same), cell.key);
}

#[test]
fn a_key_changes_with_nothing_else() {
    let base = key(BASE);
    // However it is written.
    assert_eq!(
        key("experiment='mongodb'\nvariant='base'\nscales='1/64'\neffort=1.0"),
        base
    );
    assert_eq!(key(&format!("{BASE}params = {{ threads = '32' }}")), base);
    assert_eq!(
        key(&format!("{BASE}set = {{ smaller_batch = false }}")),
        base
    );
    // A preset and switches that come to the same.
    let written = "experiments='mongodb'\nvariants='base+smaller_batch=on'";
    assert_eq!(
        key(written),
        key(&format!("{BASE}set = {{ smaller_batch = true }}"))
    );
    // Wherever the trace lies.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("other.name");
    let trace = crate::traces::load(
        format!("{}/sqlite.pageops.zst", data()),
        None,
        &crate::traces::TraceOptions::default(),
    )
    .unwrap();
    let bytes: Vec<u8> = trace.ops().iter().flat_map(|op| op.to_bytes()).collect();
    let text = "traces = ['x']\nmemory = '25%'\nvariants = 'v5'";
    let at = |path: &std::path::Path| {
        let text = text.replace("x", path.to_str().unwrap());
        let grid = Grid::from_toml("g", &text, std::path::Path::new("")).unwrap();
        grid.cells().unwrap()[0].key.clone()
    };
    let plain = copy.with_extension("pageops");
    std::fs::write(&plain, &bytes).unwrap();
    let here = at(std::path::Path::new(&format!(
        "{}/sqlite.pageops.zst",
        data()
    )));
    assert_eq!(at(&plain), here);
    // One reference more.
    std::fs::write(&plain, [&bytes[..], &bytes[..8]].concat()).unwrap();
    assert_ne!(at(&plain), here);
}

#[test]
fn another_version_is_another_key() {
    let cell = &cells(BASE)[0];
    assert_ne!(
        cell.key_of("0.1.0+0").unwrap(),
        cell.key_of("0.1.0+1").unwrap()
    );
    assert_eq!(cell.key_of(version()).unwrap(), cell.key);
    assert_eq!(cell.key.len(), 64);
    let (package, sources) = version().split_once('+').unwrap();
    assert_eq!(package, env!("CARGO_PKG_VERSION"));
    assert_eq!(sources.len(), 16);
}
