//! Steps between accesses: version 2 of `pageops`.

use super::*;

fn step(kind: StepKind, object: u8, task: u16, value: u32) -> Step {
    Step {
        kind,
        object,
        task,
        value,
    }
}

fn bytes(records: &[[u8; Op::BYTES]]) -> Vec<u8> {
    records.concat()
}

fn with_version(records: &[[u8; Op::BYTES]]) -> Vec<u8> {
    bytes(&[&[Step::version().to_bytes()], records].concat())
}

fn error(content: &[u8], options: &TraceOptions) -> String {
    let read = read(content, Format::PageOps, options);
    read.expect_err("malformed").to_string()
}

#[test]
fn steps_keep_their_places_and_threads_are_one_task() {
    let first = op(OpKind::Pwrite, 0, 7, 3);
    let second = op(OpKind::MappedRead, 1, 8, 4);
    let content = with_version(&[
        step(StepKind::Process, 0, 7, 2).to_bytes(),
        step(StepKind::Process, 0, 8, 2).to_bytes(),
        step(StepKind::Advise, 0, 7, 1).to_bytes(),
        first.to_bytes(),
        step(StepKind::Think, 0, 8, 5000).to_bytes(),
        second.to_bytes(),
        step(StepKind::Fsync, 4, 9, 0).to_bytes(),
    ]);
    assert_eq!(Format::guess("x", &content), Some(Format::PageOps));
    let trace = sound(&content, Format::PageOps, &TraceOptions::default());
    assert_eq!(
        trace.ops(),
        [Op { task: 2, ..first }, Op { task: 2, ..second }]
    );
    let event = |at, step| Event { at, step };
    let expected = [
        event(0, step(StepKind::Advise, 0, 2, 1)),
        event(1, step(StepKind::Think, 0, 2, 5000)),
        event(2, step(StepKind::Fsync, 4, 9, 0)),
    ];
    assert_eq!(trace.events, expected);
    assert_eq!((trace.tasks, trace.objects.len()), (10, 5));
    let apart = TraceOptions {
        threads: true,
        ..TraceOptions::default()
    };
    let threads = sound(&content, Format::PageOps, &apart);
    assert_eq!(threads.ops(), [first, second]);
    assert_eq!(threads.events.len(), 5);
    let mut processes: Vec<u16> = (0..10).collect();
    (processes[7], processes[8]) = (2, 2);
    assert_eq!(threads.processes(), processes);
    assert_eq!(threads.of_one_process().processes(), [0; 10]);
    let again: Vec<u8> = trace.file_records().flat_map(|r| r.to_bytes()).collect();
    assert_eq!(
        sound(&again, Format::PageOps, &TraceOptions::default()),
        trace
    );
}

#[test]
fn what_is_written_with_steps_is_read() {
    let folder = Folder::new();
    let path = folder.0.join("a.pageops.zst");
    let mut writer = PageOpsWriter::create(&path, WritePacking::Zstd(3)).unwrap();
    writer.push_step(Step::version()).unwrap();
    writer.push(op(OpKind::Pwrite, 0, 0, 9)).unwrap();
    writer.push_step(step(StepKind::Truncate, 0, 0, 5)).unwrap();
    assert_eq!(writer.finish().unwrap(), 1, "steps are no references");
    let trace = load(&path, None, &TraceOptions::default()).unwrap();
    assert_eq!(trace.events.len(), 1);
}

#[test]
fn what_is_wrong_is_named() {
    let options = TraceOptions::default();
    let access = op(OpKind::AnonWrite, 0, 0, 0).to_bytes();
    let fsync = step(StepKind::Fsync, 0, 0, 0).to_bytes();
    let newer = step(StepKind::Version, 0, 0, 3).to_bytes();
    let again = Step::version().to_bytes();
    let advice = [33, 0, 0, 0, 9, 0, 0, 0];
    for (content, expected) in [
        (bytes(&[access, fsync]), "a step of kind 32"),
        (bytes(&[newer, access]), "version 3"),
        (
            with_version(&[access, again]),
            "a second record of a version",
        ),
        (with_version(&[access, fsync]), "object 0 as a file"),
        (with_version(&[advice, access]), "kind 33 with the value 9"),
    ] {
        let said = error(&content, &options);
        assert!(said.contains(expected), "{said}");
    }
    let merged = TraceOptions {
        collapse: true,
        ..options
    };
    let file = op(OpKind::Pread, 0, 0, 0).to_bytes();
    let said = error(&with_version(&[file, fsync]), &merged);
    assert!(said.contains("has steps between its accesses"), "{said}");
    assert!(error(&with_version(&[fsync]), &TraceOptions::default()).contains("no reference"));
}
