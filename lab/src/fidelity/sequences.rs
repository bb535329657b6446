//! The deterministic access sequences of the reference runs, cases a to k.

use super::zipf::{remainder, ZipfPages};
use rand_core::SeedableRng;
use rand_xoshiro::SplitMix64;

/// Pages of the budget the recorded runs had (64 MiB); all lengths are multiples of it.
pub const LIMIT_PAGES: u32 = 16_384;
/// Pages of the file objects, in object order.
pub const FILE_PAGES: [u32; 2] = [131_072, 32_768];
/// Pages of one `write()` call of [`Case::SeqWrite`] (1 MiB).
pub const WRITE_CALL_PAGES: u32 = 256;
/// Runs of pages that they consist of on the disk of the recording (`debugfs -R "ex f0"`; `docs/rules/index-blocks.md`).
pub const FILE_EXTENTS: [u32; 2] = [6, 2];

const ACCESS_STATE: u64 = 0x243F_6A88_85A3_08D3;
const PERMUTATION_STATE: u64 = 0x1319_8A2E_0370_7344;
const THETA: f64 = 0.99;
/// Accesses of one process before the other takes its turn.
const TURN: u32 = 64;

/// What an access does. The numbers enter the sequence hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Mapped read of one byte.
    MappedRead = 0,
    /// `pread` of one byte at page * 4096.
    Pread = 1,
    /// `pwrite` of one byte there: a page that is not cached is read first.
    Pwrite = 2,
    /// Write of two words to an anonymous page.
    AnonWrite = 3,
    /// One whole page of a large `write()` to a new file: nothing is read. A run of
    /// [`WRITE_CALL_PAGES`] such accesses is one call. Not part of any hash.
    WholeWrite = 4,
}

/// File f0.
pub const OBJECT_F0: u8 = 0;
/// File f1.
pub const OBJECT_F1: u8 = 1;
/// The anonymous region.
pub const OBJECT_ANON: u8 = 2;
/// The file that [`Case::SeqWrite`] creates.
pub const OBJECT_NEW_FILE: u8 = 3;

/// One operation on one page: eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Access {
    /// What is done.
    pub kind: Kind,
    /// Object: [`OBJECT_F0`], [`OBJECT_F1`], [`OBJECT_ANON`] or [`OBJECT_NEW_FILE`].
    pub object: u8,
    /// Process: 0, or 1 for the second process of [`Case::Low`].
    pub task: u16,
    /// Page inside the object.
    pub page: u32,
}

const _: () = assert!(std::mem::size_of::<Access>() == 8);

/// What the accesses of a case look like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Zipf of this exponent over four budgets.
    Zipf(Kind, f64),
    /// Uniform over two budgets, `pread`.
    Uniform,
    /// Six passes over a file a quarter larger than the budget.
    Cycle(Kind),
    /// Hot accesses, zipf over half the budget, with one page of a scan after each.
    HotScan(Kind),
    /// The same with a hot set of 0.8 of the budget, used evenly.
    LargeHotScan(Kind),
    /// Zipf over two budgets, then over two others.
    Phase(Kind),
    /// `pread`, zipf over three budgets; one in twenty is a `pwrite`.
    ReadWrite,
    /// A cycle of anonymous writes over 0.6 of the budget, with file reads in between.
    AnonFile(Kind),
    /// Anonymous writes, zipf over two budgets.
    Anon,
    /// Anonymous writes and `pread`, each zipf over one budget.
    AnonAndFile,
    /// Two processes, each with a zipf over one and a half budgets.
    TwoReaders,
    /// A new file eight times the budget.
    SeqWrite,
}

/// Declares the cases with their names and shapes.
macro_rules! cases {
    ($($name:ident $text:literal $shape:expr, $doc:literal;)*) => {
        /// A recorded case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Case { $(#[doc = concat!("`", $text, "`: ", $doc)] $name,)* }

        impl Case {
            /// All cases, in the order of their names.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$name),*];

            /// Name in the reference tables.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            fn shape(self) -> Shape {
                use {Kind::*, Shape::*};
                match self { $(Self::$name => $shape,)* }
            }
        }
    };
}

