//! Tests of the whole: accounting, throttling and flushers together.

use super::params::NANOS_PER_SEC as SEC;
use super::wb::InodePlace;
use super::*;
use proptest::prelude::*;

const MS: Nanos = 1_000_000;

/// The machine of R1 with the given dirty figures: thresh 30992, bg 15477, freerun 23234.
fn figures(file_dirty: Pages, writeback: Pages) -> GlobalFigures {
    GlobalFigures {
        free: 100_000,
        totalreserve: 5000,
        inactive_file: 40_000,
        active_file: 20_000,
        file_dirty,
        writeback,
    }
}

fn input(file_dirty: Pages) -> FlushInput {
    FlushInput {
        global: figures(file_dirty, 0),
        memcg: None,
    }
}

fn one_wb() -> (Writeback, WbId) {
    let mut w = Writeback::new(DirtyParams::default()).unwrap();
    let wb = w.wb_for(DeviceId(0), MemcgId::ROOT);
    (w, wb)
}

fn balance(
    w: &mut Writeback,
    task: &mut TaskDirty,
    wb: WbId,
    now: Nanos,
    global: GlobalFigures,
) -> Balance {
    w.balance(BalanceInput {
        now,
        task,
        wb,
        global,
        memcg: None,
        task_memcg: MemcgId::ROOT,
        realtime: false,
        killed: false,
    })
}

/// Writes a slice whole, instantly: up to the inode's dirty pages.
fn write(w: &mut Writeback, s: &Slice, now: Nanos) -> Pages {
    let n = w.wb(s.wb).inode(s.inode).unwrap().pages.min(s.pages_max);
    w.clean_for_io(s.wb, s.inode, n);
    w.started(s.wb, n, now);
    w.written(s.wb, n, now);
    w.slice_done(s.wb, s.inode, n, false, now);
    n
}

#[test]
fn r7_freerun_polls() {
    let (mut w, wb) = one_wb();
    let mut t = TaskDirty::default();
    w.dirtied(wb, ObjectId(1), 32, 0);
    assert!(!w.needs_balance(&mut t, wb, 0, 31));
    assert!(w.needs_balance(&mut t, wb, 0, 1));
    let b = balance(&mut w, &mut t, wb, 0, figures(20_000, 0));
    assert_eq!((b.pause, t.pause_pages, t.nr_dirtied), (None, 64, 0));
    assert!(
        b.start_background,
        "20000 is above the background threshold"
    );
    assert!(
        !balance(&mut w, &mut t, wb, 0, figures(20_000, 0)).start_background,
        "asked for"
    );
}

#[test]
fn r5_throttled_dirtier_pauses_nine_ticks() {
    let (mut w, wb) = one_wb();
    let mut t = TaskDirty {
        nr_dirtied: 250,
        ..TaskDirty::default()
    };
    w.dirtied(wb, ObjectId(1), 27_113, 0);
    // All completions were this wb's, so its share is the whole threshold.
    w.started(wb, 1, 0);
    w.written(wb, 1, 0);
    // Long after the last pause: only the credit is reset.
    let now = 2 * SEC;
    w.wb_mut(wb).estimate.stamp = w.params.ticks(now);
    let g = figures(27_113, 0);
    assert_eq!(balance(&mut w, &mut t, wb, now, g).pause, None);
    assert_eq!(t.paused_when, 2000);
    // The ratio is 1023 (R3): 250 pages at 25575 a second.
    t.nr_dirtied = 250;
    let b = balance(&mut w, &mut t, wb, now, g);
    assert_eq!(b.pause, Some(9));
    // 2^14 < 25600: rate and bandwidth are of one binade, 10 ticks make 250 pages.
    assert_eq!((t.pause_pages, t.paused_when, t.nr_dirtied), (250, 2009, 0));
    assert_eq!(balance(&mut w, &mut t, wb, now + 9 * MS, g).pause, None);
    // Thinking as long as the pause would be: no pause, and the period is credited.
    t.nr_dirtied = 250;
    assert_eq!(balance(&mut w, &mut t, wb, now + 18 * MS, g).pause, None);
    assert_eq!(t.paused_when, 2018);
}

