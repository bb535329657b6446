//! What a kernel scans beside what the lab scans for the same accesses: at which request do they part?

mod spans;

use coldset_engine::scans::ScanEvent;
use coldset_lab::report::human;
use indexmap::IndexMap;
use serde_json::{json, Value};
use spans::Span;
use std::fmt::Write as _;

/// Words on either side of the first difference that are shown.
const AROUND: usize = 3;

/// One request to reclaim: its scans, in the words of [`ScanEvent`].
#[derive(Clone, Debug, Default, PartialEq)]
struct Request {
    /// Accesses that had been done at the last point before it.
    after: u64,
    words: Vec<String>,
}

/// Requests of a course of words.
fn requests(words: impl Iterator<Item = (u64, String)>) -> Vec<Request> {
    let begins = [ScanEvent::Limit, ScanEvent::Direct].map(|e| e.to_string());
    let mut all: Vec<Request> = Vec::new();
    for (after, word) in words {
        if begins.contains(&word) || all.is_empty() {
            all.push(Request {
                after,
                words: Vec::new(),
            });
        }
        all.last_mut().expect("just made").words.push(word);
    }
    all
}

/// The words of the first run of what was played, with the accesses at the point before each.
fn words(played: &Value) -> Vec<(u64, String)> {
    let points = played["runs"][0]["points"].as_array();
    let mut before = 0;
    let mut all = Vec::new();
    for point in points.into_iter().flatten() {
        let scans = point["scans"].as_array().into_iter().flatten();
        all.extend(scans.filter_map(|s| Some((before, s.as_str()?.to_owned()))));
        before = point["access"].as_u64().unwrap_or(before);
    }
    all
}

/// Two words say the same. What a scan is asked for does not count: kernels before 7.2 put the most it may ever be there.
fn alike(a: &str, b: &str) -> bool {
    fn figures(word: &str) -> impl Iterator<Item = &str> {
        let scan = word.split(' ').count() == 4;
        let asked = move |&(n, _): &(usize, &str)| scan && n == 1;
        let all = word.split(' ').enumerate();
        all.filter(move |field| !asked(field))
            .map(|(_, field)| field)
    }
    figures(a).eq(figures(b))
}

impl Request {
    /// Words at the beginning that say the same as those of another one.
    fn same_words(&self, other: &Self) -> usize {
        let pairs = self.words.iter().zip(&other.words);
        pairs.take_while(|(a, b)| alike(a, b)).count()
    }

    fn is_like(&self, other: &Self) -> bool {
        let length = self.words.len();
        length == other.words.len() && self.same_words(other) == length
    }
}

/// The first request in which two courses differ.
#[derive(Clone, Debug, PartialEq)]
struct Parting {
    /// Its number, from 0.
    request: usize,
    /// Accesses that had been done at the last point before it.
    after: u64,
    /// The words of the request before the one that differs, and from that one on.
    before: Vec<String>,
    measured: Vec<String>,
    predicted: Vec<String>,
}

fn parting(measured: &[Request], predicted: &[Request]) -> Option<Parting> {
    let none = Request::default();
    let of = |all: &[Request], n: usize| all.get(n).unwrap_or(&none).clone();
    let longer = measured.len().max(predicted.len());
    let request = (0..longer).find(|&n| !of(measured, n).is_like(&of(predicted, n)))?;
    let (ours, theirs) = (of(measured, request), of(predicted, request));
    let same = ours.same_words(&theirs);
    let from = |r: &Request| r.words.iter().skip(same).take(AROUND).cloned().collect();
    Some(Parting {
        request,
        after: measured
            .get(request)
            .or(measured.last())
            .map_or(0, |r| r.after),
        before: ours.words[same.saturating_sub(AROUND)..same].to_vec(),
        measured: from(&ours),
        predicted: from(&theirs),
    })
}

/// A run beside a prediction of it.
struct Pair {
    run: String,
    variant: String,
    /// Requests of the run, and predicted ones.
    requests: (usize, usize),
    /// Requests with the same number that are the same.
    same: usize,
    parting: Option<Parting>,
    spans: Vec<Span>,
}

