//! Page-table walks for aging (`docs/rules/aging.md`): the host's half.
//!
//! A task of the executor walks in stretches and occupies its CPU for each before the next,
//! so that others run meanwhile and see an aging in progress. An inline task is alone and walks in
//! one go.

use crate::ctx::Ctx;
use crate::mem::mapping::{table_key, TABLE_EXISTS, TABLE_HUGE, TABLE_YOUNG};
use crate::mem::{MappingFlags, MappingId, Pte};
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::mglru::walk::{Walk, YoungEntry};
use coldset_engine::reclaim::Answer;
use coldset_engine::{FolioId, LruType};

/// What a walk of a table has come to.
#[derive(Clone, Copy, Default)]
struct Walked {
    young: u64,
    ns: u64,
}

/// How a walk's entries are told from each other: mapping and leaf table.
const fn position(mapping: MappingId, table: u32) -> u64 {
    (mapping.0 as u64) << 32 | table as u64
}

impl World {
    /// Tells the engine which address spaces have run.
    pub(crate) fn report_switches(&mut self) {
        for mm in self.switches.take() {
            self.engine.mm_ran(mm);
        }
    }

    /// Walks an address space, or a stretch of it, and reports accessed entries.
    pub(crate) fn walk_mm(&mut self, ctx: &Ctx, walk: &Walk) -> Answer {
        let in_stretches = ctx.task().is_some();
        let (mut young, mut ns) = (0, 0);
        let from = MappingId((walk.at >> 32) as u32);
        let mut first_table = walk.at as u32;
        for i in 0..self.mms[walk.mm.idx()].mappings.len() {
            let id = self.mms[walk.mm.idx()].mappings[i];
            if id < from {
                continue;
            }
            let begin = std::mem::take(&mut first_table) * u32::from(id == from);
            if !self.walk_wants_mapping(walk, id) {
                continue;
            }
            let mut table = begin;
            while let Some(next) = self.mappings[id.0 as usize].next_table(table) {
                table = next;
                let full = young >= self.engine.walk_batch() || ctx.settle_due();
                // At least one table per stretch, so that a walk always advances.
                if in_stretches && full && position(id, table) > walk.at {
                    self.note_dirty(ctx);
                    let next = Some(position(id, table));
                    return Answer::Stretch { young, next };
                }
                let walked = self.walk_table(walk, id, table);
                young += walked.young;
                ns += walked.ns;
                ctx.charge(TimeClass::AllocStall, walked.ns);
                table += 1;
            }
        }
        if !in_stretches && walk.mm == ctx.mm && ns >= self.sim.tick_ns() {
            // Somebody else has had the CPU while it walked, and it has been switched to again.
            self.engine.mm_ran(walk.mm);
        }
        self.note_dirty(ctx);
        if in_stretches {
            Answer::Stretch { young, next: None }
        } else {
            Answer::Walked
        }
    }

    /// True if the walk looks at mappings like this one.
    fn walk_wants_mapping(&self, walk: &Walk, id: MappingId) -> bool {
        let m = &self.mappings[id.0 as usize];
        let t = if self.objects[m.object.idx()].is_file() {
            LruType::File
        } else {
            LruType::Anon
        };
        let skip = MappingFlags::NO_RECENCY | MappingFlags::LOCKED;
        !m.flags.intersects(skip) && self.engine.walk_wants_type(walk, t)
    }

    /// Walks a leaf table if it is worth it.
    fn walk_table(&mut self, walk: &Walk, id: MappingId, table: u32) -> Walked {
        let m = &mut self.mappings[id.0 as usize];
        let (start, object, key) = (m.start, m.object, table_key(id, m, table));
        let upper = &mut m.tables[table as usize];
        if *upper & TABLE_EXISTS == 0 {
            return Walked::default();
        }
        if *upper & TABLE_HUGE != 0 {
            return self.walk_huge(walk, id, table);
        }
        let enter = self.params.walk_table_ns;
        if !walk.force {
            let skip = *upper & TABLE_YOUNG == 0 || {
                *upper &= !TABLE_YOUNG;
                !self.engine.walk_wants_table(walk, key)
            };
            if skip {
                return Walked {
                    young: 0,
                    ns: enter,
                };
            }
        }
        let range = m.table_range(table);
        let len = u64::from(range.end - range.start);
        let exec = m.flags.contains(MappingFlags::EXEC);
        let mut young = 0;
        for from in range.clone().step_by(64) {
            let window = from..range.end.min(from + 64);
            let ptes = &self.mappings[id.0 as usize].ptes;
            let mut used = ptes.used(window.clone());
            if used == 0 {
                continue;
            }
            let dirty = ptes.dirty(window);
            let mut folios = [FolioId::NONE; 64];
            self.find_folios(object, start + from, used, &mut folios);
            let mut left = used;
            while left != 0 {
                let f = folios[left.trailing_zeros() as usize];
                let bit = left & left.wrapping_neg();
                left ^= bit;
                if f == FolioId::NONE || !self.engine.walk_wants_folio(walk, f) {
                    used ^= bit;
                    continue;
                }
                let dirty = dirty & bit != 0;
                self.engine.walk_young(walk, f, YoungEntry { dirty, exec });
            }
            self.mappings[id.0 as usize].ptes.take_young(from, used);
            young += u64::from(used.count_ones());
        }
        self.engine.walk_table_done(walk, key, len, young);
        let p = &self.params;
        let ns = enter + len * p.walk_pte_ns + young * p.walk_clear_young_ns;
        Walked { young, ns }
    }

    /// Looks at a huge entry, which no filter leaves out.
    fn walk_huge(&mut self, walk: &Walk, id: MappingId, table: u32) -> Walked {
        let ns = self.params.walk_pte_ns;
        let m = &mut self.mappings[id.0 as usize];
        let range = m.table_range(table);
        let marks = m.ptes.marks(range.clone());
        let page = self.objects[m.object.idx()].word(m.start + range.start);
        let wanted = |&f: &FolioId| self.engine.walk_wants_folio(walk, f);
        let folio = page.folio().filter(wanted);
        let Some(folio) = folio.filter(|_| marks.contains(Pte::YOUNG)) else {
            return Walked { young: 0, ns };
        };
        for e in range {
            m.ptes.take(e, Pte::YOUNG);
        }
        let exec = m.flags.contains(MappingFlags::EXEC);
        let dirty = marks.contains(Pte::DIRTY);
        self.engine
            .walk_young(walk, folio, YoungEntry { dirty, exec });
        Walked {
            young: 1,
            ns: ns + self.params.walk_clear_young_ns,
        }
    }
}
