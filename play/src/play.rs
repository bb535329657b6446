//! One run of a trace.

use crate::cgroup::{Cgroup, Limits};
use crate::counters::Counters;
use crate::disturbed::Disturbance;
use crate::files::Files;
use crate::lists::{self, Lists};
use crate::machine::{Description, NoReadAhead};
use crate::worker::{Answer, Control, Orders};
use crate::PlayError;
use coldset_traces::{Op, Trace};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How a trace is played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the files are made.
    pub dir: PathBuf,
    /// Limits of the group.
    pub limits: Limits,
    /// A group that is there, in place of one of our own.
    pub cgroup: Option<PathBuf>,
    /// Flush the CPU's translations each so many mapped accesses; 0: never. The kernel sees an accessed bit
    /// only when the CPU walks the page table again.
    pub exact_access: u32,
    /// Points on the way at which counters are read.
    pub points: usize,
    /// The command that starts a worker: its arguments follow.
    pub worker: Vec<String>,
}

/// Counters on the way.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Accesses done.
    pub access: u64,
    /// Since the start.
    pub time: Duration,
    /// As [`Played::counters`].
    pub counters: BTreeMap<String, u64>,
    /// Generations; none: the kernel shows none.
    pub lists: Option<Vec<Lists>>,
}

/// What a run came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// What it ran on.
    pub machine: Description,
    /// By the lab's names.
    pub counters: BTreeMap<String, u64>,
    /// Names among them that are of the whole machine.
    pub machine_wide: Vec<String>,
    /// On the way, the end included.
    pub points: Vec<Point>,
    /// Latencies by kind of access.
    pub latencies: Answer,
    /// Time of all accesses.
    pub time: Duration,
    /// Bytes that the worker had in the group before the first access.
    pub own_bytes: u64,
    /// The kernel killed the worker for want of memory, after about so many accesses.
    pub killed: Option<u64>,
    /// What other programs did to it.
    pub disturbed: Vec<Disturbance>,
}

/// A worker that has been started.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the pipe to a worker holds at most: how much it can be behind when it is killed.
const PIPE: usize = 64 << 10;

