//! Moments between two steps at which others may get in, and which tests make long.
//!
//! They lie where a page, a charge, a block or a slot passes from one thread to another, or from one book to the next.
//! There is nothing at such a moment but in tests of this crate, where the others have their turn, and with the feature
//! `plants`: `COLDSET_MEANWHILE=SEED` draws which of the moments of a process are long, and how; `SEED@miss/fill.rs` only of
//! those in one file.
//!
//! - A seed leaves half of them alone. If all were long, threads would meet as they do when none is.
//! - At each of the others a thread may spend a share of the time that has passed. So one that seldom comes is long each
//!   time, and one that always comes does not keep its thread from getting anywhere.
//! - Seeds differ in how long is long: what meets what takes from a microsecond (a compare-and-swap) to milliseconds (a loan,
//!   a write to a disk).
//! - A seed draws places in the code, not what threads do: the same seed finds the same bug again soon, not at once.

#[cfg(not(any(test, feature = "plants")))]
mod moment {
    /// Such a moment.
    #[inline(always)]
    pub(crate) const fn meanwhile() {}
}

#[cfg(any(test, feature = "plants"))]
mod moment {
    use std::cell::Cell;
    use std::panic::Location;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// Places told apart; more of them share what they may take.
    const PLACES: usize = 256;
    /// How long a long moment is at most, nanoseconds: one of these for all of a seed.
    const LONG_NS: [u64; 3] = [2_000_000, 10_000_000, 50_000_000];
    const SHORT_NS: u64 = 200_000;

    /// What there is at a place.
    #[derive(Clone, Copy)]
    enum Moment {
        Nothing,
        /// Others have their turn.
        Turn,
        /// At most so many nanoseconds, and this share of the time that has passed.
        Pause(u64, u64),
    }

    thread_local! {
        /// Numbers drawn by this thread. Constant and without drop, as a miss comes as a signal.
        static DRAWN: Cell<u64> = const { Cell::new(0) };
        /// Nanoseconds that it has spent at each place.
        static SPENT: [Cell<u64>; PLACES] = const { [const { Cell::new(0) }; PLACES] };
    }

    struct Seeded {
        seed: u64,
        /// The end of the name of the only file with such moments; empty: of all.
        file: String,
        start: Instant,
        threads: AtomicU64,
    }

    fn seeded() -> Option<&'static Seeded> {
        static SEEDED: OnceLock<Option<Seeded>> = OnceLock::new();
        let read = || {
            let text = std::env::var("COLDSET_MEANWHILE").ok()?;
            let (seed, file) = text.split_once('@').unwrap_or((&text, ""));
            let Ok(seed) = seed.parse() else {
                panic!("COLDSET_MEANWHILE is {text:?}, not SEED or SEED@FILE");
            };
            Some(Seeded {
                seed,
                file: file.into(),
                start: Instant::now(),
                threads: AtomicU64::new(0),
            })
        };
        SEEDED.get_or_init(read).as_ref()
    }

    /// Such a moment.
    #[track_caller]
    pub(crate) fn meanwhile() {
        match seeded() {
            Some(seeded) => seeded.at(Location::caller()),
            None if cfg!(test) => std::thread::yield_now(),
            None => {}
        }
    }

    impl Seeded {
        fn at(&self, place: &Location<'_>) {
            let name = place.file().bytes();
            let file = name.fold(0, |h: u64, b| h.wrapping_mul(31).wrapping_add(b.into()));
            let key = mix(file << 32 | u64::from(place.line()) << 8 | u64::from(place.column()));
            let (most, share) = match self.moment(place, mix(self.seed ^ key)) {
                Moment::Nothing => return,
                Moment::Turn => {
                    if self.draw().is_multiple_of(2) {
                        std::thread::yield_now();
                    }
                    return;
                }
                Moment::Pause(most, share) => (most, share),
            };
            let ns = self.draw() % most;
            SPENT.with(|spent| {
                let spent = &spent[key as usize % PLACES];
                let may = self.start.elapsed().as_nanos() as u64 / share + most;
                if spent.get() + ns <= may {
                    spent.set(spent.get() + ns);
                    std::thread::sleep(Duration::from_nanos(ns));
                }
            });
        }

        fn moment(&self, place: &Location<'_>, drawn: u64) -> Moment {
            let long = LONG_NS[mix(self.seed) as usize % LONG_NS.len()];
            if !self.file.is_empty() {
                return match place.file().ends_with(&self.file) && drawn.is_multiple_of(4) {
                    true => Moment::Pause(long, 8),
                    false => Moment::Nothing,
                };
            }
            match drawn % 16 {
                0..8 => Moment::Nothing,
                8..13 => Moment::Turn,
                13..15 => Moment::Pause(SHORT_NS, 32),
                _ => Moment::Pause(long, 16),
            }
        }

        /// The next number of this thread.
        fn draw(&self) -> u64 {
            let before = match DRAWN.get() {
                0 => mix(self.seed ^ (self.threads.fetch_add(1, Relaxed) << 32)),
                before => before,
            };
            let next = before.wrapping_add(0x9E37_79B9_7F4A_7C15).max(1);
            DRAWN.set(next);
            mix(next)
        }
    }

    /// The last steps of SplitMix64.
    fn mix(z: u64) -> u64 {
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

pub(crate) use moment::meanwhile;
