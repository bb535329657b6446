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

/// A recorded case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Case {
    /// `a_mmap_z099`: mapped reads, zipf.
    MmapZipf,
    /// `a_mmap_z099_fa64k`: the same with 64 KiB of fault-around.
    MmapZipfFaultAround,
    /// `b_pread_z099`: the same pages through `pread`.
    PreadZipf,
    /// `c_pread_uni`: `pread`, uniform.
    PreadUniform,
    /// `d_pread_cyc`: `pread` in a cycle a quarter larger than the budget.
    PreadCycle,
    /// `e_hotmmap_scanpread`: a hot mapping beside a one-pass scan.
    HotMmapScan,
    /// `e_hotpread_scanpread`: the same with the hot accesses through `pread`.
    HotPreadScan,
    /// `g_rw_z099`: reads with one write in twenty.
    ReadWriteZipf,
    /// `h_anon_filepread`: anonymous cycle beside file reads, no swap.
    AnonFilePread,
    /// `i_anon_zram`: anonymous zipf with swap.
    AnonZram,
    /// `i_anonfile_zram`: anonymous and file zipf with swap.
    AnonFileZram,
    /// `j_low`: two processes in sibling groups, one under `memory.low`.
    Low,
    /// `k_seqwrite`: a new file eight times the budget.
    SeqWrite,
    /// `k_seqwrite+order0`: the same on a file system without large folios.
    SeqWriteOrder0,
}

impl Case {
    /// All cases, in the order of their names.
    pub const ALL: [Self; 14] = [
        Self::MmapZipf,
        Self::MmapZipfFaultAround,
        Self::PreadZipf,
        Self::PreadUniform,
        Self::PreadCycle,
        Self::HotMmapScan,
        Self::HotPreadScan,
        Self::ReadWriteZipf,
        Self::AnonFilePread,
        Self::AnonZram,
        Self::AnonFileZram,
        Self::Low,
        Self::SeqWrite,
        Self::SeqWriteOrder0,
    ];

