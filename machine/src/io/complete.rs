//! What happens when a device has finished.

use crate::device::{DeviceError, Request};
use crate::mem::folio::pages_of;
use crate::mem::Backing;
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::ids::PAGE_SIZE;
use coldset_engine::node::ThrottleReason;
use coldset_engine::reclaim::Written;
use coldset_engine::{Counter, Flags, FolioId, MemcgId, ObjectId, WbId};
use std::ops::Range;

/// At most so much of the writes of a file is started at once.
#[derive(Clone, Copy)]
pub(crate) struct Portion {
    pub(crate) pages: u64,
    pub(crate) requests: u64,
}

/// What has been started of them.
pub(crate) struct Started {
    pub(crate) pages: u64,
    pub(crate) requests: u64,
    /// The page after the last one looked at, or the one that stopped it.
    pub(crate) next: u32,
    /// The portion was not enough.
    pub(crate) more: bool,
}

/// Adjacent pages for one request.
struct WriteRun {
    pages: Range<u32>,
    folios: Vec<FolioId>,
    /// Versions on their way, by page.
    versions: Vec<(u32, u32)>,
}

/// A write in flight: the folios, and for files the versions that are on their way.
pub(crate) struct InFlight {
    pub(crate) object: ObjectId,
    pub(crate) wb: WbId,
    pub(crate) versions: Vec<(u32, u32)>,
    pub(crate) result: Result<(), DeviceError>,
}

impl World {
    /// Schedules the end of a read.
    pub(crate) fn complete_read_at(&mut self, end: u64, object: ObjectId, pages: Range<u32>) {
        let me = self.me.clone();
        self.sim.call_at(end, move || {
            if let Some(w) = me.upgrade() {
                w.borrow_mut().read_done(object, &pages);
            }
        });
    }

    /// Schedules the end of a write of folios that are under writeback.
    pub(crate) fn complete_at(&mut self, end: u64, folios: Vec<FolioId>, file: Option<InFlight>) {
        let me = self.me.clone();
        self.sim.call_at(end, move || {
            if let Some(w) = me.upgrade() {
                w.borrow_mut().write_done(&folios, file);
            }
        });
    }

    /// A write has ended. On an error the pages are dirty again and the error is kept for fsync.
    fn write_done(&mut self, folios: &[FolioId], file: Option<InFlight>) {
        let now = self.sim.now();
        self.engine.set_now(now.max(self.engine.now()));
        let failed = file.as_ref().is_some_and(|f| f.result.is_err());
        let mut n = 0;
        for &id in folios {
            n += self.engine.folio(id).nr_pages();
            if failed {
                self.engine.folio_clear(id, Flags::RECLAIM);
                self.engine.set_dirty(id);
            }
            // The completion runs where the interrupt arrives: on the first CPU.
            let (wake, kept) = {
                self.engine.folio_get(id, 1);
                (self.engine.writeback_end(0, id), id)
            };
            self.wake_folio(kept);
            self.engine.folio_put(kept, 1);
            if let Some(node) = wake {
                self.wake_throttled(node, ThrottleReason::Writeback);
            }
        }
        let Some(f) = file else { return };
        self.wb.written(f.wb, n, now);
        let object = &mut self.objects[f.object.idx()];
        object.nr_writeback -= n;
        match f.result {
            Ok(()) => {
                if let Some(c) = &mut object.contents {
                    for (page, version) in f.versions {
                        c.disk[page as usize] = c.disk[page as usize].max(version);
                    }
                }
            }
            Err(e) => {
                object.error.get_or_insert(e);
                object.last_error = (Some(e), object.last_error.1 + 1);
                self.retag_dirty();
            }
        }
        if self.objects[f.object.idx()].nr_writeback == 0 {
            if let Some(q) = self.object_waits.remove(&f.object.0) {
                q.wake_all();
            }
        }
        self.arm_flusher_timer(now);
        self.release_dead();
    }

    /// Folios that became dirty outside of a task (a failed write) are tagged.
    fn retag_dirty(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.engine.take_newly_dirty(&mut buffer);
        let now = self.sim.now();
        for &id in &buffer {
            self.tag_folio(id, now);
        }
        self.buffer = buffer;
    }

    /// The index and the write context learn of a folio that has become dirty. Returns its pages.
    pub(crate) fn tag_folio(&mut self, id: FolioId, now: u64) -> u64 {
        let f = self.engine.folio(id);
        let (object, _) = f.owner();
        let pages = pages_of(f);
        let memcg = self.writing_memcg(self.engine.lruvec(f.lruvec()).memcg);
        let wb = self.wb_of(object, memcg);
        let n = pages.len() as u64;
        self.objects[object.idx()].tag_dirty(pages);
        self.wb.dirtied(wb, object, n, now);
        if self.wb.wb(wb).memcg() != memcg {
            self.wb.note_foreign(memcg, wb, now);
        }
        n
    }

    /// Starts writing a portion of the dirty pages of a file from `from` on, in index order, adjacent
    /// pages in one request.
    pub(crate) fn write_dirty_pages(
        &mut self,
        now: u64,
        object: ObjectId,
        wb: WbId,
        from: u32,
        portion: Portion,
    ) -> Started {
        self.start_writing(now, object, wb, from, portion, false)
    }

    /// As [`Self::write_dirty_pages`], but stops before a page that is locked or still being written.
    pub(crate) fn write_run_of_dirty(
        &mut self,
        now: u64,
        object: ObjectId,
        wb: WbId,
        from: u32,
        portion: Portion,
    ) -> Started {
        self.start_writing(now, object, wb, from, portion, true)
    }

