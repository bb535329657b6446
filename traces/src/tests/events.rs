//! What each line of the recorders' formats becomes.

use super::*;
use proptest::prelude::*;
use OpKind::{AnonRead, AnonWrite, MappedRead, Pread, Pwrite, WholeWrite};

fn of(text: &str, format: Format, options: &TraceOptions) -> Vec<Op> {
    sound(text.as_bytes(), format, options).into_ops()
}

fn chosen(events: &[&str]) -> TraceOptions {
    TraceOptions {
        events: events.iter().map(|event| event.to_string()).collect(),
        ..TraceOptions::default()
    }
}

/// The same events as perf and as ftrace print them.
fn both(lines: &[(u32, &str)], options: &TraceOptions) -> Vec<Op> {
    let perf: String = lines
        .iter()
        .map(|(pid, rest)| format!("  my prog {pid}/{pid} [001] 45.123456: {rest}\n"))
        .collect();
    let ftrace: String = lines
        .iter()
        .map(|(pid, rest)| format!("  my prog-{pid}   (   {pid}) [001] d..1. 45.123456: {rest}\n"))
        .collect();
    let perf = of(&perf, Format::Perf, options);
    assert_eq!(perf, of(&ftrace, Format::Ftrace, options));
    perf
}

#[test]
fn insertions_are_reads_of_files_apart() {
    let lines = [
        (
            9,
            "mm_filemap_add_to_page_cache: dev 254:0 ino 3c7da pfn=0x1 ofs=16384 order=0",
        ),
        (
            9,
            "mm_filemap_add_to_page_cache: dev 254:0 ino 3c7db pfn=0x1 ofs=16384 order=1",
        ),
        (
            7,
            "mm_filemap_add_to_page_cache: dev 254:1 ino 3c7da pfn=0x1 ofs=16384 order=0",
        ),
        (
            9,
            "mm_filemap_delete_from_page_cache: dev 254:0 ino 3c7da pfn=0x1 ofs=16384 order=0",
        ),
        (
            7,
            "mm_filemap_add_to_page_cache: dev 254:0 ino 3c7da pfn=0x2 ofs=16384 order=0",
        ),
        (7, "sched_switch: prev_comm=a"),
    ];
    let expected = [(0, 0), (0, 1), (0, 2), (1, 3), (1, 0)];
    assert_eq!(
        both(&lines, &TraceOptions::default()),
        expected.map(|(task, page)| op(Pread, 0, task, page))
    );
    let mapped = TraceOptions {
        access: Access::Mapped,
        one_task: true,
        ..TraceOptions::default()
    };
    assert_eq!(
        both(&lines, &mapped),
        expected.map(|(_, page)| op(MappedRead, 0, 0, page))
    );
}

#[test]
fn a_read_after_its_insertion_counts_once() {
    let lines = [
        (
            9,
            "mm_filemap_add_to_page_cache: dev 8:1 ino a pfn=0x1 ofs=0 order=0",
        ),
        (
            9,
            "mm_filemap_add_to_page_cache: dev 8:1 ino a pfn=0x2 ofs=4096 order=0",
        ),
        // Page 0 was brought in for this; pages 2 and 3 were there before the recording.
        (9, "mm_filemap_get_pages: dev=8:1 ino=a ofs=0-4095"),
        (9, "mm_filemap_get_pages: dev=8:1 ino=a ofs=0-16383"),
        (9, "mm_filemap_fault: dev=8:1 ino=a ofs=4096"),
        (9, "mm_filemap_map_pages: dev=8:1 ino=a ofs=0-65535"),
    ];
    let expected = [
        (Pread, 0),
        (Pread, 1),
        (Pread, 0),
        (Pread, 2),
        (Pread, 3),
        (MappedRead, 1),
    ];
    assert_eq!(
        both(&lines, &TraceOptions::default()),
        expected.map(|(kind, page)| op(kind, 0, 0, page))
    );
    assert_eq!(
        both(&lines, &chosen(&["mm_filemap_get_pages"])),
        ops(Pread, &[0, 0, 1, 2, 3])
    );
}

