//! What a task holds over a wait: memory not yet in use, references to folios, folios whose contents
//! have not been asked for yet. A task can be killed in any wait, so each gives itself back when
//! dropped.

use crate::machine::Machine;
use coldset_engine::{FolioId, MemcgId, NodeId, ObjectId};

/// Charged and allocated pages that nothing uses yet.
#[must_use = "memory that is not kept is given back"]
pub(crate) struct Charge<'a> {
    machine: &'a Machine,
    memcg: MemcgId,
    node: NodeId,
    /// Pages charged to the memcg.
    charged: u64,
    /// Pages taken from the node's zones.
    pub(super) taken: u64,
}

impl<'a> Charge<'a> {
    pub(super) fn new(machine: &'a Machine, memcg: MemcgId, node: NodeId, n: u64) -> Self {
        Self {
            machine,
            memcg,
            node,
            charged: n,
            taken: 0,
        }
    }

    /// Charged and allocated in full.
    #[inline]
    pub(super) fn complete(machine: &'a Machine, memcg: MemcgId, node: NodeId, n: u64) -> Self {
        let mut charge = Self::new(machine, memcg, node, n);
        charge.taken = n;
        charge
    }

    /// The pages are in use from now on: a folio or the kernel has them.
    #[inline]
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut w = self.machine.w.borrow_mut();
        if self.memcg != MemcgId::ROOT {
            w.engine.memcgs.uncharge(self.memcg, self.charged);
        }
        let at = self.node.idx() * usize::from(w.engine.config().nr_zones);
        if let Some(z) = w.engine.zones.get_mut(at) {
            z.give(self.taken);
        }
    }
}

/// A reference to a folio.
pub(crate) struct FolioRef<'a> {
    machine: &'a Machine,
    pub(crate) id: FolioId,
}

impl<'a> FolioRef<'a> {
    /// Takes over a reference that the caller has.
    pub(crate) fn of(machine: &'a Machine, id: FolioId) -> Self {
        Self { machine, id }
    }

    /// Takes a reference.
    pub(crate) fn get(machine: &'a Machine, id: FolioId) -> Self {
        machine.w.borrow_mut().engine.folio_get(id, 1);
        Self { machine, id }
    }
}

impl Drop for FolioRef<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.machine.w.borrow_mut().engine.folio_put(self.id, 1);
        }
    }
}

/// New folios of a file, locked, one reference each: their read has not been submitted yet.
pub(crate) struct NewPages<'a> {
    machine: &'a Machine,
    object: ObjectId,
    pub(crate) ids: Vec<FolioId>,
}

impl<'a> NewPages<'a> {
    pub(crate) fn new(machine: &'a Machine, object: ObjectId, capacity: usize) -> Self {
        Self {
            machine,
            object,
            ids: Vec::with_capacity(capacity),
        }
    }
}

impl Drop for NewPages<'_> {
    fn drop(&mut self) {
        if self.ids.is_empty() || std::thread::panicking() {
            return;
        }
        let mut w = self.machine.w.borrow_mut();
        for &id in &self.ids {
            w.fail_read(self.object, id);
            w.engine.folio_put(id, 1);
        }
    }
}
