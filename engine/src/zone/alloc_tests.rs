//! Tests of the allocation slow path.

use super::*;
use crate::ids::NodeId;
use crate::zone::Zone;
use proptest::prelude::*;

fn zone(free: Pages, reclaimable: Pages) -> [Zone; 1] {
    let z = Zone::new(NodeId(0), ZoneClass::Normal, 262_144);
    [Zone {
        free,
        reclaimable,
        min: 1024,
        low: 1286,
        high: 1548,
        promo: 1810,
        ..z
    }]
}

const NOTHING: AllocInput = AllocInput {
    progress: 0,
    oom_busy: false,
    oom_progress: false,
    oom_victim: false,
};

/// Steps until one of `stop` is met, with the same input each time; counts direct reclaims.
fn run_to(t: &mut AllocTask, z: &mut [Zone], input: AllocInput, stop: AllocStep) -> u32 {
    let mut reclaims = 0;
    for _ in 0..1000 {
        let step = t.step(&mut ZoneList::of_node(z), input);
        if step == stop {
            return reclaims;
        }
        assert!(
            !matches!(step, AllocStep::Got(_) | AllocStep::Fail),
            "{step:?} before {stop:?}"
        );
        reclaims += u32::from(step == AllocStep::DirectReclaim);
    }
    panic!("{stop:?} is not reached");
}

#[test]
fn machine_c2_fast_path_fails_at_low() {
    let mut z = zone(1287, 0);
    let alloc = |z: &mut [Zone]| {
        AllocTask::new(0, AllocFlags::USER).step(&mut ZoneList::of_node(z), NOTHING)
    };
    assert_eq!(alloc(&mut z), AllocStep::Got(0));
    assert_eq!(z[0].free, 1286);
    let mut t = AllocTask::new(0, AllocFlags::USER);
    assert_eq!(
        t.step(&mut ZoneList::of_node(&mut z), NOTHING),
        AllocStep::WakeKswapd
    );
    assert_eq!(
        t.step(&mut ZoneList::of_node(&mut z), NOTHING),
        AllocStep::Got(0),
        "above min"
    );
    assert_eq!(z[0].free, 1285);
    assert_eq!(
        t.step(&mut ZoneList::of_node(&mut z), NOTHING),
        AllocStep::Got(0),
        "the answer stays"
    );
    assert_eq!(z[0].free, 1285);
}

#[test]
fn whoever_has_tried_wakes_kswapd_first() {
    let mut z = zone(1_000_000, 0);
    let mut t = AllocTask::refused(0, AllocFlags::USER);
    let mut step = || t.step(&mut ZoneList::of_node(&mut z), NOTHING);
    assert_eq!(step(), AllocStep::WakeKswapd);
    assert_eq!(step(), AllocStep::Got(0));
}

#[test]
fn seventeen_fruitless_reclaims_lead_to_oom() {
    let mut z = zone(1000, 50_000);
    let mut t = AllocTask::new(0, AllocFlags::USER);
    assert_eq!(run_to(&mut t, &mut z, NOTHING, AllocStep::Oom), 17);
    // A kill restarts the count.
    let killed = AllocInput {
        oom_progress: true,
        ..NOTHING
    };
    assert_eq!(
        t.step(&mut ZoneList::of_node(&mut z), killed),
        AllocStep::WakeKswapd
    );
    assert_eq!(t.no_progress(), 0);
    assert_eq!(run_to(&mut t, &mut z, NOTHING, AllocStep::Oom), 17);
    assert_eq!(
        t.step(&mut ZoneList::of_node(&mut z), NOTHING),
        AllocStep::Fail
    );
}

#[test]
fn zones_that_could_not_help_even_if_emptied_shorten_it() {
    // 1000 + 24 is not above 1024.
    let mut t = AllocTask::new(0, AllocFlags::USER);
    assert_eq!(
        run_to(&mut t, &mut zone(1000, 24), NOTHING, AllocStep::Oom),
        1
    );
    let mut t = AllocTask::new(0, AllocFlags::USER);
    assert_eq!(
        run_to(&mut t, &mut zone(1000, 25), NOTHING, AllocStep::Oom),
        17
    );
}

#[test]
fn any_progress_prevents_oom() {
    let mut z = zone(1000, 50_000);
    let mut t = AllocTask::new(3, AllocFlags::USER);
    let progress = AllocInput {
        progress: 1,
        ..NOTHING
    };
    let steps: Vec<_> = (0..600)
        .map(|_| t.step(&mut ZoneList::of_node(&mut z), progress))
        .collect();
    assert!(!steps.contains(&AllocStep::Oom) && t.no_progress() == 0);
    // Each round: reclaim, drain, wake.
    assert_eq!(
        steps[2..5],
        [
            AllocStep::DirectReclaim,
            AllocStep::DrainPcp,
            AllocStep::WakeKswapd
        ]
    );
}

#[test]
fn drained_pages_are_tried() {
    let mut z = zone(1024, 100);
    z[0].pcp = 1;
    let mut t = AllocTask::new(0, AllocFlags::USER);
    let progress = AllocInput {
        progress: 1,
        ..NOTHING
    };
    run_to(&mut t, &mut z, progress, AllocStep::DrainPcp);
    z[0].drain_pcp();
    assert_eq!(
        t.step(&mut ZoneList::of_node(&mut z), progress),
        AllocStep::Got(0)
    );
    assert_eq!(z[0].free, 1024);
}

