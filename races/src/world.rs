//! The world that the engine's tasks run in: a host with two pages, four frames and two CPUs.
//!
//! What the kernel keeps in `struct folio` and on the LRU is the engine's: references, flags, lists,
//! batches. What it keeps elsewhere is here: the index of the mapping, the page table, the
//! translations that CPUs cache, memory, blocks. A store is a bit: contents are the set of stores they
//! hold, so that a lost store is a missing bit.

use crate::alarm::Alarm;
use crate::cases::{Kind, Setting};
use coldset_engine::batch::BatchOp;
use coldset_engine::{Config, Engine, Flags, FolioId, LruvecId, NewFolio, ObjectId};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// Pages of the mapping.
pub(crate) const PAGES: usize = 2;
/// Frames of memory: two that hold the pages, two to come back into.
pub(crate) const FRAMES: usize = 4;
/// CPUs on which the address space has run.
pub(crate) const CPUS: usize = 2;
/// Actors at most, the reclaimer among them.
pub(crate) const ACTORS: usize = 4;
/// "No frame" and "no page".
pub(crate) const NONE: u8 = 0xff;
/// Folios that a batch of the engine holds, so that full batches occur.
const BATCH: usize = 2;
/// The CPU that takes the device's interrupts.
pub(crate) const INTERRUPTS: u16 = 0;

/// A frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// The folio in it; none in free memory, and once the engine has forgotten it.
    pub folio: FolioId,
    /// In use, as opposed to free memory.
    pub used: bool,
    /// Page of the mapping that it was taken for.
    pub page: u8,
    /// Stores it holds.
    pub data: u8,
    /// Contents are there.
    pub uptodate: bool,
    /// Block its write-out goes to; [`NONE`] if none is on its way.
    pub io: u8,
    /// The device has read it already and the end of the I/O is to come.
    pub io_read: bool,
    /// Actor of the host that holds the folio lock; [`NONE`] while a task of the engine may.
    pub lock: u8,
    /// Pins, those of a pinner that is yet to look again included.
    pub pins: u8,
    /// A device may write into it: a pin that has been confirmed.
    pub dma: bool,
    /// A task has reclaimed its folio and frees it later.
    pub held: bool,
}

impl Frame {
    pub const FREE: Frame = Frame {
        folio: FolioId::NONE,
        used: false,
        page: NONE,
        data: 0,
        uptodate: false,
        io: NONE,
        io_read: false,
        lock: NONE,
        pins: 0,
        dma: false,
        held: false,
    };
}

/// A page of the mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Page {
    /// Index of the mapping, or swap cache: the frame that holds it, or [`NONE`].
    pub frame: u8,
    /// Page-table entry: the frame, or [`NONE`].
    pub entry: u8,
    /// The entry is dirty.
    pub entry_dirty: bool,
    /// Stores in its block.
    pub block: u8,
    /// Stores that have completed.
    pub done: u8,
    /// Cut off by truncation: no new accesses.
    pub gone: bool,
    /// Its block has been given back.
    pub block_gone: bool,
}

/// A translation that a CPU has cached.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Cached {
    pub frame: u8,
    /// The CPU knows the entry as dirty: a store needs no look at the page table.
    pub dirty: bool,
}

/// How page 1 begins; page 0 is mapped and has been written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    Dirty,
    Clean,
    Unmapped,
    /// Under writeback since an earlier reclaim.
    Written,
}

/// How a world begins.
pub(crate) struct Beginning {
    /// In words.
    pub text: &'static str,
    second: Second,
    /// The engine also lets others run between any two folios of a list.
    resched: bool,
}

const fn beginning(text: &'static str, second: Second, resched: bool) -> Beginning {
    Beginning {
        text,
        second,
        resched,
    }
}

/// The beginnings. In the last one reclaim is that of a limit of cgroup v1, which waits for writeback.
pub(crate) const BEGINNINGS: [Beginning; 7] = [
    beginning("both pages are mapped and have been written; both CPUs cache dirty translations", Second::Dirty, false),
    beginning("both pages are mapped, page 0 has been written and both CPUs cache its dirty translation; page 1 is clean", Second::Clean, false),
    beginning("page 0 is mapped and has been written, both CPUs cache its dirty translation; page 1 is dirty and not mapped", Second::Unmapped, false),
    beginning("both pages are mapped and have been written, both CPUs cache dirty translations; the engine lets others run between folios", Second::Dirty, true),
    beginning("both pages are mapped, page 0 has been written and both CPUs cache its dirty translation; page 1 is clean; the engine lets others run between folios", Second::Clean, true),
    beginning("page 0 is mapped and has been written, both CPUs cache its dirty translation; page 1 is dirty and not mapped; the engine lets others run between folios", Second::Unmapped, true),
    beginning("page 0 is mapped and has been written, both CPUs cache its dirty translation; page 1 is not mapped and under writeback, for which reclaim waits (cgroup v1)", Second::Written, false),
];

