use proptest::prelude::*;

use super::*;
use crate::params::Params;

const KIB: u64 = 1024;
const PAGE: u64 = 4 * KIB;

fn device(kind: DeviceKind) -> Device {
    Device::new(kind.spec(&Params::default()), 1)
}

/// Places that are never adjacent.
fn scattered(n: u64) -> impl Iterator<Item = Request> {
    (0..n).map(|i| Request::read(i * 1_000_000, PAGE))
}

#[test]
fn c3_devices() {
    let mut nvme = device(DeviceKind::Nvme);
    let ends: Vec<_> = scattered(33).map(|r| nvme.submit(0, r)).collect();
    let shared = |i: u64| 60_000 + i * 585;
    assert!((1u64..)
        .zip(&ends[..32])
        .all(|(i, c)| c.start == 0 && c.end == shared(i)));
    assert_eq!((ends[32].start, ends[32].end), (60_585, 121_170));
    assert_eq!(nvme.stats().queue_ns, 60_585);

    let mut hdd = device(DeviceKind::Hdd);
    let last = scattered(32).map(|r| hdd.submit(0, r)).last().unwrap();
    assert_eq!(last.end, 32 * (8_000_000 + 20_480));

    let mut hdd = device(DeviceKind::Hdd);
    let pages: Vec<_> = (0..32).map(|i| Request::read(i * PAGE, PAGE)).collect();
    let done = hdd.submit_batch(0, &pages);
    assert!(done.iter().all(|c| c.end == 8_655_360));
    assert_eq!(hdd.stats().merges, 31);
    assert_eq!(hdd.stats().kib_in(), 128);
}

#[test]
fn c4_zram_pool() {
    let timing = ZramAlgorithm::Lz4.timing(&Params::default());
    let page = timing.stored_bytes(timing.ratio_permille);
    assert_eq!(page, 1557);
    assert_eq!(timing.stored_bytes(1000), 4096);
    assert_eq!(timing.stored_bytes(1254), 4096, "3266 bytes are huge");
    assert_eq!(timing.stored_bytes(1256), 3261);
    let stored = 200 * 4096 + 700 * page;
    assert_eq!(stored, 1_909_100);
    assert_eq!(timing.pool_pages(stored), 490);
    assert_eq!(900 * timing.compress_ns, 3_600_000);
}

