//! The writer, packed files on disk, and the progress count.

use std::io::Write;

use super::*;
use proptest::prelude::*;

fn some_ops() -> Vec<Op> {
    (0..20_000u32)
        .map(|i| op(OpKind::Pread, 0, (i % 7) as u16, i * i % 5003))
        .collect()
}

fn write(path: &std::path::Path, packing: WritePacking, ops: &[Op]) -> u64 {
    let mut writer = PageOpsWriter::create(path, packing).expect("create");
    for &op in ops {
        writer.push(op).expect("write");
    }
    writer.finish().expect("finish")
}

#[test]
fn what_is_written_is_read_plain_and_packed() {
    let folder = Folder::new();
    let ops = some_ops();
    for (name, packing) in [
        ("a.pageops", WritePacking::Plain),
        ("a.pageops.zst", WritePacking::Zstd(3)),
    ] {
        let path = folder.0.join(name);
        assert_eq!(write(&path, packing, &ops), ops.len() as u64);
        assert_eq!(
            load(&path, None, &TraceOptions::default())
                .expect("sound")
                .into_ops(),
            ops
        );
    }
    let size = |name| fs::metadata(folder.0.join(name)).expect("written").len();
    assert_eq!(size("a.pageops"), 8 * ops.len() as u64);
    assert!(size("a.pageops.zst") < size("a.pageops") / 2);
}

#[test]
fn every_packing_of_a_text_trace_is_read_without_a_format() {
    let folder = Folder::new();
    let text = "3\n1\n2\n3\n".repeat(5000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).expect("memory");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(text.as_bytes()).expect("memory");
    // The names say nothing of the packing on purpose.
    for (name, content) in [
        ("a.trace", text.clone().into_bytes()),
        ("b.trace", gzip.finish().expect("memory")),
        (
            "c.trace",
            zstd::encode_all(text.as_bytes(), 1).expect("memory"),
        ),
        ("d.trace", xz.finish().expect("memory")),
    ] {
        let reader =
            open(folder.file(name, content), None, &TraceOptions::default()).expect("sound");
        assert_eq!(reader.format(), Format::Lirs);
        let trace = Trace::read(reader, |_, _| {}).expect("sound");
        assert_eq!(
            (trace.ops().len(), trace.unique_pages),
            (20_000, 3),
            "{name}"
        );
    }
}

#[test]
fn progress_grows_to_the_size_of_the_file() {
    let folder = Folder::new();
    let path = folder.file("a.trace", "7\n8\n".repeat(200_000));
    let size = fs::metadata(&path).expect("written").len();
    let mut seen = Vec::new();
    let reader = open(&path, None, &TraceOptions::default()).expect("sound");
    Trace::read(reader, |consumed, total| {
        assert_eq!(total, Some(size));
        seen.push(consumed);
    })
    .expect("sound");
    assert!(seen.len() > 5 && seen.is_sorted(), "{seen:?}");
    assert!(seen[0] < size / 4, "the file is not read at once: {seen:?}");
    assert_eq!(seen.last(), Some(&size));
}

#[test]
fn a_folder_that_does_not_exist_and_a_level_that_does_not_exist() {
    let folder = Folder::new();
    let missing = folder.0.join("no/such.pageops");
    let error = PageOpsWriter::create(&missing, WritePacking::Plain)
        .err()
        .expect("refused");
    assert!(
        error.to_string().contains("cannot write the trace"),
        "{error}"
    );
    let error = PageOpsWriter::new("x", Box::new(std::io::sink()), WritePacking::Zstd(99))
        .err()
        .expect("refused");
    assert_eq!(
        error.to_string(),
        "x: cannot write the trace: there is no zstd level 99, only 1 to 22; \
         check the folder, its permissions and the free space"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No input makes a reader panic or give an error of several lines.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), format in 0..Format::ALL.len()) {
        if let Err(error) = read(&bytes, Format::ALL[format], &TraceOptions::default()) {
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
        }
    }

    /// The same for text, which comes further into the text formats.
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-f,x \\-lsILSMrwma*#\n]{0,200}", format in 0..Format::ALL.len()) {
        if let Err(error) = read(text.as_bytes(), Format::ALL[format], &TraceOptions::default()) {
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
        }
    }
}

/// Records as libCacheSim's documentation has them: time, object, size, number of the next request.
#[test]
fn oracle_general_is_written_as_it_is_read() {
    let folder = Folder::new();
    let ops = some_ops();
    for (name, packing) in [
        ("a.oracleGeneral", WritePacking::Plain),
        ("b.oracleGeneral.zst", WritePacking::Zstd(3)),
    ] {
        let path = folder.0.join(name);
        let file = Box::new(fs::File::create(&path).expect("a file"));
        write_oracle_general(name, file, packing, &ops).expect("written");
        let back = load(&path, None, &TraceOptions::default()).expect("sound");
        let dense = Trace::from_ops(back.ops().to_vec());
        assert_eq!(dense.accesses, ops.len() as u64);
        // Pages are numbered anew, and tasks are gone: who is the same page as who stays.
        let same = |ops: &[Op]| {
            let mut last = std::collections::HashMap::new();
            let pages = ops.iter().map(|op| op.page).enumerate();
            pages
                .map(|(at, page)| last.insert(page, at))
                .collect::<Vec<_>>()
        };
        assert_eq!(same(back.ops()), same(&ops));
    }
    let bytes = fs::read(folder.0.join("a.oracleGeneral")).expect("written");
    let of = |at: usize| &bytes[at * 24..][..24];
    let next = |at: usize| i64::from_le_bytes(of(at)[16..].try_into().expect("8 bytes"));
    for at in 0..ops.len() {
        assert_eq!(of(at)[..4], (at as u32).to_le_bytes());
        let later = ops[at + 1..].iter().position(|op| op.page == ops[at].page);
        let later = later.map_or(-1, |n| (at + 1 + n) as i64);
        if at % 97 == 0 {
            assert_eq!(next(at), later, "{at}");
        }
    }
}
