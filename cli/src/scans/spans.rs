//! What spans of requests come to: two courses that differ in single requests may still do the same.

use super::Request;
use coldset_lab::report::human;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Requests of a span.
const LENGTH: usize = 50;
/// Sums apart by more than this share of the larger one are named.
const APART: f64 = 0.1;
/// So are only those that are apart by more pages than this: a priority more for a single request.
const FEW: u64 = 500;

/// Sums over the requests of a span, in pages.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    /// By list: looked at, and taken off it.
    lists: BTreeMap<String, (u64, u64)>,
    freed: u64,
    /// The least that any of them came to: 12 is the gentlest.
    priority: Option<u64>,
}

impl Sums {
    fn of(requests: &[Request]) -> Self {
        let mut sums = Self::default();
        for word in requests.iter().flat_map(|r| &r.words) {
            let fields: Vec<&str> = word.split(' ').collect();
            let number = |at: usize| fields.get(at).and_then(|n| n.parse::<u64>().ok());
            match (fields[0], number(1), number(2), number(3)) {
                ("freed", Some(freed), Some(priority), None) => {
                    sums.freed += freed;
                    sums.priority = Some(sums.priority.map_or(priority, |p| p.min(priority)));
                }
                (list, Some(_), Some(scanned), Some(taken)) => {
                    let sum = sums.lists.entry(list.to_owned()).or_default();
                    *sum = (sum.0 + scanned, sum.1 + taken);
                }
                _ => {}
            }
        }
        sums
    }

    fn scanned(&self, list: &str) -> u64 {
        self.lists.get(list).map_or(0, |l| l.0)
    }

    fn differs(&self, other: &Self) -> bool {
        let far = |a: u64, b: u64| {
            let by = a.abs_diff(b);
            by > FEW && by as f64 > APART * a.max(b) as f64
        };
        let mut lists = self.lists.keys().chain(other.lists.keys());
        far(self.freed, other.freed) || lists.any(|l| far(self.scanned(l), other.scanned(l)))
    }

    fn text(&self) -> String {
        let list = |(name, (scanned, taken)): (&String, &(u64, u64))| {
            let (scanned, taken) = (human(*scanned as f64), human(*taken as f64));
            format!("{name} {scanned} scanned and {taken} taken")
        };
        let freed = format!("{} freed", human(self.freed as f64));
        let lowest = self.priority.map(|p| format!("down to priority {p}"));
        let lists = self.lists.iter().map(list);
        let all: Vec<String> = lists.chain([freed]).chain(lowest).collect();
        all.join(", ")
    }

    fn json(&self) -> Value {
        let list = |(name, (scanned, taken)): (&String, &(u64, u64))| {
            (name.clone(), json!({"scanned": scanned, "taken": taken}))
        };
        json!({
            "lists": self.lists.iter().map(list).collect::<serde_json::Map<_, _>>(),
            "freed": self.freed,
            "priority": self.priority,
        })
    }
}

/// Requests with the same numbers in a run and in a prediction of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    /// The number of the first, from 0.
    first: usize,
    /// Accesses that had been done at the last point before it.
    after: u64,
    measured: Sums,
    predicted: Sums,
}

impl Span {
    /// All spans that both courses have to their end.
    pub fn all(measured: &[Request], predicted: &[Request]) -> Vec<Self> {
        let pairs = measured
            .chunks_exact(LENGTH)
            .zip(predicted.chunks_exact(LENGTH));
        let span = |(at, (ours, theirs)): (usize, (&[Request], &[Request]))| Self {
            first: at * LENGTH,
            after: ours[0].after,
            measured: Sums::of(ours),
            predicted: Sums::of(theirs),
        };
        pairs.enumerate().map(span).collect()
    }

    /// The sums are far from each other.
    pub fn differs(&self) -> bool {
        self.measured.differs(&self.predicted)
    }

    /// What it is about, as the end of a sentence.
    pub fn text(&self) -> String {
        format!(
            "requests {} to {}, after {} accesses or more: {}; predicted {}",
            human((self.first + 1) as f64),
            human((self.first + LENGTH) as f64),
            human(self.after as f64),
            self.measured.text(),
            self.predicted.text(),
        )
    }

    pub fn json(&self) -> Value {
        json!({"request": self.first, "requests": LENGTH, "after_accesses": self.after,
            "measured": self.measured.json(), "predicted": self.predicted.json()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests that look at as many pages of a list.
    fn course(requests: usize, list: &str, scanned: u64) -> Vec<Request> {
        let words = [
            "limit".to_owned(),
            format!("{list} 64 {scanned} {}", scanned / 2),
            "freed 3 12".to_owned(),
        ];
        let request = |n| Request {
            after: n as u64 * 10,
            words: words.to_vec(),
        };
        (0..requests).map(request).collect()
    }

    #[test]
    fn sums_are_of_what_both_have() {
        let spans = Span::all(
            &course(120, "inactive_file", 64),
            &course(149, "inactive_file", 63),
        );
        assert_eq!(spans.len(), 2);
        assert!(!spans[0].differs(), "by 50 pages of 3,200");
        assert_eq!((spans[1].first, spans[1].after), (50, 500));
        let sums = &spans[1].json()["measured"];
        assert_eq!(sums["lists"]["inactive_file"]["scanned"], 3200);
        assert_eq!(sums["lists"]["inactive_file"]["taken"], 1600);
        assert_eq!(
            (&sums["freed"], &sums["priority"]),
            (&json!(150), &json!(12))
        );
    }

    #[test]
    fn another_list_and_far_more_pages_differ() {
        let (files, anon) = (
            course(50, "inactive_file", 64),
            course(50, "inactive_anon", 64),
        );
        let span = &Span::all(&files, &anon)[0];
        assert!(span.differs());
        let expected = "requests 1 to 50, after 0 accesses or more: inactive_file 3,200 scanned and 1,600 taken, 150 freed, \
             down to priority 12; predicted inactive_anon 3,200 scanned and 1,600 taken, 150 freed, down to priority 12";
        assert_eq!(span.text(), expected);
        let few = |n| course(50, "inactive_file", n);
        assert!(!Span::all(&few(1), &few(9))[0].differs(), "by 400 pages");
        assert!(Span::all(&few(64), &few(80))[0].differs());
    }
}