/// As Linux 6.18 prints them: an event for each batch of 31 pages, up to the end of what was asked for.
#[test]
fn a_read_of_many_batches_counts_once() {
    let reads = |lines: &[&str]| {
        let lines: Vec<String> = lines
            .iter()
            .map(|range| format!("mm_filemap_get_pages: dev=8:1 ino={range}"))
            .collect();
        let lines: Vec<(u32, &str)> = lines.iter().map(|line| (9, line.as_str())).collect();
        let found = both(&lines, &TraceOptions::default());
        found.iter().map(|op| op.page).collect::<Vec<u32>>()
    };
    let once = [
        "a ofs=0-262143",
        "a ofs=126976-262143",
        "a ofs=253952-262143",
    ];
    assert_eq!(reads(&once), (0..64).collect::<Vec<_>>());
    // The same read again; a read of the second page alone, again and again.
    let again = [&once[..], &once].concat();
    assert_eq!(
        reads(&again),
        [0..64, 0..64].into_iter().flatten().collect::<Vec<_>>()
    );
    let same = [
        "a ofs=0-8191",
        "a ofs=8192-12287",
        "a ofs=8192-12287",
        "a ofs=8192-12287",
    ];
    assert_eq!(reads(&same), [0, 1, 2, 2, 2]);
    // Another end, an earlier beginning, another file: another read.
    let others = [
        "a ofs=0-8191",
        "a ofs=4096-12287",
        "a ofs=0-12287",
        "b ofs=4096-12287",
    ];
    assert_eq!(reads(&others), [0, 1, 1, 2, 0, 1, 2, 3, 4]);
}

#[test]
fn reads_of_threads_go_on_apart() {
    let line = |tid: u32, range: &str| {
        format!("a 9/{tid} [0] 1.5: filemap:mm_filemap_get_pages: dev=8:1 ino=a ofs={range}\n")
    };
    let text = [
        line(9, "0-16383"),
        line(10, "0-16383"),
        line(9, "4096-16383"),
        line(10, "8192-16383"),
        line(9, "12288-16383"),
    ]
    .concat();
    let twice = [0, 1, 2, 3, 0, 1, 2, 3];
    assert_eq!(
        of(&text, Format::Perf, &TraceOptions::default()),
        ops(Pread, &twice)
    );
    // Pages of the replay that are larger than the kernel's.
    let large = TraceOptions {
        page_shift: 16,
        ..TraceOptions::default()
    };
    assert_eq!(of(&text, Format::Perf, &large), ops(Pread, &[0, 0]));
}

#[test]
fn pages_inserted_for_a_read_that_goes_on_count_once() {
    let add = |page: u64, order: u64| {
        format!(
            "mm_filemap_add_to_page_cache: dev 8:1 ino a pfn=0x1 ofs={} order={order}",
            page * 4096
        )
    };
    let lines = [
        add(0, 0),
        "mm_filemap_get_pages: dev=8:1 ino=a ofs=0-12287".to_owned(),
        // The second half of the folio is read ahead.
        add(1, 0),
        add(2, 1),
        "mm_filemap_get_pages: dev=8:1 ino=a ofs=4096-12287".to_owned(),
        "mm_filemap_get_pages: dev=8:1 ino=a ofs=12288-16383".to_owned(),
        "mm_filemap_get_pages: dev=8:1 ino=a ofs=12288-16383".to_owned(),
    ];
    let lines: Vec<(u32, &str)> = lines.iter().map(|line| (9, line.as_str())).collect();
    let found: Vec<u32> = both(&lines, &TraceOptions::default())
        .iter()
        .map(|op| op.page)
        .collect();
    assert_eq!(found, [0, 1, 2, 3, 3]);
}

#[test]
fn regions_in_use_are_loads_of_all_their_pages() {
    // As Linux 6.18 prints them, of physical memory; then of a second target.
    let lines = [
        (
            71,
            "damon_aggregated: target_id=0 nr_regions=1445 4294967296-4314333184: 0 13",
        ),
        (
            71,
            "damon_aggregated: target_id=0 nr_regions=1445 4324622336-4324634624: 6 286",
        ),
        (
            71,
            "damon_aggregated: target_id=0 nr_regions=1445 4324634624-4324642816: 1 0",
        ),
        (
            71,
            "damon_aggregated: target_id=0 nr_regions=1447 4324622336-4324626432: 20 3",
        ),
        (
            71,
            "damon_aggregated: target_id=1 nr_regions=3 4324622336-4324626432: 2 0",
        ),
    ];
    // What DAMON finds was there before.
    let stores = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)].map(|page| (AnonWrite, page));
    let again = [(AnonRead, (1, 0)), (AnonWrite, (2, 0))];
    let expected = [&stores[..], &again].concat();
    let found = both(&lines, &TraceOptions::default());
    let found: Vec<_> = found
        .iter()
        .map(|op| (op.kind, (op.object, op.page)))
        .collect();
    assert_eq!(found, expected);
    let only = [lines[1], (9, "page-faults: 7fff00")];
    assert_eq!(both(&only, &chosen(&["damon_aggregated"])).len(), 3);
    for wrong in [
        "nr_regions=3 4096-8192: 1 0",
        "target_id=0 nr_regions=3 8192-8192: 1 0",
        "target_id=0 nr_regions=3 4096: 1 0",
        "target_id=0 nr_regions=3 4096-8192:",
    ] {
        let line = format!("  kdamond.0-71 [000] ..... 1.5: damon_aggregated: {wrong}\n");
        let strict = TraceOptions {
            strict: true,
            ..TraceOptions::default()
        };
        let message = read(line.as_bytes(), Format::Ftrace, &strict).unwrap_err();
        assert!(
            message.to_string().contains("START-END: ACCESSES AGE"),
            "{wrong}: {message}"
        );
    }
}