/// The scans of runs and of predictions of them.
pub struct Scans<'a> {
    predicted: &'a IndexMap<String, Vec<ScanEvent>>,
    pairs: Vec<Pair>,
    /// Runs whose trace is not whole: the word that says so, and the accesses before it.
    lost: Vec<(String, u64, String)>,
}

impl Scans<'_> {
    /// Compares the first of each of the `runs` of a machine with each of `predicted`.
    pub fn of<'a, 'p>(
        runs: impl Iterator<Item = (&'p str, &'p Value)>,
        predicted: &'a IndexMap<String, Vec<ScanEvent>>,
    ) -> Scans<'a> {
        let theirs = predicted.iter().map(|(variant, events)| {
            let words = events.iter().map(|e| (0, e.to_string()));
            (variant, requests(words))
        });
        let theirs: Vec<_> = theirs.collect();
        let (mut pairs, mut lost) = (Vec::new(), Vec::new());
        for (run, played) in runs {
            let words = words(played);
            let gap = words.iter().find(|(_, word)| word.starts_with("lost"));
            lost.extend(gap.map(|(after, word)| (run.to_owned(), *after, word.clone())));
            let ours = requests(words.into_iter());
            pairs.extend(theirs.iter().map(|(variant, theirs)| {
                Pair {
                    run: run.to_owned(),
                    variant: (*variant).clone(),
                    requests: (ours.len(), theirs.len()),
                    same: ours
                        .iter()
                        .zip(theirs)
                        .filter(|(a, b)| a.is_like(b))
                        .count(),
                    parting: parting(&ours, theirs),
                    spans: Span::all(&ours, theirs),
                }
            }));
        }
        Scans {
            predicted,
            pairs,
            lost,
        }
    }

    /// A line for each run that lost events, and for each pair.
    pub fn lines(&self) -> Vec<String> {
        let gaps = self.lost.iter().map(|(run, after, word)| {
            format!(
                "{run}: the kernel {word} events after {after} accesses; more --points keep them"
            )
        });
        gaps.chain(self.pairs.iter().map(line)).collect()
    }

    /// The predicted scans by variant, and where each run and variant part.
    pub fn json(&self) -> Value {
        let course = |events: &Vec<ScanEvent>| -> Value {
            events.iter().map(ScanEvent::to_string).collect()
        };
        let predicted = self.predicted.iter().map(|(v, e)| (v.clone(), course(e)));
        let parting = |p: &Parting| {
            json!({"request": p.request, "after_accesses": p.after, "before": p.before,
                "measured": p.measured, "predicted": p.predicted})
        };
        let pair = |p: &Pair| {
            json!({"run": p.run, "variant": p.variant, "requests": p.requests.0,
                "predicted_requests": p.requests.1, "same_requests": p.same,
                "apart": p.parting.as_ref().map(parting),
                "spans": p.spans.iter().map(Span::json).collect::<Vec<_>>()})
        };
        json!({
            "predicted": predicted.collect::<serde_json::Map<_, _>>(),
            "pairs": self.pairs.iter().map(pair).collect::<Vec<_>>(),
        })
    }
}

