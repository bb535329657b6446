//! Apps: what they consist of, and a cold start.

use super::{Phone, Process, Spread};
use crate::draw::Stream;
use coldset_engine::{MemcgId, ObjectId};
use coldset_machine::sim::TimeClass;
use coldset_machine::{Ctx, MappingFlags, MappingId, OpError, OpenFile};

/// Longest run of file pages, and the mean length.
const RUN: (u64, u64) = (32, 6);
/// Share of the runs that go through a mapping, per cent.
const MAPPED_PERCENT: u64 = 65;
/// Share of the anonymous set that a start writes, per cent.
const ANON_AT_START_PERCENT: u64 = 60;
/// Database and preferences written by a start, KiB.
const DATABASE_KIB: (u64, u64) = (512, 4096);
/// Variation of the CPU time of a start, permille to either side.
const CPU_PERMILLE: u64 = 50;

/// Ranges from which the apps' sizes are drawn, MiB.
#[derive(Clone, Copy)]
pub struct AppSizes {
    /// Of its files.
    pub files: (u64, u64),
    /// Anonymous memory.
    pub anon: (u64, u64),
}

/// Consecutive pages of an app's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    page: u32,
    len: u32,
    mapped: bool,
}

/// An app as it lies on the storage.
pub struct App {
    /// Its memcg.
    pub memcg: MemcgId,
    file: ObjectId,
    database: ObjectId,
    /// Pages of its file and of its anonymous memory.
    pub pages: (u32, u32),
    runs: Vec<Run>,
    cpu_ns: u64,
    database_pages: u32,
}

/// A started app.
#[derive(Clone, Copy)]
pub struct Running {
    /// The process.
    pub process: Process,
    /// Its mapped file.
    pub map: MappingId,
    /// Its anonymous memory.
    pub anon: MappingId,
}

/// Sizes of `n` apps: files and anonymous memory, MiB.
pub fn sizes(seed: u64, n: u64, sizes: AppSizes) -> Vec<(u64, u64)> {
    (0..n)
        .map(|i| {
            let mut draw = Stream::new(seed, "phone-app", i);
            (
                draw.between(sizes.files.0, sizes.files.1),
                draw.between(sizes.anon.0, sizes.anon.1),
            )
        })
        .collect()
}

/// Runs of 1 to 32 pages, 6 on average, that make up a file, in a fixed random order.
fn runs(pages: u32, draw: &mut Stream) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut page = 0;
    while page < pages {
        let mut len = 1;
        // Geometric: every page more with probability 5/6.
        while len < RUN.0 && draw.chance(RUN.1 - 1, RUN.1) {
            len += 1;
        }
        let len = (len as u32).min(pages - page);
        runs.push(Run {
            page,
            len,
            mapped: draw.chance(MAPPED_PERCENT, 100),
        });
        page += len;
    }
    for i in (1..runs.len()).rev() {
        runs.swap(i, draw.below(i as u64 + 1) as usize);
    }
    runs
}

impl App {
    /// Installs app `i`.
    pub fn install(
        phone: &Phone,
        i: u64,
        (files_mib, anon_mib): (u64, u64),
        memcg: MemcgId,
        cpu_ms: (u64, u64),
    ) -> Self {
        let mut draw = Stream::new(phone.seed, "phone-app-runs", i);
        let file_pages = phone.pages(files_mib);
        let kib = draw.between(DATABASE_KIB.0, DATABASE_KIB.1);
        let database_pages = (kib / 4 / phone.scale).max(2) as u32;
        Self {
            memcg,
            file: phone.machine.create_file(0, file_pages),
            database: phone.machine.create_file(0, database_pages),
            pages: (file_pages, phone.pages(anon_mib)),
            runs: runs(file_pages, &mut draw),
            cpu_ns: phone.ms(draw.between(cpu_ms.0, cpu_ms.1)),
            database_pages,
        }
    }