#[test]
fn at_the_limit_a_dirtier_sleeps_until_the_wb_drains() {
    let (mut w, wb) = one_wb();
    let mut t = TaskDirty {
        nr_dirtied: 32,
        ..TaskDirty::default()
    };
    w.dirtied(wb, ObjectId(1), 31_000, 0);
    let g = figures(31_000, 0);
    let mut now = 0;
    // 31000/201 + 1 ticks; longer as the estimated bandwidth falls, since nothing is written.
    let mut last = 155;
    for _ in 0..5 {
        let Some(ticks) = balance(&mut w, &mut t, wb, now, g).pause else {
            panic!("the position ratio is 0")
        };
        assert!(
            (last..=200).contains(&ticks) && (now > 0 || ticks == 155),
            "{ticks}"
        );
        last = ticks;
        now += ticks * MS;
    }
    assert!(w.wb(wb).dirty_exceeded);
    // While exceeded, tasks look every 8 pages.
    let mut other = TaskDirty::default();
    assert!(w.needs_balance(&mut other, wb, 0, 8));
    // A fatal signal ends it.
    let killed = w.balance(BalanceInput {
        now,
        task: &mut t,
        wb,
        global: g,
        memcg: None,
        task_memcg: MemcgId::ROOT,
        realtime: false,
        killed: true,
    });
    assert_eq!(killed.pause, None);
}

#[test]
fn per_cpu_counter() {
    let (mut w, wb) = one_wb();
    let mut t = TaskDirty {
        pause_pages: 1000,
        ..TaskDirty::default()
    };
    balance(&mut w, &mut t, wb, 0, figures(0, 0));
    t.pause_pages = 10_000;
    // thresh/32 = 968 pages together.
    let mut u = t.clone();
    assert!(!w.needs_balance(&mut t, wb, 1, 900));
    assert!(w.needs_balance(&mut u, wb, 1, 68));
    assert_eq!(u.nr_dirtied, 68);
    assert!(!w.needs_balance(&mut u, wb, 0, 967), "of another CPU");
    assert!(w.needs_balance(&mut t, wb, 0, 1));
}

#[test]
fn memcg_domain_throttles_while_the_machine_is_free() {
    let mut w = Writeback::new(DirtyParams::default()).unwrap();
    let wb = w.wb_for(DeviceId(0), MemcgId(3));
    w.dirtied(wb, ObjectId(1), 6400, 0);
    let mut t = TaskDirty {
        nr_dirtied: 32,
        ..TaskDirty::default()
    };
    let mut step = |memcg| {
        w.balance(BalanceInput {
            now: 0,
            task: &mut t,
            wb,
            global: figures(6400, 0),
            memcg,
            task_memcg: MemcgId(3),
            realtime: false,
            killed: false,
        })
    };
    assert_eq!(step(None).pause, None);
    // R6: thresh 6398; nothing ever completed, so everything is above the wb's share.
    let m = MemcgFigures {
        file: 30_000,
        headroom: 2000,
        file_dirty: 6400,
        writeback: 0,
    };
    assert!(step(Some(m)).pause.is_some());
}

