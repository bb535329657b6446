use super::*;
use crate::store::FileStorage;
use std::sync::atomic::AtomicBool;

/// Words of a small vocabulary, at random: LZ4 halves it, Zstandard does better.
fn text(x: &mut u64, page: &mut [u8]) {
    let words = [
        "page ", "folio ", "reclaim ", "memory ", "budget ", "cold ", "set ", "the ",
    ];
    let mut bytes = Vec::with_capacity(PAGE + 8);
    while bytes.len() < PAGE {
        bytes.extend_from_slice(words[below(x, 8) as usize].as_bytes());
    }
    page.copy_from_slice(&bytes[..PAGE]);
}

fn below(x: &mut u64, n: u64) -> u64 {
    *x = x
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*x >> 33) % n
}

/// Pages come and go in compressed memory of twice what Zstandard makes of them, which LZ4 alone would
/// overflow: none is refused, however the places for them are scattered, and each comes back as it was.
#[test]
#[cfg_attr(miri, ignore = "Zstandard is in C")]
fn no_page_is_refused_while_recompression_can_make_room() {
    const SLOTS: u32 = 4096;
    let codec = Codec::Lz4ThenZstd(Duration::from_secs(1 << 30));
    let memory = Compressed::new(SLOTS, 6 << 20, codec).unwrap();
    let swap = Swap::new(
        SLOTS,
        Some(memory),
        None,
        false,
        Room::new("swap", Duration::ZERO),
    )
    .unwrap();
    let mut buf = PageBuf::new(16).unwrap();
    let mut run = PageBuf::new(16).unwrap();
    let mut truth = vec![None; SLOTS as usize];
    let mut x = 7;
    for round in 0..8000 {
        let from = below(&mut x, u64::from(SLOTS) / 16) as u32 * 16;
        let mut puts = Vec::new();
        for i in 0..16 {
            text(&mut x, buf.page_mut(i));
            let slot = from + i as u32;
            if below(&mut x, 8) == 0 {
                swap.remove(slot);
                truth[slot as usize] = None;
            } else {
                truth[slot as usize] = Some(buf.page(i).to_vec());
                puts.push(Put {
                    slot,
                    at: i,
                    result: Ok(()),
                });
            }
        }
        swap.put_all(&mut puts, &buf, &mut run);
        let refused = puts.iter().filter(|p| p.result.is_err()).count();
        assert_eq!(refused, 0, "round {round}: {:?}", swap.tiers());
    }
    assert!(swap.tiers().recompressed > 0);
    for (slot, page) in truth.iter().enumerate() {
        let Some(page) = page else { continue };
        let scratch = run.bytes_mut();
        swap.get(slot as u32, buf.page_mut(0), scratch).unwrap();
        assert!(buf.page(0) == page, "slot {slot}");
    }
}

/// Pages of all sizes in batches of 16, with no file for those that find no place: none is refused, and a
/// batch makes compressed memory grow by what it frees and one chunk more, not by a chunk a size.
#[test]
fn a_batch_without_a_file_takes_a_chunk_more_at_most() {
    const BATCHES: u32 = 64;
    let memory = Compressed::new(16 * BATCHES, u64::MAX / 2, Codec::Lz4).unwrap();
    let swap = Swap::new(
        16 * BATCHES,
        Some(memory),
        None,
        false,
        Room::new("swap", Duration::ZERO),
    )
    .unwrap();
    let mut buf = PageBuf::new(16).unwrap();
    let mut run = PageBuf::new(16).unwrap();
    let mut x = 7;
    for batch in 0..BATCHES {
        let mut puts = Vec::new();
        for i in 0..16 {
            let page = buf.page_mut(i);
            page.fill(0);
            // The larger the later in one batch, so that no place before suits it; the smaller in the next.
            let part = if batch % 2 == 0 { i } else { 15 - i };
            let noise = &mut page[..64 + part * 256];
            noise.iter_mut().for_each(|b| *b = below(&mut x, 256) as u8);
            let (slot, result) = (batch * 16 + i as u32, Ok(()));
            puts.push(Put {
                slot,
                at: i,
                result,
            });
        }
        let before = swap.bytes();
        swap.put_all(&mut puts, &buf, &mut run);
        assert!(puts.iter().all(|p| p.result.is_ok()), "batch {batch}");
        let grown = swap.bytes() - before;
        assert!(grown <= 2 * CHUNK as u64, "batch {batch}: {grown} bytes");
    }
}

