//! Building multi-gen layouts directly, past the entry rules.

use super::{Host, Spec};
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId};
use crate::mglru::MultiGen;

impl Host {
    /// The multi-gen state of the memcg.
    pub(crate) fn gens(&self) -> &MultiGen {
        self.eng.lruvec(self.lruvec).gens()
    }

    /// Sets the sequence numbers of the (still empty) lruvec; `min` = anonymous, file.
    pub(crate) fn set_seqs(&mut self, max: u64, min: [u64; 2]) {
        let m = self.eng.lruvecs[self.lruvec].gens_mut();
        assert!(
            m.nr_pages.iter().flatten().flatten().all(|&n| n == 0),
            "not empty"
        );
        m.max_seq = max;
        m.min_seq = min;
        m.walk.seq = max - 1;
    }

    /// Puts a folio made by [`Self::alloc`] at the head of generation `seq`.
    pub(crate) fn place(&mut self, id: FolioId, seq: u64) {
        let slot = MultiGen::slot(seq);
        let f = &mut self.eng.folios[id];
        let (t, zone, n) = (f.lru_type(), f.zone(), f.nr_pages() as i64);
        f.set(Flags::LRU);
        f.word_mut().set_gen(Some(slot));
        self.eng.gen_link(id, slot, false);
        self.eng
            .gen_resize(self.lruvec, t, zone, None, Some(slot), n);
        self.eng.folio_put(id, 1);
    }

    /// A new folio at the head of generation `seq`.
    pub(crate) fn add_to(&mut self, seq: u64, spec: Spec) -> FolioId {
        let id = self.alloc(spec);
        self.place(id, seq);
        id
    }

    /// `n` new folios in generation `seq`, the first one oldest.
    pub(crate) fn fill(&mut self, seq: u64, n: usize, spec: Spec) -> Vec<FolioId> {
        (0..n).map(|_| self.add_to(seq, spec)).collect()
    }

    /// Pages that count in generation `seq`.
    pub(crate) fn gen_pages(&self, seq: u64, t: LruType) -> u64 {
        self.gens().gen_pages(MultiGen::slot(seq), t)
    }

    /// Sequence number the folio counts in.
    pub(crate) fn seq_of(&self, id: FolioId) -> Option<u64> {
        let slot = self.folio(id).word().gen()?;
        let max = self.gens().max_seq;
        (0..4).map(|d| max - d).find(|&s| MultiGen::slot(s) == slot)
    }

    /// Folios physically on the list of generation `seq`, next victim first, zone by zone.
    pub(crate) fn list(&self, seq: u64, t: LruType) -> Vec<FolioId> {
        self.list_of(self.lruvec, seq, t)
    }

    fn list_of(&self, lruvec: LruvecId, seq: u64, t: LruType) -> Vec<FolioId> {
        let m = self.eng.lruvec(lruvec).gens();
        let lists = &m.lists[MultiGen::slot(seq)][t.idx()];
        let mut out = Vec::new();
        for zone in lists {
            let mut ids: Vec<_> = zone.iter(&self.eng.folios).collect();
            ids.reverse();
            out.append(&mut ids);
        }
        out
    }
}