/// What all actors share.
#[derive(Clone)]
pub(crate) struct World {
    /// Shared by states until one of them changes it.
    eng: Rc<Engine>,
    pub setting: Setting,
    pub frames: [Frame; FRAMES],
    pub pages: [Page; PAGES],
    /// By CPU, then page.
    pub tlb: [[Option<Cached>; PAGES]; CPUS],
    /// The address space may have translations that a reclaimer has yet to flush.
    pub mm_pending: bool,
    /// So often the device may fail.
    pub failures: u8,
    /// So many reclaimers may be killed.
    pub kills: u8,
    /// What the step that led here has broken.
    pub alarm: Option<Alarm>,
}

/// All folios are charged to the root memcg.
const LRUVEC: LruvecId = LruvecId(0);

impl World {
    /// A world before the first step.
    pub fn new(setting: Setting, beginning: &Beginning, failures: u8, kills: u8) -> Self {
        let Beginning {
            second, resched, ..
        } = *beginning;
        let cfg = Config {
            nr_cpus: CPUS as u32,
            batch_size: BATCH,
            resched_in_lists: resched,
            cgroup_v2: second != Second::Written,
            ..Config::default()
        };
        let mut eng = Engine::new(cfg, setting.switches()).expect("sizes are in range");
        eng.set_swap(64, 64);
        eng.nodes[0].flag_dirty = setting.kind == Kind::FileKswapd;
        let mut w = Self {
            eng: Rc::new(eng),
            setting,
            frames: [Frame::FREE; FRAMES],
            pages: [Page {
                frame: NONE,
                entry: NONE,
                entry_dirty: false,
                block: 0,
                done: 1,
                gone: false,
                block_gone: false,
            }; PAGES],
            tlb: [[None; PAGES]; CPUS],
            mm_pending: false,
            failures,
            kills,
            alarm: None,
        };
        for p in 0..PAGES {
            w.first(p, if p == 0 { Second::Dirty } else { second });
        }
        w.eng_mut().lru_add_drain(0);
        w
    }

    fn first(&mut self, p: usize, second: Second) {
        let f = p;
        let in_swap = second != Second::Dirty;
        self.new_folio(f, p, in_swap);
        self.frames[f].data = 1;
        self.frames[f].uptodate = true;
        if self.setting.kind == Kind::FileKswapd {
            self.set(f, Flags::RECLAIM);
        }
        if matches!(second, Second::Unmapped | Second::Written) {
            self.set_dirty(f);
        } else {
            let id = self.id(f);
            self.eng_mut().folio_map(id);
            self.pages[p].entry = f as u8;
            self.pages[p].entry_dirty = second == Second::Dirty;
            let dirty = second == Second::Dirty;
            let frame = f as u8;
            self.tlb
                .iter_mut()
                .for_each(|cpu| cpu[p] = Some(Cached { frame, dirty }));
        }
        self.lru_add(f, 0);
        self.put(f);
        if second == Second::Written {
            self.clear_dirty(f);
            self.set(f, Flags::RECLAIM);
            self.start_write(f, p, true);
        }
        self.pages[p].block = u8::from(second == Second::Clean);
    }

    // ------------------------------------------------------------ the engine and its folios

    pub fn eng(&self) -> &Engine {
        &self.eng
    }

    /// Nobody has changed the engine between the two.
    pub fn same_engine(&self, other: &World) -> bool {
        Rc::ptr_eq(&self.eng, &other.eng)
    }

    pub fn eng_mut(&mut self) -> &mut Engine {
        Rc::make_mut(&mut self.eng)
    }

    pub fn lruvec(&self) -> LruvecId {
        LRUVEC
    }

    pub fn id(&self, f: usize) -> FolioId {
        self.frames[f].folio
    }

    /// The frame of a folio.
    pub fn frame_of(&self, id: FolioId) -> Option<usize> {
        self.frames.iter().position(|f| f.used && f.folio == id)
    }

    /// The number of that frame, or [`NONE`].
    pub fn name_of(&self, id: FolioId) -> u8 {
        self.frame_of(id).map_or(NONE, |f| f as u8)
    }

    /// All of the flags are set.
    pub fn has(&self, f: usize, flags: Flags) -> bool {
        let id = self.id(f);
        id != FolioId::NONE && self.eng.folio(id).has(flags)
    }

    /// References to the folio; 0: frozen, or forgotten.
    pub fn refs(&self, f: usize) -> u32 {
        let id = self.id(f);
        if id == FolioId::NONE {
            0
        } else {
            self.eng.folio(id).refcount()
        }
    }

    pub fn set(&mut self, f: usize, flags: Flags) {
        let id = self.id(f);
        self.eng_mut().folio_set(id, flags);
    }

    pub fn clear(&mut self, f: usize, flags: Flags) {
        let id = self.id(f);
        self.eng_mut().folio_clear(id, flags);
    }

    pub fn get(&mut self, f: usize) {
        let id = self.id(f);
        self.eng_mut().folio_get(id, 1);
    }

    pub fn put(&mut self, f: usize) {
        let id = self.id(f);
        if self.refs(f) == 0 {
            return self.raise(Alarm::FreedHeld { frame: f as u8 });
        }
        self.eng_mut().folio_put(id, 1);
    }