#[test]
fn r9_reclaim_wakes_flushers_once() {
    let (mut w, wb) = one_wb();
    assert!(
        w.wake(FlushReason::Vmscan, 0).is_empty(),
        "nothing is dirty"
    );
    w.dirtied(wb, ObjectId(7), 32, 0);
    assert_eq!(w.wake(FlushReason::Vmscan, 0), [wb]);
    assert!(w.wake(FlushReason::Vmscan, 0).is_empty(), "pending");
    let s = w.next_slice(wb, 0, &input(32)).unwrap();
    assert_eq!(
        (s.inode, s.reason, s.pages_max),
        (ObjectId(7), FlushReason::Vmscan, 1024)
    );
    assert!(w.wake(FlushReason::Vmscan, 0).is_empty(), "running");
    assert_eq!(w.wakeups(FlushReason::Vmscan), 1);
    write(&mut w, &s, 0);
    assert_eq!(w.next_slice(wb, 0, &input(0)), None);
    w.dirtied(wb, ObjectId(7), 1, 1);
    assert_eq!(w.wake(FlushReason::Vmscan, 1), [wb]);
    w.check();
}

#[test]
fn background_stops_at_its_threshold() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 20_000, 0);
    // Own completions only: the wb's share of bg_thresh is all of it.
    w.started(wb, 1, 0);
    w.written(wb, 1, 0);
    let mut left = 20_000;
    let mut t = TaskDirty::default();
    assert!(balance(&mut w, &mut t, wb, 0, figures(left, 0)).start_background);
    while let Some(s) = w.next_slice(wb, 0, &input(left)) {
        assert_eq!(s.reason, FlushReason::Background);
        // min(25600/2, 30992/8) rounded to the 4 MiB above.
        assert_eq!(s.pages_max, 4096);
        left -= write(&mut w, &s, 0);
    }
    assert_eq!(left, 20_000 - 2 * 4096, "the first value at or below 15477");
    assert!(w.wb(wb).is_idle());
    w.check();
}

#[test]
fn background_without_progress_sleeps() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 20_000, 0);
    w.wake(FlushReason::Background, 0);
    let s = w.next_slice(wb, 0, &input(20_000)).unwrap();
    w.slice_done(wb, s.inode, 0, true, 1);
    assert_eq!(w.next_slice(wb, 1, &input(20_000)), None);
    w.check();
}

#[test]
fn periodic_pass_takes_expired_inodes_only() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 10, 0);
    w.dirtied(wb, ObjectId(2), 10, 4 * SEC);
    // Completions elsewhere are none; give the wb its share so that background stays quiet.
    w.started(wb, 1, 0);
    w.written(wb, 1, 0);
    w.wb_mut(wb).bandwidth_at = None;
    let mut passes = 0;
    let mut written = Vec::new();
    while w.wb(wb).dirty_inodes() > 0 {
        let now = w.next_timer().expect("a dirty inode keeps the timer armed");
        passes += usize::from(!w.expire_timers(now).is_empty());
        // Keep the completion share alive across the 3 s periods.
        w.global.completions.add(1, now, 3 * SEC);
        w.wb_mut(wb).completions.add(1, now, 3 * SEC);
        while let Some(s) = w.next_slice(wb, now, &input(20)) {
            assert_eq!(s.reason, FlushReason::Periodic);
            written.push((s.inode, now));
            write(&mut w, &s, now);
        }
    }
    // Strictly older than 30 s: at 35 s both are (0 and 4 s), at 30 s neither is.
    assert_eq!(written, [(ObjectId(1), 35 * SEC), (ObjectId(2), 35 * SEC)]);
    assert_eq!(passes, 7);
}

#[test]
fn periodic_can_be_switched_off() {
    let params = DirtyParams {
        dirty_writeback: 0,
        ..DirtyParams::default()
    };
    let mut w = Writeback::new(params).unwrap();
    let wb = w.wb_for(DeviceId(0), MemcgId::ROOT);
    w.dirtied(wb, ObjectId(1), 10, 0);
    assert_eq!(w.next_timer(), None);
}