cases! {
    MmapZipf "a_mmap_z099" Zipf(MappedRead, 0.99), "mapped reads, zipf.";
    MmapZipfFaultAround "a_mmap_z099_fa64k" Zipf(MappedRead, 0.99), "the same with 64 KiB of fault-around.";
    MmapZipfSteep "a_mmap_z120" Zipf(MappedRead, 1.2), "mapped reads, a steeper zipf.";
    PreadZipf "b_pread_z099" Zipf(Pread, 0.99), "the pages of the first case through `pread`.";
    PreadZipfSteep "b_pread_z120" Zipf(Pread, 1.2), "the same, steeper.";
    PreadUniform "c_pread_uni" Uniform, "`pread`, uniform.";
    MmapCycle "d_mmap_cyc" Cycle(MappedRead), "mapped reads in a cycle a quarter larger than the budget.";
    PreadCycle "d_pread_cyc" Cycle(Pread), "the same by `pread`.";
    HotMmapScan "e_hotmmap_scanpread" HotScan(MappedRead), "a hot mapping beside a one-pass scan.";
    HotPreadScan "e_hotpread_scanpread" HotScan(Pread), "the same with the hot accesses through `pread`.";
    LargeHotMmapScan "e_hot80mmap_scanpread" LargeHotScan(MappedRead), "a mapping of 0.8 of the budget, used evenly, beside a scan.";
    LargeHotPreadScan "e_hot80pread_scanpread" LargeHotScan(Pread), "the same through `pread`.";
    MmapPhase "f_phase_mmap" Phase(MappedRead), "the working set moves to other pages half-way; mapped reads.";
    PreadPhase "f_phase_pread" Phase(Pread), "the same by `pread`.";
    ReadWriteZipf "g_rw_z099" ReadWrite, "reads with one write in twenty.";
    AnonFileMmap "h_anon_filemmap" AnonFile(MappedRead), "anonymous cycle beside mapped file reads, no swap.";
    AnonFilePread "h_anon_filepread" AnonFile(Pread), "the same with reads through `pread`.";
    AnonZram "i_anon_zram" Anon, "anonymous zipf with swap.";
    AnonFileZram "i_anonfile_zram" AnonAndFile, "anonymous and file zipf with swap.";
    AnonFileZramSw10 "i_anonfile_zram_sw10" AnonAndFile, "the same at swappiness 10.";
    AnonFileZramSw150 "i_anonfile_zram_sw150" AnonAndFile, "the same at swappiness 150.";
    AnonZramStore "i_anon_zram+store" Anon, "anonymous zipf with swap, the first access to a page being a store.";
    AnonFileZramStore "i_anonfile_zram+store" AnonAndFile, "the same beside a file.";
    AnonFileZramSw150Store "i_anonfile_zram_sw150+store" AnonAndFile, "the same at swappiness 150.";
    Low "j_low" TwoReaders, "two processes in sibling groups, one under `memory.low`.";
    NoLow "j_nolow" TwoReaders, "the same without protection.";
    SeqWrite "k_seqwrite" SeqWrite, "a new file eight times the budget.";
    SeqWriteOrder0 "k_seqwrite+order0" SeqWrite, "the same on a file system without large folios.";
}

