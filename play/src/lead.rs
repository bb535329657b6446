//! When tasks that play at once begin, and how far they may be ahead of each other.

use coldset_traces::BEGINNING;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Where feeders are, and those who wait for others.
pub(crate) struct Lead {
    /// How many accesses of the trace somebody may be ahead; none: any number.
    most: Option<u64>,
    course: Mutex<Course>,
    /// By feeder. Nobody is woken who would only look and wait on: with dozens of feeders that takes more of a CPU than the
    /// accesses do.
    moved: Vec<Condvar>,
}

/// How far the feeders are.
struct Course {
    /// By feeder: the number of its next access in the trace; the greatest number at its end.
    next: Vec<u64>,
    /// Accesses done, of all.
    done: u64,
    /// By feeder: what it waits for.
    waiting: Vec<Option<Until>>,
    /// Nobody waits any more.
    over: bool,
}

/// What a feeder waits for.
#[derive(Clone, Copy)]
enum Until {
    /// Nobody is behind this access, or so many have been done.
    Begun { first: u64 },
    /// Nobody is behind this access.
    Reached { least: u64 },
}

/// A place among the feeders, left when it is dropped.
pub(crate) struct Runner<'a> {
    lead: &'a Lead,
    number: usize,
}

impl Course {
    /// The next access of who is last.
    fn last(&self) -> u64 {
        self.next.iter().copied().min().unwrap_or(u64::MAX)
    }

    fn has(&self, last: u64, until: Until) -> bool {
        let reached = match until {
            // Who has ended early does no more.
            Until::Begun { first } => self.done + BEGINNING >= first || last >= first,
            Until::Reached { least } => last >= least,
        };
        reached || self.over
    }
}

impl Lead {
    /// Of feeders that begin with these accesses.
    pub fn new(most: Option<u64>, first: Vec<u64>) -> Self {
        Self {
            most,
            moved: first.iter().map(|_| Condvar::new()).collect(),
            course: Mutex::new(Course {
                waiting: vec![None; first.len()],
                next: first,
                done: 0,
                over: false,
            }),
        }
    }

    /// The work ends before it is done: nobody is to wait for the others.
    pub fn end(&self) {
        let mut course = self.course();
        course.over = true;
        self.wake(&course);
    }

    /// The place of a feeder.
    pub fn runner(&self, number: usize) -> Runner<'_> {
        Runner { lead: self, number }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self, number: usize, access: u64) -> MutexGuard<'_, Course> {
        let mut course = self.course();
        course.next[number] = access;
        self.wake(&course);
        course
    }

    /// Wakes those that have what they wait for.
    fn wake(&self, course: &Course) {
        let last = course.last();
        for (moved, waiting) in self.moved.iter().zip(&course.waiting) {
            if waiting.is_some_and(|until| course.has(last, until)) {
                moved.notify_one();
            }
        }
    }

    fn wait(&self, number: usize, mut course: MutexGuard<'_, Course>, until: Until) {
        course.waiting[number] = Some(until);
        let waits = |course: &mut Course| !course.has(course.last(), until);
        let course = self.moved[number].wait_while(course, waits);
        course.unwrap_or_else(PoisonError::into_inner).waiting[number] = None;
    }
}

impl Runner<'_> {
    /// Accesses that are done without looking round: an eighth of the lead, so that it is hardly shorter for it. None:
    /// there is no bound on it.
    pub fn span(&self) -> Option<u64> {
        self.lead.most.map(|most| most.div_ceil(8))
    }

    /// It begins with this access, when the accesses before it have been done ([`BEGINNING`]). They are all of tasks that
    /// began before, so that nobody waits for ever.
    pub fn begin(&self, first: u64) {
        let lead = self.lead;
        lead.wait(self.number, lead.course(), Until::Begun { first });
    }

    /// It comes to the access `from`, and waits while `to`, which it goes on to, is too far ahead.
    pub fn reach(&self, from: u64, to: u64) {
        let lead = self.lead;
        let course = lead.arrive(self.number, from);
        let Some(most) = lead.most else { return };
        let least = to.saturating_sub(most);
        lead.wait(self.number, course, Until::Reached { least });
    }

    /// It has done so many more accesses.
    pub fn did(&self, accesses: u64) {
        let mut course = self.lead.course();
        course.done += accesses;
        self.lead.wake(&course);
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        drop(self.lead.arrive(self.number, u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn a_task_begins_when_the_accesses_before_its_first_are_done() {
        const FIRST: u64 = BEGINNING + 5;
        let lead = Lead::new(None, vec![0, FIRST]);
        let begun = AtomicU64::new(0);
        let (all, at) = (&lead, &begun);
        thread::scope(|scope| {
            scope.spawn(move || {
                all.runner(1).begin(FIRST);
                at.store(all.course().done, SeqCst);
            });
            let first = all.runner(0);
            for access in 0..5 {
                first.reach(access, access);
                assert_eq!(at.load(SeqCst), 0);
                first.did(1);
            }
        });
        assert_eq!(begun.load(SeqCst), 5);
        // One that ends early is not waited for.
        let lead = Lead::new(None, vec![0, FIRST]);
        drop(lead.runner(0));
        lead.runner(1).begin(FIRST);
    }

    #[test]
    fn nobody_is_further_ahead_than_allowed() {
        const MOST: u64 = 10;
        let lead = Lead::new(Some(MOST), vec![0, 1, 2]);
        let at = [0, 1, 2].map(AtomicU64::new);
        let (lead, at) = (&lead, &at);
        thread::scope(|scope| {
            for who in 0..3u64 {
                scope.spawn(move || {
                    let runner = lead.runner(who as usize);
                    for access in (who..3000).step_by(3) {
                        at[who as usize].store(access, SeqCst);
                        runner.reach(access, access);
                        let last = at.iter().map(|a| a.load(SeqCst)).min().unwrap();
                        assert!(access <= last + MOST, "{access} and {last}");
                    }
                    at[who as usize].store(u64::MAX - MOST, SeqCst);
                });
            }
        });
    }
}