    fn start_writing(
        &mut self,
        now: u64,
        object: ObjectId,
        wb: WbId,
        from: u32,
        portion: Portion,
        stop_at_busy: bool,
    ) -> Started {
        let Backing::File { device, start } = self.objects[object.idx()].backing else {
            unreachable!("writeback of an anonymous object");
        };
        let run_max = (self.devices[device].spec().max_req_bytes / PAGE_SIZE).max(1);
        let (mut at, mut started) = (from, 0);
        let mut runs: Vec<WriteRun> = Vec::new();
        // Pages by the memcg that they are charged to; neighbours mostly have the same.
        let mut owners: Vec<(MemcgId, u64)> = Vec::new();
        let mut more = true;
        while started < portion.pages {
            let Some(page) = self.objects[object.idx()].next_dirty(at) else {
                more = false;
                break;
            };
            let id = self.objects[object.idx()]
                .word(page)
                .folio()
                .expect("a dirty page is in memory");
            // Locked by a reclaimer, or still being written: next time.
            if self.engine.folio(id).any(Flags::LOCKED | Flags::WRITEBACK) {
                if stop_at_busy {
                    at = page;
                    break;
                }
                at = page + 1;
                continue;
            }
            let pages = pages_of(self.engine.folio(id));
            let n = pages.len() as u64;
            let joins = runs.last().is_some_and(|run| {
                run.pages.end == pages.start && run.pages.len() as u64 + n <= run_max
            });
            if !joins && runs.len() as u64 == portion.requests {
                at = page;
                break;
            }
            at = pages.end;
            if self.clean_entries(None, now, object, pages.clone()) {
                // What an entry knew dirties the folio once more: the end of this write does not rotate it.
                self.engine.folio_clear(id, Flags::RECLAIM);
            }
            let was_dirty = self.engine.clear_dirty(id);
            debug_assert!(was_dirty, "tag without a dirty folio");
            self.objects[object.idx()].untag_dirty(pages.clone());
            self.wb.clean_for_io(wb, object, n);
            let memcg = self.engine.lruvec(self.engine.folio(id).lruvec()).memcg;
            match owners.last_mut() {
                Some((last, pages)) if *last == memcg => *pages += n,
                _ => owners.push((memcg, n)),
            }
            self.engine.writeback_start(id);
            started += n;
            match runs.last_mut() {
                Some(run) if joins => {
                    run.pages.end = pages.end;
                    run.folios.push(id);
                    self.put_versions(object, pages, &mut run.versions);
                }
                _ => {
                    let mut versions = Vec::with_capacity(pages.len());
                    self.put_versions(object, pages.clone(), &mut versions);
                    runs.push(WriteRun {
                        pages,
                        folios: vec![id],
                        versions,
                    });
                }
            }
        }
        for (memcg, n) in owners {
            let charged = self.engine.memcgs.nearest_online(memcg);
            let kib = n * PAGE_SIZE / 1024;
            self.engine.count(charged, Counter::Pgpgout, kib as i64);
            self.wb.wrote(object, self.writing_memcg(memcg), n);
        }
        if started > 0 {
            self.wb.started(wb, started, now);
            self.objects[object.idx()].nr_writeback += started;
        }
        let requests = runs.len() as u64;
        for run in runs {
            let bytes = run.pages.len() as u64 * PAGE_SIZE;
            let request = Request::write((start + u64::from(run.pages.start)) * PAGE_SIZE, bytes);
            let done = self.devices[device].submit(now, request);
            let file = InFlight {
                object,
                wb,
                versions: run.versions,
                result: done.result,
            };
            self.complete_at(done.end.max(now + 1), run.folios, Some(file));
        }
        Started {
            pages: started,
            requests,
            next: at,
            more,
        }
    }

    /// Adds what the copies of `pages` in memory hold.
    fn put_versions(&self, object: ObjectId, pages: Range<u32>, versions: &mut Vec<(u32, u32)>) {
        let contents = self.objects[object.idx()].contents.as_ref();
        let version = |page: u32| contents.map_or(0, |c| c.memory[page as usize]);
        versions.extend(pages.map(|page| (page, version(page))));
    }

    /// Reclaim writes a single dirty file folio (before 6.19).
    pub(crate) fn write_file_folio(&mut self, ctx: &crate::ctx::Ctx, folio: FolioId) -> Written {
        let f = self.engine.folio(folio);
        let (object, page) = f.owner();
        let pages = pages_of(f);
        let n = pages.len() as u64;
        let memcg = self.engine.lruvec(f.lruvec()).memcg;
        let wb = self.wb_of(object, memcg);
        let now = ctx.now();
        // The engine has cleared the mark already: the index follows.
        self.assert_not_written_through(folio);
        self.clean_entries(Some(ctx.cpu()), now, object, pages.clone());
        let ns = self.take_flush_debt();
        ctx.charge(TimeClass::AllocStall, ns);
        if self.objects[object.idx()].untag_dirty(pages.clone()) {
            self.wb.clean_for_io(wb, object, n);
        }
        self.engine.writeback_start(folio);
        self.wb.started(wb, n, now);
        self.objects[object.idx()].nr_writeback += n;
        let mut versions = Vec::with_capacity(pages.len());
        self.put_versions(object, pages, &mut versions);
        let Backing::File { device, start } = self.objects[object.idx()].backing else {
            unreachable!("file folio of an anonymous object");
        };
        let bytes = n * PAGE_SIZE;
        let request = Request::write((start + u64::from(page)) * PAGE_SIZE, bytes);
        let done = self.devices[device].submit(now, request);
        self.engine
            .count(memcg, Counter::Pgpgout, (bytes / 1024) as i64);
        let file = InFlight {
            object,
            wb,
            versions,
            result: done.result,
        };
        self.complete_at(done.end.max(now + 1), vec![folio], Some(file));
        Written::Submitted
    }
}
