//! Nodes of the page-cache index that hold nothing but shadows (`docs/rules/workingset.md#shadow-nodes`).

use crate::mem::object::NODE_PAGES;
use crate::mem::Slot;
use crate::world::World;
use coldset_engine::{LruvecId, ObjectId};
use std::ops::Range;

/// What the engine calls a node.
fn key(object: ObjectId, page: u32) -> u64 {
    u64::from(object.0) << 32 | u64::from(page / NODE_PAGES)
}

/// The node that a key names.
fn node_of(key: u64) -> (ObjectId, u32) {
    (ObjectId((key >> 32) as u32), key as u32)
}

impl World {
    /// The pages of an object that the node of `page` covers.
    fn pages_of_node(&self, object: ObjectId, page: u32) -> Range<u32> {
        let first = page / NODE_PAGES * NODE_PAGES;
        first..(first + NODE_PAGES).min(self.object(object).pages())
    }

    /// A page has entered the index. A node that had one has been told of already.
    #[inline]
    pub(crate) fn node_used(&mut self, object: ObjectId, page: u32) {
        if self.engine.drops_shadow_nodes() && self.object(object).held_in_node(page) == 1 {
            self.engine.not_shadow_node(key(object, page));
        }
    }

    /// A shadow has gone. It may have been the last of its node.
    pub(crate) fn node_used_up(&mut self, object: ObjectId, page: u32) {
        if self.engine.drops_shadow_nodes() {
            let o = self.object(object);
            let mut pages = self.pages_of_node(object, page);
            if pages.all(|p| o.slot(p) == Slot::Empty) {
                self.engine.not_shadow_node(key(object, page));
            }
        }
    }

    /// A page of `lruvec` has left a shadow. If it was the last page of its node, the engine is told.
    pub(crate) fn note_shadow_node(&mut self, object: ObjectId, page: u32, lruvec: LruvecId) {
        if self.engine.drops_shadow_nodes() && self.object(object).held_in_node(page) == 0 {
            self.engine.shadow_node(lruvec, key(object, page));
        }
    }

    /// The shadows of nodes that the engine has dropped are lost. Their room stays with the memcg, and its
    /// next nodes take it: freed objects do not make a page of slab free.
    pub(crate) fn empty_dropped_nodes(&mut self) {
        for (lruvec, key) in self.engine.take_dropped_shadow_nodes() {
            let (object, node) = node_of(key);
            let o = &mut self.objects[object.idx()];
            o.empty_node(node);
            if o.drop_node(node) {
                let memcg = self.engine.lruvec(lruvec).memcg;
                self.index_node_dropped(memcg);
            }
        }
    }
}
