//! What the lists hold, as text in the manner of the kernel's debug file, and the commands of that
//! file.

use coldset_engine::lruvec::{LruList, LruvecView};
use coldset_engine::reclaim::{DebugCommand, DebugError};
use coldset_engine::{MemcgId, NodeId};
use coldset_machine::{Ctx, MachineRun, World};
use serde::Serialize;
use std::fmt::Write as _;

/// A command for every memcg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Create a youngest generation, even if there are four.
    Age,
    /// Evict generations up to `seq`, `nr` pages at most.
    Evict {
        /// Sequence number.
        seq: u64,
        /// Pages.
        nr: u64,
    },
}

/// A generation in a dump.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GenDump {
    /// Sequence number.
    pub seq: u64,
    /// Time since its birth, ms.
    pub age_ms: u64,
    /// Anonymous pages; none if the type no longer has this generation.
    pub anon: Option<u64>,
    /// File pages.
    pub file: Option<u64>,
}

/// A tier in a dump, pages since the last carry-over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TierDump {
    /// Pages that came back.
    pub refaulted: u64,
    /// Pages that left.
    pub evicted: u64,
    /// Pages that were kept.
    pub protected: u64,
    /// Moving average of refaults.
    pub avg_refaulted: u64,
    /// Moving average of evictions and protections.
    pub avg_total: u64,
}

/// The lists of a memcg on a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LruvecDump {
    /// The memcg; 0 is the root.
    pub memcg: u32,
    /// The node.
    pub node: u32,
    /// Generations, oldest first (multi-gen).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<GenDump>,
    /// Tiers of anonymous memory, then of files (multi-gen).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Vec<TierDump>>,
    /// Lists by name with their pages (other policies).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<(&'static str, u64)>,
}

/// Runs a command on the lruvec of `memcg`.
///
/// # Errors
/// A command that the lruvec refuses.
pub(super) fn command(
    run: &mut MachineRun,
    ctx: &Ctx,
    memcg: MemcgId,
    command: Command,
) -> Result<u64, DebugError> {
    let machine = run.machine.clone();
    let node = NodeId(0);
    let command = match command {
        Command::Evict { seq, nr } => DebugCommand::Evict { seq, nr },
        Command::Age => {
            let generations = machine.world().engine.generations(memcg);
            let seq = generations.last().map_or(0, |g| g[0]);
            DebugCommand::Age { seq, force: true }
        }
    };
    run.run_inline(ctx, machine.lru_gen(ctx, memcg, node, command))
}

/// The lists of every memcg on every node.
pub(super) fn dump(w: &World) -> Vec<LruvecDump> {
    let e = &w.engine;
    let mut all = Vec::new();
    for memcg in (0..e.memcgs.capacity() as u32).map(MemcgId) {
        for node in (0..e.config().nr_nodes).map(NodeId) {
            if let Some(view) = e.lruvec_view(memcg, node) {
                all.push(LruvecDump::of(memcg, node, &view));
            }
        }
    }
    all
}

fn list_name(list: LruList) -> &'static str {
    list.counter().name()
}

impl TierDump {
    /// Nothing was refaulted, evicted or protected, now or before.
    fn is_blank(&self) -> bool {
        self.refaulted + self.evicted + self.protected + self.avg_refaulted + self.avg_total == 0
    }
}

impl LruvecDump {
    fn of(memcg: MemcgId, node: NodeId, view: &LruvecView) -> Self {
        let mut d = LruvecDump {
            memcg: memcg.0,
            node: node.0,
            generations: Vec::new(),
            tiers: Vec::new(),
            lists: Vec::new(),
        };
        match view {
            LruvecView::MultiGen { gens, tiers } => {
                d.generations = gens
                    .iter()
                    .map(|g| GenDump {
                        seq: g.seq,
                        age_ms: g.age / 1_000_000,
                        anon: g.anon,
                        file: g.file,
                    })
                    .collect();
                let tier = |t: &coldset_engine::lruvec::TierView| TierDump {
                    refaulted: t.refaulted,
                    evicted: t.evicted,
                    protected: t.protected,
                    avg_refaulted: t.avg_refaulted,
                    avg_total: t.avg_total,
                };
                d.tiers = tiers
                    .iter()
                    .map(|of| of.iter().map(tier).collect())
                    .collect();
            }
            LruvecView::Lists(lists) => {
                d.lists = lists.iter().map(|&(l, n)| (list_name(l), n)).collect();
            }
        }
        d
    }

    /// Nothing on its lists, and nothing has been evicted from them.
    fn is_blank(&self) -> bool {
        let none = |n: Option<u64>| n.unwrap_or(0) == 0;
        self.generations
            .iter()
            .all(|g| none(g.anon) && none(g.file))
            && self.tiers.iter().flatten().all(TierDump::is_blank)
            && self.lists.iter().all(|&(_, n)| n == 0)
    }

    /// A few lines of text. Tiers in which nothing has happened are left out, and of an lruvec that
    /// has never held anything there is one line.
    pub fn text(&self) -> String {
        let mut out = format!("memcg {:>5}\n node {:>5}\n", self.memcg, self.node);
        if self.is_blank() {
            out.push_str("   empty\n");
            return out;
        }
        let mut line = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("a string takes it");
            out.push('\n');
        };
        let pages = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        if !self.generations.is_empty() {
            line(format_args!(
                "   {:>8} {:>10} {:>10} {:>10}",
                "seq", "age ms", "anon", "file"
            ));
        }
        for g in &self.generations {
            line(format_args!(
                "   {:>8} {:>10} {:>10} {:>10}",
                g.seq,
                g.age_ms,
                pages(g.anon),
                pages(g.file)
            ));
        }
        for (name, tiers) in ["anon", "file"].iter().zip(&self.tiers) {
            for (i, t) in tiers.iter().enumerate().filter(|(_, t)| !t.is_blank()) {
                line(format_args!(
                    "   {name} tier {i}: refaulted {}, evicted {}, protected {}, averages {} of {}",
                    t.refaulted, t.evicted, t.protected, t.avg_refaulted, t.avg_total
                ));
            }
        }
        for (name, n) in &self.lists {
            line(format_args!("   {name:<14} {n:>10}"));
        }
        out
    }
}