fn line(pair: &Pair) -> String {
    let (run, variant) = (&pair.run, &pair.variant);
    let (ours, theirs) = pair.requests;
    let Some(p) = &pair.parting else {
        return format!(
            "{run} and {variant}: all {} requests are the same, scan by scan",
            human(ours as f64)
        );
    };
    let mut line = format!(
        "{run} and {variant}: {} of {} requests ({} predicted) are the same, scan by scan; the first that differs is \
         number {}, after {} accesses or more: ",
        human(pair.same as f64),
        human(ours as f64),
        human(theirs as f64),
        p.request + 1,
        human(p.after as f64),
    );
    let list = |words: &[String]| match words {
        [] => "its end".to_owned(),
        _ => words.join(", "),
    };
    if !p.before.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(line, "{}, then ", list(&p.before));
    }
    let _ = write!(
        line,
        "{}; predicted {}",
        list(&p.measured),
        list(&p.predicted)
    );
    line.push_str(&match pair.spans.iter().find(|s| s.differs()) {
        Some(span) => format!("; sums are first apart in {}", span.text()),
        None => "; sums over 50 requests are alike".to_owned(),
    });
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_engine::lruvec::LruList;

    fn scan(taken: u64) -> ScanEvent {
        ScanEvent::Isolated {
            list: LruList::InactiveFile,
            asked: 64,
            scanned: 64,
            taken,
        }
    }

    fn played(points: &[(u64, &[&str])]) -> Value {
        let point = |(access, scans): &(u64, &[&str])| json!({"access": access, "scans": scans});
        json!({"runs": [{"points": points.iter().map(point).collect::<Vec<_>>()}]})
    }

    fn compared(points: &[(u64, &[&str])], events: Vec<ScanEvent>) -> (Vec<String>, Value) {
        let played = played(points);
        let predicted = IndexMap::from([("v72".to_owned(), events)]);
        let scans = Scans::of([("7.2", &played)].into_iter(), &predicted);
        (scans.lines(), scans.json())
    }

    #[test]
    fn the_first_request_that_differs_is_named() {
        let points: [(u64, &[&str]); 2] = [
            (100, &["limit", "inactive_file 64 64 32", "freed 32 12"]),
            (
                200,
                &[
                    "limit",
                    "inactive_file 64 64 30",
                    "limit",
                    "inactive_file 64 64 3",
                ],
            ),
        ];
        let freed = ScanEvent::Shrunk {
            freed: 32,
            priority: 12,
        };
        let limit = ScanEvent::Limit;
        let events = vec![limit, scan(32), freed, limit, scan(31), limit, scan(3)];
        let (lines, json) = compared(&points, events);
        let expected = "7.2 and v72: 2 of 3 requests (3 predicted) are the same, scan by scan; the first that differs is \
             number 2, after 100 accesses or more: limit, then inactive_file 64 64 30; predicted inactive_file 64 64 31; \
             sums over 50 requests are alike";
        assert_eq!(lines, [expected]);
        assert_eq!(json["pairs"][0]["apart"]["request"], 1);
        assert_eq!(json["predicted"]["v72"][2], "freed 32 12");
    }

    #[test]
    fn the_same_scans_are_no_difference_and_one_more_request_is() {
        let points: [(u64, &[&str]); 1] = [(100, &["limit", "inactive_file 64 64 32"])];
        let same = vec![ScanEvent::Limit, scan(32)];
        let (lines, json) = compared(&points, same.clone());
        assert!(
            lines[0].contains("all 1 requests are the same"),
            "{lines:?}"
        );
        assert_eq!(json["pairs"][0]["apart"], Value::Null);
        let more = [same, vec![ScanEvent::Direct]].concat();
        let (lines, _) = compared(&points, more);
        assert!(lines[0].contains("its end; predicted direct;"), "{lines:?}");
    }

    #[test]
    fn what_old_kernels_say_is_asked_for_does_not_count() {
        assert!(alike("inactive_file 4096 64 32", "inactive_file 64 64 32"));
        assert!(!alike("inactive_file 64 64 32", "inactive_anon 64 64 32"));
        assert!(!alike("inactive_file 64 64 32", "inactive_file 64 64 31"));
        assert!(!alike("freed 30 12", "freed 31 12") && alike("limit", "limit"));
    }

    #[test]
    fn lost_events_are_said() {
        let points: [(u64, &[&str]); 2] = [(100, &["limit"]), (200, &["lost 7"])];
        let (lines, _) = compared(&points, vec![ScanEvent::Limit]);
        let expected = "7.2: the kernel lost 7 events after 100 accesses; more --points keep them";
        assert_eq!(lines[0], expected);
    }
}