#[test]
fn order_of_works() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 100_000, 0);
    w.wake_wb(wb, FlushReason::Background, 0);
    let first = w.next_slice(wb, 0, &input(100_000)).unwrap();
    assert_eq!(first.reason, FlushReason::Background);
    w.wake_wb(wb, FlushReason::Periodic, 0);
    w.wake_wb(wb, FlushReason::Vmscan, 0);
    w.wake_wb(wb, FlushReason::Sync, 0);
    write(&mut w, &first, 0);
    let mut reasons = vec![first.reason];
    let mut left = 100_000 - first.pages_max;
    // 40 s later the inode has expired too.
    while let Some(s) = w.next_slice(wb, 40 * SEC, &input(left)) {
        if reasons.last() != Some(&s.reason) {
            reasons.push(s.reason);
        }
        // Each work is cut short by an inode that stays dirty, redirtied later than the cut.
        let n = 500;
        w.clean_for_io(wb, s.inode, n);
        left -= n;
        w.slice_done(wb, s.inode, n, true, 40 * SEC);
        if s.reason == FlushReason::Vmscan {
            w.dirty_dropped(wb, s.inode, left);
            left = 0;
        }
    }
    assert_eq!(
        reasons,
        [
            FlushReason::Background,
            FlushReason::Sync,
            FlushReason::Vmscan
        ]
    );
    assert!(!w.wb(wb).has_request());
    w.check();
}

#[test]
fn sync_does_not_chase_new_dirt() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 10, 5);
    w.wake_wb(wb, FlushReason::Sync, 10);
    w.dirtied(wb, ObjectId(2), 10, 11);
    let s = w.next_slice(wb, 12, &input(20)).unwrap();
    assert_eq!((s.inode, s.reason), (ObjectId(1), FlushReason::Sync));
    w.dirtied(wb, ObjectId(1), 5, 13);
    write(&mut w, &s, 14);
    // Inode 1 was dirtied again while it was written: 15 pages were there to take.
    assert_eq!(w.wb(wb).inode(ObjectId(1)), None);
    w.dirtied(wb, ObjectId(1), 5, 15);
    let next = w.next_slice(wb, 16, &input(15));
    assert_ne!(next.map(|s| s.reason), Some(FlushReason::Sync));
}

#[test]
fn used_up_slices_go_first_in_the_next_round() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 5000, 0);
    w.dirtied(wb, ObjectId(2), 10, 1);
    w.wake_wb(wb, FlushReason::Vmscan, 2);
    let s = w.next_slice(wb, 2, &input(5010)).unwrap();
    assert_eq!((s.inode, s.pages_max), (ObjectId(1), 1024));
    write(&mut w, &s, 2);
    assert_eq!(
        w.wb(wb).inode(ObjectId(1)).unwrap().place,
        InodePlace::MoreIo
    );
    let s = w.next_slice(wb, 2, &input(3986)).unwrap();
    assert_eq!(s.inode, ObjectId(2));
    w.dirtied(wb, ObjectId(3), 1, 3);
    write(&mut w, &s, 3);
    assert_eq!(
        w.next_slice(wb, 3, &input(3977)).unwrap().inode,
        ObjectId(1)
    );
    w.check();
}

#[test]
fn start_all_is_split_by_bandwidth() {
    let mut w = Writeback::new(DirtyParams::default()).unwrap();
    let a = w.wb_for(DeviceId(0), MemcgId(1));
    let b = w.wb_for(DeviceId(0), MemcgId(2));
    w.wb_mut(a).estimate.avg_bandwidth = 3;
    w.wb_mut(b).estimate.avg_bandwidth = 1;
    w.dirtied(a, ObjectId(1), 10, 0);
    w.dirtied(b, ObjectId(2), 10, 0);
    assert_eq!(w.wake(FlushReason::Vmscan, 0), [a, b]);
    let left = |w: &mut Writeback, id| {
        w.next_slice(id, 0, &input(10)).unwrap();
        w.wb(id).running.as_ref().unwrap().left
    };
    assert_eq!((left(&mut w, a), left(&mut w, b)), (Some(8), Some(3)));
}

