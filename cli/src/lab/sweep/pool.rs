//! Processes that compute the cells of a sweep. A run that crashes takes its process with it, and is
//! one failed cell.

use super::worker::Answer;
use crate::error::Failure;
use coldset_lab::runner::Progress;
use coldset_lab::sweep::{Cell, Store};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Attempts at a cell whose worker is killed.
const ATTEMPTS: u32 = 2;
/// Pause before a cell that another sweep has is asked for again.
const PAUSE: Duration = Duration::from_millis(100);
/// Finished cells after which small files are put together.
const MERGE_EVERY: usize = 1000;

/// What became of a sweep.
#[derive(Debug, Default)]
pub struct Tally {
    /// Different cells.
    pub cells: usize,
    /// Computed by this command.
    pub computed: usize,
    /// Computed before, or by somebody else meanwhile.
    pub found: usize,
    /// Those that gave no result.
    pub failed: Vec<Failed>,
}

/// A cell without a result.
#[derive(Debug)]
pub struct Failed {
    /// The cell in one line.
    pub cell: String,
    /// Its key.
    pub key: String,
    /// Why.
    pub why: String,
    /// Its worker was killed, which is not its fault.
    pub killed: bool,
}

impl Tally {
    /// Cells with a result.
    pub fn finished(&self) -> usize {
        self.computed + self.found
    }
}

/// A cell and how often it has been tried.
type Task<'a> = (&'a Cell, u32);

struct Shared<'a> {
    store: &'a Store,
    queue: Mutex<VecDeque<Task<'a>>>,
    /// Cells handed out.
    under_way: AtomicUsize,
    tally: Mutex<Tally>,
    /// The workers, for whoever must end them.
    children: Arc<Mutex<BTreeMap<u32, Child>>>,
    stopping: Arc<AtomicBool>,
    useless: Mutex<Option<String>>,
    progress: Progress,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Computes all cells that are not finished.
///
/// # Errors
/// A folder that cannot be read, processes that cannot be started, a worker of another version.
pub fn run(store: &Store, cells: &[Cell], jobs: Option<usize>) -> Result<Tally, Failure> {
    let there = store.keys()?;
    let distinct: BTreeMap<&str, &Cell> = cells.iter().map(|c| (c.key.as_str(), c)).collect();
    let mut queue: VecDeque<Task> = VecDeque::new();
    let mut queued = BTreeSet::new();
    for cell in cells {
        if !there.contains(&cell.key) && queued.insert(&cell.key) {
            queue.push_back((cell, 0));
        }
    }
    let todo = queue.len();
    let tally = Tally {
        cells: distinct.len(),
        found: distinct.len() - todo,
        ..Tally::default()
    };
    let shared = Shared {
        store,
        queue: Mutex::new(queue),
        under_way: AtomicUsize::new(0),
        tally: Mutex::new(tally),
        children: Arc::default(),
        stopping: Arc::default(),
        useless: Mutex::new(None),
        progress: Progress::new(distinct.len() as u64, "sweep"),
    };
    shared.progress.set((distinct.len() - todo) as u64);
    listen(&shared, distinct.keys().map(|k| (*k).to_owned()).collect())?;
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let workers = jobs.unwrap_or_else(cpus).min(todo);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| supervise(&shared));
        }
    });
    shared.progress.finish();
    // The thread that listens is about to end the program.
    while shared.stopping.load(Ordering::SeqCst) {
        std::thread::sleep(PAUSE);
    }
    if let Some(why) = lock(&shared.useless).take() {
        return Err(Failure::Surroundings(why));
    }
    let tally = std::mem::take(&mut *lock(&shared.tally));
    Ok(tally)
}

/// Ctrl-C ends the program at once; what is finished stays.
fn listen(shared: &Shared, wanted: BTreeSet<String>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|e| Failure::Surroundings(format!("listening to signals: {e}")))?;
    let children = Arc::clone(&shared.children);
    let (stopping, progress) = (Arc::clone(&shared.stopping), shared.progress.clone());
    let store = Store::look(shared.store.dir());
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            stopping.store(true, Ordering::SeqCst);
            for child in lock(&children).values_mut() {
                let _ = child.kill();
                let _ = child.wait();
            }
            progress.finish();
            // A worker may have finished a cell and not told so.
            let there = store.keys().unwrap_or_default();
            eprintln!(
                "coldset: interrupted: {} of {} cells are finished and kept in {}; the same command goes on from there",
                wanted.intersection(&there).count(),
                wanted.len(),
                store.dir().display()
            );
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// A worker with its pipes.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    id: u32,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// What it says on standard error, once it has ended.
    said: JoinHandle<String>,
}

