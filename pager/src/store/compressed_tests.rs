use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

const NEVER: Codec = Codec::Lz4ThenZstd(Duration::from_secs(1 << 30));

/// All of them; Miri runs no Zstandard, which is in C.
fn codecs() -> Vec<Codec> {
    match cfg!(miri) {
        true => vec![Codec::Lz4],
        false => vec![Codec::Lz4, Codec::Zstd, NEVER],
    }
}

fn noise(seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    (0..PAGE)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

/// Words of a small vocabulary: LZ4 halves it, Zstandard does better.
fn text(seed: u64) -> Vec<u8> {
    let random = noise(seed);
    let words = [
        "page ", "folio ", "reclaim ", "memory ", "budget ", "cold ", "set ", "the ",
    ];
    let chosen = random
        .iter()
        .flat_map(|&r| words[usize::from(r % 8)].bytes());
    chosen.take(PAGE).collect()
}

/// Mostly noise: hardly worth it for either.
fn dense(seed: u64) -> Vec<u8> {
    let mut p = noise(seed);
    p[..600].fill(0);
    p
}

fn page_of(kind: u8, seed: u64) -> Vec<u8> {
    match kind % 5 {
        0 => noise(seed),
        1 => text(seed),
        2 => dense(seed),
        3 => vec![seed as u8; PAGE],
        _ => {
            let mut p = vec![0; PAGE];
            p[seed as usize % PAGE] = 1;
            p
        }
    }
}

/// The counters, counted once more from the entries.
fn audit(c: &Compressed) -> Tiers {
    let was = c.tiers();
    let mut t = Tiers {
        recompressed: was.recompressed,
        saved_bytes: was.saved_bytes,
        not_smaller: was.not_smaller,
        ..Tiers::default()
    };
    for slot in 0..c.entries.len() as u32 {
        t.count(c.entry(slot), 1);
        t.same_pages += u64::from(c.entry(slot) == Entry::Same);
    }
    t
}

#[test]
fn pages_come_back_as_they_were() {
    for codec in codecs() {
        let c = Compressed::new(8, 1 << 20, codec).unwrap();
        let mut scratch = vec![0; SCRATCH];
        let pages = [vec![0; PAGE], vec![0xAB; PAGE], text(5), noise(7), dense(9)];
        for (i, p) in pages.iter().enumerate() {
            c.put(i as u32, p, &mut scratch, Grow::Freely).unwrap();
        }
        let mut back = vec![1; PAGE];
        for (i, p) in pages.iter().enumerate() {
            c.get(i as u32, &mut back, &mut scratch).unwrap();
            assert_eq!(&back, p, "page {i}");
        }
        assert!(c.bytes() > 0);
        assert_eq!(c.tiers().same_pages, 2);
        (0..5).for_each(|i| c.remove(i));
        assert_eq!(c.bytes(), 0);
        assert!(c.get(1, &mut back, &mut scratch).is_err());
        assert_eq!(c.tiers(), Tiers::default());
    }
}

#[test]
fn a_full_store_says_so_and_forgets_nothing_else() {
    let c = Compressed::new(64, 2 * CHUNK as u64, Codec::Lz4).unwrap();
    let mut scratch = vec![0; SCRATCH];
    let stored = (0..64)
        .take_while(|&i| {
            c.put(i, &noise(u64::from(i) + 1), &mut scratch, Grow::Freely)
                .is_ok()
        })
        .count();
    assert_eq!(stored, 32, "two chunks of sixteen raw pages");
    let mut back = vec![0; PAGE];
    for i in 0..32 {
        c.get(i, &mut back, &mut scratch).unwrap();
        assert_eq!(back, noise(u64::from(i) + 1));
    }
}

/// Oldest first, only what gets smaller, and memory comes back.
#[test]
#[cfg_attr(miri, ignore = "Zstandard is in C")]
fn recompression_saves_memory_and_says_how_much() {
    let c = Compressed::new(1024, 8 << 20, Codec::Lz4ThenZstd(Duration::ZERO)).unwrap();
    let mut scratch = vec![0; SCRATCH];
    for i in 0..600u32 {
        c.put(
            i,
            &page_of((i % 3) as u8, i.into()),
            &mut scratch,
            Grow::Freely,
        )
        .unwrap();
    }
    let (before, memory) = (c.tiers(), c.bytes());
    assert_eq!((before.raw_pages, before.lz4_pages), (200, 400));
    assert_eq!(
        c.recompress(Duration::from_secs(1000), &mut || true),
        Recompressed::Nothing
    );
    while c.recompress(Duration::ZERO, &mut || true) == Recompressed::Page {}
    let after = c.tiers();
    assert_eq!(after.recompressed, 200, "text: {after:?}");
    assert_eq!(after.not_smaller, 400, "noise, all of it or most");
    let pages = (after.raw_pages, after.lz4_pages, after.zstd_pages);
    assert_eq!(pages, (200, 200, 200));
    assert_eq!(before.bytes() - after.bytes(), after.saved_bytes);
    assert!(c.bytes() < memory, "{} of {memory}", c.bytes());
    assert_eq!(after, audit(&c));
    let mut back = vec![0; PAGE];
    for i in 0..600u32 {
        c.get(i, &mut back, &mut scratch).unwrap();
        assert_eq!(back, page_of((i % 3) as u8, i.into()), "page {i}");
    }
}

/// A store that is full of its first tier still has room to recompress.
#[test]
#[cfg_attr(miri, ignore = "Zstandard is in C")]
fn a_crowded_store_makes_room() {
    let limit = 16 * CHUNK as u64;
    let c = Compressed::new(4096, limit, NEVER).unwrap();
    let mut scratch = vec![0; SCRATCH];
    let fill = |from: u32, scratch: &mut [u8]| {
        (from..4096)
            .take_while(|&i| c.put(i, &text(i.into()), scratch, Grow::Freely).is_ok())
            .count() as u32
    };
    let first = fill(0, &mut scratch);
    assert!(c.crowded() && c.bytes() <= limit - limit / 8);
    while c.recompress(Duration::ZERO, &mut || true) == Recompressed::Page {
        assert!(c.bytes() <= limit);
    }
    assert!(!c.crowded());
    let second = fill(first, &mut scratch);
    assert!(second > first / 16, "{first} pages, then {second}");
    assert!(c.bytes() <= limit);
}

/// Owners put, get and remove while another thread recompresses all the time.
#[test]
#[cfg_attr(miri, ignore = "Zstandard is in C")]
fn contents_survive_concurrent_recompression() {
    const EACH: u32 = 64;
    let c = Compressed::new(3 * EACH, 64 << 20, NEVER).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let (c, stop) = (&c, &stop);
        let owners: Vec<_> = (0..3u32)
            .map(|t| {
                s.spawn(move || {
                    let mut scratch = vec![0; SCRATCH];
                    let mut back = vec![0; PAGE];
                    let mut held: Vec<Option<u64>> = vec![None; EACH as usize];
                    let mut x = u64::from(t) * 7919 + 1;
                    for n in 0..30_000u64 {
                        x = x
                            .wrapping_mul(6364136223846793005)
                            .wrapping_add(1442695040888963407);
                        let i = (x >> 33) as usize % EACH as usize;
                        let slot = t * EACH + i as u32;
                        match (x >> 20) % 4 {
                            0 => {
                                c.put(slot, &page_of((n % 5) as u8, n), &mut scratch, Grow::Freely)
                                    .unwrap();
                                held[i] = Some(n);
                            }
                            1 => {
                                c.remove(slot);
                                held[i] = None;
                            }
                            _ => match held[i] {
                                None => assert!(!c.has(slot)),
                                Some(n) => {
                                    c.get(slot, &mut back, &mut scratch).unwrap();
                                    assert!(back == page_of((n % 5) as u8, n), "slot {slot}");
                                }
                            },
                        }
                    }
                })
            })
            .collect();
        s.spawn(move || {
            while !stop.load(Relaxed) {
                if c.recompress(Duration::ZERO, &mut || true) != Recompressed::Page {
                    std::thread::yield_now();
                }
            }
        });
        let done: Vec<_> = owners.into_iter().map(|o| o.join()).collect();
        stop.store(true, Relaxed);
        done.into_iter().for_each(|d| d.unwrap());
    });
    let t = c.tiers();
    assert!(t.recompressed > 0, "{t:?}");
    assert_eq!(t, audit(&c));
    (0..3 * EACH).for_each(|i| c.remove(i));
    assert_eq!((c.bytes(), c.tiers().bytes()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any sequence against a map: contents, counters, the limit.
    #[test]
    fn it_is_a_map(
        ops in prop::collection::vec((0u8..6, 0u32..48, any::<u8>(), 0u64..1000), 1..200),
        chunks in 1u64..24,
        codec in prop::sample::select(codecs()),
    ) {
        let limit = chunks * CHUNK as u64;
        let c = Compressed::new(48, limit, codec).unwrap();
        let mut scratch = vec![0; SCRATCH];
        let mut back = vec![0; PAGE];
        let mut oracle: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for (op, slot, kind, seed) in ops {
            match op {
                0..=2 => {
                    let page = page_of(kind, seed);
                    match c.put(slot, &page, &mut scratch, Grow::Freely) {
                        Ok(()) => drop(oracle.insert(slot, page)),
                        Err(e) => {
                            prop_assert_eq!(e.raw_os_error(), Some(libc::ENOSPC));
                            prop_assert!(c.bytes() + CHUNK as u64 > limit - c.reserve());
                            oracle.remove(&slot);
                        }
                    }
                }
                3 => {
                    c.remove(slot);
                    oracle.remove(&slot);
                }
                _ => {
                    let done = c.recompress(Duration::ZERO, &mut || true);
                    prop_assert!(codec == NEVER || done == Recompressed::Nothing);
                }
            }
            prop_assert!(c.bytes() <= limit);
            prop_assert_eq!(c.tiers(), audit(&c));
            prop_assert!(c.tiers().bytes() <= c.bytes());
            for slot in 0..48 {
                prop_assert_eq!(c.has(slot), oracle.contains_key(&slot));
            }
        }
        for (slot, page) in &oracle {
            c.get(*slot, &mut back, &mut scratch).unwrap();
            prop_assert!(&back == page, "slot {}", slot);
            c.remove(*slot);
        }
        prop_assert_eq!(c.bytes(), 0);
        prop_assert_eq!(c.tiers().bytes(), 0);
    }
}

/// Pages of many sizes, a batch at a time: each class of sizes has a chunk of its own, but no batch makes
/// the store grow by more than it frees.
#[test]
#[cfg_attr(miri, ignore = "Zstandard is in C")]
fn a_batch_takes_no_more_than_it_may() {
    let c = Compressed::new(4096, u64::MAX / 2, Codec::Zstd).unwrap();
    let mut scratch = vec![0; SCRATCH];
    let mut kept = Vec::new();
    let mut slot = 0;
    for batch in 0..64u64 {
        let (before, mut chunks) = (c.bytes(), 1..=1);
        let mut chunk = || chunks.next().is_some();
        for i in 0..16u64 {
            let mut page = noise(batch * 16 + i + 1);
            page[..(batch * 7 + i * 11) as usize % 62 * 64].fill(0);
            if c.put(slot, &page, &mut scratch, Grow::Asking(&mut chunk))
                .is_ok()
            {
                kept.push((slot, page));
            }
            slot += 1;
        }
        assert!(c.bytes() <= before + CHUNK as u64, "batch {batch}");
    }
    assert!(kept.len() > 900, "{} of 1024", kept.len());
    let mut got = vec![0; PAGE];
    for (slot, page) in &kept {
        c.get(*slot, &mut got, &mut scratch).unwrap();
        assert_eq!(&got, page);
    }
    audit(&c);
}
