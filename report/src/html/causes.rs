//! Which counters of the mechanism moved, and what that means in plain words.
//!
//! The words belong to counters, never to an experiment: whatever has the counter gets the sentence.

use crate::shown::human;
use crate::stats::{differs_from_nothing, paired_ratio, Spread};
use crate::CounterSummary;
use indexmap::IndexMap;

/// What less of something means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Less {
    /// Better.
    Good,
    /// Neither: it depends on what it buys.
    Open,
}

/// Something that counters measure.
struct Quantity {
    /// Name with unit.
    name: &'static str,
    /// Counters that are added up.
    counters: &'static [&'static str],
    /// Counters that the sum is divided by; none: it stands alone.
    per: &'static [&'static str],
    less: Less,
    /// Said when it falls.
    falls: &'static str,
    /// Said when it rises.
    rises: &'static str,
}

const fn plain(
    name: &'static str,
    counters: &'static [&'static str],
    less: Less,
    falls: &'static str,
    rises: &'static str,
) -> Quantity {
    Quantity {
        name,
        counters,
        per: &[],
        less,
        falls,
        rises,
    }
}

/// In the order from effect to mechanism.
const QUANTITIES: &[Quantity] = &[
    plain(
        "processes killed for lack of memory",
        &["oom_kill"],
        Less::Good,
        "fewer processes are killed, or none",
        "processes are killed for lack of memory",
    ),
    plain(
        "refaults (pages)",
        &[REFAULT_FILE, "workingset_refault_anon"],
        Less::Good,
        "fewer pages are needed again after their eviction, so the choice of what to evict is better",
        "more pages are evicted that are still needed",
    ),
    plain(
        "read from devices (KiB)",
        &["pgpgin"],
        Less::Good,
        "less has to be read from devices",
        "more has to be read from devices",
    ),
    plain(
        "major faults",
        &["pgmajfault"],
        Less::Good,
        "fewer faults wait for a device",
        "more faults wait for a device",
    ),
    plain(
        "swapped in (pages)",
        &["pswpin"],
        Less::Good,
        "less comes back from swap",
        "more comes back from swap",
    ),
    plain(
        "interrupts to flush other CPUs' TLBs",
        &["nr_tlb_remote_flush_received", "tlb_shootdowns"],
        Less::Good,
        "other CPUs are interrupted less often to flush translations",
        "other CPUs are interrupted more often to flush translations",
    ),
    Quantity {
        name: "pages scanned for each page freed",
        counters: &["pgscan"],
        per: &["pgsteal"],
        less: Less::Good,
        falls: "reclaim looks at fewer pages for each one that it frees",
        rises: "reclaim looks at more pages for each one that it frees",
    },
    plain(
        "dirty pages that reclaim put back",
        &["dirty_moved_up", "dirty_reactivated"],
        Less::Good,
        "reclaim handles fewer dirty pages in vain",
        "reclaim handles more dirty pages in vain",
    ),
    plain(
        "windows of read-ahead started by dirty pages",
        &["async_windows_dirty"],
        Less::Good,
        "fewer pages are read because reclaim's mark on a dirty page was taken for one of read-ahead",
        "more pages are read because reclaim's mark on a dirty page was taken for one of read-ahead",
    ),
    plain(
        "reclaim calls that freed nothing",
        &["zero_progress"],
        Less::Good,
        "fewer reclaim calls end with empty hands",
        "more reclaim calls end with empty hands",
    ),
    plain(
        "reclaim broken off after aging",
        &["abort_after_aging"],
        Less::Good,
        "reclaim is broken off less often because a generation was opened",
        "reclaim is broken off more often because a generation was opened",
    ),
    plain(
        "time in direct reclaim (ns)",
        &["direct_reclaim_ns"],
        Less::Good,
        "allocating tasks lose less time in reclaim",
        "allocating tasks lose more time in reclaim",
    ),
    plain(
        "entries into reclaim by allocating tasks",
        &["limit_reclaim", "direct_reclaim"],
        Less::Good,
        "tasks have to reclaim for themselves less often",
        "tasks have to reclaim for themselves more often",
    ),
    plain(
        "throttle sleeps",
        &["throttle_waits"],
        Less::Open,
        "reclaim sleeps less often until writeback has caught up",
        "reclaim waits for writeback to catch up where it went on scanning before",
    ),
    plain(
        "flushers woken by reclaim",
        &["flusher_wakeups"],
        Less::Open,
        "reclaim asks for writeback less often",
        "reclaim asks the flushers for writeback more often",
    ),
    plain(
        "generations opened",
        &["aging_runs"],
        Less::Open,
        "generations turn over more slowly, which leaves pages more time to show that they are used",
        "generations turn over faster",
    ),
    plain(
        "acquisitions of lru_lock",
        &["lru_lock_acq", "dead_lock_acq"],
        Less::Good,
        "the lock of the lists is taken less often",
        "the lock of the lists is taken more often",
    ),
    plain(
        "list operations of add batches",
        &["lru_add_list_ops"],
        Less::Good,
        "add batches cost fewer list operations",
        "add batches cost more list operations",
    ),
    plain(
        "pages written to devices (KiB)",
        &["pgpgout"],
        Less::Open,
        "less is written to devices",
        "more is written to devices",
    ),
];

