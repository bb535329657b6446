//! Files and anonymous regions.

use super::holes::Holes;
use super::index_blocks::IndexBlocks;
use super::mapping::MappingId;
use super::per_page::{Bits, PerPage};
use super::slot::{Slot, SlotWord};
use crate::device::DeviceError;
use coldset_engine::MemcgId;
use std::ops::Range;

/// Pages that one index node covers.
pub const NODE_PAGES: u32 = 64;

/// What an object's pages come from and go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A file at a place of a device (first page, in pages).
    File {
        /// Index of the device.
        device: usize,
        /// First page of the file on the device.
        start: u64,
    },
    /// Anonymous memory; swap if there is any.
    Anon,
    /// A file in memory only: page cache that goes to swap.
    Tmpfs,
}

/// What an anonymous region is filled with, as far as a compressor cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fill {
    /// Ordinary data: the mix of the swap device says.
    #[default]
    Ordinary,
    /// Each page repeats one word.
    Same,
    /// Random bytes, which do not compress.
    Random,
}

/// A file or an anonymous region.
#[derive(Debug)]
pub struct Object {
    /// Where its pages come from and go to.
    pub backing: Backing,
    /// Contents, if anonymous.
    pub fill: Fill,
    /// One slot for each page.
    slots: PerPage<SlotWord>,
    /// Mappings of it, in order of creation.
    pub mappings: Vec<MappingId>,
    /// Memcg that first dirtied it; writeback is accounted there.
    pub writer: Option<MemcgId>,
    /// One bit for each page: dirty in the page cache.
    dirty: Bits,
    /// Number of dirty pages.
    pub nr_dirty: u64,
    /// Pages under writeback.
    pub nr_writeback: u64,
    /// Where background writeback continues.
    pub cursor: u32,
    /// First error of a write that no fsync has reported yet.
    pub error: Option<DeviceError>,
    /// The last error of a write, and how many there have been.
    pub last_error: (Option<DeviceError>, u64),
    /// Index nodes that exist, one bit each: they are charged.
    nodes: Bits,
    /// Of each index node, the pages that are in memory or in swap.
    held: PerPage<u8>,
    /// Blocks of 4096 pages that have a node above.
    upper: Bits,
    /// Cached pages that were written: the file system keeps something for each, one bit.
    buffers: Bits,
    /// Blocks in which its file system keeps where its pages are.
    pub(crate) index: Option<Box<IndexBlocks>>,
    /// Blocks of file systems, the page cache of a device: looking one up is a use.
    pub(crate) metadata: bool,
    /// Pages that were cut off and not written since.
    holes: Option<Box<Holes>>,
    /// Contents, from the first store on: see [`Contents`].
    pub contents: Option<Box<Contents>>,
}

/// Versions of each page's contents, for the lost-store check. A store makes the page's number in
/// `stored` and `memory` one larger; writeback copies `memory` to `disk`; eviction forgets
/// `memory`; a read from the device brings `disk` back. A read must always see `stored`.
#[derive(Debug)]
pub struct Contents {
    /// What was stored last.
    pub stored: PerPage<u32>,
    /// What the copy in memory holds.
    pub memory: PerPage<u32>,
    /// What the backing store holds.
    pub disk: PerPage<u32>,
}

impl Object {
    /// An object of `pages` pages, all empty.
    pub fn new(backing: Backing, pages: u32) -> Self {
        Self::with(backing, pages, PerPage::whole(pages as usize))
    }

    /// The same, taking memory by the pages that are used.
    pub fn scattered(backing: Backing, pages: u32) -> Self {
        Self::with(backing, pages, PerPage::scattered(pages as usize))
    }

    fn with(backing: Backing, pages: u32, slots: PerPage<SlotWord>) -> Self {
        let scattered = slots.is_scattered();
        let nodes = pages.div_ceil(NODE_PAGES);
        Self {
            backing,
            fill: Fill::default(),
            slots,
            mappings: Vec::new(),
            writer: None,
            dirty: Bits::new(pages, scattered),
            nr_dirty: 0,
            nr_writeback: 0,
            cursor: 0,
            error: None,
            last_error: (None, 0),
            nodes: Bits::new(nodes, scattered),
            held: match scattered {
                true => PerPage::scattered(nodes as usize),
                false => PerPage::whole(nodes as usize),
            },
            upper: Bits::new(nodes.div_ceil(NODE_PAGES), scattered),
            buffers: Bits::new(pages, scattered),
            index: None,
            metadata: false,
            holes: None,
            contents: None,
        }
    }