impl Case {
    /// The case of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|case| case.name() == name)
    }

    /// True if the group may swap (to zram).
    #[must_use]
    pub fn swaps(self) -> bool {
        matches!(self.shape(), Shape::Anon | Shape::AnonAndFile)
    }

    /// `vm.swappiness`.
    #[must_use]
    pub fn swappiness(self) -> u16 {
        match self {
            Self::AnonFileZramSw10 => 10,
            Self::AnonFileZramSw150 | Self::AnonFileZramSw150Store => 150,
            _ => 60,
        }
    }

    /// The first access to an anonymous page is a store. The other programs add to a word, and the emulated CPU on
    /// which all of them were recorded loads it first.
    #[must_use]
    pub fn stores_first(self) -> bool {
        self.name().ends_with("+store")
    }

    /// The program writes to files.
    #[must_use]
    pub fn writes(self) -> bool {
        self.shape() == Shape::ReadWrite
    }

    /// Pages mapped around a fault, 1 = none.
    #[must_use]
    pub fn fault_around_pages(self) -> u32 {
        if self == Self::MmapZipfFaultAround {
            16
        } else {
            1
        }
    }

    /// `memory.low` of the first process's group in pages, where it has one of its own.
    #[must_use]
    pub fn low_pages(self) -> Option<u32> {
        (self == Self::Low).then(|| six_tenths(LIMIT_PAGES))
    }

    /// The hash as the reference tables have it: over the whole sequence, but for
    /// two processes over the first only (each process hashed its own).
    #[must_use]
    pub fn recorded_hash(self) -> u64 {
        trace_fnv1a64(self.sequence().filter(|access| access.task == 0))
    }

    /// The operations at the recorded size.
    #[must_use]
    pub fn sequence(self) -> Sequence {
        self.sequence_at(LIMIT_PAGES)
    }

    /// The operations for a budget of `limit` pages; the recorded runs had
    /// [`LIMIT_PAGES`].
    ///
    /// # Panics
    /// If `limit` is 0 or not a multiple of 128 (turns and write calls would not divide),
    /// or above [`LIMIT_PAGES`] (the files are too small).
    #[must_use]
    pub fn sequence_at(self, limit: u32) -> Sequence {
        assert!(
            limit > 0 && limit.is_multiple_of(128) && limit <= LIMIT_PAGES,
            "sequence for {limit} pages"
        );
        Sequence::new(self, limit)
    }
}

/// `0.6 * limit`, rounded down: 9830 pages of 16384.
fn six_tenths(limit: u32) -> u32 {
    limit * 6 / 10
}

/// Iterator over the operations of one case.
#[derive(Debug, Clone)]
pub struct Sequence {
    shape: Shape,
    limit: u32,
    position: u32,
    length: u32,
    access: SplitMix64,
    second_access: SplitMix64,
    zipf: Option<ZipfPages>,
    second_zipf: Option<ZipfPages>,
}

impl Sequence {
    fn new(case: Case, limit: u32) -> Self {
        let shape = case.shape();
        let steep = |theta, pages| Some(ZipfPages::new(theta, pages, PERMUTATION_STATE));
        let zipf = |pages| steep(THETA, pages);
        let second = |pages| Some(ZipfPages::new(THETA, pages, PERMUTATION_STATE + 1));
        let (length, zipf, second_zipf) = match shape {
            Shape::Zipf(_, theta) => (20 * limit, steep(theta, 4 * limit), None),
            Shape::Uniform => (20 * limit, None, None),
            Shape::Cycle(_) => (6 * cycle(limit), None, None),
            Shape::HotScan(_) => (10 * limit, zipf(limit / 2), None),
            Shape::LargeHotScan(_) => (12 * limit, None, None),
            Shape::Phase(_) => (20 * limit, zipf(2 * limit), second(2 * limit)),
            Shape::ReadWrite => (20 * limit, zipf(3 * limit), None),
            Shape::AnonFile(_) => (six_tenths(limit) + 20 * limit, zipf(2 * limit), None),
            Shape::Anon => (12 * limit, zipf(2 * limit), None),
            Shape::AnonAndFile => (21 * limit, zipf(limit), second(limit)),
            Shape::TwoReaders => (20 * limit, zipf(limit * 3 / 2), second(limit * 3 / 2)),
            Shape::SeqWrite => (8 * limit, None, None),
        };
        Self {
            shape,
            limit,
            position: 0,
            length,
            access: SplitMix64::seed_from_u64(ACCESS_STATE),
            second_access: SplitMix64::seed_from_u64(ACCESS_STATE + 1),
            zipf,
            second_zipf,
        }
    }

