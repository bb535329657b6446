//! `coldset top` beside a living program: this one, started again for one test.

use crate::common::temporary;
use coldset_pager::{FaultMode, Limits, Pool, PoolConfig, SwapConfig};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

const ROLE: &str = "COLDSET_TEST_ROLE";
const CHILD: &str = "top::a_program_with_pools";

/// Not a test by itself: the program that the others look at. It ends when its input does.
#[test]
fn a_program_with_pools() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let config = PoolConfig::new(2 << 20)
        .fault_mode(FaultMode::Explicit)
        .swap(SwapConfig::lz4(32 << 20))
        .observe(role == "observed");
    let pool = Pool::new(config).unwrap();
    let group = pool.group("tables", Limits::new().low(1 << 20)).unwrap();
    let region = group.anonymous(8 << 20).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut round = 0u8;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                round = round.wrapping_add(1);
                for p in 0..2048 {
                    region.fix_mut(p).unwrap()[5] = round;
                }
                if round == 1 {
                    println!("\nready");
                    std::io::stdout().flush().unwrap();
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let _ = std::io::stdin().read(&mut [0]);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// A running program of that kind.
struct Program {
    child: Child,
    _out: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "the program ended");
        }
        Self { child, _out: out }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coldset"))
        .arg("top")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn good(arguments: &[&str]) -> String {
    let out = top(arguments);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), &*said), (Some(0), ""), "{arguments:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn message(arguments: &[&str], code: i32) -> String {
    let out = top(arguments);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(out.stdout.is_empty() && said.lines().count() == 1, "{said}");
    said
}

