//! Formats that other text gets mixed into: bad lines are counted, reported and left out; a file of
//! bad lines is refused; `strict` refuses the first.

use super::*;

/// The formats, with a sound line that is a reference and a bad one.
const FORMATS: [(Format, &str, &str); 5] = [
    (
        Format::Perf,
        "sort 7/7 [000] 1.5: page-faults: 7f0000001000",
        "sort 7/7 [000] 1.5: page-faults: lost",
    ),
    (
        Format::Ftrace,
        "sort-7 [000] d.... 1.5: page_fault_user: address=0x7f00 ip=0x1 error_code=0x6",
        "sort-7 [000] d.... 1.5: page_fault_user: address=0x7f00 ip=",
    ),
    (Format::Fio, "/tmp/f read 0 4096", "/tmp/f raed 0 4096"),
    (
        Format::Blkparse,
        "7,0 1 0 0.000000000 7 Q R 4628 + 2 [dd]",
        "7,0 1 0 0.000000000 7 Q R 4628 + [dd]",
    ),
    (Format::Lackey, " S 1fff000758,8", " X 1fff000758,8"),
];

fn read_tally(
    text: &str,
    format: Format,
    options: &TraceOptions,
) -> (Result<Trace, TraceError>, Reading) {
    let source = Source::from_reader("t", std::io::Cursor::new(text.as_bytes().to_vec()), None)
        .expect("memory");
    let reader = Reader::from_source(source, Some(format), options).expect("sound options");
    let tally = reader.tally();
    let trace = Trace::read(reader, |_, _| {});
    (trace, tally.get())
}

#[test]
fn bad_lines_are_counted_with_their_numbers_and_left_out() {
    for (format, good, bad) in FORMATS {
        let text = format!("{good}\n\n{bad}\n{good}\nwhat is this\n{good}\n");
        let (trace, reading) = read_tally(&text, format, &TraceOptions::default());
        let trace = trace.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(trace.ops().len(), 3, "{format}");
        assert_eq!((reading.lines, reading.bad), (5, 2), "{format}");
        let lines: Vec<u64> = reading.first_bad.iter().map(|bad| bad.line).collect();
        assert_eq!(lines, [3, 5], "{format}");
        assert!(!reading.is_whole());
    }
}

/// A recording that was cut off ends anywhere, in the name of an event, too.
#[test]
fn a_line_cut_in_the_name_of_its_event_is_bad() {
    let good = "sort 7/7 [000] 1.5: page-faults: 7f0000001000\n";
    for cut in [
        "sort 7/7 [000] 1.6: page-fau",
        "sort 7/7 [000] 1.6: filemap:mm_filemap_fa",
    ] {
        let text = format!("{good}{good}{cut}");
        let (_, reading) = read_tally(&text, Format::Perf, &TraceOptions::default());
        assert_eq!(reading.bad, 1, "{cut}");
    }
    let other = format!("{good}sort 7/7 [000] 1.6: sched:sched_switch: x\n");
    let (_, reading) = read_tally(&other, Format::Perf, &TraceOptions::default());
    assert_eq!(reading.bad, 0);
}

/// Whatever stands between the time stamp and an event: its references are not lost in silence.
#[test]
fn an_event_in_the_wrong_place_is_bad() {
    let good = "sort 7/7 [000] 1.5: page-faults: 7f0000001000\n";
    let text = format!("{good}{good}sort 7/7 [000] 1.6: <<<< page-faults: 7f0000001000\n");
    let (_, reading) = read_tally(&text, Format::Perf, &TraceOptions::default());
    assert_eq!((reading.bad, reading.unused), (1, 0));
    let other = format!("{good}sort 7/7 [000] 1.6: do_fault <- page-faults\n");
    let (_, reading) = read_tally(&other, Format::Perf, &TraceOptions::default());
    assert_eq!((reading.bad, reading.unused), (0, 1));
}

