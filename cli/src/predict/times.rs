//! When accesses of a run that was measured began, for a prediction at the same times.

use coldset_lab::replay::Clock;
use serde_json::Value;

/// A point of a run.
#[derive(Clone, Copy)]
struct Point {
    access: u64,
    ns: u64,
    /// Reads of the device of the files so far, if it counts them.
    reads: Option<u64>,
    /// How long the programs have been asleep, ns, if that is known.
    asleep: Option<u64>,
}

/// The points of each run.
fn points(runs: &[&Value]) -> Option<Vec<Vec<Point>>> {
    let point = |p: &Value| {
        Some(Point {
            access: p["access"].as_u64()?,
            ns: p["time_ms"].as_u64()? * 1_000_000,
            reads: p["counters"]["block_read_ios"].as_u64(),
            asleep: p["asleep_us"].as_u64().map(|us| us * 1_000),
        })
    };
    let of_run = |run: &&Value| -> Option<Vec<Point>> {
        run["points"].as_array()?.iter().map(point).collect()
    };
    runs.iter().map(of_run).collect()
}

/// Time by access through these points, which begin at nothing, of runs in which a read of the device took so long, if that is
/// known.
fn clock_through(points: impl Iterator<Item = Point>, read_ns: Option<u64>) -> Option<Clock> {
    let begin = Point {
        access: 0,
        ns: 0,
        reads: Some(0),
        asleep: Some(0),
    };
    let mut points: Vec<Point> = [begin].into_iter().chain(points).collect();
    // Where a phase begins is read twice.
    points.dedup_by_key(|point| point.access);
    let clock = Clock::new(points.iter().map(|p| (p.access, p.ns)).collect()).ok()?;
    let clock = match read_ns {
        Some(ns) => clock.with_reads_of(ns),
        None => clock,
    };
    let asleep: Option<Vec<u64>> = points.iter().map(|p| p.asleep).collect();
    let reads: Option<Vec<u64>> = points.iter().map(|p| p.reads).collect();
    let no_reads = |reads: &Vec<u64>| reads.iter().all(|&n| n == 0);
    let reads_take_time = read_ns.is_some() || reads.as_ref().is_some_and(no_reads);
    match (asleep, reads) {
        (Some(asleep), _) if reads_take_time => clock.with_asleep_at(asleep).ok(),
        (_, Some(reads)) => clock.with_reads_at(reads).ok(),
        _ => Some(clock),
    }
}

/// Whether reads of the device of the files took most of the time of the runs.
pub(super) fn reads_most(played: &Value) -> bool {
    let last = |run: &Value| -> Option<(u64, u64)> {
        let point = run["points"].as_array()?.last()?;
        let reading = point["counters"]["block_read_ticks"].as_u64()?;
        Some((reading, point["time_ms"].as_u64()?))
    };
    let runs = played["runs"].as_array().into_iter().flatten();
    runs.filter_map(last)
        .any(|(reading, all)| 2 * reading > all)
}

/// What a read of the device of the files took in these runs, ns, as the device counts it; none: it counts nothing, or
/// there was none.
fn read_ns(runs: &[&Value]) -> Option<u64> {
    let sum = |name: &str| -> Option<u64> {
        let of_run = |run: &&Value| run["points"].as_array()?.last()?["counters"][name].as_u64();
        runs.iter().map(of_run).sum()
    };
    let (ms, requests) = (sum("block_read_ticks")?, sum("block_read_ios")?);
    (ms * 1_000_000).checked_div(requests).filter(|&ns| ns > 0)
}

/// The clock of a run whose first fold is known.
fn with_fold(clock: Clock, run: &Value) -> Clock {
    match run["first_fold_us"].as_u64() {
        Some(us) if us > 0 => clock.with_first_fold(us * 1_000),
        _ => clock,
    }
}

/// Time by access of each run; of one in which somebody was killed, the mean of the others.
pub(super) fn each_time(played: &Value) -> Option<Vec<Clock>> {
    let of_run = |run: &Value| match run["killed_after"].is_null() {
        true => {
            let points = points(&[run])?.remove(0).into_iter();
            Some(with_fold(clock_through(points, read_ns(&[run]))?, run))
        }
        false => times(played),
    };
    let runs = played["runs"].as_array()?.iter();
    runs.map(of_run).collect()
}

/// Time by access, the mean of runs in which nobody was killed and that came to the same points; none of others.
pub(super) fn times(played: &Value) -> Option<Clock> {
    let lived = |run: &&Value| run["killed_after"].is_null();
    let lived: Vec<_> = played["runs"].as_array()?.iter().filter(lived).collect();
    let runs = points(&lived)?;
    let (first, of) = (runs.first()?, runs.len() as u64);
    let mut mean = Vec::new();
    for (n, &Point { access, .. }) in first.iter().enumerate() {
        let at = |run: &Vec<Point>| {
            (run.len() == first.len() && run[n].access == access).then(|| run[n])
        };
        let same: Vec<Point> = runs.iter().map(at).collect::<Option<_>>()?;
        let reads: Option<u64> = same.iter().map(|p| p.reads).sum();
        let asleep: Option<u64> = same.iter().map(|p| p.asleep).sum();
        mean.push(Point {
            access,
            ns: same.iter().map(|p| p.ns).sum::<u64>() / of,
            reads: reads.map(|n| n / of),
            asleep: asleep.map(|ns| ns / of),
        });
    }
    let clock = clock_through(mean.into_iter(), read_ns(&lived))?;
    // Of several runs each has folds of its own.
    Some(match lived.as_slice() {
        [run] => with_fold(clock, run),
        _ => clock,
    })
}