    /// Pages.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Makes it at least `pages` long.
    pub fn grow(&mut self, pages: u32) {
        if pages > self.pages() {
            self.slots.grow(pages as usize);
            let nodes = pages.div_ceil(NODE_PAGES);
            self.dirty.grow(pages);
            self.buffers.grow(pages);
            self.nodes.grow(nodes);
            self.held.grow(nodes as usize);
            self.upper.grow(nodes.div_ceil(NODE_PAGES));
            if let Some(holes) = &mut self.holes {
                holes.grow(pages);
            }
            if let Some(c) = &mut self.contents {
                for v in [&mut c.stored, &mut c.memory, &mut c.disk] {
                    v.grow(pages as usize);
                }
            }
        }
    }

    /// The first page at or after `from` whose slot may hold something.
    pub fn next_used(&self, from: u32) -> Option<u32> {
        self.slots.next_place(from as usize).map(|page| page as u32)
    }

    /// What is from `page` on is cut off: a hole, until it is written.
    pub(crate) fn cut(&mut self, page: u32) {
        let (pages, scattered) = (self.pages(), self.slots.is_scattered());
        match &mut self.holes {
            Some(holes) => holes.cut(page),
            None => self.holes = Some(Box::new(Holes::new(page, pages, scattered))),
        }
    }

    /// It may have holes.
    #[inline]
    pub(crate) fn was_cut(&self) -> bool {
        self.holes.is_some()
    }

    /// None of these pages has a place on the device.
    pub(crate) fn is_hole(&self, mut pages: Range<u32>) -> bool {
        let holes = self.holes.as_ref();
        holes.is_some_and(|holes| pages.all(|page| holes.has(page)))
    }

    /// The contents of pages are dropped for good, here and on the device: zeros.
    pub fn zero(&mut self, pages: Range<u32>) {
        let Some(c) = &mut self.contents else { return };
        for page in pages.start as usize..pages.end as usize {
            for versions in [&mut c.stored, &mut c.memory, &mut c.disk] {
                if let Some(v) = versions.get_mut(page) {
                    *v = 0;
                }
            }
        }
    }

    /// The slot of a page, still encoded.
    #[inline]
    pub fn word(&self, page: u32) -> SlotWord {
        self.slots[page as usize]
    }

