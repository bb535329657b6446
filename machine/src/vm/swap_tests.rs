//! Read-ahead from swap (`machine-model.md` 7).

use crate::config::SwapConfig;
use crate::device::DeviceKind;
use crate::{Ctx, InlineClock, MachineConfig, MachineRun, MappingFlags};
use coldset_engine::presets::preset;
use coldset_engine::{Counter, MemcgId};

/// Pages of the process, and how many of them it may have.
const PAGES: u32 = 600;
const LIMIT: u64 = 300;

/// Sweeps three times over memory that does not fit. Major faults, pages read, read ahead, and hits.
fn sweep(swap: SwapConfig, most: u64, write: bool) -> [i64; 4] {
    let mut cfg = MachineConfig::new(preset("v5").unwrap());
    cfg.swap = swap;
    cfg.params.swap_readahead_max_pages = most;
    let mut run = MachineRun::new(&cfg).unwrap();
    let m = run.machine.clone();
    let memcg = m.world_mut().engine.memcg_create(MemcgId::ROOT).unwrap();
    let mm = m.create_mm(memcg);
    let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
    run.drive(&ctx, m.write_max(&ctx, memcg, LIMIT)).unwrap();
    let object = m.create_anon(PAGES);
    let map = m.mmap(mm, object, 0, PAGES, MappingFlags::empty());
    for sweep in 0..3 {
        for page in 0..PAGES {
            let store = write || sweep == 0;
            run.drive(&ctx, m.access(&ctx, map, page, store)).unwrap();
            let usage = m.world().engine.memcgs[memcg].memory().usage();
            assert!(usage <= LIMIT, "what is read ahead is charged: {usage}");
        }
        m.world().check();
    }
    let counters = [
        Counter::Pgmajfault,
        Counter::Pswpin,
        Counter::SwapRa,
        Counter::SwapRaHit,
    ];
    let got = counters.map(|c| m.world().engine.memcgs.live(memcg, c));
    m.exit_mm(&ctx, mm);
    let w = m.world();
    w.check();
    let s = w.swap().expect("swap");
    assert_eq!(s.free(), s.total(), "every slot is given back");
    got
}

fn disk() -> SwapConfig {
    SwapConfig::Disk {
        pages: 4096,
        device: DeviceKind::NvmeSwap,
    }
}

#[test]
fn a_sweep_finds_what_was_read_ahead() {
    for write in [false, true] {
        let [faults, read, ahead, hits] = sweep(disk(), 8, write);
        assert_eq!(
            read,
            faults + ahead,
            "a fault reads its page and those ahead"
        );
        // The block is aligned: what lies behind the fault is there already.
        assert!(8 * ahead > read, "{ahead} of {read} ahead");
        assert!(hits <= ahead && 2 * hits > ahead, "{hits} hits of {ahead}");
        let [alone, read, ahead, hits] = sweep(disk(), 1, write);
        assert_eq!((alone, ahead, hits), (read, 0, 0));
        assert!(faults < alone, "{faults} major faults against {alone}");
    }
}

/// What is read from a synchronous device comes alone.
#[test]
fn nothing_is_read_ahead_from_zram() {
    let zram = SwapConfig::Zram {
        pages: 4096,
        algorithm: "lz4".into(),
    };
    let [faults, read, ahead, hits] = sweep(zram, 8, true);
    assert!(faults > 0);
    assert_eq!((read, ahead, hits), (faults, 0, 0));
}