#[test]
fn zram_reads_keep_mean_and_percentile() {
    for algorithm in ZramAlgorithm::ALL {
        let timing = algorithm.timing(&Params::default());
        let draws = (0..1000u64).map(|i| timing.read_ns(i * (u64::MAX / 1000)));
        let mut times: Vec<_> = draws.collect();
        let mean = times.iter().sum::<u64>() / 1000;
        assert!(mean.abs_diff(timing.read_mean_ns) < 10, "{algorithm:?}");
        times.sort_unstable();
        assert_eq!(times[990], timing.read_p99_ns);
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    assert!("lz5".parse::<ZramAlgorithm>().is_err());
}

#[test]
fn a_request_that_continues_the_last_one_is_merged_within_the_window() {
    let mut nvme = device(DeviceKind::Nvme);
    let first = nvme.submit(0, Request::read(0, PAGE));
    let second = nvme.submit(20_000, Request::read(PAGE, PAGE));
    assert!(second.merged && !first.merged);
    assert_eq!(second.end, first.end + 585);
    let late = nvme.submit(20_001, Request::read(2 * PAGE, PAGE));
    assert!(!late.merged, "the window begins with the first request");
    let wire = 20_000 + 585 - 20_001;
    assert_eq!(late.end, 20_001 + wire + 60_585);
    let write = nvme.submit(20_001, Request::write(3 * PAGE, PAGE));
    assert!(!write.merged, "a write does not continue a read");
    assert_eq!(nvme.stats().merges, 1);
}

#[test]
fn merging_and_splitting_respect_the_largest_request() {
    let mut fast = device(DeviceKind::NvmeFast);
    let pages: Vec<_> = (0..33).map(|i| Request::write(i * PAGE, PAGE)).collect();
    let done = fast.submit_batch(0, &pages);
    assert!(!done[32].merged, "the 33rd page exceeds 128 KiB");
    assert_eq!(fast.stats().merges, 31);

    let mut fast = device(DeviceKind::NvmeFast);
    let whole = fast.submit(0, Request::read(0, 1024 * KIB));
    let piece = device(DeviceKind::NvmeFast).submit(0, Request::read(0, 128 * KIB));
    let lat = 10_000;
    assert_eq!(
        whole.end - lat,
        8 * (piece.end - lat),
        "eight pieces share the wire"
    );
    assert!(fast.is_congested(0) && !fast.is_congested(piece.end));
}

#[test]
fn a_disk_is_quick_where_its_head_is() {
    let mut hdd = device(DeviceKind::Hdd);
    let first = hdd.submit(0, Request::read(0, PAGE));
    let next = hdd.submit(first.end, Request::write(PAGE, PAGE));
    assert_eq!(next.end - next.start, 100_000 + 20_480);
    let back = hdd.submit(next.end, Request::read(0, PAGE));
    assert_eq!(back.end - back.start, 8_000_000 + 20_480);
}

#[test]
fn the_delay_target_delays_without_occupying_the_drive() {
    let mut delayed = device(DeviceKind::Delayed);
    let ends: Vec<_> = (0..64)
        .map(|i| delayed.submit(0, Request::write(i * 1_000_000, PAGE)).end)
        .collect();
    // 20 us, and 819 ns of the wire each; then one second for all of them at once.
    assert_eq!(ends[31], 1_000_000_000 + 20_000 + 32 * 819);
    assert_eq!(ends[63], 1_000_000_000 + 20_000 + 64 * 819);
    let mut spec = DeviceKind::Delayed.spec(&Params::default());
    spec.delay_read_ns = 0;
    let read = Device::new(spec, 1).submit(0, Request::read(0, PAGE));
    assert_eq!(read.end, 60_585);
}

#[test]
fn a_ram_disk_takes_the_cpu_and_no_channel() {
    let mut ram = device(DeviceKind::Ramdisk);
    assert!(ram.is_synchronous());
    for _ in 0..100 {
        let done = ram.submit(0, Request::read(0, PAGE));
        assert_eq!((done.end, done.cpu_ns), (512, 512));
    }
    assert_eq!(ram.stats().queue_ns, 0);
    assert!(!ram.is_congested(0));
}

#[test]
fn phone_storage_has_its_own_figures() {
    let done = device(DeviceKind::Ufs).submit(0, Request::read(0, PAGE));
    assert_eq!(done.end, 120_000 + 2_730);
}

/// The swap files have 1.5 GB/s for the host, however the requests are spread or merged.
#[test]
fn a_slow_wire_is_waited_for_but_not_slowed_twice() {
    let mut d = device(DeviceKind::NvmeSwap);
    d.set_faults(FaultPlan {
        slow: vec![SlowDown {
            from: 0,
            until: u64::MAX,
            percent: 300,
        }],
        ..FaultPlan::default()
    });
    let wire = 3 * (4096 * 1_000_000_000 / 1_500_000_000);
    for (n, r) in (1..).zip(scattered(32)) {
        assert_eq!(d.submit(0, r).end, 270_000 + n * wire);
    }
}

#[test]
fn channels_that_share_a_wire_share_its_bandwidth() {
    let mut d = device(DeviceKind::NvmeSwap);
    let wire = 4096 * 1_000_000_000 / 1_500_000_000;
    let ends: Vec<u64> = scattered(32).map(|r| d.submit(0, r).end).collect();
    let want: Vec<u64> = (1..=32).map(|n| 90_000 + n * wire).collect();
    assert_eq!(ends, want, "latencies side by side, transfers in turn");

    let mut d = device(DeviceKind::NvmeSwap);
    let first = d.submit(0, Request::write(0, 4096));
    let merged = d.submit_batch(0, &[Request::write(1 << 20, 4096); 2]);
    assert_eq!(first.end, 90_000 + wire);
    assert_eq!(merged[1].end, 90_000 + 3 * wire);
}

#[test]
fn reads_wait_for_writes_on_the_wire_unless_each_direction_has_its_own() {
    for kind in DeviceKind::ALL {
        let spec = DeviceSpec {
            jitter_ppm: 0,
            ..kind.spec(&Params::default())
        };
        let read = Request::read(1 << 30, 64 * KIB);
        let alone = Device::new(spec, 1).submit(0, read);
        let mut busy = Device::new(spec, 1);
        for n in 0..4 {
            let _ = busy.submit(0, Request::write(n << 24, 64 * KIB));
        }
        let after_writes = busy.submit(0, read);
        let waits = matches!(kind, DeviceKind::Sata | DeviceKind::Hdd);
        assert_eq!(after_writes.end > alone.end, waits, "{kind:?}");
    }
}

#[test]
fn writes_slow_down_when_the_burst_budget_is_used_up() {
    let mut spec = DeviceKind::Sata.spec(&Params::default());
    spec.burst_bytes = Some(6 * KIB);
    let mut sata = Device::new(spec, 1);
    let time = |done: Completion| done.end - done.start - 60_000;
    let later = |n: u64| n * 1_000_000_000;
    assert_eq!(time(sata.submit(0, Request::write(0, PAGE))), 7_876);
    // Half of the page at 520 MB/s, half at 156 MB/s.
    let straddling = sata.submit(later(1), Request::write(1_000_000, PAGE));
    assert_eq!(time(straddling), 3_938 + 13_128);
    let slow = sata.submit(later(2), Request::write(2_000_000, PAGE));
    assert_eq!(time(slow), 26_256);
    let read = sata.submit(later(3), Request::read(3_000_000, PAGE));
    assert_eq!(read.end - read.start, 100_000 + 7_447);
}

#[test]
fn jitter_stays_in_its_range_and_repeats_with_the_seed() {
    let mut spec = DeviceKind::Net.spec(&Params::default());
    spec.jitter_ppm = 200_000;
    let times = |seed| {
        let mut net = Device::new(spec, seed);
        let done = (1u64..).zip(scattered(64));
        done.map(|(n, r): (u64, _)| net.submit(0, r).end - n * 3_276)
            .collect::<Vec<_>>()
    };
    assert!(times(1).iter().all(|t| (450_000..=550_000).contains(t)));
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}

#[test]
fn errors_come_as_planned() {
    let mut nvme = device(DeviceKind::Nvme);
    nvme.set_faults(FaultPlan {
        fail: vec![
            FailRule {
                op: Some(Op::Read),
                when: FailWhen::EveryNth(3),
                error: DeviceError::Io,
            },
            FailRule {
                op: Some(Op::Write),
                when: FailWhen::AfterWritten(2 * PAGE),
                error: DeviceError::NoSpace,
            },
            FailRule {
                op: None,
                when: FailWhen::BeyondOffset(1 << 30),
                error: DeviceError::Io,
            },
        ],
        slow: vec![],
    });
    let reads: Vec<_> = scattered(6).map(|r| nvme.submit(0, r).result).collect();
    let io = Err(DeviceError::Io);
    assert_eq!(reads, [Ok(()), Ok(()), io, Ok(()), Ok(()), io]);
    assert_eq!(nvme.submit(0, Request::read(1 << 30, PAGE)).result, io);
    let writes = [0, 1, 2].map(|i| nvme.submit(0, Request::write(i << 20, PAGE)).result);
    assert_eq!(writes, [Ok(()), Ok(()), Err(DeviceError::NoSpace)]);
    assert_eq!(nvme.stats().errors, 4);
    assert_eq!(nvme.stats().kib_out(), 8);
    assert_eq!(nvme.stats().kib_in(), 16);
}

#[test]
fn errors_by_probability_repeat_with_the_seed() {
    let failures = |seed| {
        let mut nvme = Device::new(DeviceKind::Nvme.spec(&Params::default()), seed);
        nvme.set_faults(FaultPlan {
            fail: vec![FailRule {
                op: None,
                when: FailWhen::Ppm(100_000),
                error: DeviceError::Io,
            }],
            slow: vec![],
        });
        let failed = scattered(1000).map(|r| nvme.submit(0, r).result.is_err());
        failed.collect::<Vec<_>>()
    };
    let count = failures(1).iter().filter(|&&failed| failed).count();
    assert!((60..140).contains(&count), "{count}");
    assert_eq!(failures(1), failures(1));
    assert_ne!(failures(1), failures(2));
}

#[test]
fn a_slow_down_lasts_as_long_as_planned() {
    let mut nvme = device(DeviceKind::Nvme);
    nvme.set_faults(FaultPlan {
        fail: vec![],
        slow: vec![SlowDown {
            from: 1_000,
            until: 2_000,
            percent: 1_000,
        }],
    });
    let ends = [(0, 0), (1_000, 1), (2_000, 2)].map(|(now, i)| {
        let done = nvme.submit(now, Request::read(i << 20, PAGE));
        done.end - now
    });
    // The third waits until the slow transfer has left the wire.
    let wire = 1_000 + 5_850 - 2_000;
    assert_eq!(ends, [60_585, 605_850, 60_585 + wire]);
}

#[test]
fn names_find_their_devices() {
    for kind in DeviceKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "floppy".parse::<DeviceKind>().unwrap_err().to_string();
    assert!(error.contains("`floppy`") && DeviceKind::ALL.iter().all(|k| error.contains(k.name())));
}

proptest! {
    /// Never more requests in service than channels, and all bytes are accounted.
    #[test]
    fn channels_bound_the_parallelism(
        steps in prop::collection::vec((0u64..50_000, 0u64..64, 1u64..40, any::<bool>()), 1..200),
    ) {
        let mut device = device(DeviceKind::NvmeFast);
        let (mut now, mut bytes, mut spans) = (0, 0, Vec::new());
        for (gap, place, pages, write) in steps {
            now += gap;
            let op = if write { Op::Write } else { Op::Read };
            let request = Request { op, offset: place * 16 * PAGE, bytes: pages * PAGE };
            let done = device.submit(now, request);
            prop_assert!(done.start >= now || done.merged);
            prop_assert!(done.end > now);
            bytes += request.bytes;
            if !done.merged && request.bytes <= device.spec().max_req_bytes {
                spans.push((done.start, done.end));
            }
        }
        for &(start, _) in &spans {
            let active = spans.iter().filter(|s| s.0 <= start && start < s.1).count();
            prop_assert!(active as u64 <= device.spec().channels);
        }
        prop_assert_eq!(device.stats().read_bytes + device.stats().write_bytes, bytes);
    }
}
