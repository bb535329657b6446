//! How a page that comes back wrong from a file is noticed: by a checksum of each slot, or, with
//! encryption, by its tag. Both are kept in memory only, so that nobody who can write to the file can
//! make them fit: an older page of the same slot, a page of another one or of another pool does not.
//!
//! Compressed memory has none: what damages it damages the rest of the program's memory as well.

use crate::sys::memory::Table;
use crate::sys::PAGE;
use aes_gcm::aead::AeadInPlace;
use aes_gcm::{Aes256Gcm, KeyInit, Nonce, Tag};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use twox_hash::XxHash3_64;
use zeroize::Zeroizing;

/// What is known of each slot.
pub struct Seals(Kind);

enum Kind {
    /// XXH3 of contents and slot, with a seed of the pool's.
    Sum { sums: Table<AtomicU64>, seed: u64 },
    /// AES-256-GCM.
    Tag {
        /// Three words a slot: the number of the encryption, which is the nonce, and the tag.
        tags: Table<AtomicU64>,
        /// Its key lives as long as the pool and is overwritten then.
        cipher: Box<Aes256Gcm>,
        /// Encryptions so far: no nonce is used twice with a key.
        count: AtomicU64,
    },
}

impl std::fmt::Debug for Seals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seals").finish_non_exhaustive()
    }
}

fn random<const N: usize>() -> io::Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut *bytes)?;
    Ok(bytes)
}

impl Seals {
    /// Checksums for `slots` slots: 8 bytes each, as far as used.
    ///
    /// # Errors
    /// Address space; no random numbers.
    pub fn checksums(slots: u32) -> io::Result<Self> {
        let seed = u64::from_ne_bytes(*random()?);
        let sums = Table::new(slots as usize)?;
        Ok(Self(Kind::Sum { sums, seed }))
    }

    /// Encryption of `slots` slots with a new key: 24 bytes each, as far as used.
    ///
    /// # Errors
    /// Address space; no random numbers.
    pub fn encryption(slots: u32) -> io::Result<Self> {
        let key = random::<32>()?;
        Ok(Self(Kind::Tag {
            tags: Table::new(slots as usize * 3)?,
            cipher: Box::new(Aes256Gcm::new((&*key).into())),
            count: AtomicU64::new(0),
        }))
    }

    /// Bytes of a slot that is used.
    pub fn bytes_a_slot(&self) -> u64 {
        match &self.0 {
            Kind::Sum { .. } => 8,
            Kind::Tag { .. } => 24,
        }
    }

    /// Notes what is about to be written to a slot; encrypts it.
    pub fn seal(&self, slot: u32, page: &mut [u8]) {
        debug_assert_eq!(page.len(), PAGE);
        match &self.0 {
            Kind::Sum { sums, seed } => sums[slot as usize].store(sum(*seed, slot, page), Relaxed),
            Kind::Tag {
                tags,
                cipher,
                count,
            } => {
                let number = count.fetch_add(1, Relaxed);
                let tag = cipher
                    .encrypt_in_place_detached(&nonce(number, slot), b"", page)
                    .expect("a page is shorter than what a nonce is good for");
                let at = slot as usize * 3;
                tags[at].store(number, Relaxed);
                for (word, half) in tags[at + 1..at + 3].iter().zip(tag.chunks_exact(8)) {
                    word.store(
                        u64::from_ne_bytes(half.try_into().expect("8 bytes")),
                        Relaxed,
                    );
                }
            }
        }
    }

    /// Makes sure that this is what was written to the slot last; decrypts it.
    ///
    /// # Errors
    /// It is not; what the page holds then is undefined.
    pub fn open(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        let (good, what) = match &self.0 {
            Kind::Sum { sums, seed } => {
                let good = sums[slot as usize].load(Relaxed) == sum(*seed, slot, page);
                (good, "checksum")
            }
            Kind::Tag { tags, cipher, .. } => {
                let at = slot as usize * 3;
                let mut tag = Tag::default();
                for (word, half) in tags[at + 1..at + 3].iter().zip(tag.chunks_exact_mut(8)) {
                    half.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
                }
                let nonce = nonce(tags[at].load(Relaxed), slot);
                let done = cipher.decrypt_in_place_detached(&nonce, b"", page, &tag);
                (done.is_ok(), "authentication tag")
            }
        };
        if good {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "swap slot {slot}: contents do not match their {what}: the swap file has been changed by \
                 somebody else, or its device is damaged; the page is lost"
            ),
        ))
    }
}

fn sum(seed: u64, slot: u32, page: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed.wrapping_add(slot.into()), page)
}

/// The number alone makes it unique.
fn nonce(number: u64, slot: u32) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&slot.to_le_bytes());
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another slot's page, an older one of the same slot, one of another pool, and any bit that is not
    /// as it was are noticed; what was written is not.
    #[test]
    #[cfg_attr(miri, ignore = "encryption takes minutes there")]
    fn what_was_not_written_is_noticed() {
        let both = [Seals::checksums, Seals::encryption];
        for make in both {
            let (s, other) = (make(8).unwrap(), make(8).unwrap());
            let plain = |v: u8| -> Vec<u8> { (0..PAGE).map(|i| i as u8 ^ v).collect() };
            let sealed = |s: &Seals, slot, v| {
                let mut page = plain(v);
                s.seal(slot, &mut page);
                page
            };
            let opens = |s: &Seals, slot, page: &[u8]| s.open(slot, &mut page.to_vec());
            let (old, three) = (sealed(&s, 2, 1), sealed(&s, 3, 7));
            opens(&s, 2, &old).unwrap();
            let new = sealed(&s, 2, 7);
            let foreign = sealed(&other, 2, 7);
            let mut back = new.clone();
            s.open(2, &mut back).unwrap();
            assert_eq!(back, plain(7));
            for (what, page) in [("older", &old), ("zero", &vec![0; PAGE])] {
                let told = opens(&s, 2, page).unwrap_err().to_string();
                assert!(
                    told.contains("swap slot 2: contents do not match"),
                    "{what}: {told}"
                );
            }
            if matches!(s.0, Kind::Tag { .. }) {
                assert!(new != plain(7), "it is encrypted");
                // Same contents, and still another's.
                assert!(opens(&s, 2, &three).is_err());
                assert!(opens(&s, 2, &foreign).is_err());
            } else {
                assert!(other.0.sums() != s.0.sums(), "seeds and slots count");
                assert!(s.0.sums()[2] != s.0.sums()[3]);
            }
            for bit in (0..PAGE * 8).step_by(97) {
                let mut bad = new.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(opens(&s, 2, &bad).is_err(), "bit {bit}");
            }
        }
    }

    impl Kind {
        fn sums(&self) -> Vec<u64> {
            match self {
                Kind::Sum { sums, .. } => sums.iter().map(|s| s.load(Relaxed)).collect(),
                Kind::Tag { .. } => Vec::new(),
            }
        }
    }

    /// NIST's test vector for AES-256-GCM of zeroes would be the crate's to test; ours is that a nonce is
    /// never used again.
    #[test]
    #[cfg_attr(miri, ignore = "encryption takes minutes there")]
    fn no_two_encryptions_are_alike() {
        let s = Seals::encryption(2).unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..100 {
            let mut page = vec![0; PAGE];
            s.seal(1, &mut page);
            assert!(seen.insert(page), "the same key stream again");
        }
    }
}