    /// Maps the app's memory into a process.
    pub fn map(&self, phone: &Phone, process: Process) -> Running {
        let m = &phone.machine;
        let flags = MappingFlags::empty();
        let anon = m.create_anon(self.pages.1);
        Running {
            process,
            map: m.mmap(process.mm, self.file, 0, self.pages.0, flags),
            anon: m.mmap(process.mm, anon, 0, self.pages.1, flags),
        }
    }

    /// Pages of the anonymous set that a start writes.
    pub fn anon_at_start(&self) -> u32 {
        (u64::from(self.pages.1) * ANON_AT_START_PERCENT / 100) as u32
    }

    /// A cold start in a new process. Its time is until everything is done.
    ///
    /// # Errors
    /// As an access, a read, a write.
    pub async fn start(
        &self,
        phone: &Phone,
        ctx: &Ctx,
        app: Running,
        draw: &mut Stream,
    ) -> Result<(), OpError> {
        let m = &phone.machine;
        let steps = self.runs.len() as u32;
        let cpu = self.cpu_ns * draw.between(1000 - CPU_PERMILLE, 1000 + CPU_PERMILLE) / 1000;
        let cpu = cpu / u64::from(steps.max(1));
        let mut startup = phone.startup(app.process, steps, draw);
        let mut anon = Spread::new(self.anon_at_start(), steps);
        let open = OpenFile::new(self.file);
        let half = self.database_pages / 2;
        for (i, run) in self.runs.iter().enumerate() {
            if run.mapped {
                m.access_run(ctx, app.map, run.page, run.len).await?;
            } else {
                m.read(ctx, &open, run.page, run.len).await?;
            }
            startup.step(m, ctx).await?;
            for e in anon.next().unwrap_or(0..0) {
                m.access(ctx, app.anon, e, true).await?;
            }
            ctx.charge(TimeClass::User, cpu);
            ctx.maybe_settle().await;
            if i == self.runs.len() / 2 {
                m.write(ctx, self.database, 0, half, true).await?;
                m.fsync(ctx, self.database).await?;
            }
        }
        let rest = self.database_pages - half;
        m.write(ctx, self.database, half, rest, true).await?;
        m.fsync(ctx, self.database).await?;
        if let Some(t) = ctx.task() {
            t.settle().await;
        }
        Ok(())
    }

    /// The pages of a tenth of the runs, to be used again after the start.
    pub async fn use_files(
        &self,
        phone: &Phone,
        ctx: &Ctx,
        app: Running,
        runs: std::ops::Range<u32>,
    ) -> Result<(), OpError> {
        let open = OpenFile::new(self.file);
        for i in runs {
            let Some(run) = self.runs.get(i as usize) else {
                break;
            };
            if run.mapped {
                phone
                    .machine
                    .access_run(ctx, app.map, run.page, run.len)
                    .await?;
            } else {
                phone.machine.read(ctx, &open, run.page, run.len).await?;
            }
        }
        Ok(())
    }

    /// Number of runs.
    pub fn nr_runs(&self) -> u32 {
        self.runs.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_the_file_once() {
        let mut draw = Stream::new(3, "runs", 0);
        let list = runs(60_000, &mut draw);
        let mut seen = vec![0; 60_000];
        for r in &list {
            assert!(r.len >= 1 && u64::from(r.len) <= RUN.0);
            for p in r.page..r.page + r.len {
                seen[p as usize] += 1;
            }
        }
        assert!(seen.iter().all(|&n| n == 1));
        let mean = 60_000.0 / list.len() as f64;
        assert!((5.7..6.3).contains(&mean), "{mean}");
        let mapped = list.iter().filter(|r| r.mapped).count() as f64 / list.len() as f64;
        assert!((0.63..0.67).contains(&mapped), "{mapped}");
        assert!(list.windows(2).any(|w| w[1].page < w[0].page), "shuffled");
    }
}