const REFAULT_FILE: &str = "workingset_refault_file";
/// Counters of which pages are in memory when they are needed.
const OF_MISSES: [&str; 5] = [
    REFAULT_FILE,
    "workingset_refault_anon",
    "pgpgin",
    "pgmajfault",
    "pswpin",
];
/// Of refaults that fell where reads did not.
const FORGOTTEN: &str = "fewer pages that came back were recognised, and reads did not fall by as much: this is no sign of a \
                         better choice of what to evict";

/// Changes below this are not worth a sentence.
const LEAST_CHANGE: f64 = 0.03;
/// With one seed there is no interval, so a change must be larger.
const LEAST_CHANGE_ONE_SEED: f64 = 0.05;
/// Counts below this are too few to tell anything, unless something was killed.
const LEAST_COUNT: f64 = 20.0;

/// A quantity that moved.
#[derive(Debug, Clone)]
pub struct Cause {
    /// The whole sentence: name, both values, change, meaning.
    pub sentence: String,
    /// Of it the name, both values and the change.
    pub figures: String,
    /// Its meaning alone.
    pub meaning: &'static str,
    /// Better, worse or neither.
    pub good: Option<bool>,
    /// How far it moved: the absolute logarithm of the ratio, bounded.
    pub distance: f64,
    /// Place in the order from effect to mechanism.
    pub order: usize,
}

impl Cause {
    /// The same movement, of which nothing follows.
    fn meaning_nothing(mut self, said: &str) -> Self {
        self.sentence = self.sentence.replace(said, FORGOTTEN);
        self.meaning = FORGOTTEN;
        self.good = None;
        // It is no mechanism of anything either.
        self.order = usize::MAX;
        self
    }
}

type Counters = IndexMap<String, CounterSummary>;

/// Sums over the named counters, seed by seed; none if there is none of them.
fn sums(counters: &Counters, part: &str, names: &[&str]) -> Option<Vec<f64>> {
    let there = names
        .iter()
        .filter_map(|name| counters.get(&format!("{part}{name}")));
    let mut sum: Option<Vec<f64>> = None;
    for summary in there {
        let values = summary.per_seed.iter().map(|v| v.as_f64());
        match &mut sum {
            None => sum = Some(values.collect()),
            Some(all) => all.iter_mut().zip(values).for_each(|(a, v)| *a += v),
        }
    }
    sum
}

fn values(counters: &Counters, part: &str, q: &Quantity) -> Option<Vec<f64>> {
    let mut values = sums(counters, part, q.counters)?;
    if !q.per.is_empty() {
        let per = sums(counters, part, q.per)?;
        // Nothing was freed: there is no such figure.
        if per.iter().all(|p| *p == 0.0) {
            return None;
        }
        values
            .iter_mut()
            .zip(per)
            .for_each(|(v, p)| *v /= p.max(1.0));
    }
    Some(values)
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// `+12 %` (with a space that does not break), `-40 %`, or how manyfold.
pub fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        "new".into()
    } else if ratio >= 3.0 {
        let digits = usize::from(ratio < 100.0);
        format!("{ratio:.digits$} times as many")
    } else if ratio == 0.0 {
        "none left".into()
    } else {
        let percent = 100.0 * (ratio - 1.0);
        if percent.abs() < 0.05 {
            return "no change".into();
        }
        let sign = if percent < 0.0 { "\u{2212}" } else { "+" };
        let digits = usize::from(percent.abs() < 10.0);
        format!("{sign}{:.digits$}\u{a0}%", percent.abs())
    }
}

fn one(before: &[f64], after: &[f64], order: usize, q: &Quantity, part: &str) -> Option<Cause> {
    let (b, a) = (average(before), average(after));
    let counts = q.per.is_empty();
    let killed = q.counters.contains(&"oom_kill");
    if counts && !killed && b.max(a) < LEAST_COUNT {
        return None;
    }
    // Only one of them has generations at all.
    if q.counters.contains(&"aging_runs") && b.min(a) == 0.0 {
        return None;
    }
    let ratio = if b == a { 1.0 } else { a / b };
    let beyond = |least: f64| (ratio - 1.0).abs() >= least;
    let clear = match paired_ratio(before, after) {
        Ok(Spread { ci95: Some(ci), .. }) => !ci.contains(1.0) && beyond(LEAST_CHANGE),
        // Nothing before under some seed. A process that is killed is told under any.
        Err(_) if !killed && !differs_from_nothing(before, after) => false,
        _ => beyond(LEAST_CHANGE_ONE_SEED),
    };
    if !clear {
        return None;
    }
    let fell = a < b;
    let meaning = if fell { q.falls } else { q.rises };
    let of = match part.strip_suffix('.') {
        Some(part) => format!(" ({part})"),
        None => String::new(),
    };
    let round = |x: f64| {
        if x >= 100.0 {
            x.round()
        } else {
            (x * 100.0).round() / 100.0
        }
    };
    let figures = format!(
        "{}{of}: {} \u{2192} {} ({})",
        q.name,
        human(round(b)),
        human(round(a)),
        change(ratio)
    );
    Some(Cause {
        sentence: format!("{figures}: {meaning}."),
        figures,
        meaning,
        good: (q.less == Less::Good).then_some(fell),
        distance: ratio.ln().abs().min(100f64.ln()),
        order,
    })
}

