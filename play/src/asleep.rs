//! How long a run in which one task works at a time has been asleep: the rest of its time besides that in which one of its
//! threads had a CPU or waited for one.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A run that is on its way.
#[derive(Debug)]
pub(crate) struct Asleep {
    workers: Vec<u32>,
    started: Instant,
    /// What the workers had been awake before.
    before: Duration,
    /// What was told last.
    told: Duration,
}

impl Asleep {
    /// The run of these processes begins. None: the kernel does not tell.
    pub fn begin(workers: &[u32]) -> Option<Self> {
        Some(Self {
            workers: workers.to_owned(),
            before: of_all(workers)?,
            started: Instant::now(),
            told: Duration::ZERO,
        })
    }

    /// How long it has been asleep. To be asked by the thread that feeds the workers, which has begun with the run: it works
    /// where none of them does. (Now and then one of each waits for the same CPU, which counts twice.)
    pub fn so_far(&mut self) -> Option<Duration> {
        let lasted = self.started.elapsed();
        let workers = of_all(&self.workers)?.saturating_sub(self.before);
        let feeder = of_thread(Path::new("/proc/thread-self"))?;
        let asleep = lasted.saturating_sub(workers + feeder);
        self.told = self.told.max(asleep);
        Some(self.told)
    }
}

/// Time that all threads of these processes have been awake.
fn of_all(pids: &[u32]) -> Option<Duration> {
    let of_process = |pid: &u32| -> Option<Duration> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        threads.map(|thread| of_thread(&thread.ok()?.path())).sum()
    };
    pids.iter().map(of_process).sum()
}

/// Time that a thread has been awake, by its folder in `/proc`.
fn of_thread(folder: &Path) -> Option<Duration> {
    awake(&fs::read_to_string(folder.join("schedstat")).ok()?)
}

/// Of a thread's `schedstat`: ns with a CPU and ns waiting for one, which come first.
fn awake(schedstat: &str) -> Option<Duration> {
    let mut fields = schedstat.split_whitespace();
    let mut ns = || -> Option<u64> { fields.next()?.parse().ok() };
    Some(Duration::from_nanos(ns()? + ns()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::thread;

    #[test]
    fn a_thread_is_awake_with_a_cpu_and_waiting_for_one() {
        assert_eq!(awake("1500 500 7\n"), Some(Duration::from_micros(2)));
        assert_eq!((awake("1500\n"), awake("")), (None, None));
    }

    /// Of 300 ms, the share that this program is asleep.
    fn asleep(program: &str, arguments: &[&str]) -> Option<f64> {
        let mut child = Command::new(program).args(arguments).spawn().unwrap();
        let run = Asleep::begin(&[child.id()]);
        let told = thread::spawn(move || {
            let mut run = run?;
            thread::sleep(Duration::from_millis(300));
            let asleep = run.so_far()?.as_secs_f64();
            Some(asleep / run.started.elapsed().as_secs_f64())
        });
        let told = told.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        told
    }

    #[test]
    fn who_works_is_not_asleep() {
        let sleeps = asleep("sleep", &["100"]);
        let works = asleep("sh", &["-c", "while :; do :; done"]);
        // Kernels need not tell.
        if let (Some(sleeps), Some(works)) = (sleeps, works) {
            assert!(sleeps > 0.7 && works < 0.1, "{sleeps} {works}");
        }
    }
}