#[test]
fn a_table_and_json_of_a_living_program() {
    let program = Program::start("observed");
    let pid = program.pid();
    let table = good(&[&pid, "--once", "--interval", "300ms"]);
    for part in [
        "policy v5",
        "of 2 MiB (",
        "evictions",
        "p99",
        "/tables",
        "low 1 MiB",
        "gen ",
    ] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
    // It is at work: rates are not nothing.
    let line = table.lines().find(|l| l.contains("evictions")).unwrap();
    let rate = line.split_whitespace().last().unwrap().replace(',', "");
    assert!(rate.parse::<f64>().unwrap() > 100.0, "{line}");
    // Not a terminal: the same without asking.
    let plain = good(&[&pid, "--interval", "50ms"]);
    assert!(plain.contains("evictions"), "{plain}");
    let json: serde_json::Value = serde_json::from_str(&good(&[&pid, "--json"])).unwrap();
    assert_eq!(json["pid"].to_string(), pid);
    assert!(json["pools"][0]["counters"]["evicted"].as_u64().unwrap() > 1000);
    assert_eq!(json["pools"][0]["groups"]["children"][0]["name"], "/tables");
    // Without a number it is found, beside others that may run at the same time.
    let all: serde_json::Value = serde_json::from_str(&good(&["--json"])).unwrap();
    let all = all.as_array().unwrap();
    assert!(
        all.iter()
            .any(|p| p["pid"].as_u64() == Some(program.child.id().into())),
        "{all:?}"
    );
    let second = Program::start("observed");
    let list = good(&[]);
    for p in [&program, &second] {
        assert!(list.contains(&p.pid()), "{list}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_one_line() {
    let program = Program::start("hidden");
    let said = message(&[&program.pid(), "--once"], 3);
    assert!(said.contains("COLDSET_OBSERVE=1"), "{said}");
    let gone = program.pid();
    drop(program);
    let said = message(&[&gone], 3);
    assert!(said.contains("no process"), "{said}");
    assert!(message(&["abc"], 2).contains("'abc'"));
    assert!(message(&["0"], 2).contains("'0'"));
    assert!(message(&["1", "--interval", "1ms"], 2).contains("50ms"));
    assert!(message(&["1", "--once", "--json"], 2).contains("--once"));
}

/// This process as one that has a socket, which need not be a pager's. `top` finds it with the runtime folder.
struct Pretender {
    runtime: PathBuf,
    socket: PathBuf,
    pid: String,
}

impl Pretender {
    fn new(name: &str) -> (Self, UnixListener) {
        let pid = std::process::id().to_string();
        let runtime = temporary(name);
        let user = rustix::process::geteuid().as_raw();
        let folder = runtime.join(format!("coldset-{user}"));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join(format!("{pid}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let new = Self {
            runtime,
            socket,
            pid,
        };
        (new, listener)
    }

    /// Answers everybody like this, until the client has gone.
    fn answering(name: &str, say: impl Fn(UnixStream) + Send + 'static) -> Self {
        let (new, listener) = Self::new(name);
        std::thread::spawn(move || listener.incoming().flatten().for_each(say));
        new
    }

    /// The exit code of `top` in 512 MiB of address space, and all that it said. It has 15 seconds.
    fn top(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let out = Command::new("sh")
            .args(["-c", "ulimit -v 524288; exec timeout 15 \"$@\"", "sh"])
            .args([env!("CARGO_BIN_EXE_coldset"), "top", &self.pid])
            .args(arguments)
            .env("XDG_RUNTIME_DIR", &self.runtime)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [out.stdout, out.stderr].concat();
        (out.status.code(), String::from_utf8(said).unwrap())
    }

    fn refused(&self, why: &str) {
        let (code, said) = self.top(&["--once", "--interval", "50ms"]);
        assert_eq!((code, said.lines().count()), (Some(3), 1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

impl Drop for Pretender {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}

/// Root looks at processes of others, which may answer as they please.
#[test]
fn answers_have_an_end() {
    // As much as is taken, within reason.
    let endless = Pretender::answering("endless", |mut s| {
        let blanks = vec![b' '; 1 << 20];
        (0..2048).all(|_| s.write_all(&blanks).is_ok());
    });
    endless.refused("64 MiB");
    // Each byte comes before anybody has lost patience.
    let slow = Pretender::answering("slow", |mut s| {
        (0..200).all(|_| {
            std::thread::sleep(Duration::from_millis(100));
            s.write_all(b" ").is_ok()
        });
    });
    slow.refused("does not answer");
}

/// One that is stopped accepts nobody: they wait in a queue, and when it is full, in the call that connects.
#[test]
fn a_full_queue_holds_up_nobody() {
    let (stopped, listener) = Pretender::new("stopped");
    let (socket, count) = (stopped.socket.clone(), Arc::new(AtomicU64::new(0)));
    let connected = Arc::clone(&count);
    let filling = std::thread::spawn(move || {
        while UnixStream::connect(&socket).is_ok() {
            connected.fetch_add(1, Relaxed);
        }
    });
    let mut before = 0;
    while before == 0 || before != count.load(Relaxed) {
        before = count.load(Relaxed);
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(!filling.is_finished(), "the queue has no end");
    stopped.refused("does not answer");
    // Whoever waits is refused now.
    drop(listener);
    filling.join().unwrap();
}

/// Somebody who does not answer is left out of the list of those who do. (It has the programs of other tests, too.)
#[test]
fn others_are_listed_beside_one_that_does_not_answer() {
    let (silent, _listener) = Pretender::new("list");
    let program = Program::start("observed");
    let answer = good(&[&program.pid(), "--json"]);
    let socket = silent
        .socket
        .with_file_name(format!("{}.sock", program.pid()));
    let others = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut all = others.incoming().flatten();
        all.all(|mut s| s.write_all(answer.as_bytes()).is_ok());
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_coldset"));
    command
        .args(["top", "--json"])
        .env("XDG_RUNTIME_DIR", &silent.runtime);
    let out = command.stdin(Stdio::null()).output().unwrap();
    let why = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{why}");
    assert!(
        why.contains(&format!("left out: process {} does not", silent.pid)),
        "{why}"
    );
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let pids: Vec<String> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["pid"].to_string())
        .collect();
    assert!(pids.contains(&program.pid()), "{pids:?}");
    assert!(!pids.contains(&silent.pid), "{pids:?}");
}

#[test]
fn another_version_is_named() {
    for (answer, why) in [
        ("{\"version\": 2}", "(version 2)"),
        ("{\"pid\": 2}", "(no version)"),
        ("", "does not answer"),
    ] {
        let p = Pretender::answering("version", |mut s| drop(s.write_all(answer.as_bytes())));
        p.refused(why);
    }
}

/// Sums of numbers that no pool has, and a clock that goes back.
#[test]
fn numbers_beyond_reason_are_shown() {
    fn enlarge(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Array(all) => all.iter_mut().for_each(enlarge),
            serde_json::Value::Object(all) => {
                // These have 32 bits.
                let numbers = ["memcg", "region"];
                let others = all
                    .iter_mut()
                    .filter(|(k, _)| !numbers.contains(&k.as_str()));
                others.for_each(|(_, v)| enlarge(v));
            }
            serde_json::Value::Number(n) if n.is_u64() => *n = i64::MAX.into(),
            _ => {}
        }
    }
    let program = Program::start("observed");
    let mut all: serde_json::Value =
        serde_json::from_str(&good(&[&program.pid(), "--json"])).unwrap();
    enlarge(&mut all["pools"]);
    let clock = AtomicU64::new(10);
    let p = Pretender::answering("numbers", move |mut s| {
        let mut now = all.clone();
        now["pools"][0]["now_ns"] = clock.fetch_sub(1, Relaxed).into();
        drop(s.write_all(now.to_string().as_bytes()));
    });
    let (code, said) = p.top(&["--once", "--interval", "50ms"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("evictions"), "{said}");
}