/// Owners put, get and remove while others send pages to the file, and to the second tier: each page comes back as it was, from
/// wherever it is.
#[test]
#[cfg_attr(miri, ignore = "it needs a file")]
fn contents_survive_going_to_the_file() {
    const EACH: u32 = 64;
    const OWNERS: u32 = 3;
    let slots = OWNERS * EACH;
    let codec = Codec::Lz4ThenZstd(Duration::from_secs(1 << 30));
    // The tables say so when it is full, and pages go to the file at once.
    let memory = Compressed::new(slots, 6 * CHUNK as u64, codec).unwrap();
    let file = FileStorage::temporary(u64::from(slots) * PAGE as u64).unwrap();
    let swap = Swap::new(
        slots,
        Some(memory),
        Some(Arc::new(file)),
        true,
        Room::new("swap", Duration::ZERO),
    )
    .unwrap();
    let stop = AtomicBool::new(false);
    let (spilled, oldest) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|s| {
        let (swap, stop, spilled, oldest) = (&swap, &stop, &spilled, &oldest);
        let enough = move || [spilled, oldest].iter().all(|n| n.load(Relaxed) > 1000);
        let owners: Vec<_> = (0..OWNERS)
            .map(|t| s.spawn(move || own(swap, t * EACH..(t + 1) * EACH, enough)))
            .collect();
        s.spawn(move || {
            let mut buf = PageBuf::new(8).unwrap();
            while !stop.load(Relaxed) {
                spilled.fetch_add(swap.spill() as u64, Relaxed);
                swap.evicted(64);
                // As if no other page were in memory: many are old enough.
                oldest.fetch_add(swap.spill_oldest(1, 0, &mut buf) as u64, Relaxed);
                std::thread::yield_now();
            }
        });
        s.spawn(move || {
            while !stop.load(Relaxed) {
                swap.recompress(Duration::ZERO, &mut || true);
                std::thread::yield_now();
            }
        });
        let done: Vec<_> = owners.into_iter().map(|o| o.join()).collect();
        stop.store(true, Relaxed);
        done.into_iter().for_each(|d| d.unwrap());
    });
    assert!(spilled.load(Relaxed) > 1000, "{spilled:?} {oldest:?}");
    assert!(oldest.load(Relaxed) > 1000, "{spilled:?} {oldest:?}");
    let t = swap.tiers();
    let pages = t.same_pages + t.raw_pages + t.lz4_pages + t.zstd_pages + t.file_pages;
    assert_eq!((swap.bytes(), t.bytes(), pages), (0, 0, 0), "{t:?}");
}

/// Pages go to the file in the order in which they were evicted last: for want of room as many as come, and without it
/// those after which as many have been evicted as are in memory, unless such pages have been missed.
#[test]
#[cfg_attr(miri, ignore = "it needs a file")]
fn the_oldest_go_to_the_file() {
    const SLOTS: u32 = 64;
    let memory = Compressed::new(SLOTS, u64::MAX / 2, Codec::Lz4).unwrap();
    let memory = memory.before_file(8).unwrap();
    let file = FileStorage::temporary(u64::from(SLOTS) * PAGE as u64).unwrap();
    let wait = Room::new("swap", Duration::ZERO);
    let swap = Swap::new(SLOTS, Some(memory), Some(Arc::new(file)), false, wait).unwrap();
    let mut buf = PageBuf::new(4).unwrap();
    let mut run = PageBuf::new(4).unwrap();
    let mut put = |slot: u32| {
        text(&mut (u64::from(slot) + 1), buf.page_mut(0));
        let (at, result) = (0, Ok(()));
        swap.put_all(&mut [Put { slot, at, result }], &buf, &mut run);
        swap.evicted(1);
    };
    let in_file = || -> Vec<u32> { (0..SLOTS).filter(|&s| swap.is_in_file(s)).collect() };
    let mut buffer = PageBuf::new(4).unwrap();
    (0..8).for_each(&mut put);
    swap.evicted_again(1);
    // Full: two have to go for two that come. The second has just been evicted again.
    assert_eq!(swap.spill_oldest(2, 100, &mut buffer), 2);
    assert_eq!(in_file(), [0, 2]);
    // Room for two. Of the six, the oldest has been away for five evictions, which is not more than seven...
    assert_eq!(swap.spill_oldest(2, 1, &mut buffer), 0);
    // ...and then for eight. The next will be as old in a moment.
    swap.evicted(3);
    assert_eq!(swap.spill_oldest(0, 1, &mut buffer), 1);
    assert_eq!(in_file(), [0, 2, 3]);
    // It is missed before twice as many have been evicted as there are: the five others stay for it.
    swap.evicted(3);
    assert!(swap.came_back_soon(3, 1));
    assert_eq!(swap.spill_oldest(0, 1, &mut buffer), 0);
    swap.evicted(6);
    assert_eq!(swap.spill_oldest(0, 1, &mut buffer), 0);
    // What comes back later is no reason.
    swap.evicted(1);
    assert!(!swap.came_back_soon(3, 1));
    assert_eq!(swap.spill_oldest(0, 1, &mut buffer), 4);
    assert_eq!(in_file(), [0, 2, 3, 4, 5, 6, 7]);
}

