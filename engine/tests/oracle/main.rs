//! Models of the rules with a structure of their own, compared with the engine through its public interface. The
//! truth (who is in memory, who was evicted, in what order) is kept outside of the engine.

mod classic;
mod generations;
mod host;
mod memcg_bins;
mod memcg_lru;
mod protection;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number of random size, below 2 to the power of `bits`.
    fn of_bits(&mut self, bits: u64) -> u64 {
        let bits = 1 + self.below(bits);
        self.below(1 << bits)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
