//! References decoded many at a time are those decoded one at a time, and end with the same error.

use super::*;
use proptest::prelude::*;

fn opened(content: &[u8], options: &TraceOptions) -> Reader {
    let content = std::io::Cursor::new(content.to_vec());
    let source = Source::from_reader("t", content, None).expect("sound at the start");
    Reader::from_source(source, Some(Format::PageOps), options).expect("sound options")
}

/// References, steps and what was counted, or what is wrong.
type Outcome = Result<(Vec<Op>, Vec<Event>, Reading), String>;

fn one_at_a_time(content: &[u8], options: &TraceOptions) -> Outcome {
    let mut reader = opened(content, options);
    let tally = reader.tally();
    let ops: Result<Vec<Op>, TraceError> = reader.by_ref().collect();
    let all = ops.and_then(|ops| Ok((ops, reader.steps()?, tally.get())));
    all.map_err(|error| error.to_string())
}

fn whole(content: &[u8], options: &TraceOptions) -> Outcome {
    let reader = opened(content, options);
    let tally = reader.tally();
    let trace = Trace::read(reader, |_, _| {}).map_err(|error| error.to_string())?;
    if trace.events.is_empty() {
        assert_eq!(trace, Trace::from_ops(trace.ops().to_vec()));
    }
    Ok((trace.ops().to_vec(), trace.events.clone(), tally.get()))
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).expect("memory")
}

/// Sound references: objects 0 and 1 are files, 2 is anonymous.
fn sound_records(records: usize) -> Vec<u8> {
    let record = |i: usize| {
        let (object, page) = ((i % 3) as u8, (i * 7 % 5000) as u32);
        let kind = [OpKind::MappedRead, OpKind::Pwrite, OpKind::AnonRead][i % 3];
        op(kind, object, (i / 100 % 5) as u16, page).to_bytes()
    };
    (0..records).flat_map(record).collect()
}

#[test]
fn buffers_are_decoded_as_a_whole() {
    let content = sound_records(100_000);
    for content in [zstd(&content), content] {
        let mut reader = opened(&content, &TraceOptions::default());
        let (mut ops, mut singly) = (Vec::new(), 0);
        loop {
            reader.many(&mut ops);
            let Some(op) = reader.next() else { break };
            ops.push(op.expect("sound"));
            singly += 1;
        }
        assert_eq!(ops.len(), 100_000);
        assert!(singly < 100, "{singly}");
    }
}

#[test]
fn what_unpacks_without_end_is_refused_at_the_same_place() {
    let content = zstd(&vec![0; 17 << 20]);
    let options = TraceOptions::default();
    let refused = whole(&content, &options).expect_err("too much");
    assert!(refused.contains("unpack it first"), "{refused}");
    assert_eq!(one_at_a_time(&content, &options), Err(refused));
}

/// One record. Most are references that fit the other ones.
fn record() -> impl Strategy<Value = [u8; Op::BYTES]> {
    let of = |kinds: &'static [u8], objects: std::ops::Range<u8>| {
        let kind = prop::sample::select(kinds);
        (kind, objects, 0u16..4, 0u32..3000).prop_map(|(kind, object, task, page)| {
            op(OpKind::from_u8(kind).expect("a kind"), object, task, page).to_bytes()
        })
    };
    let step = (32u8..44, 0u8..2, 0u16..4, 0u32..4).prop_map(|(kind, object, task, value)| {
        let [t0, t1] = task.to_le_bytes();
        [kind, object, t0, t1, value as u8, 0, 0, 0]
    });
    prop_oneof![
        300 => of(&[0, 1, 2, 5, 6], 0..2),
        100 => of(&[3, 4], 2..4),
        30 => step,
        1 => of(&[0, 1, 2, 3, 4, 5, 6], 0..4),
        1 => any::<[u8; Op::BYTES]>(),
    ]
}

fn options() -> impl Strategy<Value = TraceOptions> {
    let merged = prop::sample::select(&[0u32, 0, 0, 16][..]);
    (any::<(bool, bool, bool, bool)>(), merged).prop_map(
        |((one_task, threads, keep, collapse), merge_window)| TraceOptions {
            one_task,
            threads,
            page_ids: if keep { PageIds::Keep } else { PageIds::Dense },
            collapse: collapse && merge_window > 0,
            merge_window,
            ..TraceOptions::default()
        },
    )
}

proptest! {
    #[test]
    fn many_are_the_same_as_one_by_one(
        version in any::<bool>(),
        ahead in prop::sample::select(&[0usize, 0, 2000, 9000, 20_000][..]),
        records in prop::collection::vec(record(), 0..300),
        tail in prop::sample::select(&[0usize, 0, 0, 1, 5][..]),
        packed in any::<bool>(),
        cut in prop::sample::select(&[0usize, 0, 0, 9][..]),
        options in options(),
    ) {
        let mut content = Vec::new();
        if version {
            content.extend(Step::version().to_bytes());
        }
        content.extend(sound_records(ahead));
        content.extend(records.concat());
        content.extend(vec![0; tail]);
        if packed {
            content = zstd(&content);
            // Beyond what is read for recognition: an error further on.
            if ahead > 9000 {
                content.truncate(content.len() - cut);
            }
        }
        prop_assert_eq!(whole(&content, &options), one_at_a_time(&content, &options));
    }
}