/// Of these counters those that a sentence is about, in the order from effect to mechanism.
pub(crate) fn telling<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let known = QUANTITIES
        .iter()
        .flat_map(|q| q.counters.iter().chain(q.per));
    let mut found: Vec<&str> = Vec::new();
    for known in known {
        for &name in names {
            let part = name.strip_suffix(*known);
            if part.is_some_and(|p| p.is_empty() || p.ends_with('.')) && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// Parts of the experiment by the prefixes of known counters: `""`, `zipf.`.
fn parts(counters: &Counters) -> Vec<String> {
    let known = || QUANTITIES.iter().flat_map(|q| q.counters);
    let mut parts: Vec<String> = Vec::new();
    for name in counters.keys() {
        let part = known().find_map(|k| name.strip_suffix(k));
        let part = part.filter(|p| p.is_empty() || p.ends_with('.'));
        if let Some(part) = part {
            if !parts.iter().any(|p| p == part) {
                parts.push(part.to_owned());
            }
        }
    }
    parts
}

/// File refaults fell by more than twice the pages that are read less: each of them is a page read, so the rest came back
/// without being recognised. Some kernels forget evictions sooner (`docs/rules/workingset.md`).
fn is_forgotten(before: &Counters, after: &Counters, part: &str) -> bool {
    let fell = |name: &str| {
        let of = |c: &Counters| sums(c, part, &[name]).map(|v| average(&v));
        Some(of(before)? - of(after)?)
    };
    let both = fell(REFAULT_FILE).zip(fell("pgpgin"));
    both.is_some_and(|(refaults, kib)| refaults > 0.0 && kib / 4.0 < refaults / 2.0)
}

/// What moved from one set of counters to the other, the farthest first. Only what is clearly outside
/// the noise.
pub fn causes(before: &Counters, after: &Counters) -> Vec<Cause> {
    let mut found = Vec::new();
    for part in parts(before) {
        for (order, q) in QUANTITIES.iter().enumerate() {
            let both = values(before, &part, q).zip(values(after, &part, q));
            let cause = both.and_then(|(b, a)| one(&b, &a, order, q, &part));
            let refaults = q.counters.contains(&REFAULT_FILE);
            found.extend(
                cause.map(|c| match refaults && is_forgotten(before, after, &part) {
                    true => c.meaning_nothing(q.falls),
                    false => c,
                }),
            );
        }
    }
    found.sort_by(|x, y| {
        let by_distance = y.distance.total_cmp(&x.distance);
        by_distance.then(x.order.cmp(&y.order))
    });
    found
}

/// Whether the same quantity moved the other way in another part of the experiment: then it says nothing of the whole.
pub fn is_contradicted(cause: &Cause, causes: &[Cause]) -> bool {
    let other = |c: &Cause| c.order == cause.order && c.meaning != cause.meaning;
    causes.iter().any(other)
}

/// As [`reasons`], of misses: the time that reclaim and locks take is no reason why other pages are in memory.
pub fn reasons_of_misses(causes: &[Cause], good: bool) -> Option<String> {
    let is_of_misses = |c: &&Cause| {
        let quantity = QUANTITIES.get(c.order);
        quantity.is_some_and(|q| q.counters.iter().any(|name| OF_MISSES.contains(name)))
    };
    let of_misses: Vec<Cause> = causes.iter().filter(is_of_misses).cloned().collect();
    reasons(&of_misses, good)
}

/// The meanings of up to three causes that go `good` ways, from effect to mechanism, as one phrase.
pub fn reasons(causes: &[Cause], good: bool) -> Option<String> {
    let whole = causes.iter().filter(|c| !is_contradicted(c, causes));
    let mut fitting: Vec<&Cause> = whole.clone().filter(|c| c.good == Some(good)).collect();
    if good {
        // What is neither good nor bad in itself can be what bought it.
        let open = |c: &&Cause| c.good.is_none() && c.meaning != FORGOTTEN;
        fitting.extend(whole.filter(open));
    }
    fitting.sort_by_key(|c| (c.good.is_none(), c.order));
    let mut meanings: Vec<&str> = Vec::new();
    for cause in fitting {
        if !meanings.contains(&cause.meaning) && meanings.len() < 3 {
            meanings.push(cause.meaning);
        }
    }
    match meanings.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        [first @ .., last] => Some(format!("{}; and {last}", first.join("; "))),
    }
}