#[test]
fn faults_are_memory_of_their_process() {
    let lines = [
        (
            9,
            "page_fault_user: address=0x7f0000001ff8 ip=0x5 error_code=0x6",
        ),
        (
            9,
            "page_fault_user: address=0x7f0000002000 ip=0x5 error_code=0x4",
        ),
        (
            8,
            "page_fault_kernel: address=0x7f0000001000 ip=_copy_to_user error_code=0x2",
        ),
        // An instruction fetch, and addresses of the kernel.
        (
            8,
            "page_fault_user: address=0x400000 ip=0x400000 error_code=0x14",
        ),
        (
            8,
            "page_fault_kernel: address=0xffffc90000000000 ip=f error_code=0x2",
        ),
        (
            8,
            "page_fault_kernel: address=some_table ip=f error_code=0x0",
        ),
        // Written after it was read: a fault of its own.
        (
            9,
            "page_fault_user: address=0x7f0000002000 ip=0x5 error_code=0x7",
        ),
    ];
    let expected = [
        op(AnonWrite, 1, 0, 0),
        // A load, of memory that is older than the trace.
        op(AnonWrite, 1, 0, 1),
        op(AnonWrite, 2, 1, 0),
        op(AnonWrite, 1, 0, 1),
    ];
    assert_eq!(both(&lines, &TraceOptions::default()), expected);
    let instructions = TraceOptions {
        instructions: true,
        ..TraceOptions::default()
    };
    let mut with_text = expected.to_vec();
    with_text.insert(3, op(MappedRead, 0, 1, 0));
    assert_eq!(both(&lines, &instructions), with_text);
}

#[test]
fn a_fault_told_by_several_events_counts_once() {
    let text = "\
a 9/9 [0] 1.5: exceptions:page_fault_user: address=0x7000 ip=0x1 error_code=0x4
a 9/9 [0] 1.5: page-faults: 7000
a 9/9 [0] 1.5: minor-faults: 7000
a 9/9 [0] 1.6: exceptions:page_fault_user: address=0x7000 ip=0x1 error_code=0x7
a 9/9 [0] 1.6: page-faults: 7000
a 9/9 [0] 1.7:          1  page-faults:u: 8000
a 9/10 [0] 1.7: major-faults: 8000
a 9/9 [0] 1.7: page-faults:u: 8000
";
    let expected = [
        (AnonWrite, 0),
        (AnonWrite, 0),
        (AnonWrite, 1),
        (AnonWrite, 1),
        (AnonWrite, 1),
    ];
    let trace = of(text, Format::Perf, &TraceOptions::default());
    assert_eq!(trace, expected.map(|(kind, page)| op(kind, 1, 0, page)));
    let minor = of(text, Format::Perf, &chosen(&["minor-faults"]));
    assert_eq!(minor, [op(AnonWrite, 1, 0, 0)]);
}

#[test]
fn an_instruction_address_is_not_taken_for_data() {
    for line in [
        "sort 31330 45406.171744: 1 page-faults: ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])",
        "sort 31330 45406.171744: 1 page-faults: ",
    ] {
        let message = read(line.as_bytes(), Format::Perf, &TraceOptions::default())
            .expect_err("no address")
            .to_string();
        assert!(message.contains("no data address") && message.contains("-F comm,pid,tid,cpu,time,event,addr"), "{message}");
    }
    let with_ip = "sort 1/1 [0] 1.5: page-faults: 7f001000 55aabbcc main+0x1 (/bin/sort)\n";
    assert_eq!(
        of(with_ip, Format::Perf, &TraceOptions::default()),
        [op(AnonWrite, 1, 0, 0)]
    );
}

