//! The processes that do the accesses of a run, and the lines to them.

use crate::cgroup::Tree;
use crate::plan::{Cast, Plan, Tasks, TASKS_MAX};
use crate::sys::Counts;
use crate::worker::{Line, Orders, Seats};
use crate::PlayError;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{fcntl_setfd, FdFlags};
use rustix::process::{getrlimit, kill_process, setrlimit, Pid, Resource, Rlimit, Signal};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

/// Workers that have been started. They end with it.
pub(crate) struct Crew {
    processes: Vec<Process>,
    /// By seat.
    pub lines: Vec<Line>,
}

impl Crew {
    /// Starts them and waits until they have all that they need. `orders` lacks the seats.
    pub fn start(plan: &Plan, orders: &Orders, cast: &Cast) -> Result<Self, PlayError> {
        allow_descriptors();
        let shared = || -> io::Result<_> {
            let (counts, file) = Counts::make(cast.tasks().len())?;
            // It goes to all processes that are started here.
            fcntl_setfd(&file, FdFlags::empty())?;
            Ok((counts, file))
        };
        let shared = shared().map_err(PlayError::io("memory that workers share"))?;
        let mut crew = Self {
            processes: Vec::new(),
            lines: Vec::new(),
        };
        for (_, seats) in cast.workers() {
            let orders = Orders {
                counts: (shared.1.as_raw_fd(), seats.start),
                ..orders.clone()
            };
            match (plan.tasks, seats.len()) {
                (Tasks::One, _) => crew.add(plan, &orders, Seats::All, &shared.0)?,
                (Tasks::Processes, 1) => crew.add(plan, &orders, Seats::Task, &shared.0)?,
                (_, threads) => crew.add_threads(plan, &orders, threads, &shared.0)?,
            }
        }
        for seat in 0..crew.lines.len() {
            if crew.lines[seat].ready().is_err() {
                let process = crew.process(cast.worker(seat));
                return Err(PlayError::Worker(process.last_words()));
            }
        }
        Ok(crew)
    }

    /// A process with one line.
    fn add(
        &mut self,
        plan: &Plan,
        orders: &Orders,
        seats: Seats,
        counts: &Counts,
    ) -> Result<(), PlayError> {
        let mut command = command(plan, orders, seats)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command)?;
        let (input, output) = (process.0.stdin.take(), process.0.stdout.take());
        let (input, output) = (input.expect("piped"), output.expect("piped"));
        self.processes.push(process);
        let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
        self.line((input, output), counts)
    }

    /// The line to the next seat: its input and its output.
    fn line(&mut self, ends: (OwnedFd, OwnedFd), counts: &Counts) -> Result<(), PlayError> {
        let count = counts.count(self.lines.len());
        let count = count.map_err(PlayError::io("memory that workers share"))?;
        let (input, output) = (File::from(ends.0), File::from(ends.1));
        self.lines.push(Line::new(input, output, count));
        Ok(())
    }

    /// A process with a line for each of its threads.
    fn add_threads(
        &mut self,
        plan: &Plan,
        orders: &Orders,
        n: usize,
        counts: &Counts,
    ) -> Result<(), PlayError> {
        let what = format!("pipes for {n} threads (see ulimit -n)");
        let pipes = (0..n)
            .map(|_| Pipes::make())
            .collect::<io::Result<Vec<_>>>();
        let pipes = pipes.map_err(PlayError::io(what))?;
        let theirs = pipes.iter().map(Pipes::theirs).collect();
        let mut command = command(plan, orders, Seats::Threads(theirs))?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.processes.push(Process::spawn(command)?);
        let mut pipes = pipes.into_iter();
        pipes.try_for_each(|p| self.line((p.to.1, p.from.0), counts))
    }

    /// Moves them into their groups.
    pub fn enter(&self, tree: &Tree) -> Result<(), PlayError> {
        for (n, process) in self.processes.iter().enumerate() {
            tree.of_worker(n).enter(process.0.id())?;
        }
        Ok(())
    }

    /// Their process ids.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(|p| p.0.id()).collect()
    }

    /// Their lines, and what ends all processes but that of one seat.
    pub fn parts<'a>(
        &'a mut self,
        cast: &'a Cast,
    ) -> (&'a mut [Line], impl Fn(Option<usize>) + use<'a>) {
        let processes = &self.processes;
        let end = move |but: Option<usize>| {
            let but = but.map(|seat| cast.worker(seat));
            let others = processes.iter().enumerate();
            others
                .filter(|(n, _)| Some(*n) != but)
                .for_each(|(_, process)| process.kill());
        };
        (&mut self.lines, end)
    }

    /// The process of a worker.
    pub fn process(&mut self, worker: usize) -> &mut Process {
        &mut self.processes[worker]
    }
}

/// The worker's command line.
fn command(plan: &Plan, orders: &Orders, seats: Seats) -> Result<Command, PlayError> {
    let nobody = || PlayError::Plan("no command for the worker".into());
    let (program, first) = plan.worker.split_first().ok_or_else(nobody)?;
    let orders = Orders {
        seats,
        ..orders.clone()
    };
    let mut command = Command::new(program);
    command.args(first).args(orders.to_arguments());
    Ok(command)
}

/// One process.
pub(crate) struct Process(Child);

impl Process {
    fn spawn(mut command: Command) -> Result<Self, PlayError> {
        let what = format!("starting {}", command.get_program().to_string_lossy());
        // Ctrl-C is for us, who then end it.
        command.process_group(0).stderr(Stdio::piped());
        command.spawn().map(Self).map_err(PlayError::io(what))
    }

    fn kill(&self) {
        // It has not been waited for, so nobody else has its number.
        let _ = kill_process(Pid::from_child(&self.0), Signal::KILL);
    }

    /// What it said before it ended, or how it ended.
    pub fn last_words(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.0.stderr.take() {
            let _ = errors.read_to_string(&mut text);
        }
        let status = self.0.wait();
        let text = text.trim();
        match (text, status) {
            ("", Ok(status)) => format!("the worker ended: {status}"),
            ("", Err(e)) => format!("the worker ended: {e}"),
            (text, _) => text.strip_prefix("coldset: ").unwrap_or(text).to_owned(),
        }
    }

    /// This signal has ended it.
    pub fn was_ended_by(&mut self, signal: Signal) -> bool {
        let status = self.0.wait();
        status.is_ok_and(|s| s.signal() == Some(signal.as_raw()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The pipes of a thread: to it, and from it.
struct Pipes {
    to: (OwnedFd, OwnedFd),
    from: (OwnedFd, OwnedFd),
}

impl Pipes {
    fn make() -> io::Result<Self> {
        let pipe = || io::pipe().map(|(read, write)| (read.into(), write.into()));
        let pipes = Self {
            to: pipe()?,
            from: pipe()?,
        };
        // Its ends go to the process that is started next.
        for end in [&pipes.to.0, &pipes.from.1] {
            fcntl_setfd(end, FdFlags::empty())?;
        }
        Ok(pipes)
    }

    /// Numbers of the thread's ends.
    fn theirs(&self) -> (i32, i32) {
        (self.to.0.as_raw_fd(), self.from.1.as_raw_fd())
    }
}

/// Descriptors for the most workers there can be, as far as that is allowed.
fn allow_descriptors() {
    let wanted = TASKS_MAX as u64 * 4 + 256;
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|n| n < wanted) {
        let current = Some(now.maximum.map_or(wanted, |most| most.min(wanted)));
        // If it is refused, pipes that cannot be made say so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..now });
    }
}
