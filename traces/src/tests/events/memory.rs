//! Page faults, and regions in use.

use super::*;
use OpKind::{AnonRead, AnonWrite, MappedRead};

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
