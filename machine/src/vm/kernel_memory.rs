//! Memory of the kernel that programs cause: index nodes of files, page tables, what a file system keeps for written pages
//! (`docs/rules/machine.md#memory-of-the-kernel`). It is owed in millionths of a page, and charged a page at a time.

use super::wanted::Wanted;
use crate::config::OpError;
use crate::ctx::{Ctx, Reach};
use crate::machine::Machine;
use crate::mem::MappingId;
use crate::world::World;
use coldset_engine::memcg::TaskMemcg;
use coldset_engine::{Counter, MemcgId, NodeId, ObjectId};

impl Machine {
    /// Charges kernel memory that a first touch needs: `nodes` index nodes, `tables` leaf tables and
    /// what goes with `written` newly written pages. What cannot be charged stays owed.
    #[inline]
    pub(crate) async fn charge_kernel(
        &self,
        ctx: &Ctx,
        memcg: MemcgId,
        nodes: u64,
        tables: u64,
        written: u64,
    ) -> Result<(), OpError> {
        if nodes == 0 && tables == 0 && written == 0 {
            return Ok(());
        }
        self.w
            .borrow_mut()
            .owe_kernel_memory(memcg, nodes, tables, written);
        while self.w.borrow().kernel_page_due(memcg) {
            let page = self.get_pages(ctx, memcg, 1).await?;
            let mut w = self.w.borrow_mut();
            // Another task may have paid meanwhile.
            if w.kernel_page_due(memcg) {
                w.pay_kernel_page(memcg, ctx.reach());
                drop(w);
                page.keep();
            }
        }
        Ok(())
    }
}

impl World {
    /// Index nodes that a new page of an object needs first, if kernel memory is accounted.
    #[inline]
    pub(crate) fn new_index_nodes(&mut self, object: ObjectId, page: u32) -> u64 {
        match self.kernel {
            Some(_) => self.objects[object.idx()].touch_nodes(page),
            None => 0,
        }
    }

    /// Charges a memcg with the kernel memory of one that has done nothing, as far as that fits. The CPU keeps what
    /// the charge has left.
    pub fn charge_kernel_base(&mut self, memcg: MemcgId) {
        self.owe_kernel_memory(memcg, 0, 0, 0);
        let mut high = TaskMemcg::default();
        let anywhere = Reach {
            node: NodeId(0),
            bound: false,
        };
        while self.kernel_page_due(memcg)
            && self
                .engine
                .memcgs
                .try_charge_fast(memcg, 1, 0, &mut high)
                .is_ok()
        {
            if !self.take_wanted(anywhere, Wanted::new(memcg, 1)) {
                self.engine.memcgs.uncharge(memcg, 1);
                break;
            }
            self.pay_kernel_page(memcg, anywhere);
        }
    }

    /// Notes kernel memory that becomes due.
    fn owe_kernel_memory(&mut self, memcg: MemcgId, nodes: u64, tables: u64, written: u64) {
        let p = &self.params;
        let owed_new = nodes * p.index_node_page_ppm
            + tables * 1_000_000
            + written * p.written_page_kernel_ppm;
        let base = p.kernel_base_page_ppm;
        let Some(k) = &mut self.kernel else { return };
        if k.owed.len() <= memcg.idx() {
            k.owed.resize(memcg.idx() + 1, (0, 0));
        }
        let (owed, _) = &mut k.owed[memcg.idx()];
        let first = *owed == 0;
        if first {
            *owed = base;
        }
        *owed += owed_new;
        let other = tables + if first { base / 1_000_000 } else { 0 };
        self.count_not_slab(memcg, other as i64);
    }

    /// Notes index nodes that find room in pages charged already. False, and nothing is noted: a page is due for them.
    #[inline]
    pub(crate) fn try_owe_nodes(&mut self, memcg: MemcgId, nodes: u64) -> bool {
        if nodes == 0 {
            return true;
        }
        let Some(k) = &mut self.kernel else {
            return true;
        };
        let new = nodes * self.params.index_node_page_ppm;
        match k.owed.get_mut(memcg.idx()) {
            Some((owed, charged)) if *owed > 0 && (*owed + new) / 1_000_000 <= *charged => {
                *owed += new;
                true
            }
            _ => false,
        }
    }

