//! What those who may connect can do to a program: nothing but wait.
#![cfg(feature = "metrics")]
#![allow(unsafe_code, reason = "limits of a process of the test's own")]

use crate::common::*;
use coldset_pager::observe::{read, socket_path};
use coldset_pager::{PoolConfig, SwapConfig};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

/// Connections of the flood.
const FLOOD: usize = 550;
/// Descriptors that the program may have.
const LIMIT: u64 = 64;

fn limit_descriptors(to: u64) {
    let l = libc::rlimit {
        rlim_cur: to,
        rlim_max: to,
    };
    // SAFETY: a limit of this process, which is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &l) }, 0);
}

fn next_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert!(from.read_line(&mut line).unwrap() > 0, "it has ended");
    line.trim_end().to_string()
}

/// A program whose memory does not fit, with both doors open. Each line it gets is a round.
fn program() {
    limit_descriptors(LIMIT);
    let config = PoolConfig::new(MIB)
        .swap(SwapConfig::none().and_temporary(16 * MIB))
        .observe(true)
        .metrics("127.0.0.1:0");
    let Some(pool) = faulting(config) else { return };
    let mut region = pool.anonymous(8 * MIB as usize).unwrap();
    region.bytes_mut().fill(0);
    let doors = (pool.metrics_address().unwrap(), socket_path().unwrap());
    println!("\ndoors {} {}", doors.0, doors.1.display());
    let mut round = 0;
    while std::io::stdin().read_line(&mut String::new()).unwrap() > 0 {
        for page in region.bytes_mut().chunks_mut(PAGE) {
            assert!(page.iter().all(|&b| b == round));
            page.fill(round + 1);
        }
        round += 1;
        println!("round {round}");
    }
    println!("evicted {}", pool.stats().evicted);
}

struct Program {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    metrics: SocketAddr,
    socket: PathBuf,
}

/// What a process has, as another one sees it.
#[derive(Clone, Copy, Debug)]
struct Has {
    sockets: usize,
    threads: u64,
    resident_kib: u64,
}

