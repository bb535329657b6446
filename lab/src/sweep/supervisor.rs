//! Keeps worker processes busy with the cells of a sweep. A run that crashes takes its process with it,
//! and costs one failed cell.

use super::worker::Answer;
use super::{Cell, Store, SweepError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Attempts at a cell whose worker is killed.
const ATTEMPTS: u32 = 2;
/// Pause before a cell that another sweep has is asked for again, and between looks at `go_on`.
const PAUSE: Duration = Duration::from_millis(100);
/// Computed cells after which small files are merged.
const MERGE_EVERY: usize = 1000;

/// What became of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Different cells.
    pub cells: usize,
    /// Computed by this sweep.
    pub computed: usize,
    /// Computed before, or by another sweep meanwhile.
    pub found: usize,
    /// Cells that gave no result.
    pub failed: Vec<Failed>,
}

/// A cell without a result.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The cell in one line.
    pub cell: String,
    /// Its key.
    pub key: String,
    /// Why there is none.
    pub why: String,
    /// The worker was killed, which need not be the cell's fault.
    pub killed: bool,
}

impl Failed {
    fn new(cell: &Cell, why: String, killed: bool) -> Self {
        Self {
            cell: cell.describe(),
            key: cell.key.clone(),
            why,
            killed,
        }
    }
}

impl Tally {
    /// Cells with a result.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.computed + self.found
    }
}

/// Computes all cells that are not finished, each on one of `jobs` processes (default: one for each CPU)
/// that `worker` starts; they are to call [`super::serve`]. `go_on` is asked several times a second until
/// it says no, then the workers are killed. Returns what was done until then; finished cells stay.
///
/// # Errors
/// A folder that cannot be read, processes that cannot be started, a worker of another version.
pub fn supervise(
    store: &Store,
    cells: &[Cell],
    jobs: Option<usize>,
    worker: &(dyn Fn() -> Command + Sync),
    go_on: &mut dyn FnMut(&Tally) -> bool,
) -> Result<Tally, SweepError> {
    let there = store.keys()?;
    let mut distinct = BTreeSet::new();
    let distinct = cells.iter().filter(|c| distinct.insert(&c.key));
    let (found, todo): (Vec<&Cell>, Vec<&Cell>) = distinct.partition(|c| there.contains(&c.key));
    let mut tally = Tally {
        cells: found.len() + todo.len(),
        found: found.len(),
        ..Tally::default()
    };
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let workers = jobs.unwrap_or_else(cpus).min(todo.len());
    let crew = Crew {
        start: worker,
        queue: Mutex::new(Queue {
            tasks: todo.into_iter().map(|cell| (cell, 0)).collect(),
            under_way: 0,
            stopped: false,
        }),
        children: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let mut result = Ok(());
        let (sender, ends) = mpsc::channel();
        for _ in 0..workers {
            let (crew, sender) = (&crew, sender.clone());
            scope.spawn(move || crew.feed_one(&sender));
        }
        drop(sender);
        let mut stopped = false;
        loop {
            match ends.recv_timeout(PAUSE) {
                Ok(end) => result = result.and_then(|()| note(store, &mut tally, end)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Its no may have been an interrupt, which it would not see a second time.
            if !stopped && (result.is_err() || !go_on(&tally)) {
                crew.stop();
                stopped = true;
            }
        }
        result.map(|()| tally)
    })
}

/// How a cell, or a whole worker, ended.
enum End {
    Computed,
    Found,
    Failed(Failed),
    Useless(String),
}

fn note(store: &Store, tally: &mut Tally, end: End) -> Result<(), SweepError> {
    match end {
        End::Computed => {
            tally.computed += 1;
            if tally.computed.is_multiple_of(MERGE_EVERY) {
                store.merge()?;
            }
        }
        End::Found => tally.found += 1,
        End::Failed(failed) => tally.failed.push(failed),
        End::Useless(why) => return Err(SweepError::Worker(why)),
    }
    Ok(())
}

/// A cell and how often its worker was killed.
type Task<'a> = (&'a Cell, u32);

/// What came of handing a cell to a worker.
enum Attempt<'a> {
    Ended(End),
    Again(Task<'a>),
}

struct Queue<'a> {
    tasks: VecDeque<Task<'a>>,
    /// Cells handed out, which may come back.
    under_way: usize,
    stopped: bool,
}

