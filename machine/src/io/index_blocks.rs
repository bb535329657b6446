//! Blocks in which a file system keeps where the pages of a file are (`docs/rules/index-blocks.md`).
//!
//! | step | where |
//! |---|---|
//! | a file gets so many extents | [`World::set_extents`] |
//! | pages of it are about to be read whose place is not known | [`World::unread_block`] |
//! | the block is read into the page cache of the device | [`Machine::read_block`] |
//! | its buffer stays with the CPU, and keeps it in memory | [`World::keep_buffers`] |

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::io::page_in::Purpose;
use crate::io::read_ahead::Window;
use crate::machine::Machine;
use crate::mem::index_blocks::{Buffers, IndexBlocks, EXTENTS_IN_INODE};
use crate::mem::{Backing, Object, Slot};
use crate::world::World;
use coldset_engine::{Flags, ObjectId};
use std::ops::Range;

impl World {
    /// The places of a file's pages are `extents` runs, as long as each other. Where its inode has no room for them,
    /// blocks of the device have them, each of which is read when the place of a page in it is needed first.
    pub fn set_extents(&mut self, file: ObjectId, extents: u32) {
        let Backing::File { device, .. } = self.objects[file.idx()].backing else {
            return;
        };
        if extents <= EXTENTS_IN_INODE {
            self.objects[file.idx()].index = None;
            return;
        }
        let cache = self.device_cache(device);
        let first = self.objects[cache.idx()].pages();
        let pages = self.objects[file.idx()].pages();
        let index = IndexBlocks::of(extents, pages, cache, first);
        let blocks = index.as_ref().map_or(0, IndexBlocks::len);
        let device = &mut self.objects[cache.idx()];
        device.grow(first + blocks);
        // The nodes above them are part of what a memcg has been seen to be charged for before anything else.
        for block in first..first + blocks {
            device.touch_nodes(block);
        }
        self.objects[file.idx()].index = index.map(Box::new);
    }

    /// Nobody else looks up blocks of a file system: the buffers of a CPU's last blocks stay with it, and the blocks
    /// in memory. Otherwise other blocks push them out before memory is short.
    pub fn keep_buffers(&mut self) {
        self.buffers = Buffers::staying(self.sim.config().cpus);
    }

    /// The page cache of a device.
    fn device_cache(&mut self, device: usize) -> ObjectId {
        if let Some(cache) = self.device_caches[device] {
            return cache;
        }
        let start = self.device_end[device];
        self.device_end[device] += 1 << 20;
        let mut cache = Object::scattered(Backing::File { device, start }, 0);
        cache.metadata = true;
        let cache = self.add_object(cache);
        self.device_caches[device] = Some(cache);
        cache
    }

    /// The block that must be read before these pages of a file can be.
    #[inline]
    pub(crate) fn unread_block(&self, file: ObjectId, pages: &Range<u32>) -> Option<u32> {
        let index = self.objects[file.idx()].index.as_deref()?;
        index.unread(pages)
    }

    /// A block is in memory. What it says is remembered with the inode from now on.
    fn block_read(&mut self, cpu: u16, file: ObjectId, block: u32) {
        let index = self.objects[file.idx()].index.as_deref_mut();
        let Some(index) = index else { return };
        index.set_read(block);
        let place = index.place(block);
        if self.buffers.stay() {
            self.hold_block(place, true);
            if let Some(out) = self.buffers.used(cpu, place) {
                self.hold_block(out, false);
            }
        }
    }

    /// The page of a block has a buffer that a CPU holds, or has it no more.
    fn hold_block(&mut self, (cache, page): (ObjectId, u32), held: bool) {
        if let Slot::Folio(id) = self.objects[cache.idx()].slot(page) {
            match held {
                true => self.engine.folio_set(id, Flags::PRIVATE),
                false => self.engine.folio_clear(id, Flags::PRIVATE),
            }
        }
    }
}

