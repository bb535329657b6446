use super::cells;
use crate::sweep::{means, render_means, work, Done, Row, Rows, Runner, Store, SweepError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn row(key: &str, seed: u64) -> Row {
    Row {
        key: key.into(),
        version: "v".into(),
        experiment: "e".into(),
        variant: "base".into(),
        seed,
        scale: "1/64".into(),
        effort: 0.1,
        switches: "{}".into(),
        costs: "{}".into(),
        params: "{\"a\":\"\u{fc}\"}".into(),
        counters: vec![("pgscan".into(), seed as f64), ("ratio".into(), 1.0 / 3.0)],
        ..Row::default()
    }
}

fn put(store: &Store, key: &str, seed: u64) {
    let claim = store.claim(key).unwrap().unwrap();
    store.append(&claim, row(key, seed)).unwrap();
}

fn parquet(dir: &Path) -> BTreeSet<String> {
    let all = std::fs::read_dir(dir).unwrap();
    let name =
        |e: std::io::Result<std::fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    all.map(name).filter(|n| n.ends_with(".parquet")).collect()
}

fn all(store: &Store) -> Rows {
    store.read(&store.keys().unwrap()).unwrap()
}

#[test]
fn what_is_appended_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(all(&store), Rows::default());
    put(&store, "bb", 2);
    put(&store, "aa", 1);
    assert_eq!(all(&store), Rows(vec![row("aa", 1), row("bb", 2)]));
    assert!(store.has("aa").unwrap() && !store.has("cc").unwrap());
    // Again: the same file.
    put(&store, "aa", 1);
    assert_eq!(
        parquet(dir.path()),
        BTreeSet::from(["part-aa.parquet".into(), "part-bb.parquet".into()])
    );
    assert_eq!(
        Store::look(&dir.path().join("nothing"))
            .keys()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn merging_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let other = Store::open(dir.path()).unwrap();
    (0..20).for_each(|i| put(&store, &format!("{i:02}"), i));
    let before = all(&store);
    store.merge().unwrap();
    assert_eq!(parquet(dir.path()).len(), 1);
    assert_eq!(all(&store), before);
    // Another process's view, and parts beside merged files.
    assert_eq!(all(&other), before);
    assert!(other.has("07").unwrap());
    put(&other, "99", 99);
    other.merge().unwrap();
    store.merge().unwrap();
    assert_eq!(parquet(dir.path()).len(), 1);
    assert_eq!(all(&store).0.len(), 21);
    let wanted = BTreeSet::from(["07".to_owned(), "none".to_owned()]);
    assert_eq!(store.read(&wanted).unwrap(), Rows(vec![row("07", 7)]));
}

#[test]
fn an_interrupted_merge_is_put_right() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (0..5).for_each(|i| put(&store, &format!("{i:02}"), i));
    let parts: Vec<(PathBuf, Vec<u8>)> = parquet(dir.path())
        .iter()
        .map(|n| {
            (
                dir.path().join(n),
                std::fs::read(dir.path().join(n)).unwrap(),
            )
        })
        .collect();
    store.merge().unwrap();
    // As if it had been stopped after one file had gone.
    for (path, bytes) in &parts[1..] {
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(all(&Store::look(dir.path())).0.len(), 5);
    let again = Store::open(dir.path()).unwrap();
    assert_eq!(parquet(dir.path()).len(), 1);
    assert_eq!(all(&again).0.len(), 5);
    drop(copy);
}

#[test]
fn unfinished_files_are_not_seen_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    put(&store, "aa", 1);
    // Of a process that is gone: numbers of processes end far below.
    let left = dir.path().join(".work/part-bb.parquet.4999999");
    std::fs::write(&left, b"PAR1 half").unwrap();
    let mine = dir
        .path()
        .join(format!(".work/part-cc.parquet.{}", std::process::id()));
    std::fs::write(&mine, b"PAR1 half").unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(all(&store).0.len(), 1);
    assert!(!left.exists() && mine.exists());
}

#[test]
fn one_at_a_time_has_a_cell() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [0, 1].map(|_| Store::open(dir.path()).unwrap());
    let claim = a.claim("aa").unwrap().unwrap();
    assert!(b.claim("aa").unwrap().is_none());
    assert!(b.claim("bb").unwrap().is_some());
    drop(claim);
    assert!(b.claim("aa").unwrap().is_some());
    // Many at once: each cell is computed by exactly one.
    let counted = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::open(dir.path()).unwrap();
                for i in 0..30 {
                    let key = format!("k{i}");
                    let claim = loop {
                        match store.claim(&key).unwrap() {
                            Some(claim) => break claim,
                            None => std::thread::yield_now(),
                        }
                    };
                    if !store.has(&key).unwrap() {
                        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        store.append(&claim, row(&key, i)).unwrap();
                    }
                    drop(claim);
                    if i % 7 == 0 {
                        store.merge().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(counted.into_inner(), 30);
    assert_eq!(all(&a).0.len(), 30);
}

#[test]
fn files_of_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("table.parquet"), b"PAR1 something else").unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(error.is_environment());
    assert!(error.to_string().contains("table.parquet"), "{error}");
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let error = Store::open(&file).unwrap_err();
    assert!(matches!(error, SweepError::Io { .. }) && error.is_environment());
}

#[test]
fn cells_are_computed_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let cells = cells(
        "traces = 'sqlite.pageops.zst'\nmemory = ['25%', '50%']\nvariants = ['v5', 'fifo']
         [set]\nsmaller_batch = [true, false]",
    );
    let mut runner = Runner::new();
    let mut done = |cell| work(&store, &mut runner, cell).unwrap();
    // fifo has no batches, but the switch is in the key.
    assert_eq!(cells.len(), 8);
    for cell in &cells[..4] {
        assert_eq!(done(cell), Done::Computed);
        assert_eq!(done(cell), Done::Found);
    }
    let held = store.claim(&cells[4].key).unwrap();
    assert_eq!(done(&cells[4]), Done::Busy);
    drop(held);
    let rows = all(&store);
    assert_eq!(rows.0.len(), 4);
    let groups = means(&cells, &rows);
    assert_eq!(groups.len(), 4);
    let text = render_means(&groups, &[], Default::default());
    for part in ["set smaller_batch", "variant", "misses", "fifo"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("swappiness"), "{text}");
}

#[test]
fn a_cell_of_another_version_or_trace_is_refused() {
    let mut cell = cells("experiments = 'mongodb'\nvariants = 'v5'")[0].clone();
    let json = serde_json::to_string(&cell).unwrap();
    assert_eq!(
        serde_json::from_str::<crate::sweep::Cell>(&json).unwrap(),
        cell
    );
    cell.key = "0".repeat(64);
    let error = Runner::new().run(&cell).unwrap_err().to_string();
    assert!(error.contains("another version"), "{error}");
}