impl Program {
    /// None where there is no fault-driven mode.
    fn start(test: &str) -> Option<Self> {
        let mut c = child::command(test, "program");
        #[allow(clippy::zombie_processes, reason = "`end` waits")]
        let mut child = c
            .stdin(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        loop {
            let line = next_line(&mut from);
            if line.contains("skipped") {
                println!("{line}");
                child.wait().unwrap();
                return None;
            }
            if let Some((address, path)) =
                line.strip_prefix("doors ").and_then(|l| l.split_once(' '))
            {
                return Some(Self {
                    to: child.stdin.take(),
                    metrics: address.parse().unwrap(),
                    socket: path.into(),
                    child,
                    from,
                });
            }
        }
    }

    /// Misses on all of its memory.
    fn round(&mut self) {
        writeln!(self.to.as_ref().unwrap()).unwrap();
        let line = next_line(&mut self.from);
        assert!(line.starts_with("round "), "{line:?}");
    }

    fn has(&self) -> Has {
        let pid = self.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Has {
            sockets: std::fs::read_dir(format!("/proc/{pid}/fd"))
                .unwrap()
                .filter_map(|e| std::fs::read_link(e.unwrap().path()).ok())
                .filter(|name| name.to_string_lossy().starts_with("socket:"))
                .count(),
            threads: number("Threads:"),
            resident_kib: number("VmRSS:"),
        }
    }

    /// Asks as Prometheus does, until there is an answer: the doors may be busy for some seconds.
    fn scrape(&self) -> String {
        let mut answer = String::new();
        while !answer.ends_with("# EOF\n") {
            answer.clear();
            let mut s = TcpStream::connect(self.metrics).unwrap();
            let _ = s.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            let _ = s.read_to_string(&mut answer);
        }
        answer
    }

    fn end(mut self) {
        self.to = None;
        let mut rest = String::new();
        self.from.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        assert!(rest.contains("evicted "), "{rest}");
    }
}

/// Somebody else, who opens as many connections as possible and keeps them: another user, if this one is
/// root.
fn flood() {
    let address: SocketAddr = std::env::var("COLDSET_TEST_DOOR").unwrap().parse().unwrap();
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(1));
    let all: Vec<TcpStream> = (0..FLOOD).map_while(|i| connect(i).ok()).collect();
    println!("\nflood {}", all.len());
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_flood_of_connections_costs_eight() {
    const NAME: &str = "a_flood_of_connections_costs_eight";
    match child::role().as_deref() {
        Some("program") => return program(),
        Some(_) => return flood(),
        None => {}
    }
    let _one = alone();
    let Some(mut program) = Program::start(NAME) else {
        return;
    };
    program.round();
    assert!(program.scrape().contains("coldset"));
    let before = program.has();
    let mut c = child::command_unprivileged(NAME, "flood");
    let mut somebody = c
        .env("COLDSET_TEST_DOOR", program.metrics.to_string())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(somebody.stdout.take().unwrap());
    let connected: usize = loop {
        let line = next_line(&mut said);
        if let Some(n) = line.strip_prefix("flood ") {
            break n.parse().unwrap();
        }
    };
    // The kernel's queue holds more than are served.
    assert!(connected > 100, "{connected} connections");
    let mut most = before;
    for _ in 0..3 {
        program.round();
        let now = program.has();
        most.sockets = most.sockets.max(now.sockets);
        most.threads = most.threads.max(now.threads);
        most.resident_kib = most.resident_kib.max(now.resident_kib);
    }
    println!("before {before:?}, with {connected} connections {most:?}");
    assert!(most.sockets <= 2 + 8, "both doors, and connections");
    assert_eq!(most.threads, before.threads);
    assert!(most.resident_kib < before.resident_kib + 4096);
    // The other door is not affected.
    assert_eq!(read(program.child.id()).unwrap().pools.len(), 1);
    drop(somebody.stdin.take());
    somebody.wait().unwrap();
    if c.get_program() != std::env::current_exe().unwrap() {
        std::fs::remove_file(c.get_program()).unwrap();
    }
    assert!(program.scrape().contains("coldset"));
    program.round();
    program.end();
}

/// Requests without an end, fast and slow, and readers that do not read: each is over after a while.
#[test]
fn whoever_does_not_end_is_ended() {
    const NAME: &str = "whoever_does_not_end_is_ended";
    if child::role().is_some() {
        return program();
    }
    let _one = alone();
    let Some(mut program) = Program::start(NAME) else {
        return;
    };
    program.round();
    program.scrape();
    let before = program.has();
    // 64 MiB of a header.
    let mut fast = TcpStream::connect(program.metrics).unwrap();
    fast.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
    let part = [b'x'; 1 << 16];
    let refused = (0..1024).any(|_| fast.write_all(&part).is_err());
    let after = program.has();
    println!("before {before:?}, after an endless header {after:?}");
    assert!(refused, "64 MiB have been taken");
    assert!(after.resident_kib < before.resident_kib + 4096);
    // One that is too long, and then waits for the answer.
    let mut long = TcpStream::connect(program.metrics).unwrap();
    let head = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(8 << 10));
    long.write_all(&head.as_bytes()[..8 << 10]).unwrap();
    let mut answer = String::new();
    long.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // A byte now and then; nothing at all; a reader that never reads; the other door's. The slots are all
    // taken by them, and free again later.
    let mut slow: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(program.metrics).unwrap())
        .collect();
    let silent = UnixStream::connect(&program.socket).unwrap();
    slow[0].write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let ended = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        slow[0].write_all(b"X").is_err()
    });
    assert!(ended, "a minute of single bytes");
    for s in &mut slow[1..] {
        let n = s.read(&mut [0; 16]);
        assert!(!matches!(n, Ok(1..)), "{n:?}");
    }
    program.scrape();
    assert_eq!(read(program.child.id()).unwrap().pools.len(), 1);
    drop(silent);
    program.round();
    program.end();
}
