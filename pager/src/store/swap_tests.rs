use super::*;

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
fn no_page_is_refused_while_recompression_can_make_room() {
    const SLOTS: u32 = 4096;
    let codec = Codec::Lz4ThenZstd(Duration::from_secs(1 << 30));
    let memory = Compressed::new(SLOTS, 6 << 20, codec).unwrap();
    let swap = Swap::new(SLOTS, Some(memory), None, false, Duration::ZERO).unwrap();
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
    let swap = Swap::new(16 * BATCHES, Some(memory), None, false, Duration::ZERO).unwrap();
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