/// A line that names too many pages is one bad line, and nothing is kept of it.
#[test]
fn lines_of_too_many_pages_are_bad() {
    let good = "sort 7/7 [000] 1.5: page-faults: 7f0000001000\n";
    let region = "kdamond.0 7 [000] 1.6: damon:damon_aggregated: target_id=0 nr_regions=1 0-72057594037927936: 1 1\n";
    let text = format!("{good}{good}{region}");
    let (_, reading) = read_tally(&text, Format::Perf, &TraceOptions::default());
    assert_eq!(reading.bad, 1);
    assert_eq!(
        reading.first_bad[0].problem.found,
        "requests for 17592186044416 pages so far"
    );
}

/// What is left of a number may be another one: without the end of its line nobody knows.
#[test]
fn a_last_line_without_its_end_is_bad() {
    for (format, good, _) in FORMATS {
        let whole = format!("{good}\n{good}\n{good}\n");
        let (trace, reading) = read_tally(&whole, format, &TraceOptions::default());
        let pages = trace.expect("sound").ops().len();
        assert_eq!(reading.bad, 0, "{format}");
        let cut = whole.trim_end();
        let (trace, reading) = read_tally(cut, format, &TraceOptions::default());
        assert_eq!(
            trace.expect("two are sound").ops().len(),
            pages / 3 * 2,
            "{format}"
        );
        assert_eq!((reading.lines, reading.bad), (3, 1), "{format}");
        assert_eq!(reading.first_bad[0].line, 3, "{format}");
        let strict = TraceOptions {
            strict: true,
            ..TraceOptions::default()
        };
        let (trace, _) = read_tally(cut, format, &strict);
        let message = trace.expect_err("strict").to_string();
        assert!(
            message.contains("line 3: the file ends within this line"),
            "{message}"
        );
        // A line that holds no reference says nothing in part, either.
        let (_, reading) = read_tally(
            &format!("{whole}# the en"),
            format,
            &TraceOptions::default(),
        );
        assert!(
            reading
                .first_bad
                .iter()
                .all(|bad| !bad.problem.found.contains("the file ends")),
            "{format}"
        );
    }
}

#[test]
fn only_the_first_bad_lines_are_kept() {
    for (format, good, bad) in FORMATS {
        let text = format!("{bad}\n").repeat(20) + &format!("{good}\n").repeat(20);
        let (trace, reading) = read_tally(&text, format, &TraceOptions::default());
        assert_eq!(trace.expect("as many good as bad").ops().len(), 20);
        assert_eq!((reading.bad, reading.good()), (20, 20));
        let lines: Vec<u64> = reading.first_bad.iter().map(|bad| bad.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5], "{format}");
    }
}

#[test]
fn strict_refuses_the_first_bad_line() {
    let strict = TraceOptions {
        strict: true,
        ..TraceOptions::default()
    };
    for (format, good, bad) in FORMATS {
        let (trace, _) = read_tally(&format!("{good}\n{bad}\n{good}\n"), format, &strict);
        let message = trace.expect_err("strict").to_string();
        assert!(message.starts_with("t, line 2: "), "{format}: {message}");
        let (trace, reading) = read_tally(&format!("{good}\n"), format, &strict);
        assert!(trace.is_ok() && reading.is_whole());
    }
    let (trace, _) = read_tally("I  10,3\n X 10,3\n", Format::Lackey, &strict);
    assert_eq!(
        trace.expect_err("strict").to_string(),
        "t, line 2: found `X 10,3`; expected `I`, `L`, `S` or `M`, then ADDRESS,SIZE; \
         correct it or name the true format"
    );
}

