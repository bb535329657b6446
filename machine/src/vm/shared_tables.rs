//! Leaf tables that small mappings share, as they lie next to each other (`docs/rules/machine.md#memory-of-the-kernel`).

use crate::mem::mapping::{MappingId, TABLE};
use crate::world::{Mm, World};

impl Mm {
    /// A small mapping of so many entries lies below the last one. What its leaf table is called after; none: a new one,
    /// called after itself.
    pub(crate) fn next_to_others(&mut self, id: MappingId, entries: u32) -> Option<MappingId> {
        let (table, taken) = self.open_table.unwrap_or((id, 0));
        let taken = taken + entries;
        self.open_table = match taken.cmp(&TABLE) {
            std::cmp::Ordering::Less => Some((table, taken)),
            std::cmp::Ordering::Equal => None,
            // The rest lies in the next one, which is called after it. Its own entries count in the first only.
            std::cmp::Ordering::Greater => Some((id, taken - TABLE)),
        };
        (table != id).then_some(table)
    }
}

impl World {
    /// A mapping has its first entry in a leaf table. True if the table is made for it.
    pub(super) fn enters_table(&mut self, id: MappingId) -> bool {
        let Some(others) = self.others_in_table(id) else {
            return true;
        };
        *others += 1;
        *others == 1
    }

    /// A mapping that had entries in its leaf tables is gone. True if nobody else has any in them.
    pub(super) fn leaves_table(&mut self, id: MappingId) -> bool {
        let Some(others) = self.others_in_table(id) else {
            return true;
        };
        *others -= 1;
        *others == 0
    }

    /// Mappings with entries in the leaf table of one that shares its own.
    fn others_in_table(&mut self, id: MappingId) -> Option<&mut u32> {
        let m = &self.mappings[id.0 as usize];
        let of = m.shares_table.then(|| m.place.unwrap_or(id))?;
        Some(&mut self.mappings[of.0 as usize].in_table)
    }
}

#[cfg(test)]
mod tests {
    use crate::ctx::{Ctx, InlineClock};
    use crate::{MachineConfig, MachineRun, MappingFlags};
    use coldset_engine::presets::preset;
    use coldset_engine::{MemcgId, MmId};

    /// The leaf tables of a task that maps files of these pages in this order and loads from the first and the last of
    /// each, after each, and when all have been unmapped in the order in which they came.
    fn tables(shared: bool, files: &[u32]) -> (Vec<u64>, Vec<u64>) {
        let mut config = MachineConfig::new(preset("v618").unwrap());
        config.shared_tables = shared;
        config.check = true;
        let mut run = MachineRun::new(&config).unwrap();
        let m = run.machine.clone();
        let mm: MmId = m.create_mm(MemcgId::ROOT);
        let ctx = Ctx::inline(mm, MemcgId::ROOT, InlineClock::Running);
        let count = || m.world_mut().mm(mm).tables;
        let (mut maps, mut after) = (Vec::new(), Vec::new());
        for &pages in files {
            let file = m.create_file(0, pages);
            let map = m.mmap(mm, file, 0, pages, MappingFlags::empty());
            for page in [0, pages - 1] {
                run.load(&ctx, map, page).unwrap();
            }
            maps.push(map);
            after.push(count());
        }
        let gone = maps.into_iter().map(|map| {
            m.munmap(&ctx, map);
            count()
        });
        (after, gone.collect())
    }

    #[test]
    fn small_mappings_share_leaf_tables() {
        let files = [200, 200, 200, 10, 1024, 400];
        let (after, gone) = tables(true, &files);
        // The third begins in the first table, and so does not count in the second, which begins with the fourth. The
        // large one has its own, and the last begins with the fourth.
        assert_eq!(after, [1, 1, 1, 2, 4, 4]);
        assert_eq!(gone, [4, 4, 3, 3, 1, 0]);
        let (after, gone) = tables(false, &files);
        assert_eq!(after, [1, 2, 3, 4, 6, 7]);
        assert_eq!(gone, [6, 5, 4, 3, 1, 0]);
    }
}
