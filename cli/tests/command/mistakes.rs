//! Wrong arguments: one line that says what to do, and exit code 2.

use crate::common::{lab, message_of};

/// Arguments and a part of the message.
fn all(cases: &[(&str, &str)], code: i32) {
    for &(arguments, part) in cases {
        let said = message_of(arguments, code);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

#[test]
fn names_are_guessed() {
    all(
        &[
            ("run mongodv", "did you mean 'mongodb'"),
            ("replya x", "'replay'"),
            ("run mongodb --variants bsae", "did you mean 'base'"),
            (
                "run mongodb --set smaler_batch=on",
                "did you mean 'smaller_batch'",
            ),
            (
                "run mongodb --variants base+scan_bugdet=on",
                "did you mean 'scan_budget'",
            ),
            ("run mongodb --cost nvme_red_lat_ns=1", "nvme_read_lat_ns"),
            ("run mongodb --param recods=1", "did you mean 'records'"),
            ("replay SAMPLE --format pageop", "did you mean 'pageops'"),
            ("replay SAMPLE --swap zarm:1GiB", "did you mean 'zram'"),
            ("replay SAMPLE --swap zram:1GiB:zsd", "did you mean 'zstd'"),
            ("replay SAMPLE --memroy 1MiB", "'--memory'"),
            (
                "fidelity --cases d_pread_cycle",
                "did you mean 'd_pread_cyc'",
            ),
            ("fidelity --policies clasic", "did you mean 'classic'"),
            ("params --switches merge", "did you mean 'merged'"),
        ],
        2,
    );
}

/// What would count as something else is refused.
#[test]
fn values_are_taken_as_they_are_or_not_at_all() {
    all(
        &[
            ("replay SAMPLE --fault-around 5KiB", "whole pages of 4KiB"),
            (
                "replay SAMPLE --memory 300.5pages",
                "a whole number of pages",
            ),
            ("replay SAMPLE --low 0=200%", "at most 100%"),
            ("replay SAMPLE --fold-every 0", "1page or more"),
            ("replay SAMPLE --variants v5+", "behind each +, or no +"),
            (
                "export throttling-oom --out x.foo",
                "name the file x.pageops",
            ),
        ],
        2,
    );
}

#[test]
fn values_are_explained() {
    for scale in ["0", "1/0", "3/2", "1/100000", "-1", "x"] {
        let said = message_of(&["run", "mongodb", "--scale", scale], 2);
        assert!(said.contains("1/N"), "{said}");
    }
    all(
        &[
            ("run", "<EXPERIMENT>"),
            ("run mongodb --seeds 0", "1..=10000"),
            (
                "run mongodb --seeds -1",
                "invalid value '-1' for '--seeds <N>': ",
            ),
            ("replay SAMPLE --swappiness -1", "-1 is not in 0..=200"),
            ("run mongodb --effort 0", "0.001"),
            ("run mongodb --jobs 0", "1 to 1024"),
            ("run mongodb --set smaller_batch", "switch=value"),
            ("run mongodb --set smaller_batch=2", "on, off"),
            ("run mongodb --param records=many", "whole number"),
            ("run mongodb --param update_percent=500", "up to 100"),
            ("run mongodb --cost timer_hz=0", "1 to"),
            (
                "run mongodb --cost hdd_bytes_per_s=1",
                "no effect on mongodb: its devices are nvme",
            ),
            (
                "verify --only mysql,fio-mmap --cost open_ns=1",
                "only the load of kernel-build charges it",
            ),
            ("run mongodb --variants v5,v5", "listed twice"),
            ("run mongodb --json - --csv -", "standard output"),
            ("replay no-such-file", "no-such-file"),
            ("replay /", "folder"),
            ("replay SAMPLE --memory 64", "64MiB"),
            ("replay SAMPLE --memory 64QB", "64MiB"),
            (
                "replay SAMPLE --memory -1MiB",
                "a positive size, such as 64MiB",
            ),
            ("replay SAMPLE --memory 508KiB", "128 pages"),
            ("replay SAMPLE --memory 5%", "128 pages"),
            ("replay SAMPLE --low 7=1MiB", "it has task 0"),
            ("replay SAMPLE --low 1MiB", "TASK=SIZE"),
            ("replay SAMPLE --fault-around 12KiB", "power of two"),
            ("replay SAMPLE --device delay:1", "delay:1s"),
            ("replay SAMPLE --device delay:2000s", "up to 1000s"),
            ("replay SAMPLE --device floppy", "nvme-fast"),
            ("replay SAMPLE --device hdd", "no pages of files"),
            ("replay SAMPLE --dirty-ratio 101", "0..=100"),
            ("replay SAMPLE --dirty-ratio 30", "no writes to files"),
            ("replay SAMPLE --large-folios yes", "on, off"),
            (
                "replay SAMPLE --large-folios on",
                "no writes of whole pages",
            ),
            ("replay SAMPLE --read-ahead 1GiB", "64MiB"),
            ("replay SAMPLE --clock 0:0,10", "ACCESS:SECONDS"),
            ("replay SAMPLE --swappiness 201", "0..=200"),
            ("replay SAMPLE --blocks-per-page 0", "blocks_per_page"),
            ("replay SAMPLE --events Q", "only perf, ftrace and blkparse"),
            ("replay SAMPLE --format blkparse --events Z", "Q (queued)"),
            ("replay SAMPLE --own-pages 220 --memory 10%", "348 pages"),
            ("replay SAMPLE --watermarks 10,20,30", "--limit machine"),
            (
                "replay SAMPLE --limit machine --watermarks 10",
                "MIN,LOW,HIGH",
            ),
            (
                "replay SAMPLE --limit machine --watermarks 30,20,10",
                "each greater than the one before",
            ),
            ("replay SAMPLE --limit machine --own-pages 3", "--own-pages"),
            ("replay SAMPLE --limit machine --stream", "--stream"),
            ("fidelity /no/such/folder", "/no/such/folder"),
            ("fidelity --tolerance 0", "0.1%"),
            ("fuzz", "--seed"),
        ],
        2,
    );
}

#[test]
fn what_cannot_be_written_is_the_surroundings() {
    all(
        &[
            (
                "replay SAMPLE --memory 50% --json /no/such/folder/x",
                "/no/such/folder/x",
            ),
            (
                "convert SAMPLE /no/such/folder/x.pageops",
                "/no/such/folder/x.pageops",
            ),
        ],
        3,
    );
    let full = lab("replay SAMPLE --memory 50% --variants v5 --csv /dev/full");
    assert_eq!(full.status.code(), Some(3));
}
