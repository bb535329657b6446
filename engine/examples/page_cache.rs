//! A page cache in front of a file: a fixed number of frames, dirty pages written back, any policy.
//!
//! `cargo run -p coldset-engine --example page_cache -- v5 classic s3fifo lfu`
//!
//! `lfu` is a policy of this program's own, outside of the engine. `docs/how-to/use-the-engine.md` explains.

use coldset_engine::memcg::{ChargeFlags, ChargeStep, ChargeTask, CounterKind, TaskMemcg};
use coldset_engine::policies::desk::{Decides, Desk, Failure, Makes, Numbers, Say};
use coldset_engine::policies::outside::OutsideKind;
use coldset_engine::policies::ListKind;
use coldset_engine::reclaim::{Answer, ReclaimTask, Work};
use coldset_engine::switches::PolicyKind;
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::workingset::Shadow;
use coldset_engine::{
    presets, Config, Engine, Flags, FolioId, MemcgId, NewFolio, NodeId, ObjectId, PAGE_SIZE,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FRAMES: usize = 256;
const PAGES: u32 = 1024;
/// The only file; a host numbers its files and regions as it likes.
const OBJECT: ObjectId = ObjectId(0);

/// What a slot of the file's index holds.
enum Slot {
    Resident { folio: FolioId, frame: usize },
    Evicted(Shadow),
}

struct Cache {
    engine: Engine,
    memcg: MemcgId,
    task: TaskMemcg,
    desk: Option<Desk>,
    file: File,
    slots: BTreeMap<u32, Slot>,
    frames: Vec<[u8; PAGE_SIZE as usize]>,
    free: Vec<usize>,
    hits: u64,
    misses: u64,
}

impl Cache {
    fn new(policy: &str, file: File) -> Result<Self> {
        let (mut switches, desk) = if policy == "lfu" {
            let makes: Arc<dyn Makes> = Arc::new(MakesLfu);
            let mut switches = presets::preset("v5")?;
            switches.policy = PolicyKind::List(ListKind::Outside(makes.kind()));
            let desk = Desk::new(makes, FRAMES as u64, Box::new(ByIndex));
            (switches, Some(desk))
        } else {
            (presets::preset(policy)?, None)
        };
        // Nobody tells the time here, so the statistics must not lag behind it.
        switches.stale_stats = false;
        let config = Config {
            nr_cpus: 1,
            ..Config::default()
        };
        let mut engine = Engine::new(config, switches)?;
        // Charges to the root are not counted, so the frames need a memcg.
        let memcg = engine.memcg_create(MemcgId::ROOT)?;
        engine
            .memcgs
            .set_max(memcg, CounterKind::Memory, FRAMES as u64)?;
        Ok(Cache {
            engine,
            memcg,
            task: TaskMemcg::default(),
            desk,
            file,
            slots: BTreeMap::new(),
            frames: vec![[0; PAGE_SIZE as usize]; FRAMES],
            free: (0..FRAMES).collect(),
            hits: 0,
            misses: 0,
        })
    }

    /// The page's folio and frame, in memory from now on.
    fn get(&mut self, page: u32, for_write: bool) -> Result<(FolioId, usize)> {
        if let Some(&Slot::Resident { folio, frame }) = self.slots.get(&page) {
            self.hits += 1;
            return Ok((folio, frame));
        }
        self.misses += 1;
        self.bring_in(page, for_write)
    }

    fn bring_in(&mut self, page: u32, for_write: bool) -> Result<(FolioId, usize)> {
        self.charge()?;
        let frame = self.free.pop().expect("as many as the limit");
        let at = u64::from(page) * PAGE_SIZE;
        self.file.read_exact_at(&mut self.frames[frame], at)?;
        let lruvec = self.engine.lruvec_id(self.memcg, NodeId(0));
        // The reference that this returns is the slot's.
        let new = NewFolio::page(lruvec, OBJECT, page, Flags::OWNED | Flags::UPTODATE);
        let folio = self.engine.folio_alloc(new);
        let shadow = match self.slots.remove(&page) {
            Some(Slot::Evicted(shadow)) if !for_write => Some(shadow),
            _ => None,
        };
        if let Some(shadow) = shadow {
            self.engine.refault(folio, shadow, RefaultSite::Read);
        }
        self.engine.lru_add(0, folio, false);
        self.slots.insert(page, Slot::Resident { folio, frame });
        Ok((folio, frame))
    }

    /// One page more; reclaims if the limit refuses.
    fn charge(&mut self) -> Result<()> {
        let tree = &mut self.engine.memcgs;
        let Err(over) = tree.try_charge_fast(self.memcg, 1, 0, &mut self.task) else {
            return Ok(());
        };
        let mut charge = ChargeTask::refused(self.memcg, 1, ChargeFlags::USER, over);
        loop {
            match charge.step(&mut self.engine.memcgs, 0, &mut self.task) {
                ChargeStep::Reclaim { over, nr } => {
                    let freed = self.reclaim(over, nr)?;
                    charge.reclaim_done(freed);
                }
                // There is nobody to kill: the charge fails.
                ChargeStep::Oom { .. } => charge.oom_done(false),
                ChargeStep::Done(Ok(_)) => return Ok(()),
                ChargeStep::Done(Err(e)) => return Err(format!("no memory: {e:?}").into()),
            }
        }
    }

    /// Pages freed.
    fn reclaim(&mut self, memcg: MemcgId, nr: u64) -> Result<u64> {
        let mut task = ReclaimTask::limit(memcg, nr, 0, NodeId(0));
        loop {
            match task.step(&mut self.engine) {
                Work::Free => {
                    for freed in task.freed() {
                        let slot = self.slots.remove(&freed.index);
                        let Some(Slot::Resident { frame, .. }) = slot else {
                            unreachable!("freed twice");
                        };
                        self.free.push(frame);
                        if let Some(shadow) = freed.shadow {
                            self.slots.insert(freed.index, Slot::Evicted(shadow));
                        }
                    }
                }
                // Reclaim never writes a file's page itself: it says that it meets dirty ones.
                Work::WakeFlushers | Work::Throttle { .. } => self.flush()?,
                Work::Victim { lruvec, lru_type } => {
                    let desk = self.desk.as_mut().expect("only lfu is asked");
                    let victim = desk.victim(&mut self.engine, lruvec, lru_type);
                    if let Some((_, why)) = desk.take_failure() {
                        return Err(why);
                    }
                    task.answer(Answer::Victim(victim));
                }
                Work::Done => return Ok(task.outcome().reclaimed),
                // Nothing is mapped or anonymous, and one thread does everything.
                _ => {}
            }
        }
    }

    /// Writes all dirty pages.
    fn flush(&mut self) -> Result<()> {
        for (&page, slot) in &self.slots {
            let Slot::Resident { folio, frame } = *slot else {
                continue;
            };
            if self.engine.clear_dirty(folio) {
                self.engine.writeback_start(folio);
                let at = u64::from(page) * PAGE_SIZE;
                let written = self.file.write_all_at(&self.frames[frame], at);
                if written.is_err() {
                    self.engine.set_dirty(folio);
                }
                self.engine.writeback_end(0, folio);
                written?;
            }
        }
        Ok(())
    }

    fn read(&mut self, page: u32) -> Result<u8> {
        let (folio, frame) = self.get(page, false)?;
        self.engine.mark_accessed(0, folio);
        Ok(self.frames[frame][0])
    }

    fn write(&mut self, page: u32, value: u8) -> Result<()> {
        let (folio, frame) = self.get(page, true)?;
        self.frames[frame][0] = value;
        self.engine.set_dirty(folio);
        Ok(())
    }
}

// ------------------------------------------------------------ a policy of its own

/// Least frequently used, of those the least recently used. Counts are halved now and then, so that old fame fades.
#[derive(Default)]
struct Lfu {
    /// Number of uses and last use of each page.
    uses: BTreeMap<u64, (u64, usize)>,
    now: usize,
}

impl Decides for Lfu {
    fn tell(&mut self, _at: u64, said: &[(Say, u64)]) -> std::result::Result<(), Failure> {
        for &(say, page) in said {
            self.now += 1;
            let now = self.now;
            match say {
                Say::Insert | Say::PutBack | Say::Due => {
                    self.uses.entry(page).or_insert((1, now));
                }
                Say::Hit | Say::PutBackUsed => {
                    let (n, last) = self.uses.entry(page).or_default();
                    (*n, *last) = (*n + 1, now);
                }
                Say::Remove => {
                    self.uses.remove(&page);
                }
            }
            if now.is_multiple_of(10 * FRAMES) {
                self.uses.values_mut().for_each(|u| u.0 /= 2);
            }
        }
        Ok(())
    }

    fn evict(&mut self, _at: u64) -> std::result::Result<u64, Failure> {
        let least = self.uses.iter().min_by_key(|&(_, uses)| uses);
        let page = *least.ok_or("no page")?.0;
        self.uses.remove(&page);
        Ok(page)
    }

    fn refuse(&mut self, _at: u64, page: u64) -> Failure {
        format!("page {page} is not in memory").into()
    }
}

#[derive(Debug)]
struct MakesLfu;

impl Makes for MakesLfu {
    fn name(&self) -> &str {
        "lfu"
    }

    fn kind(&self) -> OutsideKind {
        OutsideKind {
            uses: true,
            moves: false,
            file_first: true,
        }
    }

    fn is_told_of_removals(&self) -> bool {
        true
    }

    fn takes_due(&self) -> bool {
        false
    }

    fn make(&self, _frames: u64) -> std::result::Result<Box<dyn Decides>, Failure> {
        Ok(Box::new(Lfu::default()))
    }
}

/// Pages by their index in the only file.
struct ByIndex;

impl Numbers for ByIndex {
    fn number(&mut self, _at: u64, _object: ObjectId, index: u32) -> u64 {
        u64::from(index)
    }

    fn spare(&mut self) -> u64 {
        u64::MAX
    }
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("page_cache.{}", std::process::id()));
    for policy in std::env::args().skip(1) {
        std::fs::write(&path, vec![0; PAGES as usize * PAGE_SIZE as usize])?;
        let file = File::options().read(true).write(true).open(&path)?;
        std::fs::remove_file(&path)?;
        let mut cache = Cache::new(&policy, file)?;
        let mut truth = vec![0; PAGES as usize];
        let mut random = 1u64;
        for n in 0..40_000u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Low pages are used often; now and then there is a scan.
            let uniform = (random >> 40) as f64 / (1u64 << 24) as f64;
            let page = match n % 8000 {
                at @ 0..1000 => at as u32,
                _ => (f64::from(PAGES) * uniform * uniform * uniform) as u32,
            };
            if random.is_multiple_of(10) {
                truth[page as usize] = n as u8;
                cache.write(page, n as u8)?;
            } else {
                assert_eq!(cache.read(page)?, truth[page as usize]);
            }
        }
        cache.engine.check();
        let ratio = cache.hits as f64 / (cache.hits + cache.misses) as f64;
        println!("{policy:8} {:.1} % hits", 100.0 * ratio);
    }
    Ok(())
}
