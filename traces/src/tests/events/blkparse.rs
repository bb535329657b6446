//! Text of blkparse.

use super::*;
use OpKind::{Pread, Pwrite, WholeWrite};

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