impl Machine {
    /// Reads a block of a file's index. Whoever reads it pays for it, and waits.
    ///
    /// # Errors
    /// There is no memory for it, or the device has failed.
    pub(crate) async fn read_block(
        &self,
        ctx: &Ctx,
        file: ObjectId,
        block: u32,
        purpose: Purpose,
    ) -> Result<(), OpError> {
        let place = {
            let w = self.w.borrow();
            let index = w.objects[file.idx()].index.as_deref();
            index.map(|i| i.place(block))
        };
        let Some((cache, page)) = place else {
            return Ok(());
        };
        let window = Window::needed(page..page + 1);
        let held = Box::pin(self.page_in(ctx, cache, window, purpose)).await?;
        self.w.borrow_mut().block_read(ctx.cpu(), file, block);
        drop(held);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;
    use crate::io::read::OpenFile;
    use crate::machine::MachineRun;
    use crate::mem::index_blocks::EXTENTS_IN_BLOCK;
    use crate::mem::MappingFlags;
    use crate::sim::Affinity;
    use coldset_engine::switches::presets::preset;
    use coldset_engine::{Counter, MemcgId};

    /// A machine with a file of `file_pages` pages in `extents` runs, under a limit.
    struct Stage {
        run: MachineRun,
        memcg: MemcgId,
        file: ObjectId,
    }

    impl Stage {
        fn new(variant: &str, extents: u32, file_pages: u32, limit: u64) -> Self {
            let mut cfg = MachineConfig::new(preset(variant).unwrap());
            cfg.check = true;
            cfg.fault_around = 1;
            let run = MachineRun::new(&cfg).unwrap();
            let m = run.machine.clone();
            let memcg = m.limited_memcg(limit);
            let file = m.create_file(0, file_pages);
            m.world_mut().set_extents(file, extents);
            Self { run, memcg, file }
        }

        /// Reads these pages by a task of the memcg, through a mapping or a descriptor.
        fn read(&mut self, mapped: bool, pages: impl IntoIterator<Item = u32>) {
            let m = self.run.machine.clone();
            let (mm, file) = (m.create_mm(self.memcg), self.file);
            let all = m.world().object(file).pages();
            let map = m.mmap(mm, file, 0, all, MappingFlags::NO_RECENCY);
            let pages: Vec<u32> = pages.into_iter().collect();
            m.spawn("reader", Affinity::Any, mm, move |m, ctx| async move {
                let opened = OpenFile::new(file);
                opened.advise(crate::io::read_ahead::Advice::Random);
                for page in pages {
                    match mapped {
                        true => m.access(&ctx, map, page, false).await.unwrap(),
                        false => m.read(&ctx, &opened, page, 1).await.unwrap(),
                    }
                }
            });
            self.run.executor.run();
        }

        /// The flags of each block that is in memory.
        fn blocks(&self) -> Vec<(u32, Flags)> {
            let w = self.run.machine.world();
            let Some(cache) = w.device_caches[0] else {
                return Vec::new();
            };
            let cache = w.object(cache);
            let cached = |page| {
                Some((
                    page,
                    w.engine.folio(cache.word(page).folio()?).word().flags(),
                ))
            };
            (0..cache.pages()).filter_map(cached).collect()
        }

        fn pages_read(&self) -> i64 {
            let w = self.run.machine.world();
            w.engine.memcgs.live(self.memcg, Counter::Pgpgin) / 4
        }
    }

    #[test]
    fn the_first_read_brings_in_the_block_that_has_the_places() {
        for mapped in [false, true] {
            let mut s = Stage::new("v72", 6, 1000, 500);
            assert!(s.blocks().is_empty());
            s.read(mapped, [700, 3, 999]);
            let blocks = s.blocks();
            assert_eq!(blocks.len(), 1);
            assert!(blocks[0].1.contains(Flags::REFERENCED | Flags::UPTODATE));
            assert!(!blocks[0].1.contains(Flags::PRIVATE));
            assert_eq!(s.pages_read(), 4, "the block is read once");
            let usage = s.run.machine.world().engine.memcgs[s.memcg]
                .memory()
                .usage();
            assert!(usage >= 4, "and paid for");
        }
    }

    #[test]
    fn four_extents_need_no_block() {
        let mut s = Stage::new("v72", EXTENTS_IN_INODE, 1000, 500);
        s.read(true, 0..100);
        assert!(s.blocks().is_empty());
        assert_eq!(s.pages_read(), 100);
    }

    #[test]
    fn a_block_whose_buffer_a_cpu_holds_outlives_every_page() {
        for (held, variant) in [true, false]
            .into_iter()
            .flat_map(|h| ["v618", "v72", "classic"].map(|v| (h, v)))
        {
            let mut s = Stage::new(variant, 6, 5000, 300);
            if held {
                s.run.machine.world_mut().keep_buffers();
            }
            s.read(true, 0..5000);
            let blocks = s.blocks();
            assert_eq!(blocks.len(), usize::from(held), "{variant}");
            assert!(blocks.iter().all(|b| b.1.contains(Flags::PRIVATE)));
            assert_eq!(s.pages_read(), 5001, "nobody asks for it again");
        }
    }

    #[test]
    fn the_seventeenth_block_lets_the_first_go() {
        let mut s = Stage::new("v72", 17 * EXTENTS_IN_BLOCK, 1700, 5000);
        s.run.machine.world_mut().keep_buffers();
        let held = |s: &Stage| -> Vec<u32> {
            let has = |b: &&(u32, Flags)| b.1.contains(Flags::PRIVATE);
            s.blocks().iter().filter(has).map(|b| b.0).collect()
        };
        // Leaves have 100 pages each; the block above them is number 17.
        s.read(false, [0]);
        assert_eq!(held(&s), [0, 17]);
        s.read(false, (1..15).map(|leaf| leaf * 100));
        assert_eq!(held(&s), (0..15).chain([17]).collect::<Vec<_>>());
        s.read(false, [1500]);
        assert_eq!(held(&s), (0..16).collect::<Vec<_>>(), "looked up first");
        s.read(false, [1699]);
        assert_eq!(held(&s), (1..17).collect::<Vec<_>>());
        assert_eq!(s.blocks().len(), 18);
    }
}
