//! What a worker is told when it is started.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Which tasks a worker does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seats {
    /// One, through standard input and output.
    Task,
    /// All, through standard input and output. Each has mappings of its own.
    All,
    /// A thread each, in one address space: descriptors of their input and output.
    Threads(Vec<(i32, i32)>),
}

impl Seats {
    fn to_argument(&self) -> String {
        let ends = |(input, output): &(i32, i32)| format!("{input}:{output}");
        match self {
            Self::Task => "task".into(),
            Self::All => "all".into(),
            Self::Threads(all) => all.iter().map(ends).collect::<Vec<_>>().join(","),
        }
    }

    fn from_argument(text: &str) -> Option<Self> {
        let ends = |text: &str| {
            let (input, output) = text.split_once(':')?;
            Some((input.parse().ok()?, output.parse().ok()?))
        };
        match text {
            "task" => Some(Self::Task),
            "all" => Some(Self::All),
            text => {
                let all: Vec<(i32, i32)> = text.split(',').map(ends).collect::<Option<_>>()?;
                // Each is owned once, and the first three are not ours to give away.
                let numbers: BTreeSet<i32> = all.iter().flat_map(|&(i, o)| [i, o]).collect();
                let good = numbers.len() == all.len() * 2 && numbers.iter().all(|&n| n > 2);
                good.then_some(Self::Threads(all))
            }
        }
    }
}

/// What a worker is told when it is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orders {
    /// Folder of the files.
    pub folder: PathBuf,
    /// Flush the CPU's translations each so many mapped accesses of a task; 0: never.
    pub exact_access: u32,
    /// Which tasks it does.
    pub seats: Seats,
    /// Where it counts the accesses that it has done: the descriptor of numbers in shared memory, and which one is that
    /// of its first seat.
    pub counts: (i32, usize),
    /// Most pages of one call.
    pub largest_call: u32,
    /// Files are cut, so that a page may hold zeros.
    pub holes: bool,
    /// What it has itself stays in memory.
    pub locked: bool,
    /// The kernel reads ahead, as the trace advises it. Otherwise the trace itself says what is read.
    pub read_ahead: bool,
    /// Pages of each object, and whether it is anonymous.
    pub objects: Vec<(u32, bool)>,
}

impl Orders {
    /// As one argument a piece, for the command line of the worker.
    pub fn to_arguments(&self) -> Vec<String> {
        let mut out = vec![
            self.folder.to_string_lossy().into_owned(),
            self.exact_access.to_string(),
            self.seats.to_argument(),
            format!("{}:{}", self.counts.0, self.counts.1),
            self.largest_call.to_string(),
            self.holes.to_string(),
            self.locked.to_string(),
            self.read_ahead.to_string(),
        ];
        let object =
            |(pages, anon): &(u32, bool)| format!("{}{pages}", if *anon { "a" } else { "f" });
        out.extend(self.objects.iter().map(object));
        out
    }

    /// Back from the arguments.
    pub fn from_arguments(arguments: &[String]) -> Option<Self> {
        let [folder, exact, seats, counts, call, holes, locked, read_ahead, objects @ ..] =
            arguments
        else {
            return None;
        };
        let object = |text: &String| {
            let (kind, pages) = text.split_at_checked(1)?;
            let anon = ["f", "a"].iter().position(|&k| k == kind)? == 1;
            Some((pages.parse().ok()?, anon))
        };
        let (descriptor, first) = counts.split_once(':')?;
        Some(Self {
            folder: folder.into(),
            exact_access: exact.parse().ok()?,
            seats: Seats::from_argument(seats)?,
            counts: (descriptor.parse().ok()?, first.parse().ok()?),
            largest_call: call.parse().ok()?,
            holes: holes.parse().ok()?,
            locked: locked.parse().ok()?,
            read_ahead: read_ahead.parse().ok()?,
            objects: objects.iter().map(object).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_command_line() {
        for seats in [
            Seats::Task,
            Seats::All,
            Seats::Threads(vec![(3, 4), (9, 6)]),
        ] {
            let orders = Orders {
                folder: "/a b".into(),
                exact_access: 64,
                seats,
                counts: (5, 7),
                largest_call: 32,
                holes: true,
                locked: true,
                read_ahead: true,
                objects: vec![(7, false), (0, false), (9, true)],
            };
            let arguments = orders.to_arguments();
            assert_eq!(Orders::from_arguments(&arguments), Some(orders));
        }
    }

    #[test]
    fn what_is_no_order_is_refused() {
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&w| w.into()).collect();
            Orders::from_arguments(&words).is_none()
        };
        assert!(
            refused(&["/a", "1"])
                && refused(&["/a", "1", "task", "5:0", "1", "false", "false", "true", "x3"])
        );
        for seats in ["", "both", "3:3", "3:4,4:5", "0:4", "-1:4", "3:4:5"] {
            assert!(
                refused(&["/a", "1", seats, "5:0", "1", "false", "false", "true", "f3"]),
                "{seats}"
            );
        }
        for counts in ["", "5", "5:", "5:-1"] {
            assert!(
                refused(&["/a", "1", "3:4", counts, "1", "false", "false", "true", "f3"]),
                "{counts}"
            );
        }
        assert!(!refused(&[
            "/a", "1", "3:4", "5:0", "1", "false", "false", "true", "f3"
        ]));
    }
}