    /// Operations in the whole sequence.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    fn zipf(&mut self) -> u32 {
        let zipf = self.zipf.as_ref().expect("the shape has a zipf");
        zipf.draw(&mut self.access)
    }

    /// The second distribution, drawn from the first access stream.
    fn second_zipf(&mut self) -> u32 {
        let zipf = self.second_zipf.as_ref().expect("the shape has two zipfs");
        zipf.draw(&mut self.access)
    }

    /// A page below `pages`, all equally likely.
    fn uniform(&mut self, pages: u32) -> u32 {
        remainder(&mut self.access, u64::from(pages)) as u32
    }

    fn read_write(&mut self) -> Access {
        let page = self.zipf();
        let write = remainder(&mut self.access, 20) == 0;
        access(
            if write { Kind::Pwrite } else { Kind::Pread },
            OBJECT_F0,
            page,
        )
    }

    /// `warm` hot accesses come first; then the scan takes every second turn.
    fn beside_scan(&mut self, warm: u32, kind: Kind, hot: fn(&mut Self) -> u32) -> Access {
        match self.turn_after(warm) {
            Some(turn) if turn % 2 == 1 => access(Kind::Pread, OBJECT_F0, turn / 2),
            _ => access(kind, OBJECT_F1, hot(self)),
        }
    }

    /// The number of this access after the first `n`.
    fn turn_after(&self, n: u32) -> Option<u32> {
        (self.position - 1).checked_sub(n)
    }

    fn anon_file(&mut self, read: Kind) -> Access {
        let hot = six_tenths(self.limit);
        match self.turn_after(hot) {
            None => access(Kind::AnonWrite, OBJECT_ANON, self.position - 1),
            Some(turn) if turn % 2 == 1 => access(read, OBJECT_F0, self.zipf()),
            Some(turn) => access(Kind::AnonWrite, OBJECT_ANON, (turn / 2) % hot),
        }
    }

    fn anon_and_file(&mut self) -> Access {
        match self.turn_after(self.limit) {
            None => access(Kind::AnonWrite, OBJECT_ANON, self.position - 1),
            Some(turn) if turn % 2 == 1 => access(Kind::Pread, OBJECT_F0, self.second_zipf()),
            Some(_) => access(Kind::AnonWrite, OBJECT_ANON, self.zipf()),
        }
    }

    fn two_readers(&mut self) -> Access {
        if ((self.position - 1) / TURN).is_multiple_of(2) {
            return access(Kind::Pread, OBJECT_F0, self.zipf());
        }
        let zipf = self.second_zipf.as_ref().expect("the shape has two zipfs");
        Access {
            task: 1,
            ..access(Kind::Pread, OBJECT_F1, zipf.draw(&mut self.second_access))
        }
    }
}

/// A quarter more than the budget.
fn cycle(limit: u32) -> u32 {
    limit + limit / 4
}

/// Eight tenths of the budget, rounded down.
fn eight_tenths(limit: u32) -> u32 {
    limit * 8 / 10
}

fn access(kind: Kind, object: u8, page: u32) -> Access {
    Access {
        kind,
        object,
        task: 0,
        page,
    }
}