#[test]
fn call_chains_comments_and_messages_are_skipped() {
    let text = "\
[ perf record: Woken up 1 times to write data ]
# captured on: today
a 9/9 [000] 1.5: page-faults: 7f001000
\tffffffff817554ea elf_load+0x28a ([kernel.kallsyms])
\t    55aabbcc [unknown] (/bin/a)

";
    assert_eq!(of(text, Format::Perf, &TraceOptions::default()).len(), 1);
    let text = "version = 6\ncpus=2\nCPU 1 is empty\n# tracer: nop\na-9 [000] 1.5: page_fault_user: address=0x1 ip=0x1 error_code=0x4\n";
    assert_eq!(of(text, Format::Ftrace, &TraceOptions::default()).len(), 1);
}

#[test]
fn many_processes_and_files_fit() {
    let mut text = String::new();
    for pid in 0..70_000u32 {
        text += &format!("a {pid}/{pid} [0] 1.5: page-faults: 7000\n");
    }
    for inode in 0..5_000u32 {
        text +=
            &format!("a 1/1 [0] 1.5: mm_filemap_add_to_page_cache: dev 8:1 ino {inode:x} ofs=0\n");
    }
    let trace = sound(text.as_bytes(), Format::Perf, &TraceOptions::default());
    assert_eq!(trace.unique_pages, 75_000);
    assert_eq!((trace.objects.len(), trace.tasks), (256, 65_536));
    assert_eq!(
        trace.objects[0],
        ObjectInfo {
            pages: 5_000,
            used: 5_000,
            is_anon: false
        }
    );
    assert_eq!(
        trace.objects[254],
        ObjectInfo {
            pages: 1,
            used: 1,
            is_anon: true
        }
    );
    assert_eq!(
        trace.objects[255],
        ObjectInfo {
            pages: 70_000 - 254,
            used: 70_000 - 254,
            is_anon: true
        }
    );
}

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

const BLKPARSE: &str = "\
  7,0    1        0     0.000000000  7788  Q  RM 4628 + 2 [dd]
  7,0    1        1     0.000036314  7788  G  RM 4628 + 2 [dd]
  7,0    1        2     0.000038026  7788  P   N [dd]
  7,0    1        3     0.000038967  7788  U   N [dd] 1
  7,0    1        4     0.000041041  7788  D  RM 4628 + 2 [dd]
  7,0    1        5     0.000521943    22  C  RM 4628 + 2 [0]
  7,0    1        6     0.100000000  7789  Q  WS 8 + 16 [dd]
  7,1    1        7     0.200000000  7789  Q  WS 14 + 4 [dd]
  7,0    1        8     0.300000000  7789  Q   D 0 + 65536 [fstrim]
  7,0    1        9     0.300000000  7789  Q FWS 0 [dd]
  7,0    1       10     0.300000000  7789  Q RAM 7 + 2 [dd]
  7,0    1       11     0.300000000  7789  X   R 7 / 8 [dd]
  7,0    1        0     0.300000000     0  m   N cfq1 fifo expire
CPU0 (7,0):
 Reads Queued:           0,        0KiB\t Writes Queued:          27,    23414KiB

Throughput (R/W): 17KiB/s / 109695KiB/s
Events (7,0): 210 entries
Skips: 0 forward (0 -   0.0%)
";

#[test]
fn blkparse_requests_by_action() {
    let queued = [
        (Pread, 0, 0),
        (WholeWrite, 1, 1),
        (WholeWrite, 1, 2),
        (Pwrite, 1, 3),
        (Pwrite, 1, 4),
        (Pread, 1, 5),
        (Pread, 1, 1),
    ];
    let queued = queued.map(|(kind, task, page)| op(kind, 0, task, page));
    assert_eq!(
        of(BLKPARSE, Format::Blkparse, &TraceOptions::default()),
        queued
    );
    let one = [op(Pread, 0, 0, 0)];
    assert_eq!(of(BLKPARSE, Format::Blkparse, &chosen(&["D"])), one);
    assert_eq!(of(BLKPARSE, Format::Blkparse, &chosen(&["C"])), one);
    let both = of(BLKPARSE, Format::Blkparse, &chosen(&["Q", "D"]));
    assert_eq!(both.len(), queued.len() + 1);
}

