//! Page numbers by order of first appearance, and the wide keys of formats that name files or
//! address spaces.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use super::op::MAX_PAGES;
use super::problem::Problem;

/// What a page id of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    /// Any number; renumbered unless the user wants it kept.
    Foreign,
    /// A page index already.
    Page,
}

/// Page numbers by order of first appearance, for each object apart.
pub(super) struct Numbering {
    keep: bool,
    seen: Vec<HashMap<u64, u32, PageHashes>>,
}

impl Numbering {
    /// With `keep`, ids remain what they are.
    pub fn new(keep: bool) -> Numbering {
        Numbering {
            keep,
            seen: Vec::new(),
        }
    }

    /// Page index of a page id.
    pub fn page(&mut self, object: u8, id: Id, page: u64) -> Result<u32, Problem> {
        if self.keep || id == Id::Page {
            return u32::try_from(page)
                .ok()
                .filter(|_| page < MAX_PAGES)
                .ok_or_else(|| Problem {
                    found: format!("page {page} of object {object}"),
                    expected: "a page below 2147483648 (2^31)",
                    remedy: match id {
                        Id::Foreign => "renumber the pages densely instead of keeping their ids: coldset lab convert does",
                        Id::Page => "renumber the pages when recording",
                    },
                });
        }
        let object = usize::from(object);
        if self.seen.len() <= object {
            self.seen.resize_with(object + 1, HashMap::default);
        }
        let seen = &mut self.seen[object];
        let next = seen.len() as u64;
        let number = *seen.entry(page).or_insert(next as u32);
        if u64::from(number) >= MAX_PAGES {
            return Err(Problem {
                found: format!("more than {MAX_PAGES} different pages"),
                expected: "at most 2147483648 (2^31) pages in an object",
                remedy: "cut the trace",
            });
        }
        Ok(number)
    }
}

/// Hashes page ids by one multiplication, many times faster than the default. The key is random, so that
/// no file is bad for all runs; no result depends on it.
pub(super) struct PageHashes {
    key: u64,
}

impl Default for PageHashes {
    fn default() -> Self {
        let key = RandomState::new().hash_one(0);
        Self { key }
    }
}

impl BuildHasher for PageHashes {
    type Hasher = PageHasher;

    fn build_hasher(&self) -> PageHasher {
        PageHasher(self.key)
    }
}

/// Starts from the key, ends as the hash.
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(b.into()));
    }

    fn write_u64(&mut self, id: u64) {
        // Both halves of the product: the upper bits of it depend on all bits of the id, the lower on few.
        let product = u128::from(self.0 ^ id) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

/// Bits of a [`page_key`] for the page; the others are for the file or address space. Enough for
/// an address of 56 bits, or 64 PiB of a file, in pages of 4 KiB.
const PAGE_BITS: u32 = 44;

/// One id of a page in a numbered file or address space. Pages of a file have consecutive ids.
///
/// # Errors
/// A page or a number beyond what fits.
pub(super) fn page_key(space: u64, page: u64) -> Result<u64, Problem> {
    if page >> PAGE_BITS != 0 {
        return Err(Problem {
            found: format!("page {page} of one file or address space"),
            expected: "a page below 17592186044416 (2^44)",
            remedy: super::problem::CHECK_FORMAT,
        });
    }
    if space >> (64 - PAGE_BITS) != 0 {
        return Err(Problem {
            found: "more than 1048576 files or address spaces".to_string(),
            expected: "at most 2^20 of them in a trace",
            remedy: "cut the trace",
        });
    }
    Ok(space << PAGE_BITS | page)
}

/// Numbers of files, processes, devices, in the order of first appearance.
pub(super) struct Spaces<K> {
    numbers: HashMap<K, u64>,
}

impl<K> Default for Spaces<K> {
    fn default() -> Spaces<K> {
        Spaces {
            numbers: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq> Spaces<K> {
    /// The number of `key`, a new one if it has none.
    pub fn number<Q>(&mut self, key: &Q) -> u64
    where
        K: Borrow<Q>,
        Q: ?Sized + Hash + Eq + ToOwned<Owned = K>,
    {
        if let Some(&number) = self.numbers.get(key) {
            return number;
        }
        let next = self.numbers.len() as u64;
        self.numbers.insert(key.to_owned(), next);
        next
    }

    /// Whether `key` has a number.
    pub fn knows(&self, key: &K) -> bool {
        self.numbers.contains_key(key)
    }
}

/// Tasks by process id, in the order of first appearance. From the 65536th on they share the last
/// one: the number of a task is a matter of accounting only, their pages stay apart.
#[derive(Default)]
pub(super) struct Tasks(Spaces<u64>);

impl Tasks {
    /// The task of a process.
    pub fn task(&mut self, process: u64) -> u16 {
        u16::try_from(self.0.number(&process)).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_first_appearance_in_each_object() {
        let mut numbering = Numbering::new(false);
        let mut page = |object, page| {
            numbering
                .page(object, Id::Foreign, page)
                .expect("few pages")
        };
        assert_eq!(
            [
                page(0, 900),
                page(0, 7),
                page(3, 7),
                page(0, 900),
                page(3, 8)
            ],
            [0, 1, 0, 0, 1]
        );
    }

    #[test]
    fn kept_ids_have_a_limit() {
        let mut numbering = Numbering::new(true);
        assert_eq!(
            numbering.page(0, Id::Foreign, MAX_PAGES - 1),
            Ok(0x7fff_ffff)
        );
        let problem = numbering
            .page(0, Id::Foreign, MAX_PAGES)
            .expect_err("too large");
        assert!(
            problem.to_string().contains("renumber the pages densely"),
            "{problem}"
        );
    }

    #[test]
    fn keys_of_different_files_differ_and_have_limits() {
        assert_eq!(page_key(0, 7), Ok(7));
        assert_eq!(page_key(1, 7), Ok((1 << 44) + 7));
        assert_eq!(page_key((1 << 20) - 1, (1 << 44) - 1), Ok(u64::MAX));
        let message = |space, page| page_key(space, page).expect_err("too large").to_string();
        assert!(message(0, 1 << 44).contains("2^44"));
        assert!(message(1 << 20, 0).contains("cut the trace"));
    }

    #[test]
    fn late_processes_share_the_last_task() {
        let mut tasks = Tasks::default();
        let all: Vec<u16> = (0..65_540).map(|process| tasks.task(process * 3)).collect();
        assert_eq!(all[..3], [0, 1, 2]);
        assert_eq!(
            all[65_534..],
            [65_534, 65_535, 65_535, 65_535, 65_535, 65_535]
        );
        assert_eq!(tasks.task(3), 1);
    }

    #[test]
    fn names_are_spaces_too() {
        let mut files: Spaces<Vec<u8>> = Spaces::default();
        let numbers = [&b"a"[..], b"b", b"a"].map(|name| files.number(name));
        assert_eq!(numbers, [0, 1, 0]);
        assert!(files.knows(&b"b".to_vec()) && !files.knows(&b"c".to_vec()));
    }
}
