//! Looking at a process from outside: the socket, and Prometheus.
#![allow(unsafe_code, reason = "signals to children")]

use crate::common::*;
use coldset_pager::observe::{processes, read, socket_path, ObserveError};
use coldset_pager::{FaultMode, Limits, Pool, PoolConfig, SwapConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

/// A pool in explicit mode, so that everything here runs on any kernel.
fn config() -> PoolConfig {
    PoolConfig::new(2 * MIB)
        .swap(SwapConfig::lz4(32 * MIB))
        .fault_mode(FaultMode::Explicit)
        // Counts are compared: nobody else changes them.
        .background(false)
}

/// Four times the budget, all of it used once.
fn busy(pool: &Pool) -> coldset_pager::Region {
    let group = pool.group("a \"busy\" one", Limits::new()).unwrap();
    let region = group.anonymous(8 * MIB as usize).unwrap();
    for p in 0..2048 {
        region.fix_mut(p).unwrap()[7] = 1;
    }
    region
}

/// Children of `a_process_can_be_looked_at`: a pool, its socket, and then what the role says.
fn observed_child(role: &str) {
    let pool = Pool::new(config().observe(true)).unwrap();
    let _region = busy(&pool);
    println!("\nsocket {}", socket_path().unwrap().display());
    std::io::stdout().flush().unwrap();
    if role == "wait" {
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}

/// Starts a child and waits for its socket.
fn start(test: &str, role: &str) -> (Child, PathBuf, BufReader<ChildStdout>) {
    let mut c = child::command(test, role);
    #[allow(clippy::zombie_processes, reason = "callers wait")]
    let mut c = c.stdin(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(c.stdout.take().unwrap());
    let mut line = String::new();
    loop {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it says where");
        if let Some(path) = line.trim_end().strip_prefix("socket ") {
            let path = path.into();
            return (c, path, out);
        }
    }
}

/// `T`: stopped.
fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after) = stat.rsplit_once(") ").unwrap();
    after.chars().next().unwrap()
}

#[test]
fn a_process_can_be_looked_at() {
    const NAME: &str = "a_process_can_be_looked_at";
    if let Some(role) = child::role() {
        return observed_child(&role);
    }
    let _one = alone();
    let (mut c, path, _out) = start(NAME, "wait");
    let pid = c.id();
    use std::os::unix::fs::MetadataExt;
    let folder = path.parent().unwrap();
    assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
    assert!(processes().contains(&pid));
    let seen = read(pid).unwrap();
    assert_eq!((seen.pid, seen.pools.len()), (pid, 1));
    assert!(seen.pools[0].counters["evicted"] > 1000);
    assert_eq!(seen.pools[0].groups.children[0].name, "/a \"busy\" one");
    // Stopped: it is there and does not answer.
    // SAFETY: a signal to a child of this test's.
    unsafe { libc::kill(pid as i32, libc::SIGSTOP) };
    while state_of(pid) != 'T' {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(matches!(read(pid), Err(ObserveError::Silent { .. })));
    // SAFETY: as above.
    unsafe { libc::kill(pid as i32, libc::SIGCONT) };
    assert_eq!(read(pid).unwrap().pid, pid);
    // Killed: the socket stays until somebody looks.
    c.kill().unwrap();
    c.wait().unwrap();
    assert!(path.exists());
    assert!(matches!(read(pid), Err(ObserveError::NoProcess { .. })));
    assert!(!processes().contains(&pid));
    assert!(!path.exists(), "a dead process's socket is removed");
}

#[test]
fn a_process_that_ends_takes_its_socket_away() {
    const NAME: &str = "a_process_that_ends_takes_its_socket_away";
    if let Some(role) = child::role() {
        return observed_child(&role);
    }
    let _one = alone();
    let (mut c, path, _out) = start(NAME, "end");
    assert!(c.wait().unwrap().success());
    assert!(!path.exists());
}

#[test]
fn a_process_that_cannot_be_looked_at_is_told_why() {
    const NAME: &str = "a_process_that_cannot_be_looked_at_is_told_why";
    if child::role().is_some() {
        // As nobody, if this was root: process 1 is root's.
        if !rustix::process::geteuid().is_root() {
            let e = read(1).unwrap_err();
            assert!(matches!(e, ObserveError::Denied { uid: 0, .. }), "{e}");
        }
        return;
    }
    let _one = alone();
    let text = |pid| read(pid).unwrap_err().to_string();
    assert_eq!(
        text(u32::MAX / 2),
        format!("there is no process {}", u32::MAX / 2)
    );
    // Pools, but nobody has asked for a socket.
    let pool = Pool::new(config().observe(false)).unwrap();
    if socket_path().is_none() {
        assert!(text(std::process::id()).contains("COLDSET_OBSERVE=1"));
    }
    drop(pool);
    let out = child::run_unprivileged(NAME, "nobody");
    assert!(out.status.success(), "{}", child::text(&out));
}

/// Head and body of an answer.
fn get(at: SocketAddr, path: &str) -> (String, String) {
    let mut s = TcpStream::connect(at).unwrap();
    write!(
        s,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = Vec::new();
    s.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        unchunk(body)
    } else {
        body.to_string()
    };
    (head.to_string(), body)
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (len, after) = rest.split_once("\r\n").unwrap();
        let len = usize::from_str_radix(len, 16).unwrap();
        if len == 0 {
            return body;
        }
        body.push_str(&after[..len]);
        rest = after[len..].strip_prefix("\r\n").unwrap();
    }
}

/// One line `name{label="value",...} number`.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn sample(line: &str) -> Sample {
    let is_name =
        |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let at = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let (name, mut rest) = line.split_at(at);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        while !inside.starts_with('}') {
            let (key, after) = inside.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(key), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap_or_else(|| panic!("{line}")) {
                    (i, '"') => break i,
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        _ => panic!("{line}"),
                    },
                    (_, c) => value.push(c),
                }
            };
            let before = labels.insert(key.to_string(), value);
            assert_eq!(before, None, "{line}");
            inside = &after[end + 1..];
            inside = inside.strip_prefix(',').unwrap_or(inside);
        }
        rest = &inside[1..];
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    Sample {
        name: name.to_string(),
        labels,
        value,
    }
}

