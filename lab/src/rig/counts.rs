//! The machine's counters at one moment.

use coldset_engine::{Counter, MemcgId};
use coldset_machine::Machine;
use coldset_report::RunResult;

/// All counters at one moment, or their growth between two.
#[derive(Clone, Debug)]
pub struct Counts(Vec<i64>);

impl Default for Counts {
    /// Nothing has been counted yet.
    fn default() -> Self {
        Self(vec![0; Counter::ALL.len()])
    }
}

impl Counts {
    /// Of a memcg with everything below it.
    pub fn of_memcg(machine: &Machine, memcg: MemcgId) -> Self {
        let w = machine.world();
        Self::read(|c| w.engine.memcgs.live(memcg, c))
    }

    /// Of the whole machine.
    pub fn of_machine(machine: &Machine) -> Self {
        let w = machine.world();
        Self::read(|c| w.engine.vmstat().get(c))
    }

    /// Whatever `read` says each counter is.
    pub fn read(read: impl Fn(Counter) -> i64) -> Self {
        Self(Counter::ALL.iter().map(|&c| read(c)).collect())
    }

    /// What has been added since `start`.
    #[must_use]
    pub fn since(&self, start: &Self) -> Self {
        Self(self.0.iter().zip(&start.0).map(|(n, s)| n - s).collect())
    }

    /// A counter. Per-CPU parts may make it negative for a moment: 0 then.
    pub fn get(&self, c: Counter) -> u64 {
        self.0[c as usize].max(0) as u64
    }

    /// Pages scanned, by direct reclaim and kswapd.
    pub fn scanned(&self) -> u64 {
        self.get(Counter::PgscanDirect) + self.get(Counter::PgscanKswapd)
    }

    /// Pages reclaimed, by direct reclaim and kswapd.
    pub fn stolen(&self) -> u64 {
        self.get(Counter::PgstealDirect) + self.get(Counter::PgstealKswapd)
    }

    /// Puts some counters into a result, each name after `prefix`, then `pgscan` and `pgsteal`. Those of huge pages,
    /// which no experiment has, are left out.
    pub fn put(&self, prefix: &str, counters: &[Counter], r: &mut RunResult) {
        for &c in counters.iter().filter(|c| !c.needs_huge_pages()) {
            r.set(format!("{prefix}{}", c.name()), self.get(c));
        }
        r.set(format!("{prefix}pgscan"), self.scanned());
        r.set(format!("{prefix}pgsteal"), self.stolen());
    }
}
