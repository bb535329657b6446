//! What it costs to check a page of a swap file, and to encrypt it.

use crate::host::usage;
use coldset_pager::store::seal::Seals;
use coldset_pager::PAGE_SIZE;
use std::hint::black_box;

/// Slots of a round: more pages than the caches of a CPU hold.
const SLOTS: u32 = 16384;
const ROUNDS: usize = 5;

/// A line: medians, nanoseconds of CPU a page.
pub fn costs() -> std::io::Result<String> {
    let mut text =
        String::from("A page of a swap file, without the transfer, ns of CPU (medians):");
    for (name, seals) in [
        ("checksum", Seals::checksums(SLOTS)?),
        ("encryption", Seals::encryption(SLOTS)?),
    ] {
        let mut pages: Vec<u8> = (0..SLOTS as usize * PAGE_SIZE)
            .map(|i| (i * i) as u8)
            .collect();
        let (mut out, mut back) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            out.push(each(&mut pages, |slot, page| {
                seals.seal(slot, page);
                Ok(())
            })?);
            back.push(each(&mut pages, |slot, page| seals.open(slot, page))?);
        }
        out.sort_by(f64::total_cmp);
        back.sort_by(f64::total_cmp);
        let (out, back) = (out[ROUNDS / 2], back[ROUNDS / 2]);
        text += &format!(" {name} {out:.0} out and {back:.0} in;");
    }
    text.pop();
    Ok(text + ".")
}

fn each(
    pages: &mut [u8],
    mut work: impl FnMut(u32, &mut [u8]) -> std::io::Result<()>,
) -> std::io::Result<f64> {
    let (start, _) = usage();
    for (slot, page) in pages.chunks_exact_mut(PAGE_SIZE).enumerate() {
        work(slot as u32, black_box(page))?;
    }
    Ok((usage().0 - start) * 1e9 / f64::from(SLOTS))
}