/// The page that is to go next is written anew each time, so that it stays: those behind it go nevertheless.
#[test]
#[cfg_attr(miri, ignore = "it needs a file")]
fn one_page_that_is_used_keeps_no_others_from_the_file() {
    const STILL: std::ops::Range<u32> = 0..64;
    const USED: u32 = STILL.end;
    let memory = Compressed::new(USED + 1, u64::MAX / 2, Codec::Lz4).unwrap();
    let file = FileStorage::temporary(u64::from(USED + 1) * PAGE as u64).unwrap();
    let wait = Room::new("swap", Duration::ZERO);
    let swap = Swap::new(USED + 1, Some(memory), Some(Arc::new(file)), false, wait).unwrap();
    let put = |slot, fill: &dyn Fn(&mut u64, &mut [u8])| {
        let mut buf = PageBuf::new(1).unwrap();
        let mut run = PageBuf::new(2).unwrap();
        fill(&mut (u64::from(slot) + 1), buf.page_mut(0));
        let (at, result) = (0, Ok(()));
        let mut puts = [Put { slot, at, result }];
        swap.put_all(&mut puts, &buf, &mut run);
        assert!(puts[0].result.is_ok());
    };
    // In chunks that are full, and so not the ones to begin with.
    let noise = |x: &mut u64, page: &mut [u8]| {
        page.iter_mut().for_each(|b| *b = below(x, 256) as u8);
    };
    STILL.for_each(|slot| put(slot, &noise));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) {
                put(USED, &text);
            }
        });
        let all_gone = || STILL.into_iter().all(|slot| swap.is_in_file(slot));
        let stuck = (0..500).any(|_| swap.spill() == 0 && !all_gone());
        stop.store(true, Relaxed);
        assert!(!stuck, "{:?}", swap.tiers());
    });
}

/// Who empties a slot as soon as its page is in the file finds a number of pages there that can be.
#[test]
#[cfg_attr(miri, ignore = "it needs a file")]
fn pages_of_the_file_are_counted_when_they_are_there() {
    let memory = Compressed::new(1, u64::MAX / 2, Codec::Lz4).unwrap();
    let file = FileStorage::temporary(PAGE as u64).unwrap();
    let wait = Room::new("swap", Duration::ZERO);
    let swap = Swap::new(1, Some(memory), Some(Arc::new(file)), false, wait).unwrap();
    let stop = AtomicBool::new(false);
    let most = std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) {
                swap.spill();
            }
        });
        let mut buf = PageBuf::new(1).unwrap();
        let mut run = PageBuf::new(2).unwrap();
        let mut most = 0;
        for _ in 0..1000 {
            text(&mut 7, buf.page_mut(0));
            let (slot, at, result) = (0, 0, Ok(()));
            swap.put_all(&mut [Put { slot, at, result }], &buf, &mut run);
            while !swap.is_in_file(0) {
                std::hint::spin_loop();
            }
            swap.remove(0);
            most = most.max(swap.tiers().file_pages);
        }
        stop.store(true, Relaxed);
        most
    });
    assert!(most <= 1, "{most} pages in the file");
}

/// Uses slots at random, two at a time, against a table of what they hold, until the others have done `enough` or it is for
/// ever; empties them at last.
fn own(swap: &Swap, slots: std::ops::Range<u32>, enough: impl Fn() -> bool) {
    let mut buf = PageBuf::new(2).unwrap();
    let mut run = PageBuf::new(2).unwrap();
    let mut held: Vec<Option<Vec<u8>>> = vec![None; slots.len()];
    let mut x = u64::from(slots.start) + 1;
    for step in 1..=600_000 {
        if step % 12_000 == 0 && enough() {
            break;
        }
        let i = below(&mut x, u64::from(slots.end - slots.start - 1)) as usize;
        let slot = slots.start + i as u32;
        match below(&mut x, 4) {
            0 => {
                let mut puts = Vec::new();
                for at in 0..2 {
                    text(&mut x, buf.page_mut(at));
                    if below(&mut x, 3) == 0 {
                        let noise = buf.page_mut(at).iter_mut();
                        noise.for_each(|b| *b = below(&mut x, 256) as u8);
                    }
                    held[i + at] = Some(buf.page(at).to_vec());
                    puts.push(Put {
                        slot: slot + at as u32,
                        at,
                        result: Ok(()),
                    });
                }
                swap.put_all(&mut puts, &buf, &mut run);
                assert!(puts.iter().all(|p| p.result.is_ok()));
            }
            1 => {
                swap.remove(slot);
                held[i] = None;
            }
            2 => swap.evicted_again(slot),
            _ => {
                let Some(page) = &held[i] else { continue };
                swap.get(slot, buf.page_mut(0), run.bytes_mut()).unwrap();
                assert!(buf.page(0) == page, "slot {slot}");
            }
        }
    }
    slots.for_each(|slot| swap.remove(slot));
}
