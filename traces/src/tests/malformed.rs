//! Every kind of bad input gives one line that names the place and the remedy.

use super::*;

fn message(content: &[u8], format: Format) -> String {
    message_with(content, format, &TraceOptions::default())
}

fn message_with(content: &[u8], format: Format, options: &TraceOptions) -> String {
    let error = read(content, format, options).expect_err("bad input");
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn garbage_lines() {
    for (format, text, expected) in [
        (
            Format::Lirs,
            &b"1\n\nhello\n"[..],
            "t, line 3: found `hello`; expected one page number or `*`; correct it or name the true format",
        ),
        (
            Format::Arc,
            b"1 1 0 0\n1 1 0\n",
            "t, line 2: found `1 1 0`; expected four numbers: first block, number of blocks, ignored, \
             request number; correct it or name the true format",
        ),
        (
            Format::Arc,
            b"1 x 0 0\n",
            "t, line 1: found `x`; expected four numbers: first block, number of blocks, ignored, \
             request number; correct it or name the true format",
        ),
        (
            Format::Address,
            b"s 0x10 1\nl 10 1\n",
            "t, line 2: found `l 10 1`; expected `s` or `l`, an address 0x..., a number; \
             correct it or name the true format",
        ),
        (
            Format::CloudPhysicsCsv,
            b"version,time,op,size,lbn\n1,1,35,512,8\n",
            "t, line 2: SCSI operation 35; expected a read (08, 28, 88, a8) or a write (0a, 2a, 8a, aa); \
             remove other commands from the trace",
        ),
        (
            Format::Csv,
            b"time,block\n",
            "t, line 1: found `time,block`; expected a page number, or a header with a column `page`; \
             or say what each column holds, those to pass over as -, for instance `--columns time,op,offset,size,-` (or page, sector, key)",
        ),
        (
            Format::Csv,
            b"page,op\n1,w\n2,x\n",
            "t, line 3: found `x`; expected an op: r, w, m, a or l; correct it or name the true format",
        ),
        (
            Format::Csv,
            b"1,r,256\n",
            "t, line 1: found `256`; expected an object from 0 to 255; correct it or name the true format",
        ),
        (
            Format::Csv,
            b"1,r,0,65536\n",
            "t, line 1: found `65536`; expected a task from 0 to 65535; correct it or name the true format",
        ),
    ] {
        assert_eq!(message(text, format), expected);
    }
}

#[test]
fn negative_numbers() {
    for (format, text, found) in [
        (Format::Lirs, &b"-5\n"[..], "`-5`"),
        (Format::Arc, b"-1 8 0 0\n", "`-1`"),
        (Format::Csv, b"-3,r\n", "`-3`"),
        (Format::CloudPhysicsCsv, b"1,1,28,-512,8\n", "`-512`"),
        (Format::Address, b"l 0x-10 1\n", "`-10`"),
    ] {
        let message = message(text, format);
        assert!(
            message.starts_with(&format!("t, line 1: found {found}; expected ")),
            "{message}"
        );
    }
}

#[test]
fn half_records() {
    for (format, bytes, expected) in [
        (Format::PageOps, 20, "t, record 2 (byte 16): the file ends 4 bytes into a record; expected whole records of 8 bytes; copy the file again, or name the true format"),
        (Format::OracleGeneral, 25, "t, record 1 (byte 24): the file ends 1 bytes into a record; expected whole records of 24 bytes; copy the file again, or name the true format"),
        (Format::CloudPhysics, 6, "t, record 1 (byte 4): the file ends 2 bytes into a record; expected whole records of 4 bytes; copy the file again, or name the true format"),
        (Format::Cache2k, 3, "t, record 0 (byte 0): the file ends 3 bytes into a record; expected whole records of 4 bytes; copy the file again, or name the true format"),
    ] {
        assert_eq!(message(&vec![0; bytes], format), expected);
    }
}

#[test]
fn unknown_kind() {
    let bytes = [
        op(OpKind::Pread, 0, 0, 1).to_bytes(),
        [9, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(
        message(&bytes, Format::PageOps),
        "t, record 1 (byte 8): kind 9; expected 0 mapped read, 1 pread, 2 pwrite, 3 anonymous store, \
         4 anonymous load, 5 whole write, 6 mapped store, or a step, 32 to 42; correct it or name the true format"
    );
}

#[test]
fn pages_beyond_the_limit() {
    assert_eq!(
        message(&[1, 0, 0, 0, 0, 0, 0, 0x80], Format::PageOps),
        "t, record 0 (byte 0): page 2147483648 of object 0; expected a page below 2147483648 (2^31); \
         renumber the pages when recording"
    );
    let text = b"1\n99999999999\n";
    assert_eq!(
        message_with(text, Format::Lirs, &keep()),
        "t, line 2: page 99999999999 of object 0; expected a page below 2147483648 (2^31); \
         renumber the pages densely instead of keeping their ids: coldset lab convert does"
    );
    assert_eq!(
        sound(text, Format::Lirs, &TraceOptions::default()).unique_pages,
        2
    );
    let beyond_64_bits = message(b"99999999999999999999\n", Format::Lirs);
    assert!(
        beyond_64_bits.starts_with("t, line 1: found `99999999999999999999`"),
        "{beyond_64_bits}"
    );
}

#[test]
fn an_absurd_request_is_refused_instead_of_expanded() {
    let message = message(b"1 1 0 0\n5 99999999999 0 1\n", Format::Arc);
    assert!(
        message
            .starts_with("t, line 2: one request for 99999999999 pages; expected at most 1048576"),
        "{message}"
    );
}

#[test]
fn an_object_is_a_file_or_anonymous() {
    assert_eq!(
        message(b"1,r,4\n2,a,4\n", Format::Csv),
        "t, line 2: object 4 as a file and as anonymous memory; expected one of the two throughout the trace; \
         give anonymous memory an object number of its own"
    );
}

#[test]
fn binary_data_read_as_text() {
    let long = message(&[b'7'; 10_000], Format::Lirs);
    assert!(
        long.starts_with("t, line 1: a line of more than 4096 bytes; expected lines of text"),
        "{long}"
    );
    let binary = message(&[0, 1, 2, 255], Format::Lirs);
    assert!(binary.contains("found `\\x00\\x01\\x02\\xff`"), "{binary}");
}

#[test]
fn traces_without_references() {
    let expected =
        "t: the trace holds no reference; record it again, or name its true format (read as lirs)";
    assert_eq!(message(b"", Format::Lirs), expected);
    assert_eq!(message(b"*\n\n*\n", Format::Lirs), expected);
    // Nothing but what cannot be read: that is the reason.
    let said = message(b"*\nx\n", Format::Lirs);
    assert!(said.contains("line 2"), "{said}");
    for format in Format::ALL {
        assert!(message(b"", format).contains(&format!("(read as {format})")));
    }
    let folder = Folder::new();
    let empty = folder.file("empty", b"");
    let error = load(&empty, None, &TraceOptions::default()).expect_err("empty");
    assert!(
        error.to_string().ends_with("(read as an empty file)"),
        "{error}"
    );
}

#[test]
fn files_that_are_no_traces() {
    let folder = Folder::new();
    let message = |path: &std::path::Path| {
        let error = load(path, None, &TraceOptions::default()).expect_err("bad file");
        error.to_string()
    };
    let missing = message(&folder.0.join("missing.lis"));
    assert!(
        missing.contains("missing.lis: cannot open the trace: "),
        "{missing}"
    );
    assert!(
        missing.ends_with("check the path and its permissions"),
        "{missing}"
    );
    let directory = message(&folder.0);
    assert!(
        directory.ends_with("this is a folder, not a trace; name one file in it"),
        "{directory}"
    );
    let prose = message(&folder.file("notes.txt", b"Dear reader,\n"));
    assert!(
        prose.contains("notes.txt, line 1: found `Dear reader,`"),
        "{prose}"
    );
    let image = message(&folder.file(
        "picture",
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0xff, 0xfe],
    ));
    assert!(image.contains("the format is not recognised"), "{image}");
    assert!(image.ends_with(&Format::names()), "{image}");
}

#[test]
fn packed_files_cut_short() {
    use std::io::Write;
    let folder = Folder::new();
    // Hardly compressible, so that the cut lies beyond the part read for recognition.
    let mut state = 1u64;
    let mut text = String::new();
    for _ in 0..100_000 {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        text.push_str(&format!("{}\n", state >> 40));
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("memory");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(text.as_bytes()).expect("memory");
    for (packing, content) in [
        ("gzip", gzip.finish().expect("memory")),
        (
            "zstd",
            zstd::encode_all(text.as_bytes(), 1).expect("memory"),
        ),
        ("xz", xz.finish().expect("memory")),
    ] {
        let path = folder.file("cut.trace", &content[..content.len() * 3 / 4]);
        let mut reader = open(&path, None, &TraceOptions::default()).expect("the start is sound");
        let read = reader.by_ref().take_while(Result::is_ok).count();
        assert!(read > 1000, "{packing}: {read}");
        assert!(reader.next().is_none(), "an iterator ends after its error");
        let error = load(&path, None, &TraceOptions::default())
            .expect_err("cut")
            .to_string();
        assert!(
            error.contains(&format!(
                "cut.trace: cannot read {packing} data beyond unpacked byte "
            )),
            "{error}"
        );
        assert!(
            error.ends_with("the file is damaged or cut short, copy it again")
                && !error.contains('\n'),
            "{error}"
        );
    }
}
