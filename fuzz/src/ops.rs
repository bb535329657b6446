//! The operations.

use super::load::{Proc, Region, Shared};
use super::Plant;
use coldset_engine::writeback::FlushReason;
use coldset_engine::{Flags, MemcgId};
use coldset_lab::draw::Stream;
use coldset_machine::sim::TimeClass;
use coldset_machine::{Ctx, MappingId, OpError};

/// One random operation.
pub(super) async fn one(sh: &Shared, ctx: &Ctx, p: &Proc, rng: &mut Stream) {
    match rng.below(1000) {
        0..=499 => access(sh, ctx, p, rng).await,
        500..=699 => read(sh, ctx, p, rng).await,
        700..=899 => write(sh, ctx, p, rng).await,
        900..=914 => fsync(sh, ctx, rng).await,
        915..=924 => {
            sh.machine.wake_flushers(FlushReason::Sync);
            sh.step(1);
        }
        925..=939 => remap(sh, ctx, p, rng),
        940..=959 => limits(sh, ctx, p, rng).await,
        960..=969 => reclaim(sh, ctx, p, rng).await,
        970..=979 => mlock(sh, ctx, rng),
        980 if rng.chance(1, 4) => spare_memcg(sh, rng),
        _ => {
            let ns = 1 << rng.below(31);
            ctx.sleep_until(TimeClass::Idle, ctx.now() + ns).await;
            sh.step(1);
        }
    }
}

/// A run of pages: mostly near the start of the region, sometimes long.
fn run(rng: &mut Stream, pages: u32, most: u32) -> std::ops::Range<u32> {
    let n = u64::from(pages);
    let from = match rng.below(3) {
        0 => rng.below(n),
        1 => rng.below(n).min(rng.below(n)).min(rng.below(n)),
        _ => rng.below(n.min(16)),
    } as u32;
    let longest = if rng.chance(1, 4) { most.into() } else { 4 };
    let long = rng.between(1, longest) as u32;
    from..(from + long).min(pages)
}

fn region<'a>(p: &'a Proc, rng: &mut Stream) -> &'a Region {
    &p.regions[rng.below(p.regions.len() as u64) as usize]
}

fn file<'a>(p: &'a Proc, rng: &mut Stream) -> &'a Region {
    let files = p.regions.iter().filter(|r| !r.anon).count();
    &p.regions[rng.below(files as u64) as usize]
}

/// Loads or stores through a mapping.
async fn access(sh: &Shared, ctx: &Ctx, p: &Proc, rng: &mut Stream) {
    let r = region(p, rng);
    let mapping = sh.mapped(p, r, rng);
    let write = rng.chance(2, 5);
    for page in run(rng, r.pages, 64) {
        sh.step(1);
        let store = write.then(|| sh.model.borrow_mut().begin(r.at, page));
        let result = sh.machine.access(ctx, mapping, page, write).await;
        sh.count(result);
        if result.is_err() {
            return without_memory(sh, ctx, p, result);
        }
        if let Some(s) = store {
            sh.model.borrow_mut().done(s);
            plant(sh, r, page);
        }
        hits(sh, r, page, mapping, rng);
    }
}

/// What has been brought in is used some more.
fn hits(sh: &Shared, r: &Region, page: u32, mapping: MappingId, rng: &mut Stream) {
    for _ in 0..rng.below(24) {
        sh.step(1);
        let near = page.saturating_sub(rng.below(8) as u32);
        let write = rng.chance(1, 4);
        if sh.machine.world_mut().touch(mapping, near, write) && write {
            let mut model = sh.model.borrow_mut();
            let store = model.begin(r.at, near);
            model.done(store);
        }
    }
}

async fn read(sh: &Shared, ctx: &Ctx, p: &Proc, rng: &mut Stream) {
    let r = file(p, rng);
    let pages = run(rng, r.pages, 64);
    let n = pages.end - pages.start;
    sh.step(n.into());
    let result = sh.machine.read(ctx, &r.file, pages.start, n).await;
    sh.count(result);
    without_memory(sh, ctx, p, result);
}

async fn write(sh: &Shared, ctx: &Ctx, p: &Proc, rng: &mut Stream) {
    let r = file(p, rng);
    let whole = rng.chance(1, 2);
    for page in run(rng, r.pages, 32) {
        sh.step(1);
        let store = sh.model.borrow_mut().begin(r.at, page);
        let result = sh.machine.write(ctx, r.object, page, 1, whole).await;
        sh.count(result);
        if result.is_err() {
            return without_memory(sh, ctx, p, result);
        }
        sh.model.borrow_mut().done(store);
        plant(sh, r, page);
    }
}

/// After an fsync without error everything stored before it is on the device.
async fn fsync(sh: &Shared, ctx: &Ctx, rng: &mut Stream) {
    sh.step(1);
    let (object, _, at) = sh.files[rng.below(sh.files.len() as u64) as usize];
    let must = sh.model.borrow().must_be_durable(at);
    let result = sh.machine.fsync(ctx, object).await;
    sh.count(result);
    if result.is_ok() {
        let w = sh.machine.world();
        sh.model.borrow().check_durable(&w, at, &must);
    }
}

