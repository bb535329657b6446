//! Journals of the pager as traces: what one shows of accesses, for any policy (docs/journal.md).

use crate::error::Failure;
use coldset_engine::presets::{self, PRESETS};
use coldset_lab::replay::MEMORY_MIN;
use coldset_lab::report::human;
use coldset_lab::runner::{show_pages, Low, Size};
use coldset_lab::traces::{Op, OpKind, Trace, MAX_PAGES};
use coldset_pager::journal::{accesses, is_journal, Access, Accesses, RegionInfo};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A journal that has been replayed exactly, as a trace.
pub struct Journal {
    /// The accesses that the journal shows, as a trace.
    pub trace: Trace,
    source: Accesses,
    /// Group of each task of the trace.
    tasks: Vec<u32>,
}

/// Reads a journal; none if the file is something else.
///
/// # Errors
/// A journal that is damaged, of another version, or not what this engine decides; accesses that do
/// not fit into a trace.
pub fn load(path: &Path) -> Result<Option<Journal>, Failure> {
    if path.as_os_str() == "-" || !is_journal(path).unwrap_or(false) {
        // Whatever is wrong with it, reading it as a trace will tell.
        return Ok(None);
    }
    let name = || path.display().to_string();
    let source = accesses(path).map_err(|error| Failure::Journal {
        name: name(),
        error,
    })?;
    if source.accesses.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: the journal shows no access; record while the program misses",
            name()
        )));
    }
    let (trace, tasks) = convert(&source)
        .map_err(|what| Failure::Usage(format!("{}: {what}; record a shorter part", name())))?;
    Ok(Some(Journal {
        trace,
        source,
        tasks,
    }))
}

/// One object for the files and one for the anonymous memory of each group; regions lie one after
/// the other in it. One task for each group that has regions.
fn convert(j: &Accesses) -> Result<(Trace, Vec<u32>), String> {
    let mut tasks: Vec<u32> = j.regions.iter().map(|r| r.group).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let mut objects: BTreeMap<(bool, u32), (u8, u64)> = BTreeMap::new();
    let mut places = Vec::new();
    for r in &j.regions {
        let next = objects.len();
        let key = (r.anonymous, r.group);
        if next > 255 && !objects.contains_key(&key) {
            return Err("more than 128 groups with regions".into());
        }
        let object = objects.entry(key).or_insert((next as u8, 0));
        places.push((object.0, object.1));
        object.1 += r.pages;
        if object.1 > MAX_PAGES {
            return Err(format!("regions of more than {MAX_PAGES} pages in a group"));
        }
    }
    if tasks.len() > usize::from(u16::MAX) {
        return Err("more than 65535 groups with regions".into());
    }
    let mut touched: HashMap<(u32, u32), u64> = HashMap::new();
    let mut op = |a: &Access| {
        let r: &RegionInfo = &j.regions[a.region as usize];
        let (object, first) = places[a.region as usize];
        let seen = touched.entry((a.region, a.page / 64)).or_default();
        let fresh = *seen >> (a.page % 64) & 1 == 0;
        *seen |= 1 << (a.page % 64);
        let task = tasks.partition_point(|&g| g < r.group);
        Op {
            kind: match (r.anonymous, a.store) {
                (false, false) => OpKind::MappedRead,
                (false, true) => OpKind::MappedWrite,
                // The pager gives even a page that is only read memory of its own.
                (true, store) if store || fresh => OpKind::AnonWrite,
                (true, _) => OpKind::AnonRead,
            },
            object,
            task: task as u16,
            page: (first + u64::from(a.page)) as u32,
        }
    };
    let ops = j.accesses.iter().map(&mut op).collect();
    Ok((Trace::from_ops(ops), tasks))
}

impl Journal {
    /// Limit to replay under: the pool's budget.
    pub fn memory(&self) -> Size {
        Size::Pages(self.source.budget.max(MEMORY_MIN))
    }