impl<'a> Worker<'a> {
    fn start(shared: &'a Shared<'a>) -> Result<Self, String> {
        let fail = |e: std::io::Error| format!("starting a worker: {e}; give a smaller --jobs");
        // As this command was started: a program, or a script of Python, which knows its environment by
        // the name it was called by.
        let arguments = std::env::args_os().take_while(|argument| argument != "lab");
        let before: Vec<OsString> = arguments.collect();
        let mut command = match before.as_slice() {
            [interpreter, script @ ..] if !script.is_empty() => {
                let mut command = Command::new(interpreter);
                command.args(script);
                command
            }
            _ => Command::new(std::env::current_exe().map_err(fail)?),
        };
        let mut child = command
            .args(["lab", "sweep-worker", "--out"])
            .arg(shared.store.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the one that tells how far it is.
            .process_group(0)
            .spawn()
            .map_err(fail)?;
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
        lock(&shared.children).insert(id, child);
        Ok(Self {
            shared,
            id,
            stdin,
            stdout: BufReader::new(stdout),
            said,
        })
    }

    /// None if the worker ends.
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

    /// How it ended, and what it said.
    fn end(self) -> (Option<ExitStatus>, String) {
        let child = lock(&self.shared.children).remove(&self.id);
        let status = child.and_then(|mut child| child.wait().ok());
        (status, self.said.join().unwrap_or_default())
    }

    /// Ends it: it has no cell.
    fn dismiss(self) {
        if let Some(mut child) = lock(&self.shared.children).remove(&self.id) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Takes the next cell; none when no more will come.
fn next<'a>(shared: &Shared<'a>) -> Option<Task<'a>> {
    loop {
        let stop = shared.stopping.load(Ordering::SeqCst) || lock(&shared.useless).is_some();
        if stop {
            return None;
        }
        let mut queue = lock(&shared.queue);
        if let Some(task) = queue.pop_front() {
            shared.under_way.fetch_add(1, Ordering::SeqCst);
            return Some(task);
        }
        // One that is under way may come back.
        if shared.under_way.load(Ordering::SeqCst) == 0 {
            return None;
        }
        drop(queue);
        std::thread::sleep(PAUSE);
    }
}

/// Feeds one worker until there is no cell left.
fn supervise<'a>(shared: &'a Shared<'a>) {
    let mut worker: Option<Worker<'a>> = None;
    while let Some((cell, attempts)) = next(shared) {
        let mut this = match worker.take().map_or_else(|| Worker::start(shared), Ok) {
            Ok(worker) => worker,
            Err(why) => {
                *lock(&shared.useless) = Some(why);
                shared.under_way.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        };
        let again = match this.compute(cell) {
            Some(Answer::Busy) => {
                std::thread::sleep(PAUSE);
                worker = Some(this);
                Some((cell, attempts))
            }
            Some(answer) => {
                note(shared, cell, answer);
                worker = Some(this);
                None
            }
            None => ended(shared, cell, attempts, this.end()),
        };
        let mut queue = lock(&shared.queue);
        queue.extend(again);
        shared.under_way.fetch_sub(1, Ordering::SeqCst);
    }
    if let Some(worker) = worker {
        worker.dismiss();
    }
}

fn note(shared: &Shared, cell: &Cell, answer: Answer) {
    let mut tally = lock(&shared.tally);
    let mut merge = false;
    match answer {
        Answer::Computed => {
            tally.computed += 1;
            merge = tally.computed.is_multiple_of(MERGE_EVERY);
        }
        Answer::Found | Answer::Busy => tally.found += 1,
        Answer::Failed(why) => tally.failed.push(failed(cell, why, false)),
        Answer::Useless(why) => *lock(&shared.useless) = Some(why),
    }
    drop(tally);
    shared.progress.step();
    if merge {
        if let Err(error) = shared.store.merge() {
            *lock(&shared.useless) = Some(error.to_string());
        }
    }
}

fn failed(cell: &Cell, why: String, killed: bool) -> Failed {
    Failed {
        cell: cell.describe(),
        key: cell.key.clone(),
        why,
        killed,
    }
}

/// A worker that ended over a cell: once more if it was killed, otherwise the run crashed.
fn ended<'a>(
    shared: &Shared<'a>,
    cell: &'a Cell,
    attempts: u32,
    (status, said): (Option<ExitStatus>, String),
) -> Option<Task<'a>> {
    if shared.stopping.load(Ordering::SeqCst) {
        return None;
    }
    let signal = status.and_then(|s| s.signal());
    if signal.is_some() && attempts + 1 < ATTEMPTS {
        return Some((cell, attempts + 1));
    }
    let said = said.lines().map(str::trim).filter(|l| !l.is_empty());
    let said: Vec<&str> = said.take(2).collect();
    let how = match (signal, status.and_then(|s| s.code())) {
        (Some(signal), _) => format!("the worker was killed by signal {signal}, {ATTEMPTS} times"),
        (None, Some(code)) => format!("the run crashed (exit code {code})"),
        (None, None) => "the worker is gone".into(),
    };
    let why = match said.is_empty() {
        true => how,
        false => format!("{how}: {}", said.join(" ")),
    };
    let mut tally = lock(&shared.tally);
    tally.failed.push(failed(cell, why, signal.is_some()));
    drop(tally);
    shared.progress.step();
    None
}
