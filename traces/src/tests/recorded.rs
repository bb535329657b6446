//! The samples that the project carries in `data/samples`, against their description in
//! `data/README.md`. The counts were taken from the samples by other means.

use super::*;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../data/samples")
        .join(name)
}

/// A sample, its format recognised, read without a bad line or a lost event.
fn sample(name: &str, options: &TraceOptions) -> (Format, Trace, Reading) {
    let reader = open(path(name), None, options).unwrap_or_else(|error| panic!("{error}"));
    let (format, tally) = (reader.format(), reader.tally());
    let trace = Trace::read(reader, |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
    let reading = tally.get();
    assert!(reading.is_whole(), "{name}: {reading:?}");
    (format, trace, reading)
}

#[test]
fn samples_are_as_described() {
    for (name, format, lines, references, pages, writes, tasks) in [
        ("session.perf.zst", Format::Perf, 1823, 1018, 516, 0, 23),
        ("sort-faults.perf.zst", Format::Perf, 630, 630, 621, 630, 1),
        ("known.bpftrace.zst", Format::Perf, 66, 174, 149, 107, 2),
        (
            "session.ftrace.zst",
            Format::Ftrace,
            2630,
            2166,
            1973,
            1605,
            23,
        ),
        (
            "session.trace-cmd.zst",
            Format::Ftrace,
            2619,
            2166,
            1973,
            1605,
            23,
        ),
        ("mix-v2.fio", Format::Fio, 521, 1422, 630, 719, 1),
        ("mix-v3.fio", Format::Fio, 521, 1422, 630, 719, 1),
        (
            "session.blkparse.zst",
            Format::Blkparse,
            1578,
            1672,
            954,
            750,
            16,
        ),
        (
            "awk.lackey.zst",
            Format::Lackey,
            165_732,
            165_715,
            130,
            56_371,
            1,
        ),
    ] {
        let (recognised, trace, reading) = sample(name, &TraceOptions::default());
        assert_eq!(recognised, format, "{name}");
        assert_eq!(
            (
                reading.lines,
                trace.ops().len(),
                trace.unique_pages,
                trace.writes,
                trace.tasks
            ),
            (lines, references, pages, writes, tasks),
            "{name}"
        );
    }
}

/// The accesses of the program in `scripts/record-samples`, all of them and in its order.
#[test]
fn bpftrace_saw_what_the_program_did() {
    use OpKind::{Pread, Pwrite, WholeWrite};
    let (_, trace, _) = sample("known.bpftrace.zst", &TraceOptions::default());
    let ops = trace.ops();
    let begins = ops.iter().position(|op| op.kind == WholeWrite);
    let done = &ops[begins.expect("it writes")..];
    let first = done[0].page;
    let mut known: Vec<(OpKind, u32)> = (0..100).map(|page| (WholeWrite, page)).collect();
    known.push((Pwrite, 100));
    known.extend([7, 3, 99, 7, 49, 50, 51, 52, 20, 21, 22].map(|page| (Pread, page)));
    known.extend([(WholeWrite, 30), (Pwrite, 40), (Pwrite, 41), (Pread, 70)]);
    known.extend([
        (WholeWrite, 80),
        (WholeWrite, 81),
        (Pwrite, 100),
        (Pread, 60),
    ]);
    let seen: Vec<(OpKind, u32)> = done.iter().map(|op| (op.kind, op.page - first)).collect();
    assert_eq!(seen, known);
    let tasks: Vec<u16> = done.iter().map(|op| op.task).collect();
    let (child, parent) = tasks.split_last().expect("some");
    assert!(parent
        .iter()
        .all(|task| task == &parent[0] && task != child));
}

#[test]
fn samples_are_small_and_free_of_names() {
    let folder = fs::read_dir(path("")).expect("part of the project");
    let mut count = 0;
    for file in folder {
        let file = file.expect("readable").path();
        assert!(
            fs::metadata(&file).expect("readable").len() <= 80 * 1024,
            "{}",
            file.display()
        );
        let mut source = Source::open(&file).unwrap_or_else(|error| panic!("{error}"));
        let mut line = Vec::new();
        while source.read_line(&mut line, 4096).expect("sound") > 0 {
            let text = String::from_utf8(std::mem::take(&mut line)).expect("text");
            // Paths are those of the folder that the script works in.
            let paths = text.matches('/').count();
            let own = text.matches("/tmp/sample/").count() * 3;
            let other = text.matches("entries-in-buffer/entries-written: ").count();
            assert!(
                !text.contains("/home")
                    && !text.contains("/root")
                    && (own == 0 || own == paths || other > 0),
                "{}: {text}",
                file.display()
            );
        }
        count += 1;
    }
    assert_eq!(
        count, 9,
        "every sample has a row in samples_are_as_described"
    );
}

#[test]
fn both_layouts_of_one_recording_are_the_same_trace() {
    for [a, b] in [
        ["session.ftrace.zst", "session.trace-cmd.zst"],
        ["mix-v2.fio", "mix-v3.fio"],
    ] {
        let [a, b] = [a, b].map(|name| sample(name, &TraceOptions::default()).1);
        assert_eq!(a, b);
    }
}

#[test]
fn each_step_of_a_request_is_the_same_pages() {
    let actions = ["Q", "D", "C"].map(|action| {
        let options = TraceOptions {
            events: vec![action.to_string()],
            one_task: true,
            ..TraceOptions::default()
        };
        let trace = sample("session.blkparse.zst", &options).1;
        (
            trace.ops().len(),
            trace.unique_pages,
            trace.writes,
            trace.tasks,
        )
    });
    assert_eq!(actions, [(1672, 954, 750, 1); 3]);
}

#[test]
fn insertions_and_faults_are_told_apart() {
    let only = |event: &str| TraceOptions {
        events: vec![event.to_string()],
        ..TraceOptions::default()
    };
    let (_, trace, _) = sample("session.ftrace.zst", &only("mm_filemap_add_to_page_cache"));
    assert_eq!(
        (trace.ops().len(), trace.unique_pages, trace.objects.len()),
        (540, 452, 1)
    );
    let (_, all, _) = sample("session.ftrace.zst", &TraceOptions::default());
    assert_eq!(all.objects.len(), 24, "the files and 23 processes");
    assert!(!all.objects[0].is_anon && all.objects[1..].iter().all(|object| object.is_anon));
    let (_, reads, _) = sample("session.perf.zst", &only("mm_filemap_get_pages"));
    assert!(reads.ops().iter().all(|op| op.kind == OpKind::Pread));
}