    /// Brings the slot of a page into the CPU's cache.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        self.slots.prefetch(page as usize);
    }

    /// The slot of a page.
    #[inline]
    pub fn slot(&self, page: u32) -> Slot {
        self.slots[page as usize].get()
    }

    /// Sets the slot of a page.
    #[inline]
    pub fn set_slot(&mut self, page: u32, s: Slot) {
        let now = SlotWord::from(s);
        let was = std::mem::replace(&mut self.slots[page as usize], now);
        if was.is_held() != now.is_held() {
            let held = &mut self.held[(page / NODE_PAGES) as usize];
            match now.is_held() {
                true => *held += 1,
                false => *held -= 1,
            }
        }
    }

    /// Forgets what an index node has, which holds shadows only.
    pub(crate) fn empty_node(&mut self, node: u32) {
        debug_assert_eq!(self.held.get(node as usize), 0, "node {node}");
        let first = (node * NODE_PAGES) as usize;
        self.slots.reset(first..first + NODE_PAGES as usize);
    }

    /// Pages in memory or in swap of the index node that has `page`.
    #[inline]
    pub fn held_in_node(&self, page: u32) -> u8 {
        self.held.get((page / NODE_PAGES) as usize)
    }

    /// True for anonymous memory.
    #[inline]
    pub fn is_anon(&self) -> bool {
        self.backing == Backing::Anon
    }

    /// True for a file of a device: its pages are clean or on their way there.
    #[inline]
    pub fn is_file(&self) -> bool {
        matches!(self.backing, Backing::File { .. })
    }

    /// True for a file in memory only.
    #[inline]
    pub fn is_tmpfs(&self) -> bool {
        self.backing == Backing::Tmpfs
    }

    /// Index nodes that an insertion at `page` creates: 0, 1 or 2.
    #[inline]
    pub fn touch_nodes(&mut self, page: u32) -> u64 {
        let mut new = u64::from(!self.nodes.set(page / NODE_PAGES));
        if new > 0 {
            new += u64::from(!self.upper.set(page / (NODE_PAGES * NODE_PAGES)));
        }
        new
    }

    /// As [`Self::touch_nodes`] of a folio from `page` on. One that fills a node, or several, is named by
    /// the node above: it needs none of its own.
    pub fn touch_nodes_of(&mut self, page: u32, order: u8) -> u64 {
        match 1u32 << order >= NODE_PAGES {
            true => u64::from(!self.upper.set(page / (NODE_PAGES * NODE_PAGES))),
            false => self.touch_nodes(page),
        }
    }

    /// An index node goes. True if it was there.
    pub fn drop_node(&mut self, node: u32) -> bool {
        self.nodes.clear(node)
    }

    /// A cached page is written: true if it was not before.
    pub fn attach_buffer(&mut self, page: u32) -> bool {
        !self.buffers.set(page)
    }

    /// A page leaves the cache: true if it had been written there.
    pub fn detach_buffer(&mut self, page: u32) -> bool {
        self.buffers.clear(page)
    }

    /// Marks the pages of a folio dirty in the index.
    pub fn tag_dirty(&mut self, pages: Range<u32>) {
        for page in pages {
            self.nr_dirty += u64::from(!self.dirty.set(page));
            if let Some(holes) = &mut self.holes {
                holes.write(page);
            }
        }
    }

    /// Clears the dirty marks of a folio. True if it had any.
    pub fn untag_dirty(&mut self, pages: Range<u32>) -> bool {
        let mut were = 0;
        for page in pages {
            were += u64::from(self.dirty.clear(page));
        }
        self.nr_dirty -= were;
        were > 0
    }

    /// True if the index has the page marked dirty.
    pub fn is_tagged(&self, page: u32) -> bool {
        self.dirty.has(page)
    }

    /// The first dirty page at or after `from`.
    pub fn next_dirty(&self, from: u32) -> Option<u32> {
        self.dirty.next(from)
    }

    /// The contents, created at the first store.
    pub fn contents_mut(&mut self) -> &mut Contents {
        let n = self.slots.len();
        let table = if self.slots.is_scattered() {
            PerPage::scattered
        } else {
            PerPage::whole
        };
        self.contents.get_or_insert_with(|| {
            Box::new(Contents {
                stored: table(n),
                memory: table(n),
                disk: table(n),
            })
        })
    }

    /// A store to a page that is in memory.
    #[inline]
    pub fn store(&mut self, page: u32) {
        let c = self.contents_mut();
        c.stored[page as usize] += 1;
        c.memory[page as usize] = c.stored[page as usize];
    }

    /// A load from a page that is in memory.
    ///
    /// # Panics
    /// If a store was lost: that is a defect of the engine or of the machine.
    #[inline]
    pub fn load(&self, page: u32) {
        if let Some(c) = &self.contents {
            let i = page as usize;
            assert!(
                c.memory[i] == c.stored[i],
                "lost store: page {page} holds version {} of {}",
                c.memory[i],
                c.stored[i]
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_engine::workingset::Shadow;
    use coldset_engine::FolioId;
    use proptest::prelude::*;

    #[test]
    fn dirty_pages_are_found_in_order() {
        let mut o = Object::new(
            Backing::File {
                device: 0,
                start: 0,
            },
            1000,
        );
        for p in [3, 64, 700] {
            o.tag_dirty(p..p + 1);
            o.tag_dirty(p..p + 1);
        }
        assert_eq!(o.nr_dirty, 3);
        assert_eq!(
            (o.next_dirty(0), o.next_dirty(4), o.next_dirty(701)),
            (Some(3), Some(64), None)
        );
        assert!(o.untag_dirty(64..65) && !o.untag_dirty(64..65));
        assert_eq!((o.next_dirty(4), o.nr_dirty), (Some(700), 2));
    }

    proptest! {
        /// What a node holds is counted as a search would find it, in one piece and scattered.
        #[test]
        fn pages_of_a_node_are_counted(
            scattered in any::<bool>(),
            slots in prop::collection::vec((0u32..200, 0u32..4), 1..300),
        ) {
            let table = if scattered { Object::scattered } else { Object::new };
            let mut o = table(Backing::Anon, 200);
            for (page, kind) in slots {
                o.set_slot(page, match kind {
                    0 => Slot::Empty,
                    1 => Slot::Folio(FolioId(page)),
                    2 => Slot::Shadow(Shadow(page.into())),
                    _ => Slot::Swap(page),
                });
                for first in (0..200).step_by(NODE_PAGES as usize) {
                    let held = |&p: &u32| matches!(o.slot(p), Slot::Folio(_) | Slot::Swap(_));
                    let found = (first..(first + NODE_PAGES).min(200)).filter(held).count();
                    prop_assert_eq!(usize::from(o.held_in_node(first)), found);
                }
            }
        }
    }

    #[test]
    fn index_nodes_are_created_once() {
        let mut o = Object::new(Backing::Anon, 10_000);
        assert_eq!(
            [
                o.touch_nodes(0),
                o.touch_nodes(63),
                o.touch_nodes(64),
                o.touch_nodes(5000)
            ],
            [2, 0, 1, 2]
        );
        // A folio of 64 pages or more lies in the node above.
        let mut o = Object::new(Backing::Anon, 10_000);
        assert_eq!([o.touch_nodes_of(256, 8), o.touch_nodes_of(512, 6)], [1, 0]);
        assert_eq!(
            [o.touch_nodes_of(256, 5), o.touch_nodes_of(4096, 0)],
            [1, 2]
        );
    }
}
