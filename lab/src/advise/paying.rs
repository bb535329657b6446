//! Who pays for less memory: reads by task and by object.

use crate::bounds::{lru_misses, Count, Sequence};
use crate::traces::Trace;
use std::collections::BTreeMap;

/// Name, reads with much and with little memory.
pub type Reads = (String, u64, u64);

/// Rows of a table.
const MOST: usize = 16;

/// Reads by task, and by file or region, under exact LRU with `much` and with `little` memory: those that read more than
/// before, the most first. A sequence with all pages of the trace, for a position is an access then.
#[must_use]
pub fn paying(trace: &Trace, much: u64, little: u64) -> Vec<(&'static str, Vec<Reads>)> {
    let Ok(sequence) = Sequence::of_trace(trace, Count::Reads, true) else {
        return Vec::new();
    };
    let mut by_task: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    let mut by_object: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    for (pages, much) in [(much, true), (little, false)] {
        let frames = u32::try_from(pages).unwrap_or(u32::MAX);
        lru_misses(&sequence, frames, |position| {
            let op = trace.ops()[position];
            let add = |(before, after): &mut (u64, u64)| match much {
                true => *before += 1,
                false => *after += 1,
            };
            add(by_task.entry(op.task).or_default());
            add(by_object.entry(op.object).or_default());
        });
    }
    let object = |n: u8| {
        let kind = match trace.objects[usize::from(n)].is_anon {
            true => "anonymous region",
            false => "file",
        };
        format!("{kind} {n}")
    };
    let task = |n: u16| format!("task {n}");
    let tasks = by_task.into_iter().map(|(n, (b, a))| (task(n), b, a));
    let objects = by_object.into_iter().map(|(n, (b, a))| (object(n), b, a));
    vec![
        ("task", most(tasks.collect())),
        ("file or region", most(objects.collect())),
    ]
}

fn most(mut rows: Vec<Reads>) -> Vec<Reads> {
    rows.retain(|(_, before, after)| after > before);
    rows.sort_by_key(|(_, before, after)| std::cmp::Reverse(after - before));
    rows.truncate(MOST);
    rows
}
