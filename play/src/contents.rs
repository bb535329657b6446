//! What the pages of a trace hold.

use crate::sys::PAGE;

/// Byte 0 of a page: never 0, which is what a page that was lost would hold.
#[inline]
pub(crate) fn stamp(object: u8, page: u32) -> u8 {
    (mixed(object, page) >> 56) as u8 | 1
}

fn mixed(object: u8, page: u32) -> u64 {
    (u64::from(object) << 32 | u64::from(page)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Words that do not compress, of a page of which zram is to keep what it keeps of an ordinary one: with lz4, 1 / 2.63 of it
/// ("Zram Performance Analysis", notes.xeome.dev/notes/Zram), as in the lab.
const WORDS: usize = PAGE * 100 / 263 / 8;

/// What anonymous memory holds after its first word, but for zeros at its end. Zram would keep next to nothing of pages that
/// hold a byte, and leave programs more memory than their own contents do.
pub(crate) fn words(object: u8, page: u32) -> impl Iterator<Item = u64> {
    let mut word = mixed(object, page) | 1;
    (0..WORDS).map(move |_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_differ_and_no_word_comes_twice() {
        let words: Vec<u64> = (0..64).flat_map(|page| words(3, page)).collect();
        let different: BTreeSet<u64> = words.iter().copied().collect();
        assert_eq!((words.len(), different.len()), (64 * 194, 64 * 194));
    }
}
