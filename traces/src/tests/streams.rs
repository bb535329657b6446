//! Traces that are read again instead of being held.

use super::*;
use proptest::prelude::*;

fn write(path: &std::path::Path, packing: WritePacking, ops: &[Op]) {
    let mut writer = PageOpsWriter::create(path, packing).expect("create");
    for &op in ops {
        writer.push(op).expect("write");
    }
    writer.finish().expect("finish");
}

fn again(path: &std::path::Path) -> Again {
    Again {
        path: path.to_owned(),
        format: None,
        options: TraceOptions::default(),
    }
}

fn loaded(path: &std::path::Path, hold: usize) -> Loaded {
    let reader = open(path, None, &TraceOptions::default()).expect("sound");
    Loaded::read(reader, hold, again(path), |_, _| {}).expect("sound")
}

/// Longer than a window, of three tasks and two files.
fn some_ops(n: u32) -> Vec<Op> {
    let kind = |i| [OpKind::Pread, OpKind::WholeWrite][(i % 5 == 4) as usize];
    (0..n)
        .map(|i| op(kind(i), (i % 2) as u8, (i % 3) as u16, i * 7 % 9001))
        .collect()
}

#[test]
fn what_is_known_of_a_stream_is_what_is_known_of_the_trace() {
    let folder = Folder::new();
    let path = folder.0.join("a.pageops.zst");
    write(&path, WritePacking::Zstd(3), &some_ops(150_000));
    let held = loaded(&path, 150_000);
    let stream = loaded(&path, 149_999);
    assert!(matches!(held, Loaded::Held(_)));
    assert!(stream.playable().held().is_none());
    assert_eq!(held.playable().about(), stream.playable().about());
    let about = stream.playable().about();
    assert_eq!((about.accesses, about.tasks), (150_000, 3));
    assert!(about.occurs(OpKind::WholeWrite) && !about.occurs(OpKind::Pwrite));
}

#[test]
fn a_file_that_has_become_shorter_is_an_error() {
    let folder = Folder::new();
    let path = folder.0.join("a.pageops");
    write(&path, WritePacking::Plain, &some_ops(200_000));
    let stream = loaded(&path, 0);
    write(&path, WritePacking::Plain, &some_ops(199_000));
    let mut window = stream.playable().window().expect("still there");
    window.reach(0, 10).expect("the beginning is the same");
    let error = window.reach(window.end(), 150_000).expect_err("shorter");
    let said = error.to_string();
    assert!(
        said.contains("200000 accesses") && said.contains("199000 now"),
        "{said}"
    );
    // What has been added is not played.
    write(&path, WritePacking::Plain, &some_ops(201_000));
    let mut window = stream.playable().window().expect("still there");
    while window.end() < 200_000 {
        window.reach(window.end(), 1).expect("longer");
    }
    window.reach(200_000, 1).expect("the end");
    assert_eq!(window.end(), 200_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn windows_show_the_trace(
        steps in prop::collection::vec((0usize..90_000, 0usize..5000), 1..12),
        packed in any::<bool>(),
    ) {
        let folder = Folder::new();
        let path = folder.0.join("a.pageops");
        let packing = if packed { WritePacking::Zstd(1) } else { WritePacking::Plain };
        let ops = some_ops(210_000);
        write(&path, packing, &ops);
        for hold in [0, usize::MAX] {
            let loaded = loaded(&path, hold);
            let mut window = loaded.playable().window().expect("sound");
            let mut at = 0;
            for &(on, more) in &steps {
                window.reach(at, more).expect("sound");
                let there = window.from(at);
                prop_assert!(there.len() >= more.min(ops.len() - at));
                prop_assert!(there == &ops[at..window.end()], "from {}", at);
                at = (at + on).min(window.end());
            }
            prop_assert!(hold > 0 || window.ops().len() < 1 << 18, "a window");
        }
    }
}