/// Unmaps a region; the next access maps it again.
fn remap(sh: &Shared, ctx: &Ctx, p: &Proc, rng: &mut Stream) {
    sh.step(1);
    let r = region(p, rng);
    if let Some(m) = r.mapping.take() {
        sh.machine.munmap(ctx, m);
        if r.anon {
            sh.model.borrow_mut().dropped(r.at);
        }
    }
}

/// A process that finds no memory gives up what it has, or the rest of the run would be spent on
/// fruitless reclaim.
fn without_memory(sh: &Shared, ctx: &Ctx, p: &Proc, result: Result<(), OpError>) {
    if result != Err(OpError::NoMemory) || ctx.killed() {
        return;
    }
    sh.make_room();
    for r in p.regions.iter().filter(|r| r.anon) {
        if let Some(m) = r.mapping.take() {
            sh.machine.munmap(ctx, m);
            sh.model.borrow_mut().dropped(r.at);
        }
    }
}

fn any_memcg(sh: &Shared, p: &Proc, rng: &mut Stream) -> MemcgId {
    let memcgs = sh.memcgs.borrow();
    match rng.below(4) {
        0 => sh.top,
        1 => p.memcg,
        _ => memcgs[rng.below(memcgs.len() as u64) as usize],
    }
}

/// Changes a limit or a protection.
async fn limits(sh: &Shared, ctx: &Ctx, p: &Proc, rng: &mut Stream) {
    sh.step(1);
    let id = any_memcg(sh, p, rng);
    let pages = rng.between(sh.limit / 8, sh.limit * 5 / 4);
    let what = if id == sh.top { 2 } else { rng.below(4) };
    match what {
        0 => sh
            .machine
            .world_mut()
            .engine
            .memcgs
            .set_min(id, pages / 4)
            .expect("an online memcg"),
        1 => sh
            .machine
            .world_mut()
            .engine
            .memcgs
            .set_low(id, pages / 2)
            .expect("an online memcg"),
        2 => {
            let pages = if id == sh.top {
                pages.clamp(sh.limit / 2, sh.limit)
            } else {
                pages
            };
            sh.note_usage(id);
            sh.machine
                .write_max(ctx, id, pages.max(64))
                .await
                .expect("a memcg that exists");
        }
        _ => sh
            .machine
            .write_high(ctx, id, pages)
            .await
            .expect("a memcg that exists"),
    }
}

/// memory.reclaim.
async fn reclaim(sh: &Shared, ctx: &Ctx, p: &Proc, rng: &mut Stream) {
    sh.step(1);
    let id = if rng.chance(1, 8) {
        MemcgId::ROOT
    } else {
        any_memcg(sh, p, rng)
    };
    let pages = rng.between(1, 256);
    let swappiness = rng.chance(1, 3).then(|| rng.below(201) as u8);
    sh.machine
        .write_reclaim(ctx, id, pages, swappiness)
        .await
        .expect("a memcg that exists");
}

/// Locks a file page into memory, or lets the oldest one go.
fn mlock(sh: &Shared, ctx: &Ctx, rng: &mut Stream) {
    sh.step(1);
    let mut locked = sh.mlocked.borrow_mut();
    let mut w = sh.machine.world_mut();
    if locked.len() >= 8 || rng.chance(1, 3) {
        if !locked.is_empty() {
            let (object, page) = locked.remove(0);
            let id = w.object(object).word(page).folio();
            let id = id.expect("a page locked into memory was evicted");
            w.engine.munlock(ctx.cpu(), id);
            // A batch that waits on this CPU may undo the lock that comes next on another.
            w.engine.lru_add_drain(ctx.cpu());
        }
        return;
    }
    let (object, pages, _) = sh.files[rng.below(sh.files.len() as u64) as usize];
    let page = rng.below(pages.into()) as u32;
    let Some(id) = w.object(object).word(page).folio() else {
        return;
    };
    if w.engine.folio(id).has(Flags::UPTODATE) && !locked.contains(&(object, page)) {
        w.engine.mlock(ctx.cpu(), id);
        locked.push((object, page));
    }
}

/// A memcg comes and goes without ever having had a process.
fn spare_memcg(sh: &Shared, rng: &mut Stream) {
    sh.step(1);
    if sh.machine.world().engine.memcgs.nr_memcgs() > super::load::MEMCGS_MAX {
        return;
    }
    let id = sh
        .machine
        .world_mut()
        .engine
        .memcg_create(sh.top)
        .expect("fewer memcgs than ids");
    if rng.chance(1, 2) {
        let mut w = sh.machine.world_mut();
        w.engine
            .memcgs
            .set_min(id, sh.limit / 4)
            .expect("an online memcg");
    }
    sh.offline(id);
}

/// Plants the defect asked for, once.
fn plant(sh: &Shared, r: &Region, page: u32) {
    let kind = sh.plant.get();
    if kind == Plant::Nothing || sh.done.get() < 500 {
        return;
    }
    let mut w = sh.machine.world_mut();
    match kind {
        Plant::Model => sh.model.borrow_mut().lie(r.at, page),
        Plant::Clean | Plant::Leak => {
            let id = w.object(r.object).word(page).folio();
            let Some(id) = id.filter(|_| !r.anon) else {
                return;
            };
            if kind == Plant::Leak {
                w.engine.folio_get(id, 1);
            } else if !w.engine.clear_dirty(id) {
                return;
            }
        }
        Plant::Nothing => {}
    }
    sh.plant.set(Plant::Nothing);
}
