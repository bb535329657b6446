//! Damage: to the bytes of an input, and to how it is packed.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::Write;
use std::sync::OnceLock;

/// Numbers at the borders of what a field can hold.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    (1 << 20) - 1,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 44,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// A source of damage; the same seed does the same.
pub struct Mutator(Xoshiro256PlusPlus);

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn number(&mut self) -> u64 {
        NUMBERS[self.below(NUMBERS.len())]
    }

    /// A range of `bytes`, mostly short.
    fn range(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(bytes.len());
        let most = (bytes.len() - start).min(if self.one_in(4) { usize::MAX } else { 64 });
        start..start + 1 + self.below(most)
    }

    /// Damages `bytes` in one to four ways: one is what readers notice least.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        let ways = [1, 1, 1, 1, 2, 2, 3, 4][self.below(8)];
        for _ in 0..ways {
            if bytes.is_empty() {
                return;
            }
            self.once(bytes);
        }
    }

    fn once(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(12) {
            0 | 1 => bytes[at] ^= 1 << self.below(8),
            2 => bytes[at] = self.0.next_u32() as u8,
            3 | 10 | 11 => {
                // A field of a record, of either byte order; mostly where fields begin.
                let number = self.number();
                let width = [1, 2, 4, 4, 8][self.below(5)];
                let at = if self.one_in(4) {
                    at
                } else {
                    at / width * width
                };
                let bytes_of = if self.one_in(3) {
                    number.to_be_bytes()[8 - width..].to_vec()
                } else {
                    number.to_le_bytes()[..width].to_vec()
                };
                for (to, from) in bytes[at..].iter_mut().zip(bytes_of) {
                    *to = from;
                }
            }
            4 => {
                // A number of seven-bit groups.
                let (mut number, mut groups) = (self.number(), Vec::new());
                while number >= 0x80 {
                    groups.push(number as u8 | 0x80);
                    number >>= 7;
                }
                groups.push(number as u8);
                let old = bytes[at..].iter().take_while(|&&b| b >= 0x80).count() + 1;
                let end = (at + old).min(bytes.len());
                bytes.splice(at..end, groups);
            }
            5 | 6 => {
                // A number in text, the one here or the next.
                let digits = |b: &u8| b.is_ascii_digit();
                let Some(start) = bytes[at..].iter().position(digits).map(|n| at + n) else {
                    return;
                };
                let len = bytes[start..].iter().take_while(|b| digits(b)).count();
                let number = self.number();
                let text = match self.below(4) {
                    0 => format!("{number:x}"),
                    1 => format!("{number}0000000000"),
                    _ => number.to_string(),
                };
                bytes.splice(start..start + len, text.into_bytes());
            }
            7 => bytes.truncate(at),
            8 => drop(bytes.drain(self.range(bytes))),
            _ => {
                let range = self.range(bytes);
                let copy = bytes[range.clone()].to_vec();
                let times = if copy.len() <= 64 && self.one_in(4) {
                    200
                } else {
                    1
                };
                let to = if self.one_in(2) { range.start } else { at };
                let more: Vec<u8> = std::iter::repeat_n(copy, times).flatten().collect();
                bytes.splice(to..to, more);
            }
        }
    }

    /// Packs `bytes` in some way, and sometimes damages what comes out or lets zeroes follow that
    /// nobody has.
    pub fn pack(&mut self, bytes: &[u8], how: Option<Packing>) -> Vec<u8> {
        let all = [Packing::Plain, Packing::Gzip, Packing::Zstd, Packing::Xz];
        let how = how.unwrap_or_else(|| all[self.below(4)]);
        let mut packed = how.pack(bytes);
        match self.below(8) {
            0 => self.damage(&mut packed),
            1 => packed.extend_from_slice(zeroes(how)),
            _ => {}
        }
        packed
    }
}

/// Ways to pack an input.
#[derive(Clone, Copy, Debug)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
    Xz,
}

impl Packing {
    pub fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => bytes.to_vec(),
            Self::Gzip => {
                let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                to.write_all(bytes).expect("memory");
                to.finish().expect("memory")
            }
            Self::Zstd => {
                let mut to = zstd::Encoder::new(Vec::new(), 1).expect("memory");
                to.include_checksum(true).expect("before the first byte");
                to.write_all(bytes).expect("memory");
                to.finish().expect("memory")
            }
            Self::Xz => {
                let mut to = liblzma::write::XzEncoder::new(Vec::new(), 0);
                to.write_all(bytes).expect("memory");
                to.finish().expect("memory")
            }
        }
    }
}

/// Zeroes of 1 GiB, packed (unpacked: of 1 MiB).
fn zeroes(how: Packing) -> &'static [u8] {
    static ALL: [OnceLock<Vec<u8>>; 4] = [const { OnceLock::new() }; 4];
    ALL[how as usize].get_or_init(|| match how {
        Packing::Plain => vec![0; 1 << 20],
        // A member, frame or stream for each 64 MiB: readers go on from one to the next.
        _ => how.pack(&vec![0; 64 << 20]).repeat(16),
    })
}
