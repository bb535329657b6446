//! What memory and files must hold: versions of everything, in plain memory outside of the pager.
//!
//! Pages belong, by blocks of eight, to one thread, to all, or to nobody. A thread knows its own pages
//! word by word. On shared pages each thread has a word of its own, and all count in another; what one
//! reads of others lies between what had been stored before the load and what had been begun after
//! it. Wild pages of anonymous memory may be thrown away by anybody at any time.

use super::program::{BLOCK, THREADS};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// 8-byte words of a page.
pub const WORDS: usize = 512;
const TAG: usize = 0;
const VERSION: usize = 1;
const OWNER: usize = 2;
const MIX: usize = 3;
/// The first thread's word.
const THREAD: usize = 8;
/// The word all count in.
pub const COUNTER: usize = 16;
const BODY: usize = 24;

/// Reads a word of a page.
pub type Look<'a> = &'a dyn Fn(usize) -> u64;

/// Whose is a page?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Own(usize),
    Shared,
    Wild,
}

/// What is known of a page.
#[derive(Debug, Default)]
struct Page {
    /// The owner's version: what is there (0: zeroes), and the latest that was begun.
    full: AtomicU32,
    full_begun: AtomicU32,
    words: [AtomicU32; THREADS],
    words_begun: [AtomicU32; THREADS],
    counted: AtomicU32,
    count_begun: AtomicU32,
    discards_begun: AtomicU32,
    discards_done: AtomicU32,
    /// Discards that were over when the thread began to store its word.
    over_at_store: [AtomicU32; THREADS],
}

/// What had been stored before a look at a page began.
#[derive(Clone, Debug)]
pub struct Before {
    full: u32,
    words: [u32; THREADS],
    counted: u32,
}

/// What a region must hold.
#[derive(Debug)]
pub struct Truth {
    /// Tells regions, and generations of a region, from each other.
    uid: u64,
    threads: usize,
    anonymous: bool,
    /// Bytes.
    len: usize,
    pages: Vec<Page>,
}

fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

impl Truth {
    pub fn new(uid: u64, threads: usize, anonymous: bool, len: usize) -> Self {
        let pages = len.div_ceil(WORDS * 8);
        Self {
            uid,
            threads,
            anonymous,
            len,
            pages: (0..pages).map(|_| Page::default()).collect(),
        }
    }

    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Words of a page that are the region's.
    fn words_of(&self, page: usize) -> usize {
        WORDS.min((self.len - page * WORDS * 8) / 8)
    }

    pub fn class(&self, page: usize) -> Class {
        if self.words_of(page) < WORDS {
            return Class::Shared;
        }
        match page / BLOCK % (self.threads + 2) {
            0 => Class::Shared,
            1 => Class::Wild,
            n => Class::Own(n - 2),
        }
    }

    /// Pages that only their owner looks at.
    pub fn hidden(&self, page: usize) -> bool {
        matches!(self.class(page), Class::Own(_)) && page % BLOCK >= BLOCK - 2
    }

    /// The first pages of the blocks that are wholly of a class.
    pub fn blocks(&self, class: Class) -> Vec<usize> {
        (0..self.pages() / BLOCK)
            .map(|b| b * BLOCK)
            .filter(|&p| self.class(p) == class && self.class(p + BLOCK - 1) == class)
            .collect()
    }

    // ------------------------------------------------------------ what is stored

    /// A word of the owner's store of a page.
    fn pattern(&self, page: usize, version: u32, word: usize) -> u64 {
        let Class::Own(owner) = self.class(page) else {
            return 0;
        };
        let tag = self.uid << 32 | page as u64;
        let seed = mix(tag, u64::from(version) << 8 | owner as u64);
        match word {
            _ if version == 0 => 0,
            TAG => tag,
            VERSION => version.into(),
            OWNER => owner as u64,
            MIX => seed,
            BODY.. => match (page + version as usize) % 4 {
                // Incompressible, compressible, one word, zeroes.
                0 | 1 => mix(seed, word as u64),
                2 => mix(seed, word as u64 / 32),
                _ => 0,
            },
            _ => 0,
        }
    }

