//! Page-table walks for aging (`mglru.md` 5.2): the host's half.

use crate::ctx::Ctx;
use crate::mem::mapping::{table_key, TABLE_EXISTS, TABLE_YOUNG};
use crate::mem::{MappingFlags, Pte};
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::mglru::walk::Walk;
use coldset_engine::LruType;

impl World {
    /// Walks one address space and reports accessed entries. Returns slots looked at.
    pub(crate) fn walk_mm(&mut self, ctx: &Ctx, walk: &Walk) -> u64 {
        let (mut slots, mut tables, mut cleared) = (0u64, 0u64, 0u64);
        for i in 0..self.mms[walk.mm.idx()].mappings.len() {
            let id = self.mms[walk.mm.idx()].mappings[i];
            let m = &self.mappings[id.0 as usize];
            let object = m.object;
            let t = if self.objects[object.idx()].is_file() {
                LruType::File
            } else {
                LruType::Anon
            };
            let skip = MappingFlags::NO_RECENCY | MappingFlags::LOCKED;
            if m.flags.intersects(skip) || !self.engine.walk_wants_type(walk, t) {
                continue;
            }
            let start = m.start;
            for table in 0..m.tables.len() as u32 {
                let m = &mut self.mappings[id.0 as usize];
                let upper = &mut m.tables[table as usize];
                if *upper & TABLE_EXISTS == 0 {
                    continue;
                }
                tables += 1;
                let key = table_key(id, table);
                if !walk.force {
                    if *upper & TABLE_YOUNG == 0 {
                        continue;
                    }
                    *upper &= !TABLE_YOUNG;
                    if !self.engine.walk_wants_table(walk, key) {
                        continue;
                    }
                }
                let range = self.mappings[id.0 as usize].table_range(table);
                let len = u64::from(range.end - range.start);
                let mut young = 0;
                for e in range {
                    let pte = self.mappings[id.0 as usize].ptes[e as usize];
                    if !pte.contains(Pte::PRESENT | Pte::YOUNG) {
                        continue;
                    }
                    let Some(f) = self.objects[object.idx()].word(start + e).folio() else {
                        continue;
                    };
                    if !self.engine.walk_wants_folio(walk, f) {
                        continue;
                    }
                    self.mappings[id.0 as usize].ptes[e as usize] -= Pte::YOUNG;
                    young += 1;
                    self.engine.walk_young(walk, f, pte.contains(Pte::DIRTY));
                }
                slots += len;
                cleared += young;
                self.engine.walk_table_done(walk, key, len, young);
            }
        }
        self.note_dirty(ctx);
        let p = &self.params;
        let ns = slots * p.walk_pte_ns + tables * p.walk_table_ns + cleared * p.walk_clear_young_ns;
        ctx.charge(TimeClass::AllocStall, ns);
        slots
    }
}