    /// Protections and limits of tasks.
    pub fn limits(&self) -> (Vec<Low>, Vec<Low>) {
        let of = |value: &dyn Fn(usize) -> Option<u64>| {
            let busy = self.trace.acting_processes();
            let all = self.tasks.iter().enumerate();
            let all = all.filter(|(task, _)| busy.contains(&(*task as u16)));
            all.filter_map(|(task, &group)| {
                let pages = value(group as usize)?;
                Some(Low {
                    task: task as u16,
                    size: Size::Pages(pages),
                })
            })
            .collect()
        };
        let groups = &self.source.groups;
        (
            of(&|g| (g > 0 && groups[g].low > 0).then_some(groups[g].low)),
            of(&|g| groups[g].max.filter(|_| g > 0)),
        )
    }

    /// The preset it was recorded with, and switches on top of it.
    fn policy(&self) -> String {
        let mut best: Option<(usize, String)> = None;
        for p in PRESETS {
            let name = p.names[0];
            let Ok(switches) = presets::preset(name) else {
                continue;
            };
            let own: Vec<String> = switches
                .describe()
                .iter()
                .map(|s| format!("{}={}", s.name, s.value))
                .collect();
            let recorded = self.source.switches.iter();
            let differ: Vec<&str> = recorded
                .zip(&own)
                .filter(|(a, b)| a != b)
                .map(|(a, _)| a.as_str())
                .collect();
            if best.as_ref().is_none_or(|b| differ.len() < b.0) {
                let label = std::iter::once(name).chain(differ.iter().copied());
                best = Some((differ.len(), label.collect::<Vec<_>>().join("+")));
            }
        }
        best.map_or(String::new(), |b| b.1)
    }

    /// A few lines: the exact replay, and what the stream lacks.
    pub fn text(&self, path: &Path) -> String {
        let (j, r) = (&self.source, &self.source.replayed);
        let mut out = format!(
            "{}: journal of a pool of {} under {}\n\
             replayed over its own policy: {} decisions, {} victims, identical{}\n",
            path.display(),
            show_pages(j.budget),
            self.policy(),
            human(r.requests as f64),
            human(r.victims.len() as f64),
            if r.truncated {
                " (the journal ends early: the program was killed, or the disk was full)"
            } else {
                ""
            },
        );
        let misses = j.misses();
        let hits = j.accesses.len() as u64 - misses - j.resident_before;
        out += &format!(
            "shows {} misses and {} hits that a sweep or test saw; {} pages were in memory before\n\
             below: that stream over other policies; hits between two sweeps count once or not at \
             all\n",
            human(misses as f64),
            human(hits as f64),
            human(j.resident_before as f64),
        );
        let lost: Vec<&str> = [
            ("min", j.groups.iter().any(|g| g.min > 0)),
            ("high", j.groups.iter().any(|g| g.high.is_some())),
            (
                "nesting",
                j.groups.iter().any(|g| g.parent.is_some_and(|p| p > 0)),
            ),
        ]
        .iter()
        .filter_map(|&(name, has)| has.then_some(name))
        .collect();
        if self.tasks.len() > 1 {
            out += &format!(
                "{} groups are tasks with the limits they had in the end\n",
                self.tasks.len()
            );
        }
        if !lost.is_empty() {
            out += &format!("not replayed of groups: {}\n", lost.join(", "));
        }
        out.push('\n');
        out
    }

    /// The same for JSON.
    pub fn json(&self) -> serde_json::Value {
        let (j, r) = (&self.source, &self.source.replayed);
        json!({
            "policy": self.policy(),
            "budget_pages": j.budget,
            "operations": r.operations,
            "decisions": r.requests,
            "victims": r.victims.len(),
            "identical": true,
            "truncated": r.truncated,
            "misses": j.misses(),
            "seen_hits": j.accesses.len() as u64 - j.misses() - j.resident_before,
            "resident_before": j.resident_before,
        })
    }
}