    /// The word that a thread stores on pages that are not all its own (and on its own).
    fn stamp(&self, page: usize, t: usize, version: u32) -> u64 {
        if version == 0 {
            return 0;
        }
        u64::from(version) << 40
            | (self.uid & 0xf_ffff) << 20
            | (page as u64 & 0xffff) << 4
            | t as u64
    }

    /// The owner stores a page: all but the words of threads.
    pub fn store_full(&self, page: usize, store: &mut dyn FnMut(usize, u64)) {
        let version = self.begin_full(page);
        for w in (0..THREAD).chain(BODY..WORDS) {
            store(w, self.pattern(page, version, w));
        }
        self.end_full(page, version);
    }

    pub fn begin_full(&self, page: usize) -> u32 {
        self.pages[page].full_begun.fetch_add(1, SeqCst) + 1
    }

    pub fn end_full(&self, page: usize, version: u32) {
        self.pages[page].full.store(version, SeqCst);
    }

    /// Bytes of one of the owner's pages as they would be with another version.
    pub fn bytes_of(&self, page: usize, t: usize, version: u32) -> Vec<u8> {
        let word = self.pages[page].words[t].load(SeqCst);
        (0..WORDS)
            .flat_map(|w| {
                let value = match w {
                    w if w == THREAD + t => self.stamp(page, t, word),
                    w => self.pattern(page, version, w),
                };
                value.to_ne_bytes()
            })
            .collect()
    }

    /// A thread stores its word.
    pub fn store_word(&self, page: usize, t: usize, store: &mut dyn FnMut(usize, u64)) {
        let p = &self.pages[page];
        let version = p.words_begun[t].fetch_add(1, SeqCst) + 1;
        p.over_at_store[t].store(p.discards_done.load(SeqCst), SeqCst);
        store(THREAD + t, self.stamp(page, t, version));
        p.words[t].store(version, SeqCst);
    }

    /// Counts in the word that all count in.
    pub fn count(&self, page: usize, add: &mut dyn FnMut(usize)) {
        let p = &self.pages[page];
        p.count_begun.fetch_add(1, SeqCst);
        add(COUNTER);
        p.counted.fetch_add(1, SeqCst);
    }

    /// What has been stored of a thread's word since then did not get to the file, and is gone.
    pub fn take_back_word(&self, page: usize, t: usize, to: &Before) {
        self.pages[page].words[t].store(to.words[t], SeqCst);
    }

    pub fn discard_begins(&self, page: usize) {
        self.pages[page].discards_begun.fetch_add(1, SeqCst);
    }

    /// The page has been thrown away; by its owner, if it has one.
    pub fn discard_ends(&self, page: usize) {
        let p = &self.pages[page];
        if let (Class::Own(t), true) = (self.class(page), self.anonymous) {
            p.full.store(0, SeqCst);
            p.words[t].store(0, SeqCst);
        }
        p.discards_done.fetch_add(1, SeqCst);
    }

