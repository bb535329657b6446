//! Logs of fio.

use super::*;
use OpKind::{Pread, Pwrite, WholeWrite};

#[test]
fn fio_logs_of_both_versions() {
    let two = "\
fio version 2 iolog
/tmp/a add
/tmp/b add
/tmp/a open
/tmp/a read 4095 2
/tmp/b write 0 4096
/tmp/b write 4096 6144
/tmp/a wait 1000
/tmp/a wait 1000 0
/tmp/a trim 0 99999999999999
/tmp/a datasync 0 0
/tmp/a sync 0 0
/tmp/a read 0 0
/tmp/a close
";
    let expected = [
        (Pread, 0),
        (Pread, 1),
        (WholeWrite, 2),
        (WholeWrite, 3),
        (Pwrite, 4),
    ];
    let expected = expected.map(|(kind, page)| op(kind, 0, 0, page));
    assert_eq!(of(two, Format::Fio, &TraceOptions::default()), expected);
    // Version 3 has a time before each line; without the first line it is told by that.
    let timed = two.lines().skip(1).filter(|line| !line.contains("wait"));
    let timed: String = timed.map(|line| format!("17 {line}\n")).collect();
    assert_eq!(of(&timed, Format::Fio, &TraceOptions::default()), expected);
    let three = format!("fio version 3 iolog\n{timed}");
    assert_eq!(of(&three, Format::Fio, &TraceOptions::default()), expected);
    assert_eq!(
        of(
            &format!("{two}{three}"),
            Format::Fio,
            &TraceOptions::default()
        ),
        [expected, expected].concat()
    );
}

#[test]
fn fio_lines_that_are_bad() {
    for (line, part) in [
        ("fio version 1 iolog", "fio version 2 iolog, or 3"),
        ("/tmp/a raed 0 4096", "found `raed`"),
        ("/tmp/a read 4096", "an offset and a length"),
        ("/tmp/a read 0 4096 1", "FILE ACTION"),
        ("/tmp/a read -1 4096", "found `-1`"),
        ("/tmp/a open 0 4096", "found `open`"),
        ("/tmp/a", "FILE ACTION"),
    ] {
        let text = format!("{line}\nfio version 2 iolog\n");
        let strict = TraceOptions {
            strict: true,
            ..TraceOptions::default()
        };
        let message = read(text.as_bytes(), Format::Fio, &strict)
            .expect_err("bad")
            .to_string();
        assert!(
            message.starts_with("t, line 1: ") && message.contains(part),
            "{message}"
        );
    }
}

proptest! {
    /// Requests written as a log are read as the pages that their bytes lie in.
    #[test]
    fn fio_round_trip(requests in prop::collection::vec((0u8..3, any::<bool>(), 0u64..100_000, 1u64..20_000), 1..30)) {
        let mut log = String::from("fio version 3 iolog\n");
        let mut numbers = std::collections::HashMap::new();
        let mut expected = Vec::new();
        for (file, write, offset, length) in requests {
            let action = if write { "write" } else { "read" };
            log += &format!("1 /tmp/f{file} {action} {offset} {length}\n");
            for page in offset / 4096..=(offset + length - 1) / 4096 {
                let next = numbers.len() as u32;
                let number = *numbers.entry((file, page)).or_insert(next);
                let whole = offset <= page * 4096 && offset + length >= (page + 1) * 4096;
                let kind = match (write, whole) {
                    (false, _) => Pread,
                    (true, true) => WholeWrite,
                    (true, false) => Pwrite,
                };
                expected.push(op(kind, 0, 0, number));
            }
        }
        prop_assert_eq!(of(&log, Format::Fio, &TraceOptions::default()), expected);
    }
}