#[test]
fn a_request_sent_on_to_the_device_below_counts_once() {
    let line = |device: &str, action: &str, rest: &str| {
        format!("{device} 0 1 0.000000001 5 {action} R {rest}\n")
    };
    // The upper device was traced too.
    let stacked = line("253,0", "Q", "800 + 8 [dd]")
        + &line("8,0", "A", "2848 + 8 <- (253,0) 800")
        + &line("8,0", "Q", "2848 + 8 [dd]")
        + &line("8,0", "Q", "2848 + 8 [dd]");
    assert_eq!(
        of(&stacked, Format::Blkparse, &TraceOptions::default()),
        ops(Pread, &[0, 1])
    );
    // A partition is never queued on: only its disk is.
    let partition = line("8,0", "A", "2848 + 8 <- (8,1) 800") + &line("8,0", "Q", "2848 + 8 [dd]");
    assert_eq!(
        of(&partition, Format::Blkparse, &TraceOptions::default()),
        ops(Pread, &[0])
    );
}

/// Any text of words that the formats know.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("a-1".to_string()),
        Just("a".to_string()),
        Just("7/8".to_string()),
        Just("[001]".to_string()),
        Just("(".to_string()),
        Just("8)".to_string()),
        Just("(9)".to_string()),
        Just("1.5:".to_string()),
        Just("1.5".to_string()),
        Just("7,0".to_string()),
        Just("page-faults:".to_string()),
        Just("page_fault_user:".to_string()),
        Just("mm_filemap_get_pages:".to_string()),
        Just("mm_filemap_add_to_page_cache:".to_string()),
        Just("dev".to_string()),
        Just("8:1".to_string()),
        Just("ino=f".to_string()),
        Just("order=3".to_string()),
        Just("error_code=0x6".to_string()),
        Just("Q".to_string()),
        Just("A".to_string()),
        Just("RW".to_string()),
        Just("+".to_string()),
        Just("<-".to_string()),
        Just("read".to_string()),
        Just("write".to_string()),
        Just("Skips:".to_string()),
        Just("CPU:0 [LOST".to_string()),
        Just("EVENTS]".to_string()),
        Just("PERF_RECORD_LOST lost".to_string()),
        Just("fio version 3 iolog".to_string()),
        Just("\n".to_string()),
        Just("CPU0 (8,0):".to_string()),
        any::<u64>().prop_map(|n| format!("ofs={n}")),
        any::<u64>().prop_map(|n| format!("index={n}")),
        any::<u64>().prop_map(|n| format!("address=0x{n:x}")),
        any::<u64>().prop_map(|n| n.to_string()),
        (0u64..100).prop_map(|n| n.to_string()),
        any::<u32>().prop_map(|n| format!("ofs={n}-{}", u64::from(n) + 9999)),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the lines, they are references, unused, bad, or the end.
    #[test]
    fn any_words_are_read_or_refused(text in words(), format in 0usize..4, instructions: bool, strict: bool, shift in 9u32..=30) {
        let format = [Format::Perf, Format::Ftrace, Format::Fio, Format::Blkparse][format];
        let options = TraceOptions { instructions, strict, page_shift: shift, ..TraceOptions::default() };
        match read(text.as_bytes(), format, &options) {
            Ok(trace) => prop_assert!(trace.unique_pages > 0),
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }

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

#[test]
fn lines_of_bpftrace() {
    let line = |rest: &str| format!("my prog 9/9 [001] 45.123456789: {rest}\n");
    let text = [
        "Attaching 16 probes...\n".to_owned(),
        line("file_write: dev=254:0 ino=3c ofs=0-8191"),
        line("file_write: dev=254:0 ino=3c ofs=4090-4099"),
        line("file_read: dev=254:0 ino=3c ofs=4095-4096"),
        line("mm_filemap_add_to_page_cache: dev=254:0 ino=3c index=7 order=0"),
        line("file_write: dev=254:0 ino=3c ofs=28672-28672"),
        line("file_read: dev=254:0 ino=3c ofs=28672-28672"),
        line("mm_filemap_fault: dev=254:0 ino=3c index=7"),
        "\n".to_owned(),
    ]
    .concat();
    let expected = [
        (WholeWrite, 0),
        (WholeWrite, 1),
        (Pwrite, 0),
        (Pwrite, 1),
        (Pread, 0),
        (Pread, 1),
        (Pread, 2),
        (Pwrite, 2),
        (Pread, 2),
        (MappedRead, 2),
    ];
    assert_eq!(
        of(&text, Format::Perf, &TraceOptions::default()),
        expected.map(|(kind, page)| op(kind, 0, 0, page))
    );
    let reads = of(&text, Format::Perf, &chosen(&["file_read"]));
    assert_eq!(reads, [0, 1, 2].map(|page| op(Pread, 0, 0, page)));
}

/// A task may be called anything: recorders print it as it is.
#[test]
fn commands_that_look_like_the_beginning_of_a_line() {
    let event = |page: u64| {
        format!(
            "mm_filemap_get_pages: dev=8:1 ino=a ofs={}-{}",
            page << 12,
            (page << 12) + 4095
        )
    };
    let pages = |line: &dyn Fn(u64) -> String, format| {
        let text: String = (0..3).map(line).collect();
        let source =
            Source::from_reader("t", std::io::Cursor::new(text.clone()), None).expect("memory");
        let guessed = Reader::from_source(source, None, &TraceOptions::default());
        assert_eq!(guessed.expect(&text).format(), format, "{text}");
        of(&text, format, &TraceOptions::default())
    };
    let expected = ops(Pread, &[0, 1, 2]);
    for command in [
        "7/8 [000] 1.2:",
        "7/8 [000] 1.2: ",
        "a b [1] 2.3: x",
        "1 1.2: faults:",
        "x-8 [000] 1.2:",
        "a-1 1.2: e: f",
        "1.2:",
        "a: b",
        "\u{1b}[31m\u{1}",
        "",
    ] {
        let perf = |page| {
            format!(
                "{command:>16} 9/9 [001] 45.123456: filemap:{}\n",
                event(page)
            )
        };
        assert_eq!(pages(&perf, Format::Perf), expected, "{command:?}");
        let ftrace = |page| {
            format!(
                "{command:>16}-9       (      9) [001] d..1. 45.123456: {}\n",
                event(page)
            )
        };
        assert_eq!(pages(&ftrace, Format::Ftrace), expected, "{command:?}");
        let instance = |page| {
            format!(
                "mine: {command:>16}-9     [001] 45.123456: (+13)    {}\n",
                event(page)
            )
        };
        assert_eq!(pages(&instance, Format::Ftrace), expected, "{command:?}");
    }
}

/// Linux 6.18 has two events for the first store to a page of a shared mapping that is not in memory, and one for a load.
#[test]
fn a_fault_that_begins_again_counts_once() {
    let fault = |page: u64| format!("mm_filemap_fault: dev=254:0 ino=98c863 ofs={}", page << 12);
    let (first, other) = (fault(7), fault(8));
    let read = "mm_filemap_get_pages: dev=254:0 ino=98c863 ofs=0-4095";
    let found = |lines: &[(u32, &str)]| {
        let options = TraceOptions {
            one_task: true,
            ..TraceOptions::default()
        };
        both(lines, &options)
            .iter()
            .map(|op| op.page)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found(&[(9, &first), (9, &first), (9, &other), (9, &first)]),
        [0, 1, 0]
    );
    // Of another thread, or after something else.
    assert_eq!(found(&[(9, &first), (8, &first), (9, &first)]), [0, 0]);
    assert_eq!(found(&[(9, &first), (9, read), (9, &first)]), [0, 1, 0]);
}

#[test]
fn stacks_of_ftrace_are_skipped() {
    let line = "  prog-9   (      9) [001] ..... 45.123456: ";
    let text = format!(
        "{line}mm_filemap_get_pages: dev=8:1 ino=a ofs=0-4095\n{line}<stack trace>\n => filemap_read\n => vfs_read\n"
    );
    let strict = TraceOptions {
        strict: true,
        ..TraceOptions::default()
    };
    assert_eq!(of(&text, Format::Ftrace, &strict), ops(Pread, &[0]));
}

/// What perf says of losses, and its own messages, where they went into the file.
#[test]
fn warnings_of_perf_are_losses() {
    let good = "sort 7/7 [000] 1.5: page-faults: 7f0000001000\n";
    let text =
        format!("{good}Warning:\nProcessed 9 samples and lost 18.83%!\n\nCheck IO/CPU overload!\n");
    let source = Source::from_reader("t", std::io::Cursor::new(text), None).expect("memory");
    let options = TraceOptions {
        strict: true,
        ..TraceOptions::default()
    };
    let reader = Reader::from_source(source, Some(Format::Perf), &options).expect("sound options");
    let tally = reader.tally();
    assert_eq!(
        Trace::read(reader, |_, _| {}).expect("sound").ops().len(),
        1
    );
    assert_eq!(tally.get().lost_uncounted, 1);
}