#[test]
fn inode_stays_with_its_wb_until_the_memcg_is_gone() {
    let mut w = Writeback::new(DirtyParams::default()).unwrap();
    let a = w.attach(ObjectId(1), DeviceId(0), MemcgId(1));
    w.dirtied(a, ObjectId(1), 1, 0);
    assert_eq!(w.attach(ObjectId(1), DeviceId(0), MemcgId(2)), a);
    w.note_foreign(MemcgId(2), a, 0);
    assert_eq!(w.flush_foreign(MemcgId(2), SEC), [a]);
    assert_eq!(w.wakeups(FlushReason::ForeignFlush), 1);
    w.dirty_dropped(a, ObjectId(1), 1);
    assert_eq!(w.attach(ObjectId(1), DeviceId(0), MemcgId(2)), a);
    w.dirtied(a, ObjectId(1), 1, 0);
    w.memcg_gone(MemcgId(1));
    assert_eq!(w.attach(ObjectId(1), DeviceId(0), MemcgId(2)), a);
    w.dirty_dropped(a, ObjectId(1), 1);
    let b = w.attach(ObjectId(1), DeviceId(0), MemcgId(2));
    assert_ne!(b, a);
    // Another memcg with the number of the first.
    assert_eq!(w.attach(ObjectId(2), DeviceId(0), MemcgId(1)), a);
    assert_eq!(w.attach(ObjectId(2), DeviceId(0), MemcgId(2)), a);
    // The file is deleted, and another one has its number.
    w.forget(ObjectId(2));
    assert_eq!(w.attach(ObjectId(2), DeviceId(0), MemcgId(2)), b);
}

#[test]
fn an_inode_moves_with_its_dirty_pages() {
    let mut w = Writeback::new(DirtyParams::default()).unwrap();
    let inode = ObjectId(1);
    let a = w.attach(inode, DeviceId(0), MemcgId::ROOT);
    w.dirtied(a, inode, 100, 5);
    for n in 1..10 {
        w.wrote(inode, MemcgId(2), 10);
        assert_eq!(w.round_over(inode).is_some(), n == 9, "round {n}");
    }
    let b = w.attach(inode, DeviceId(0), MemcgId(3));
    assert_eq!(w.wb(b).memcg(), MemcgId(2));
    assert_eq!((w.wb(a).dirty(), w.wb(b).dirty()), (0, 100));
    assert_eq!((w.wb(a).dirty_inodes(), w.wb(b).dirty_inodes()), (0, 1));
    assert_eq!(w.wb(b).inode(inode).unwrap().since, 5);
    w.check();
    // While it is being written it stays.
    w.wake(FlushReason::Sync, SEC);
    let slice = w.next_slice(b, SEC, &input(100)).unwrap();
    for _ in 0..9 {
        w.wrote(inode, MemcgId(3), 10);
        assert_eq!(w.round_over(inode), None);
    }
    w.clean_for_io(b, inode, 100);
    w.slice_done(slice.wb, inode, 100, false, SEC);
    w.wrote(inode, MemcgId(3), 10);
    let c = w.round_over(inode).expect("most of it has been another's");
    assert_eq!(w.attach(inode, DeviceId(0), MemcgId(2)), c);
    w.check();
}

#[test]
fn laptop_mode_writes_everything_after_io() {
    let params = DirtyParams {
        laptop_mode: 2 * SEC,
        dirty_writeback: 0,
        ..DirtyParams::default()
    };
    let mut w = Writeback::new(params).unwrap();
    let wb = w.wb_for(DeviceId(0), MemcgId::ROOT);
    w.dirtied(wb, ObjectId(1), 20_000, 0);
    let mut t = TaskDirty::default();
    assert!(!balance(&mut w, &mut t, wb, 0, figures(20_000, 0)).start_background);
    w.disk_io(SEC);
    assert_eq!(w.next_timer(), Some(3 * SEC));
    assert_eq!(w.expire_timers(3 * SEC), [wb]);
    let s = w.next_slice(wb, 3 * SEC, &input(20_000)).unwrap();
    assert_eq!(s.reason, FlushReason::LaptopTimer);
    assert_eq!(w.next_timer(), None);
}