impl Worker {
    fn start(plan: &Plan, orders: &Orders) -> Result<Self, PlayError> {
        let (program, first) = plan
            .worker
            .split_first()
            .ok_or_else(|| PlayError::Plan("no command for the worker".into()))?;
        let mut child = Command::new(program)
            .args(first)
            .args(orders.to_arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(PlayError::io(format!("starting {program}")))?;
        let input = child.stdin.take();
        let output = child.stdout.take().expect("piped");
        let mut worker = Self {
            child,
            input,
            output,
        };
        if let Some(input) = &worker.input {
            let size = rustix::pipe::fcntl_setpipe_size(input, PIPE);
            size.map_err(|e| PlayError::io("the pipe to the worker")(e.into()))?;
        }
        match Answer::read(&mut worker.output) {
            Ok(_) => Ok(worker),
            Err(_) => Err(PlayError::Worker(worker.last_words())),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.input {
            Some(input) => input.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends accesses, and waits until they are done; none: `go_on` says no.
    fn run(
        &mut self,
        ops: &[Op],
        then: Control,
        mut go_on: impl FnMut() -> bool,
    ) -> io::Result<Option<Answer>> {
        let mut bytes = Vec::with_capacity(PIPE);
        for ops in ops.chunks(PIPE / Op::BYTES / 8) {
            if !go_on() {
                return Ok(None);
            }
            bytes.clear();
            bytes.extend(ops.iter().flat_map(|op| op.to_bytes()));
            self.send(&bytes)?;
        }
        self.send(&then.to_bytes())?;
        Answer::read(&mut self.output).map(Some)
    }

    /// Bytes that it has not taken.
    fn behind(&self) -> u64 {
        let input = self.input.as_ref();
        input
            .and_then(|i| rustix::io::ioctl_fionread(i).ok())
            .unwrap_or(0)
    }

    /// What it said before it ended, or how it ended.
    fn last_words(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = io::Read::read_to_string(&mut errors, &mut text);
        }
        let status = self.child.wait();
        let text = text.trim();
        match (text, status) {
            ("", Ok(status)) => format!("the worker ended: {status}"),
            ("", Err(e)) => format!("the worker ended: {e}"),
            (text, _) => text.strip_prefix("coldset: ").unwrap_or(text).to_owned(),
        }
    }

    fn was_killed(&mut self) -> bool {
        let status = self.child.wait();
        status.is_ok_and(|s| s.signal() == Some(rustix::process::Signal::KILL.as_raw()))
    }
}

/// Plays `trace`. `progress` is called at each point; `go_on` says whether to.
///
/// # Errors
/// A cgroup, files or a worker that cannot be made; an access that fails; a page whose contents are not what was
/// stored.
pub fn play(
    trace: &Trace,
    plan: &Plan,
    mut progress: impl FnMut(),
    mut go_on: impl FnMut() -> bool,
) -> Result<Played, PlayError> {
    let mut machine = Description::here(&plan.dir);
    let in_memory = ["tmpfs", "ramfs"].contains(&machine.file_system.as_str());
    if in_memory && trace.objects.iter().any(|o| !o.is_anon) {
        return Err(PlayError::Plan(format!(
            "{}: files on {} are memory themselves; choose a folder on a disk with --dir",
            plan.dir.display(),
            machine.file_system
        )));
    }
    let group = match &plan.cgroup {
        Some(path) => Cgroup::at(path)?,
        None => Cgroup::create()?,
    };
    group.limit(plan.limits)?;
    machine.in_group(&group);
    let files = Files::make(&plan.dir, trace)?;
    files.forget()?;
    let orders = Orders {
        folder: files.folder().to_owned(),
        objects: trace.objects.iter().map(|o| (o.pages, o.is_anon)).collect(),
        exact_access: plan.exact_access,
    };
    let quiet = NoReadAhead::begin(&plan.dir);
    machine.quiet_faults = quiet.is_some();
    let mut worker = Worker::start(plan, &orders)?;
    drop(quiet);
    let pid = worker.child.id();
    group.enter(pid)?;
    let before = Counters::read(&group, pid, &plan.dir);
    let started = Instant::now();
    let mut points: Vec<Point> = Vec::new();
    let mut latencies = Answer::ready();
    let mut now = before.clone();
    let mut killed = None;
    let stretch = trace.ops.len().div_ceil(plan.points.max(1)).max(1);
    let mut sent = 0;
    for ops in trace.ops.chunks(stretch) {
        sent += ops.len() as u64;
        match worker.run(ops, Control::Sync, &mut go_on) {
            Ok(Some(answer)) => latencies = answer,
            Ok(None) => return Err(PlayError::Interrupted),
            Err(_) if group.kills() > before.group["events_oom_kill"] && worker.was_killed() => {
                killed = Some(sent - (worker.behind() / Op::BYTES as u64).min(sent));
            }
            Err(_) => return Err(PlayError::Worker(worker.last_words())),
        }
        let time = started.elapsed();
        now = Counters::read(&group, pid, &plan.dir);
        points.push(Point {
            access: killed.unwrap_or(latencies.done),
            time,
            counters: now.since(&before).0,
            lists: lists::read(&group),
        });
        if killed.is_some() {
            break;
        }
        progress();
    }
    let (mut counters, machine_wide) = now.since(&before);
    let time = points.last().map_or(Duration::ZERO, |p| p.time);
    counters.insert("time_ms".into(), time.as_millis() as u64);
    if killed.is_none() {
        worker
            .run(&[], Control::End, || true)
            .map_err(PlayError::io("the worker's end"))?;
    }
    Ok(Played {
        machine,
        counters,
        machine_wide,
        points,
        latencies,
        time,
        own_bytes: before.usage,
        killed,
        disturbed: now.disturbed_since(&before),
    })
}