#[test]
fn more_bad_lines_than_good_are_another_format() {
    for (format, good, _) in FORMATS {
        let text = format!("{good}\none\ntwo\n");
        let (trace, _) = read_tally(&text, format, &TraceOptions::default());
        let message = trace.expect_err("mostly bad").to_string();
        let start =
            format!("t: 2 of 3 lines are bad, read as {format} (as named); the first is line 2: ");
        assert!(message.starts_with(&start), "{message}");
        assert!(
            message.contains("name it with --format: pageops, "),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
    }
    let folder = Folder::new();
    let path = folder.file("notes", "a-1 [000] 1.5: x: y\nand so\non\n");
    let message = load(path, None, &TraceOptions::default())
        .expect_err("mostly bad")
        .to_string();
    assert!(message.contains("read as ftrace (guessed)"), "{message}");
}

#[test]
fn a_long_line_is_one_bad_line() {
    for (format, good, _) in FORMATS {
        let text = format!("{good}\n{}\n{good}\n", "7".repeat(20_000));
        let (trace, reading) = read_tally(&text, format, &TraceOptions::default());
        assert_eq!(trace.expect("one of three").ops().len(), 2, "{format}");
        assert_eq!((reading.lines, reading.bad), (3, 1), "{format}");
        assert!(reading.first_bad[0]
            .problem
            .found
            .contains("more than 4096 bytes"));
        let (trace, reading) = read_tally(
            &format!("{good}\n{}", "7".repeat(4097)),
            format,
            &TraceOptions::default(),
        );
        assert_eq!(trace.expect("one of two").ops().len(), 1, "{format}");
        assert_eq!((reading.lines, reading.bad), (2, 1), "{format}");
    }
}

#[test]
fn absurd_requests_are_bad_lines() {
    for (format, line) in [
        (Format::Fio, "/tmp/f read 0 99999999999999"),
        (Format::Fio, "/tmp/f read 18446744073709551615 4096"),
        (Format::Fio, "/tmp/f write 18446744073709551000 616"),
        (
            Format::Blkparse,
            "7,0 1 0 0.000000000 7 Q R 4628 + 99999999999 [dd]",
        ),
        (
            Format::Blkparse,
            "7,0 1 0 0.000000000 7 Q W 18446744073709551615 + 2 [dd]",
        ),
        (
            Format::Perf,
            "a 7/7 [000] 1.5: mm_filemap_get_pages: dev=8:1 ino=1 ofs=0-99999999999999",
        ),
        (
            Format::Perf,
            "a 7/7 [000] 1.5: mm_filemap_add_to_page_cache: dev=8:1 ino=1 ofs=0 order=60",
        ),
    ] {
        let good = FORMATS
            .iter()
            .find(|(f, ..)| *f == format)
            .expect("listed")
            .1;
        let text = format!("{good}\n{line}\n");
        let (trace, reading) = read_tally(&text, format, &TraceOptions::default());
        assert_eq!(trace.expect("one of two").ops().len(), 1, "{line}");
        assert_eq!(reading.bad, 1, "{line}");
    }
}

#[test]
fn lost_events_are_counted() {
    let ftrace = FORMATS[1].1;
    let text = format!(
        "CPU:0 [LOST 123 EVENTS]\n{ftrace}\nCPU:1 [7 EVENTS DROPPED]\nCPU:1 [EVENTS DROPPED]\n"
    );
    let (trace, reading) = read_tally(&text, Format::Ftrace, &TraceOptions::default());
    assert_eq!(trace.expect("sound").ops().len(), 1);
    assert_eq!(
        (reading.lost_events, reading.lost_uncounted, reading.bad),
        (130, 1, 0)
    );
    let perf = FORMATS[0].1;
    let text = format!("{perf}\nsort 7 [000] 1.6: PERF_RECORD_LOST lost 9\n");
    let (_, reading) = read_tally(&text, Format::Perf, &TraceOptions::default());
    assert_eq!((reading.lost_events, reading.bad), (9, 0));
    let text =
        format!("Attaching 16 probes...\n{perf}\nLost 1081 events\n{perf}\nLost 2 events\n\n");
    let (_, reading) = read_tally(&text, Format::Perf, &TraceOptions::default());
    assert_eq!((reading.lost_events, reading.bad), (1083, 0));
    let blkparse = FORMATS[3].1;
    let text = format!(
        "{blkparse}\nCPU0 (7,0):\n Reads Queued: 1, 2KiB\nSkips: 2 forward (17 -   0.1%)\n"
    );
    let (_, reading) = read_tally(&text, Format::Blkparse, &TraceOptions::default());
    assert_eq!(
        (reading.lost_events, reading.bad, reading.unused),
        (17, 0, 3)
    );
}

/// The buffer of ftrace keeps the last events; only the beginning of the file says how many there were.
#[test]
fn events_that_ftrace_has_overwritten_are_lost() {
    let event = "sort-7 [000] d.... 1.5: page_fault_user: address=0x7f00 ip=0x1 error_code=0x6";
    for (counts, lost) in [
        ("1558/400010   #P:2", 398_452),
        ("7/7   #P:2", 0),
        ("9/7", 0),
        ("9", 0),
    ] {
        let text =
            format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {counts}\n{event}\n");
        let (_, reading) = read_tally(&text, Format::Ftrace, &TraceOptions::default());
        assert_eq!((reading.lost_events, reading.bad), (lost, 0), "{counts}");
    }
}

/// The script counts its lines, for bpftrace does not say of all that it has lost, or not in the file.
#[test]
fn lines_of_bpftrace_that_are_not_there_are_lost() {
    let call = "sort 7/7 [000] 1.5: file_read: dev=8:1 ino=a ofs=0-9\n".repeat(3);
    let fault = "sort 7/7 [000] 1.5: mm_filemap_fault: dev=8:1 ino=a index=0\n";
    for (end, lost) in [
        ("", 0),
        ("\n@printed[0]: 1\n@printed[1]: 3\n", 0),
        ("@printed[0]: 2\n@printed[1]: 9\n", 7),
        ("Lost 5 events\n@printed[1]: 9\n@printed[0]: 2\n", 7),
        ("Lost 50 events\n@printed[0]: 11\n", 50),
    ] {
        let text = format!("{call}{fault}{end}");
        let (_, reading) = read_tally(&text, Format::Perf, &TraceOptions::default());
        assert_eq!((reading.lost_events, reading.bad), (lost, 0), "{end}");
    }
}

#[test]
fn recordings_of_the_tools_say_how_to_print_them() {
    let folder = Folder::new();
    for (head, tool) in [
        (&b"PERFILE2\x68\0\0\0\0\0\0\0"[..], "perf script"),
        (b"\x17\x08\x44tracing6\0\0\0", "trace-cmd report"),
        (&[&[7, b't', b'a', b'e'][..], &[0; 60]].concat(), "blkparse"),
    ] {
        let path = folder.file("recording", head);
        let message = load(path, None, &TraceOptions::default())
            .expect_err("binary")
            .to_string();
        assert!(
            message.contains("print it first: ") && message.contains(tool),
            "{message}"
        );
        // perf prints nothing at all if it is asked for addresses that were not recorded.
        assert!(!message.contains("addr,trace"), "{message}");
        assert_eq!(
            message.contains("--show-lost-events"),
            tool == "perf script"
        );
        assert_eq!(message.contains("blkparse -i - <FILE"), tool == "blkparse");
    }
}

#[test]
fn events_are_chosen_where_there_are_any() {
    let choose = |event: &str| TraceOptions {
        events: vec![event.to_string()],
        ..TraceOptions::default()
    };
    for (format, event, part) in [
        (
            Format::Perf,
            "mm_filemap_delete_from_page_cache",
            "mm_filemap_get_pages",
        ),
        (Format::Ftrace, "sched_switch", "page_fault_user"),
        (Format::Blkparse, "X", "Q (queued)"),
        (Format::Lirs, "Q", "only perf, ftrace and blkparse"),
    ] {
        let message = read(b"", format, &choose(event))
            .expect_err("refused")
            .to_string();
        assert!(
            message.starts_with(&format!("trace option events = {event}: ")),
            "{message}"
        );
        assert!(message.contains(part), "{message}");
    }
}