#[test]
fn highatomic_reserve_is_the_last_resort() {
    let mut z = zone(1200, 50_000);
    z[0].highatomic = 512;
    let mut t = AllocTask::new(0, AllocFlags::USER);
    let mut reclaims = 0;
    loop {
        match t.step(&mut ZoneList::of_node(&mut z), NOTHING) {
            AllocStep::Got(0) => break,
            AllocStep::DirectReclaim => reclaims += 1,
            step => assert_eq!(step, AllocStep::WakeKswapd),
        }
    }
    assert_eq!((reclaims, z[0].highatomic), (17, 0));
}

#[test]
fn who_fails_and_who_waits() {
    let fails_after = |order, flags| {
        let mut t = AllocTask::new(order, flags);
        run_to(&mut t, &mut zone(100, 50_000), NOTHING, AllocStep::Fail)
    };
    let user = AllocFlags::USER;
    assert_eq!(fails_after(0, AllocFlags::ATOMIC), 0);
    assert_eq!(
        fails_after(
            0,
            AllocFlags {
                noretry: true,
                ..user
            }
        ),
        1
    );
    assert_eq!(fails_after(4, user), 1);
    assert_eq!(
        fails_after(
            4,
            AllocFlags {
                retry_mayfail: true,
                ..user
            }
        ),
        17
    );
    assert_eq!(
        fails_after(
            0,
            AllocFlags {
                this_node: true,
                ..user
            }
        ),
        17
    );
    // Without permission to enter file systems it goes round and round.
    let mut t = AllocTask::new(0, AllocFlags { fs: false, ..user });
    let mut z = zone(100, 0);
    for _ in 0..200 {
        let step = t.step(&mut ZoneList::of_node(&mut z), NOTHING);
        assert!(matches!(
            step,
            AllocStep::WakeKswapd | AllocStep::DirectReclaim
        ));
    }
    let mut t = AllocTask::new(0, user);
    let busy = AllocInput {
        oom_busy: true,
        ..NOTHING
    };
    assert_eq!(
        run_to(&mut t, &mut zone(100, 0), busy, AllocStep::SleepTick),
        1
    );
    assert_eq!(t.no_progress(), 0);
}

#[test]
fn reserves_by_rank() {
    let reclaimer = AllocFlags {
        reclaimer: true,
        ..AllocFlags::USER
    };
    let mut z = zone(1, 0);
    let mut t = AllocTask::new(0, reclaimer);
    let steps: Vec<_> = (0..3)
        .map(|_| t.step(&mut ZoneList::of_node(&mut z), NOTHING))
        .collect();
    assert_eq!(
        steps,
        [
            AllocStep::WakeKswapd,
            AllocStep::WakeKswapd,
            AllocStep::Got(0)
        ]
    );
    let mut t = AllocTask::new(0, reclaimer);
    assert_eq!(run_to(&mut t, &mut z, NOTHING, AllocStep::Fail), 0);
    // Atomic: 3/8 of min. A victim: half of min.
    let second = |flags, free, input| {
        let (mut t, mut z) = (AllocTask::new(0, flags), zone(free, 0));
        t.step(&mut ZoneList::of_node(&mut z), input);
        t.step(&mut ZoneList::of_node(&mut z), input)
    };
    assert_eq!(second(AllocFlags::ATOMIC, 385, NOTHING), AllocStep::Got(0));
    assert_eq!(
        second(AllocFlags::ATOMIC, 384, NOTHING),
        AllocStep::WakeKswapd
    );
    let victim = AllocInput {
        oom_victim: true,
        ..NOTHING
    };
    assert_eq!(second(AllocFlags::USER, 513, victim), AllocStep::Got(0));
    assert_eq!(
        second(AllocFlags::USER, 513, NOTHING),
        AllocStep::WakeKswapd
    );
}

#[test]
fn zonelist_order_and_class() {
    let movable = Zone {
        class: ZoneClass::Movable,
        ..zone(5000, 0)[0].clone()
    };
    let mut z = [zone(5000, 0)[0].clone(), movable];
    let mut got = |flags| AllocTask::new(0, flags).step(&mut ZoneList::of_node(&mut z), NOTHING);
    assert_eq!(got(AllocFlags::USER), AllocStep::Got(1));
    assert_eq!(got(AllocFlags::KERNEL), AllocStep::Got(0));
}

proptest! {
    /// Without progress from anybody every request comes to an end or to the OOM killer.
    #[test]
    fn no_endless_loop(
        order in 0u32..6, free in 0u64..2000, reclaimable in 0u64..5000, high: bool,
        noretry: bool, retry_mayfail: bool, can_block: bool, reclaimer: bool, atomic in 0u64..2000,
    ) {
        let flags = AllocFlags { high, noretry, retry_mayfail, can_block, reclaimer, ..AllocFlags::USER };
        let mut z = zone(free, reclaimable);
        z[0].highatomic = atomic;
        let mut t = AllocTask::new(order, flags);
        let mut ended = false;
        for _ in 0..200 {
            ended = matches!(
                t.step(&mut ZoneList::of_node(&mut z), NOTHING),
                AllocStep::Got(_) | AllocStep::Fail | AllocStep::Oom
            );
            if ended { break; }
        }
        prop_assert!(ended);
        prop_assert!(z[0].free == free || z[0].free + (1 << order) == free);
    }
}