/// Checks the form, line by line, and returns the samples.
fn parse(body: &str) -> Vec<Sample> {
    assert!(body.ends_with("# EOF\n"));
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut samples: Vec<Sample> = Vec::new();
    for line in body.lines().filter(|l| *l != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ').unwrap();
            let (name, text) = rest.split_once(' ').unwrap();
            match word {
                "HELP" => assert!(
                    helped.insert(name.to_string()) && !text.is_empty(),
                    "{line}"
                ),
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&text), "{line}");
                    let before = types.insert(name.to_string(), text.to_string());
                    assert_eq!(before, None, "{line}");
                }
                "UNIT" => assert!(name.ends_with(&format!("_{text}")), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let s = sample(line);
        assert!(seen.insert((s.name.clone(), s.labels.clone())), "{line}");
        let of = |suffix| s.name.strip_suffix(suffix).and_then(|n| types.get(n));
        let good = match types.get(&s.name).map(String::as_str) {
            Some("gauge") => true,
            Some(_) => false,
            None => {
                of("_total").is_some_and(|t| t == "counter")
                    || ["_bucket", "_sum", "_count"]
                        .iter()
                        .any(|suffix| of(suffix).is_some_and(|t| t == "histogram"))
            }
        };
        assert!(good, "{line}: type {types:?}");
        samples.push(s);
    }
    assert!(types.keys().all(|t| helped.contains(t)));
    samples
}

fn histogram_is_sound(samples: &[Sample], name: &str) -> f64 {
    let of = |suffix: &str| {
        let full = format!("{name}_{suffix}");
        samples.iter().filter(move |s| s.name == full)
    };
    let count = of("count").next().unwrap().value;
    let buckets: Vec<(f64, f64)> = of("bucket")
        .map(|s| (s.labels["le"].parse().unwrap(), s.value))
        .collect();
    assert!(buckets.len() > 10);
    assert!(buckets
        .windows(2)
        .all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
    assert_eq!(*buckets.last().unwrap(), (f64::INFINITY, count));
    let sum = of("sum").next().unwrap().value;
    assert!((sum > 0.0) == (count > 0.0), "{name}: {sum} of {count}");
    count
}

#[test]
fn prometheus_gets_well_formed_metrics() {
    let _one = alone();
    let pool = Pool::new(config().metrics("127.0.0.1:0")).unwrap();
    let at = pool.metrics_address().unwrap();
    let region = busy(&pool);
    let (head, body) = get(at, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    let samples = parse(&body);
    let snapshot = pool.snapshot();
    let misses = histogram_is_sound(&samples, "coldset_miss_duration_seconds");
    assert_eq!(misses, snapshot.counters["misses"] as f64);
    for other in ["evict", "writeback", "lock_wait"] {
        histogram_is_sound(&samples, &format!("coldset_{other}_duration_seconds"));
    }
    let value = |name: &str, label: &str, is: &str| {
        let found = samples.iter().find(|s| {
            let labelled = label.is_empty() || s.labels.get(label).is_some_and(|v| v == is);
            s.name == name && labelled
        });
        found.unwrap_or_else(|| panic!("{name} {label}={is}")).value
    };
    assert_eq!(value("coldset_budget_bytes", "", ""), 2.0 * MIB as f64);
    let evicted = value("coldset_pager_events_total", "event", "evicted");
    assert_eq!(evicted, snapshot.counters["evicted"] as f64);
    assert!(value("coldset_engine_events_total", "name", "pgsteal_anon") > 1000.0);
    assert!(value("coldset_engine_level_pages", "name", "anon_pages") > 0.0);
    assert!(value("coldset_group_usage_bytes", "group", "/a \"busy\" one") > 0.0);
    assert!(value("coldset_group_generation_pages", "type", "anon") >= 0.0);
    assert!(get(at, "/other").0.starts_with("HTTP/1.1 404"));
    // The same address for the next pool; a taken one is an error that says so.
    let second = Pool::new(config().metrics("127.0.0.1:0")).unwrap();
    assert_eq!(second.metrics_address(), Some(at));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let e = Pool::new(config().metrics(&*taken))
        .unwrap_err()
        .to_string();
    assert!(e.contains("Prometheus") && e.lines().count() == 1, "{e}");
    drop((region, listener));
}