    pub fn set_dirty(&mut self, f: usize) {
        let id = self.id(f);
        self.eng_mut().set_dirty(id);
    }

    pub fn lru_add(&mut self, f: usize, cpu: u16) {
        let id = self.id(f);
        self.eng_mut().lru_add(cpu, id, false);
    }

    /// A new folio for page `p` in free frame `f`, held by the caller and by the index.
    pub fn new_folio(&mut self, f: usize, p: usize, in_swap: bool) {
        let flags = match self.setting.kind {
            Kind::Shmem => Flags::OWNED | Flags::SWAPBACKED,
            Kind::Anon => Flags::ANON | Flags::SWAPBACKED,
            Kind::File | Kind::FileKswapd => Flags::OWNED,
        };
        let eng = self.eng_mut();
        let id = eng.folio_alloc(NewFolio::page(LRUVEC, ObjectId(0), p as u32, flags));
        if flags.contains(Flags::OWNED) {
            eng.folio_get(id, 1);
        } else if in_swap {
            eng.enter_swap_cache(id, p as u32);
        }
        self.frames[f] = Frame {
            folio: id,
            used: true,
            page: p as u8,
            ..Frame::FREE
        };
        self.pages[p].frame = f as u8;
    }

    /// The folio waits in a batch of a CPU.
    pub fn batched(&self, f: usize) -> bool {
        let id = self.id(f);
        let waits = |cpu| {
            BatchOp::ALL
                .iter()
                .any(|&op| self.eng.batch(cpu, op).contains(&id))
        };
        (0..CPUS as u16).any(waits)
    }

    /// Some entry of the page table maps the frame.
    pub fn mapped(&self, f: usize) -> bool {
        self.pages.iter().any(|p| usize::from(p.entry) == f)
    }

    /// The CPU, if any, that may still reach the frame by a cached translation: to write without a
    /// look at the page table, or at all.
    pub fn cached(&self, f: usize, to_write: bool) -> Option<u8> {
        let reaches = |t: &Cached| usize::from(t.frame) == f && (t.dirty || !to_write);
        let cpu = self
            .tlb
            .iter()
            .position(|c| c.iter().flatten().any(reaches));
        cpu.map(|c| c as u8)
    }

    /// What a load of page `p` that starts now would find in the end.
    pub fn view(&self, p: usize) -> u8 {
        match self.pages[p].frame {
            NONE => self.pages[p].block,
            f if self.frames[usize::from(f)].uptodate => self.frames[usize::from(f)].data,
            _ => self.pages[p].block,
        }
    }

    /// The first alarm of a step is the one that is told, unless a worse one follows.
    pub fn raise(&mut self, alarm: Alarm) {
        if self.alarm.is_none_or(|a| a.mild() && !alarm.mild()) {
            self.alarm = Some(alarm);
        }
    }

    // ------------------------------------------------------------ comparing states

    /// All that decides what can happen from here on. Folios go by their frames; the order of lists
    /// and every statistic are left out: nothing that a named list of folios does depends on them.
    pub fn key(&self) -> Bytes {
        let mut key = Bytes(Vec::with_capacity(192));
        let cfg = self.eng.config();
        (cfg.resched_in_lists, cfg.cgroup_v2).hash(&mut key);
        for f in &self.frames {
            key.0
                .extend([u8::from(f.used), u8::from(f.uptodate), f.page, f.data, f.io]);
            key.0
                .extend([u8::from(f.io_read), f.lock, f.pins, u8::from(f.dma)]);
            let folio = (f.folio != FolioId::NONE).then(|| self.eng.folio(f.folio));
            let flags = folio.map_or(0, |x| (x.word().flags() - NO_MATTER).bits());
            key.write_u32(flags);
            key.0.extend([
                folio.map_or(NONE, |x| x.refcount() as u8),
                folio.map_or(0, |x| x.mapcount() as u8),
                folio.map_or(0, |x| u8::from(x.swap_slot().is_some())),
            ]);
        }
        self.pages.hash(&mut key);
        self.tlb.hash(&mut key);
        self.mm_pending.hash(&mut key);
        for cpu in 0..CPUS as u16 {
            for op in BatchOp::ALL {
                let waiting = self.eng.batch(cpu, op);
                key.0.push(waiting.len() as u8);
                key.0.extend(waiting.iter().map(|&id| self.name_of(id)));
            }
        }
        key.0.extend([self.failures, self.kills]);
        key
    }
}

/// Flags that decide where on the lists a folio goes, and nothing here.
const NO_MATTER: Flags = Flags::ACTIVE
    .union(Flags::REFERENCED)
    .union(Flags::WORKINGSET);

/// A key in the making: what is hashed, unhashed.
pub(crate) struct Bytes(pub Vec<u8>);

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        unreachable!("keys are compared as they are")
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn write_usize(&mut self, i: usize) {
        self.0.push(i as u8);
    }
    fn write_isize(&mut self, i: isize) {
        self.0.push(i as u8);
    }
}
