//! Events of the page cache, reads and writes of files.

use super::*;
use OpKind::{MappedRead, Pread, Pwrite, WholeWrite};

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