impl Iterator for Sequence {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        if self.position == self.length {
            return None;
        }
        let at = self.position;
        self.position += 1;
        let limit = self.limit;
        Some(match self.shape {
            Shape::Zipf(kind, _) => access(kind, OBJECT_F0, self.zipf()),
            Shape::Uniform => access(Kind::Pread, OBJECT_F0, self.uniform(2 * limit)),
            Shape::Cycle(kind) => access(kind, OBJECT_F0, at % cycle(limit)),
            Shape::HotScan(kind) => self.beside_scan(2 * limit, kind, Self::zipf),
            Shape::LargeHotScan(kind) => {
                self.beside_scan(4 * limit, kind, |s| s.uniform(eight_tenths(s.limit)))
            }
            Shape::Phase(kind) if at < 10 * limit => access(kind, OBJECT_F0, self.zipf()),
            Shape::Phase(kind) => access(kind, OBJECT_F0, 2 * limit + self.second_zipf()),
            Shape::ReadWrite => self.read_write(),
            Shape::AnonFile(read) => self.anon_file(read),
            Shape::Anon if at < 2 * limit => access(Kind::AnonWrite, OBJECT_ANON, at),
            Shape::Anon => access(Kind::AnonWrite, OBJECT_ANON, self.zipf()),
            Shape::AnonAndFile => self.anon_and_file(),
            Shape::TwoReaders => self.two_readers(),
            Shape::SeqWrite => access(Kind::WholeWrite, OBJECT_NEW_FILE, at),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.length - self.position) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Sequence {}

/// FNV-1a 64 over kind, object and page (little endian) of every operation.
#[must_use]
pub fn trace_fnv1a64(accesses: impl IntoIterator<Item = Access>) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut feed = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    for access in accesses {
        feed(access.kind as u8);
        feed(access.object);
        access.page.to_le_bytes().into_iter().for_each(&mut feed);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::KERNELS;

    /// Every case the kernel ran is the case we generate: same length, same hash. The
    /// sequential write has no recorded hash (0): it is checked page by page below.
    #[test]
    fn sequences_are_the_recorded_ones() {
        let tables = KERNELS.map(|kernel| kernel.reference().unwrap());
        for case in Case::ALL {
            let runs: Vec<_> = tables.iter().flat_map(|t| t.runs_of(case.name())).collect();
            assert!(!runs.is_empty(), "{}", case.name());
            let hash = format!("{:016x}", case.recorded_hash());
            for run in runs {
                assert_eq!(
                    case.sequence().len() as u64,
                    run.accesses,
                    "{}",
                    case.name()
                );
                if case.shape() == Shape::SeqWrite {
                    assert_eq!(run.trace_fnv1a64, "0");
                } else {
                    assert_eq!(hash, run.trace_fnv1a64, "{}", case.name());
                }
                let around = u64::from(case.fault_around_pages()) * 4096;
                assert_eq!(around, run.fault_around_bytes, "{}", case.name());
                assert_eq!(case.swaps(), run.zram_mm_stat.is_some(), "{}", case.name());
            }
        }
        assert_eq!(Case::Low.low_pages(), Some(9830));
    }

    #[test]
    fn sequential_write_covers_a_new_file_once() {
        let pages: Vec<u32> = Case::SeqWrite
            .sequence()
            .map(|a| {
                assert_eq!((a.kind, a.object), (Kind::WholeWrite, OBJECT_NEW_FILE));
                a.page
            })
            .collect();
        assert_eq!(pages, (0..8 * LIMIT_PAGES).collect::<Vec<_>>());
        assert_eq!(pages.len() as u32 % WRITE_CALL_PAGES, 0);
    }

    #[test]
    fn small_budgets_keep_the_shape() {
        for case in Case::ALL {
            let sequence = case.sequence_at(256);
            assert_eq!(sequence.len(), sequence.clone().count());
            assert_eq!(sequence.len() as u32, sequence.length());
            for access in sequence {
                let pages = match access.object {
                    OBJECT_F0 => FILE_PAGES[0],
                    OBJECT_F1 => FILE_PAGES[1],
                    _ => 8 * 256,
                };
                assert!(access.page < pages);
                assert_eq!(
                    access.task == 1,
                    case.shape() == Shape::TwoReaders && access.object == OBJECT_F1
                );
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for case in Case::ALL {
            assert_eq!(Case::from_name(case.name()), Some(case));
        }
        assert_eq!(Case::from_name("z"), None);
    }
}
