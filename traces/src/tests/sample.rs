//! The trace that the project carries, against its description in `data/README.md`.

use super::*;
use crate::bounds::{lru, opt, Count, Sequence};

#[test]
fn sample_trace_is_as_described() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../data/sqlite.pageops.zst");
    assert!(fs::metadata(&path).expect("part of the project").len() <= 300 * 1024);
    let trace =
        load(&path, None, &TraceOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (trace.ops().len(), trace.unique_pages, trace.writes),
        (693_790, 2213, 263_697)
    );
    assert_eq!(
        trace.objects,
        [ObjectInfo {
            pages: 2213,
            used: 2213,
            is_anon: true
        }]
    );
    assert_eq!(trace.tasks, 1);
    let sequence = Sequence::of_trace(&trace, Count::Absences, true).expect("short");
    let misses = [221, 553, 1106]
        .map(|frames| (lru(&sequence, frames).misses, opt(&sequence, frames).misses));
    assert_eq!(misses, [(22_114, 14_042), (13_914, 7413), (7069, 3927)]);
}