    /// Contents of a file that nobody stores to.
    pub fn fill_all(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.pages() * WORDS * 8];
        for page in 0..self.pages() {
            let mut store = |w: usize, v: u64| {
                bytes[(page * WORDS + w) * 8..][..8].copy_from_slice(&v.to_ne_bytes());
            };
            match self.class(page) {
                Class::Own(_) => self.store_full(page, &mut store),
                _ => self.store_word(page, 0, &mut store),
            }
        }
        bytes.truncate(self.len);
        bytes
    }

    /// The bytes that a file must have when nobody uses it.
    pub fn all_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.pages() * WORDS * 8);
        for (page, p) in self.pages.iter().enumerate() {
            for w in 0..WORDS {
                let value = match w {
                    THREAD..COUNTER => {
                        let t = w - THREAD;
                        self.stamp(page, t, p.words[t].load(SeqCst))
                    }
                    COUNTER => u64::from(p.counted.load(SeqCst)),
                    _ => self.pattern(page, p.full.load(SeqCst), w),
                };
                bytes.extend(value.to_ne_bytes());
            }
        }
        bytes.truncate(self.len);
        bytes
    }

    // ------------------------------------------------------------ what is found

    /// To be taken before a look, or before the sync after which one looks.
    pub fn before(&self, page: usize) -> Before {
        let p = &self.pages[page];
        Before {
            full: p.full.load(SeqCst),
            words: std::array::from_fn(|t| p.words[t].load(SeqCst)),
            counted: p.counted.load(SeqCst),
        }
    }

    /// Compares a page with what thread `t` may find there.
    pub fn check(&self, page: usize, t: usize, b: &Before, look: Look<'_>) -> Result<(), String> {
        let class = self.class(page);
        let p = &self.pages[page];
        let wrong = |w: usize, found: u64, want: String| {
            Err(format!(
                "page {page} ({class:?}), word {w}: {} instead of {want}, seen by thread {t}",
                self.name(found)
            ))
        };
        if class == Class::Own(t) {
            let version = p.full.load(SeqCst);
            for w in (0..THREAD).chain(COUNTER..WORDS) {
                let (found, want) = (look(w), self.pattern(page, version, w));
                if found != want {
                    let want = format!("{want:#x} of version {version}");
                    return wrong(w, found, want);
                }
            }
        } else if let Class::Own(_) = class {
            let found = look(VERSION);
            let zeroed = self.anonymous && p.discards_begun.load(SeqCst) > 0;
            let least = if zeroed { 0 } else { b.full.into() };
            let most = u64::from(p.full_begun.load(SeqCst));
            if !(least..=most).contains(&found) {
                return wrong(VERSION, found, format!("a version of {least} to {most}"));
            }
        }
        for writer in 0..self.threads {
            let found = look(THREAD + writer);
            if let Err(want) = self.check_word(page, t, writer, b, found) {
                return wrong(THREAD + writer, found, want);
            }
        }
        if class == Class::Shared {
            let found = look(COUNTER);
            let (least, most) = (b.counted.into(), p.count_begun.load(SeqCst).into());
            if !(least..=most).contains(&found) {
                return wrong(COUNTER, found, format!("a count of {least} to {most}"));
            }
        }
        if !matches!(class, Class::Own(_)) {
            let rest = (0..THREAD).chain(COUNTER + 1..self.words_of(page));
            for w in rest {
                if look(w) != 0 {
                    return wrong(w, look(w), "0: nobody stores there".into());
                }
            }
        }
        Ok(())
    }

    fn check_word(
        &self,
        page: usize,
        t: usize,
        writer: usize,
        b: &Before,
        found: u64,
    ) -> Result<(), String> {
        let p = &self.pages[page];
        let class = self.class(page);
        if let Class::Own(o) = class {
            if o != writer {
                return if found == 0 { Ok(()) } else { Err("0".into()) };
            }
        }
        let (version, begun) = ((found >> 40) as u32, p.words_begun[writer].load(SeqCst));
        if found != self.stamp(page, writer, version) {
            return Err(format!("a word of thread {writer} for this page"));
        }
        let discards = if self.anonymous {
            p.discards_begun.load(SeqCst)
        } else {
            0
        };
        if writer != t {
            let least = if discards > 0 { 0 } else { b.words[writer] };
            return match (least..=begun).contains(&version) {
                true => Ok(()),
                false => Err(format!("a version of {least} to {begun}")),
            };
        }
        let last = p.words[t].load(SeqCst);
        if version == last {
            return Ok(());
        }
        // Its owner throws it away between two operations of its own, others at any time.
        let gone = class == Class::Wild && discards > p.over_at_store[t].load(SeqCst);
        if version == 0 && gone {
            p.words[t].store(0, SeqCst);
            return Ok(());
        }
        Err(format!("version {last}"))
    }

    /// What a word is, if it is one of ours.
    fn name(&self, word: u64) -> String {
        let (version, uid) = (word >> 40, word >> 20 & 0xf_ffff);
        let (page, t) = (word >> 4 & 0xffff, word & 15);
        if uid > 0 && version < 1 << 20 && (t as usize) < THREADS && version > 0 {
            let of = if uid == self.uid & 0xf_ffff {
                "this"
            } else {
                "another"
            };
            return format!(
                "{word:#x} (version {version} of thread {t}, page {page} of {of} region)"
            );
        }
        if word >> 32 == self.uid {
            return format!("{word:#x} (tag of page {})", word as u32);
        }
        format!("{word:#x}")
    }
}