#[test]
fn completion_arms_an_estimation() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 10_240, 0);
    w.clean_for_io(wb, ObjectId(1), 10_240);
    w.started(wb, 10_240, 0);
    w.written(wb, 10_240, 0);
    assert_eq!((w.wb(wb).dirty(), w.wb(wb).dirty_inodes()), (0, 0));
    let at = w.wb(wb).bandwidth_at.unwrap();
    assert_eq!(at, 200 * MS);
    w.expire_timers(at);
    assert_eq!(w.wb(wb).estimate.bandwidth, 26_850);
}

/// Nothing is asked of an inode of which nothing goes: it may be clean.
#[test]
fn no_pages_of_a_clean_inode_can_go() {
    let (mut w, wb) = one_wb();
    w.dirtied(wb, ObjectId(1), 3, 0);
    w.clean_for_io(wb, ObjectId(1), 3);
    w.dirty_dropped(wb, ObjectId(1), 0);
    w.check();
    assert!(w.wb(wb).inode(ObjectId(1)).is_none());
}

proptest! {
    /// Whatever happens, each dirty inode is on one list, counts agree, and a flusher run ends.
    #[test]
    fn lists_and_counts_agree(ops in prop::collection::vec((0u8..7, 0u32..6, 1u64..3000), 1..200)) {
        let mut w = Writeback::new(DirtyParams::default()).unwrap();
        let a = w.wb_for(DeviceId(0), MemcgId::ROOT);
        let mut now = 0;
        for (op, inode, n) in ops {
            let inode = ObjectId(inode);
            now += n * MS;
            let dirty = w.wb(a).inode(inode).map_or(0, |i| i.pages);
            match op {
                0 | 1 => w.dirtied(a, inode, n, now),
                2 if dirty > 0 => w.dirty_dropped(a, inode, n.min(dirty)),
                3 => { w.wake(FlushReason::Vmscan, now); }
                4 => { w.wake(FlushReason::Sync, now); }
                5 => { w.expire_timers(now); }
                _ => {
                    let total = w.wb(a).reclaimable;
                    let mut slices = 0;
                    while let Some(s) = w.next_slice(a, now, &input(w.wb(a).reclaimable)) {
                        w.check();
                        if slices % 3 == 2 {
                            w.slice_done(a, s.inode, 0, true, now);
                        } else {
                            write(&mut w, &s, now);
                        }
                        slices += 1;
                        prop_assert!(slices < 200 + total, "the run does not end");
                    }
                    prop_assert!(w.wb(a).is_idle());
                }
            }
            w.check();
        }
    }

    /// A dirtier is never asked to sleep longer than max_pause, and gets out once the wb is clean.
    #[test]
    fn pauses_are_bounded(dirty in 0u64..40_000, writeback in 0u64..40_000, n in 1u64..5000) {
        let (mut w, wb) = one_wb();
        w.dirtied(wb, ObjectId(1), dirty + writeback, 0);
        w.clean_for_io(wb, ObjectId(1), writeback);
        w.started(wb, writeback, 0);
        let mut t = TaskDirty { nr_dirtied: n, ..TaskDirty::default() };
        let mut now = 0;
        for _ in 0..20 {
            match balance(&mut w, &mut t, wb, now, figures(dirty, writeback)).pause {
                None => break,
                Some(ticks) => {
                    prop_assert!((1..=200).contains(&ticks), "{ticks}");
                    now += ticks * MS;
                }
            }
        }
        w.written(wb, writeback, now);
        w.dirty_dropped(wb, ObjectId(1), dirty);
        prop_assert_eq!(balance(&mut w, &mut t, wb, now, figures(0, 0)).pause, None);
    }
}
