//! The plain walk (`docs/rules/memcg.md#walks`): pre-order, from where the last reclaimer left it.

use super::shared::{walk_mode, Visited};
use crate::engine::Engine;
use crate::ids::{MemcgId, NodeId};
use crate::memcg::WalkCursor;
use crate::reclaim::scan_control::ScanControl;

/// A walk in progress.
#[derive(Debug)]
pub struct HierarchyOrder {
    node: NodeId,
    cursor: WalkCursor,
}

impl HierarchyOrder {
    pub(super) fn new(sc: &ScanControl, node: NodeId) -> Self {
        let root = sc.target.unwrap_or(MemcgId::ROOT);
        Self {
            node,
            cursor: WalkCursor::new(walk_mode(sc), root, node),
        }
    }

    pub(super) fn next(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<MemcgId> {
        loop {
            let memcg = eng.memcgs.iter_next(&mut self.cursor)?;
            if eng.may_reclaim(sc, memcg) {
                return Some(memcg);
            }
        }
    }

    pub(super) fn result(&mut self, eng: &mut Engine, sc: &ScanControl, v: &Visited) {
        if eng.walk_has_enough(sc, v.memcg, self.node) {
            self.stop(eng);
        }
    }

    pub(super) fn stop(&mut self, eng: &mut Engine) {
        eng.memcgs.iter_break(&mut self.cursor);
    }
}