    /// Name in the reference tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MmapZipf => "a_mmap_z099",
            Self::MmapZipfFaultAround => "a_mmap_z099_fa64k",
            Self::PreadZipf => "b_pread_z099",
            Self::PreadUniform => "c_pread_uni",
            Self::PreadCycle => "d_pread_cyc",
            Self::HotMmapScan => "e_hotmmap_scanpread",
            Self::HotPreadScan => "e_hotpread_scanpread",
            Self::ReadWriteZipf => "g_rw_z099",
            Self::AnonFilePread => "h_anon_filepread",
            Self::AnonZram => "i_anon_zram",
            Self::AnonFileZram => "i_anonfile_zram",
            Self::Low => "j_low",
            Self::SeqWrite => "k_seqwrite",
            Self::SeqWriteOrder0 => "k_seqwrite+order0",
        }
    }

    /// The case of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|case| case.name() == name)
    }

    /// True if the group may swap (to zram).
    #[must_use]
    pub fn swaps(self) -> bool {
        matches!(self, Self::AnonZram | Self::AnonFileZram)
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
    /// [`Case::Low`] over the first process only (each process hashed its own).
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
    case: Case,
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
        let zipf = |pages| Some(ZipfPages::new(THETA, pages, PERMUTATION_STATE));
        let second = |pages| Some(ZipfPages::new(THETA, pages, PERMUTATION_STATE + 1));
        let (length, zipf, second_zipf) = match case {
            Case::MmapZipf | Case::MmapZipfFaultAround | Case::PreadZipf => {
                (20 * limit, zipf(4 * limit), None)
            }
            Case::PreadUniform => (20 * limit, None, None),
            Case::PreadCycle => (6 * cycle(limit), None, None),
            Case::HotMmapScan | Case::HotPreadScan => (10 * limit, zipf(limit / 2), None),
            Case::ReadWriteZipf => (20 * limit, zipf(3 * limit), None),
            Case::AnonFilePread => (six_tenths(limit) + 20 * limit, zipf(2 * limit), None),
            Case::AnonZram => (12 * limit, zipf(2 * limit), None),
            Case::AnonFileZram => (21 * limit, zipf(limit), second(limit)),
            Case::Low => (20 * limit, zipf(limit * 3 / 2), second(limit * 3 / 2)),
            Case::SeqWrite | Case::SeqWriteOrder0 => (8 * limit, None, None),
        };
        Self {
            case,
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
        let zipf = self.zipf.as_ref().expect("the case has a zipf");
        zipf.draw(&mut self.access)
    }

    /// The second distribution, drawn from the first access stream.
    fn second_zipf(&mut self) -> u32 {
        let zipf = self.second_zipf.as_ref().expect("the case has two zipfs");
        zipf.draw(&mut self.access)
    }

    fn read_write(&mut self) -> Access {
        let page = self.zipf();
        if remainder(&mut self.access, 20) == 0 {
            access(Kind::Pwrite, OBJECT_F0, page)
        } else {
            access(Kind::Pread, OBJECT_F0, page)
        }
    }

    fn hot_scan(&mut self, hot: Kind, at: u32) -> Access {
        match at.checked_sub(2 * self.limit) {
            Some(mixed) if mixed % 2 == 1 => access(Kind::Pread, OBJECT_F0, mixed / 2),
            _ => access(hot, OBJECT_F1, self.zipf()),
        }
    }

    fn anon_file_pread(&mut self, at: u32) -> Access {
        let hot = six_tenths(self.limit);
        match at.checked_sub(hot) {
            None => access(Kind::AnonWrite, OBJECT_ANON, at),
            Some(mixed) if mixed % 2 == 1 => access(Kind::Pread, OBJECT_F0, self.zipf()),
            Some(mixed) => access(Kind::AnonWrite, OBJECT_ANON, (mixed / 2) % hot),
        }
    }

    fn anon_file_zram(&mut self, at: u32) -> Access {
        match at.checked_sub(self.limit) {
            None => access(Kind::AnonWrite, OBJECT_ANON, at),
            Some(mixed) if mixed % 2 == 1 => access(Kind::Pread, OBJECT_F0, self.second_zipf()),
            Some(_) => access(Kind::AnonWrite, OBJECT_ANON, self.zipf()),
        }
    }

    fn low(&mut self, at: u32) -> Access {
        if (at / TURN).is_multiple_of(2) {
            return access(Kind::Pread, OBJECT_F0, self.zipf());
        }
        let zipf = self.second_zipf.as_ref().expect("the case has two zipfs");
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
        Some(match self.case {
            Case::MmapZipf | Case::MmapZipfFaultAround => {
                access(Kind::MappedRead, OBJECT_F0, self.zipf())
            }
            Case::PreadZipf => access(Kind::Pread, OBJECT_F0, self.zipf()),
            Case::PreadUniform => {
                let page = remainder(&mut self.access, u64::from(2 * self.limit)) as u32;
                access(Kind::Pread, OBJECT_F0, page)
            }
            Case::PreadCycle => access(Kind::Pread, OBJECT_F0, at % cycle(self.limit)),
            Case::HotMmapScan => self.hot_scan(Kind::MappedRead, at),
            Case::HotPreadScan => self.hot_scan(Kind::Pread, at),
            Case::ReadWriteZipf => self.read_write(),
            Case::AnonFilePread => self.anon_file_pread(at),
            Case::AnonZram if at < 2 * self.limit => access(Kind::AnonWrite, OBJECT_ANON, at),
            Case::AnonZram => access(Kind::AnonWrite, OBJECT_ANON, self.zipf()),
            Case::AnonFileZram => self.anon_file_zram(at),
            Case::Low => self.low(at),
            Case::SeqWrite | Case::SeqWriteOrder0 => access(Kind::WholeWrite, OBJECT_NEW_FILE, at),
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
            assert!(runs.len() >= 2, "{}", case.name());
            let hash = format!("{:016x}", case.recorded_hash());
            for run in runs {
                assert_eq!(
                    case.sequence().len() as u64,
                    run.accesses,
                    "{}",
                    case.name()
                );
                if matches!(case, Case::SeqWrite | Case::SeqWriteOrder0) {
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
                    case == Case::Low && access.object == OBJECT_F1
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