    /// Kernel memory that is not slab has come, or gone.
    fn count_not_slab(&mut self, memcg: MemcgId, pages: i64) {
        if pages != 0 {
            self.engine.memcgs.count(memcg, Counter::KernelOther, pages);
        }
    }

    /// Written pages have left the cache: what the file system kept for them is given back.
    pub(crate) fn kernel_pages_released(&mut self, memcg: MemcgId, node: NodeId, pages: u64) {
        self.kernel_memory_released(memcg, node, pages * self.params.written_page_kernel_ppm);
    }

    /// The leaf tables of a mapping go with it.
    pub(crate) fn free_tables(&mut self, ctx: &Ctx, mapping: MappingId) {
        let m = &mut self.mappings[mapping.0 as usize];
        let mm = m.mm;
        let mut n = m.drop_tables();
        if n > 0 && !self.leaves_table(mapping) {
            n = 0;
        }
        let mm = &mut self.mms[mm.idx()];
        mm.tables -= n;
        let memcg = mm.memcg;
        if n > 0 {
            self.leaf_tables_released(memcg, ctx.node(), n);
        }
    }

    /// Leaf tables of an address space of the memcg have been given back.
    pub(super) fn leaf_tables_released(&mut self, memcg: MemcgId, node: NodeId, tables: u64) {
        if self.kernel.is_some() {
            self.count_not_slab(memcg, -(tables as i64));
        }
        self.kernel_memory_released(memcg, node, tables * 1_000_000);
    }

    /// Kernel memory is given back, in millionths of a page.
    fn kernel_memory_released(&mut self, memcg: MemcgId, node: NodeId, ppm: u64) {
        let Some(k) = &mut self.kernel else { return };
        let Some((owed, charged)) = k.owed.get_mut(memcg.idx()) else {
            return;
        };
        *owed = owed.saturating_sub(ppm);
        let mut back = charged.saturating_sub(*owed / 1_000_000);
        if back > 0 {
            *charged -= back;
            let c = Counter::KernelPages;
            self.engine.memcgs.count(memcg, c, -(back as i64));
            if memcg != MemcgId::ROOT {
                self.engine.memcgs.uncharge(memcg, back);
            }
            // Which memcg's page lies where is not kept: this node's as far as they go.
            let anywhere = Reach { node, bound: false };
            for zone in self
                .zone_orders
                .of(anywhere)
                .iter()
                .map(|z| usize::from(*z))
            {
                let here = back.min(k.from[zone]);
                k.from[zone] -= here;
                back -= here;
                self.engine.zones.give_at(zone, here);
            }
        }
    }

    /// An index node has gone. The next one takes its place in memory that has been charged.
    pub(crate) fn index_node_dropped(&mut self, memcg: MemcgId) {
        let ppm = self.params.index_node_page_ppm;
        if let Some((owed, _)) = self
            .kernel
            .as_mut()
            .and_then(|k| k.owed.get_mut(memcg.idx()))
        {
            *owed = owed.saturating_sub(ppm);
        }
    }

    /// A whole page of kernel memory is owed.
    fn kernel_page_due(&self, memcg: MemcgId) -> bool {
        let owed = self.kernel.as_ref().and_then(|k| k.owed.get(memcg.idx()));
        owed.is_some_and(|&(owed, charged)| owed / 1_000_000 > charged)
    }

    /// A page charged to the memcg is kernel memory now.
    fn pay_kernel_page(&mut self, memcg: MemcgId, reach: Reach) {
        let zone = self.used_from(reach, 1);
        let k = self.kernel.as_mut().expect("kernel memory is accounted");
        k.owed[memcg.idx()].1 += 1;
        k.from[zone] += 1;
        self.engine.memcgs.count(memcg, Counter::KernelPages, 1);
    }
}
