//! What a run has brought: requests of each worker, their durations, counters, heat over time.

use super::shape::Shape;
use crate::rig::Counts;
use crate::stats::{jain_index, mean, sample_sd, student_t_975, BucketHistogram, LatencyHistogram};
use coldset_engine::{Counter, Engine, MemcgId, NodeId};
use coldset_machine::sim::{TaskTimes, TimeClass};
use coldset_machine::Machine;
use coldset_report::{RunResult, Samples};

/// Results of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    requests: Vec<u64>,
    failures: u64,
    buckets: BucketHistogram,
    latency: LatencyHistogram,
    seconds: f64,
    counters: Vec<(&'static str, u64)>,
    /// Where the time of each worker went.
    times: Vec<TaskTimes>,
    /// Time of each sample, and memcgs of all nodes by heat.
    heat: Vec<(u64, Vec<u64>)>,
    /// What the machine has sampled.
    samples: Samples,
}

impl Outcome {
    pub(super) fn new(shape: &Shape, scale: u64) -> Self {
        Self {
            requests: vec![0; shape.workers() as usize],
            failures: 0,
            buckets: BucketHistogram::new(1, scale as u32),
            latency: LatencyHistogram::new(),
            seconds: shape.duration_ns as f64 / 1e9,
            counters: Vec::new(),
            times: vec![TaskTimes::default(); shape.workers() as usize],
            heat: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Takes over what the machine has sampled.
    pub(super) fn sampled(&mut self, samples: Samples) {
        self.samples = samples;
    }

    /// What a worker has spent so far.
    pub(super) fn spent(&mut self, worker: usize, times: &TaskTimes) {
        self.times[worker] = *times;
    }

    pub(super) fn answered(&mut self, worker: usize, ns: u64) {
        self.requests[worker] += 1;
        self.buckets.record(ns);
        self.latency.record(ns);
    }

    pub(super) fn failed(&mut self) {
        self.failures += 1;
        self.buckets.record_error();
    }

    pub(super) fn sample(&mut self, engine: &Engine, at: u64) {
        let mut sum: Vec<u64> = Vec::new();
        for n in 0..engine.config().nr_nodes {
            let of = engine.heat_histogram(NodeId(n));
            sum.resize(of.len(), 0);
            sum.iter_mut().zip(of).for_each(|(to, n)| *to += n);
        }
        if !sum.is_empty() {
            self.heat.push((at, sum));
        }
    }

    pub(super) fn count(&mut self, machine: &Machine) {
        let all = Counts::of_memcg(machine, MemcgId::ROOT);
        let vm = Counts::of_machine(machine);
        // Events of the whole machine are counted there only.
        let global = [
            Counter::Allocstall,
            Counter::DirectReclaim,
            Counter::Pageoutrun,
        ];
        let of = |c: Counter| {
            let counts = if global.contains(&c) { &vm } else { &all };
            (c.name(), counts.get(c))
        };
        self.counters = Counter::without_huge_pages().map(of).collect();
        self.counters.push(("pgscan", all.scanned()));
        self.counters.push(("pgsteal", all.stolen()));
    }

    /// Requests answered and failed.
    pub fn total(&self) -> u64 {
        self.buckets.total()
    }

    /// Workers with fewer answers than `least`.
    pub fn starved(&self, least: u64) -> u64 {
        self.requests.iter().filter(|&&n| n < least).count() as u64
    }

    /// Puts everything into a result, each name after `prefix`.
    pub fn report(&self, prefix: &str, r: &mut RunResult) {
        let name = |n: &str| format!("{prefix}{n}");
        let each: Vec<f64> = self.requests.iter().map(|&n| n as f64).collect();
        let average = mean(&each).unwrap_or(0.0);
        let slowest = each.iter().copied().fold(f64::INFINITY, f64::min);
        let sd = sample_sd(&each).unwrap_or(0.0);
        let half = if each.len() > 1 {
            student_t_975(each.len() as u64 - 1) * sd / (each.len() as f64).sqrt()
        } else {
            0.0
        };
        r.set(name("requests"), self.total());
        r.set(name("failed_requests"), self.failures);
        r.set(name("worker_mean"), average);
        r.set(name("worker_sd"), sd);
        r.set(name("worker_ci95_lo"), average - half);
        r.set(name("worker_ci95_hi"), average + half);
        r.set(name("jain"), jain_index(&each).unwrap_or(0.0));
        r.set(name("slowest_worker"), slowest / average.max(1e-9));
        for (label, n) in self.buckets.buckets() {
            r.set(name(&format!("requests {label}")), n);
        }
        for (i, (label, _)) in self.buckets.buckets().enumerate() {
            let percent = 100.0 * self.buckets.share(i);
            r.set(name(&format!("percent {label}")), percent);
        }
        let ms = |ns: f64| ns / 1e6;
        r.set(
            name("latency_ms"),
            ms(self.latency.mean_ns().unwrap_or(0.0)),
        );
        for (p, text) in [(500, "p50"), (900, "p90"), (990, "p99")] {
            let at = self.latency.percentile_ns(p).unwrap_or(0);
            r.set(name(&format!("latency_{text}_ms")), ms(at as f64));
        }
        for class in TimeClass::ALL {
            let ns: u64 = self.times.iter().map(|t| t.get(class)).sum();
            if ns > 0 && class != TimeClass::Idle {
                let each = ns as f64 / self.total().max(1) as f64;
                r.set(name(&format!("time.{}_ms", class.name())), ms(each));
            }
        }
        r.set(name("virtual_s"), self.seconds);
        for &(counter, n) in &self.counters {
            r.set(name(counter), n);
        }
        self.report_heat(prefix, r);
        r.histogram(name("request"), &self.latency);
        r.take_samples(prefix, self.samples.clone());
    }

    /// Memcgs by heat: over time as series, and the mean share of each heat.
    fn report_heat(&self, prefix: &str, r: &mut RunResult) {
        let Some((_, first)) = self.heat.first() else {
            return;
        };
        for heat in 0..first.len() {
            let series = format!("{prefix}memcgs of heat {heat:02}");
            let (mut sum, mut all) = (0, 0);
            for (at, by_heat) in &self.heat {
                r.point(series.clone(), *at, by_heat[heat]);
                sum += by_heat[heat];
                all += by_heat.iter().sum::<u64>();
            }
            let percent = 100.0 * sum as f64 / all.max(1) as f64;
            r.set(format!("{prefix}percent of heat {heat:02}"), percent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::jain_from_moments;

    /// What a run reports satisfies the identity between Jain's index and the moments.
    #[test]
    fn reported_moments_give_the_reported_index() {
        let mut o = Outcome {
            requests: vec![80, 100, 120, 90],
            failures: 0,
            buckets: BucketHistogram::new(1, 64),
            latency: LatencyHistogram::new(),
            seconds: 1.0,
            counters: Vec::new(),
            times: vec![TaskTimes::default(); 4],
            heat: vec![(5, vec![3, 1]), (9, vec![1, 3])],
            samples: Vec::new(),
        };
        o.answered(0, 1);
        let mut r = RunResult::new("v", 1);
        o.report("", &mut r);
        let get = |n: &str| r.counters[n].as_f64();
        let n = o.requests.len() as u64;
        let identity = jain_from_moments(n, get("worker_mean"), get("worker_sd")).unwrap();
        assert!((identity - get("jain")).abs() < 1e-12);
        let middle = (get("worker_ci95_lo") + get("worker_ci95_hi")) / 2.0;
        assert!((middle - get("worker_mean")).abs() < 1e-9);
        assert_eq!(get("slowest_worker"), 81.0 / get("worker_mean"));
        assert_eq!(get("requests [0,1) s"), 1.0);
        assert_eq!(get("percent of heat 00"), 50.0);
        assert_eq!(o.starved(90), 1);
    }
}