/// What the threads share, each of which feeds one worker.
struct Crew<'a> {
    start: &'a (dyn Fn() -> Command + Sync),
    queue: Mutex<Queue<'a>>,
    /// The workers by process, so that all can be killed.
    children: Mutex<BTreeMap<u32, Child>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Crew<'a> {
    /// Hands out nothing more and kills the workers.
    fn stop(&self) {
        lock(&self.queue).stopped = true;
        for child in lock(&self.children).values_mut() {
            let _ = child.kill();
        }
    }

    /// The next cell; `None` when no more will come.
    fn next(&self) -> Option<Task<'a>> {
        loop {
            let mut queue = lock(&self.queue);
            if queue.stopped {
                return None;
            }
            if let Some(task) = queue.tasks.pop_front() {
                queue.under_way += 1;
                return Some(task);
            }
            if queue.under_way == 0 {
                return None;
            }
            drop(queue);
            std::thread::sleep(PAUSE);
        }
    }

    /// Feeds one worker after the other until no cell is left.
    fn feed_one(&self, ends: &Sender<End>) {
        let mut worker = None;
        while let Some(task) = self.next() {
            let attempt = self.attempt(&mut worker, task);
            let mut queue = lock(&self.queue);
            queue.under_way -= 1;
            if queue.stopped {
                // Killed from here, which says nothing about the cell.
                continue;
            }
            match attempt {
                Attempt::Ended(end) => {
                    drop(queue);
                    let useless = matches!(end, End::Useless(_));
                    let _ = ends.send(end);
                    if useless {
                        self.stop();
                    }
                }
                Attempt::Again(task) => queue.tasks.push_back(task),
            }
        }
        if let Some(worker) = worker {
            worker.dismiss(self);
        }
    }

    /// Has one cell computed, by the worker at hand or a new one.
    fn attempt(&self, worker: &mut Option<Worker>, (cell, attempts): Task<'a>) -> Attempt<'a> {
        let mut this = match worker.take().map_or_else(|| Worker::start(self), Ok) {
            Ok(this) => this,
            Err(why) => return Attempt::Ended(End::Useless(why)),
        };
        let failed = |why, killed| End::Failed(Failed::new(cell, why, killed));
        let Some(answer) = this.compute(cell) else {
            let (status, said) = this.end(self);
            let killed = status.and_then(|s| s.signal()).is_some();
            return match killed && attempts + 1 < ATTEMPTS {
                true => Attempt::Again((cell, attempts + 1)),
                false => Attempt::Ended(failed(how_it_ended(status, &said), killed)),
            };
        };
        *worker = Some(this);
        Attempt::Ended(match answer {
            Answer::Computed => End::Computed,
            Answer::Found => End::Found,
            Answer::Failed(why) => failed(why, false),
            Answer::Useless(why) => End::Useless(why),
            Answer::Busy => {
                std::thread::sleep(PAUSE);
                return Attempt::Again((cell, attempts));
            }
        })
    }
}

/// A worker process with its pipes.
struct Worker {
    id: u32,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// What it wrote to standard error, once it has ended.
    said: JoinHandle<String>,
}

impl Worker {
    fn start(crew: &Crew) -> Result<Self, String> {
        let mut child = (crew.start)()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the supervisor, which says how far the sweep has come.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("starting a worker: {e}; give a smaller --jobs"))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let ((stdin, stdout), mut stderr) = pipes
            .zip(child.stderr.take())
            .ok_or("a worker without pipes")?;
        let said = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let id = child.id();
        // Under the queue's lock: a worker starts before `stop` has killed all, or not at all.
        let queue = lock(&crew.queue);
        if queue.stopped {
            let _ = child.kill();
        }
        lock(&crew.children).insert(id, child);
        drop(queue);
        Ok(Self {
            id,
            stdin,
            stdout: BufReader::new(stdout),
            said,
        })
    }

    /// What became of a cell; `None` if the worker ended over it.
    fn compute(&mut self, cell: &Cell) -> Option<Answer> {
        let mut line = serde_json::to_string(cell).expect("plain data");
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).ok()?;
        let mut answer = String::new();
        if self.stdout.read_line(&mut answer).ok()? == 0 {
            return None;
        }
        let read = serde_json::from_str(&answer);
        Some(read.unwrap_or_else(|_| Answer::Useless(format!("a worker says {answer:?}"))))
    }

    /// How it ended, and what it wrote to standard error.
    fn end(self, crew: &Crew) -> (Option<ExitStatus>, String) {
        let child = lock(&crew.children).remove(&self.id);
        let status = child.and_then(|mut child| child.wait().ok());
        (status, self.said.join().unwrap_or_default())
    }

    /// Ends it while it is idle.
    fn dismiss(self, crew: &Crew) {
        if let Some(mut child) = lock(&crew.children).remove(&self.id) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn how_it_ended(status: Option<ExitStatus>, said: &str) -> String {
    let how = match (
        status.and_then(|s| s.signal()),
        status.and_then(|s| s.code()),
    ) {
        (Some(signal), _) => format!("the worker was killed by signal {signal}, {ATTEMPTS} times"),
        (None, Some(code)) => format!("the run crashed (exit code {code})"),
        (None, None) => "the worker is gone".into(),
    };
    let said = said.lines().map(str::trim).filter(|l| !l.is_empty());
    let said: Vec<&str> = said.take(2).collect();
    match said.is_empty() {
        true => how,
        false => format!("{how}: {}", said.join(" ")),
    }
}
