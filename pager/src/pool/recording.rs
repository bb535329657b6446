//! Beginning and ending a journal while the pool is used.

use crate::budget::deciding::refuse_inside;
use crate::config::PoolConfig;
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::pool::inner::Pool;
use crate::record::write::NewJournal;
use std::path::Path;

impl Pool {
    /// Begins a journal in a new file ([`crate::journal`]), or in place of another journal; it begins with all that the engine knows
    /// and continues until [`Self::stop_recording`] or the end of the pool. Misses and calls wait for
    /// the beginning to be gathered: until those under way have ended, and then about 30 ms a GiB of
    /// pages known.
    ///
    /// # Errors
    /// A journal is being kept already; the file exists and is something else, or cannot be created or written; [`Error::Forked`].
    ///
    /// ```
    /// # use coldset_pager::{Error, Pool, PoolConfig, SwapConfig};
    /// # let path = std::env::temp_dir().join(format!("noon-{}.journal", std::process::id()));
    /// # let swap = SwapConfig::lz4(64 << 20);
    /// # let pool = match Pool::new(PoolConfig::new(4 << 20).swap(swap)) {
    /// #     Err(Error::Missing(m)) => return Ok(println!("{m}")),
    /// #     other => other?,
    /// # };
    /// # let mut region = pool.anonymous(8 << 20)?;
    /// pool.record(&path)?;
    /// region.bytes_mut().fill(1);
    /// pool.stop_recording()?; // complete, or the error that it is not
    /// # std::fs::remove_file(&path).expect("the journal");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn record(&self, path: impl AsRef<Path>) -> Result<()> {
        let pool = &*self.inner;
        let path = path.as_ref().to_path_buf();
        refuse_inside()?;
        if pool.res.config.outside.is_some() {
            return Err(PoolConfig::no_journal());
        }
        let _shield = pool.res.shield()?;
        let _one = pool.recording.lock().expect("recording");
        // Before the file is emptied: it may be the one that is being written.
        if pool.res.core().policy.records() {
            return Err(Error::Mode(
                "a journal is being kept already; end it with stop_recording",
            ));
        }
        let io = Error::io("creating the journal");
        let new = NewJournal::create(&path)?;
        meanwhile();
        pool.res.traffic.alone(|| {
            meanwhile();
            let mut core = pool.res.core();
            let state = core.policy.save();
            let recorder = new.start(&pool.res.policy_config(), Some(&state));
            core.policy.record(Some(recorder.map_err(&io)?));
            Ok(())
        })
    }

    /// Ends the journal begun by [`Self::record`], by the configuration or by `COLDSET_JOURNAL`. It is
    /// complete when this returns without an error.
    ///
    /// # Errors
    /// No journal is being kept; it could not be written to its end (a full disk: what is there can
    /// be replayed, and the replay says that it ends early); [`Error::Forked`].
    pub fn stop_recording(&self) -> Result<()> {
        let _shield = self.inner.res.shield()?;
        let recorder = self.inner.res.core().policy.record(None);
        match recorder {
            None => Err(Error::Mode("no journal is being kept")),
            Some(r) => r.finish().map_err(Error::io("writing the journal")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::replay::run::final_state;
    use crate::{FaultMode, Limits, Pool, PoolConfig, SwapConfig};

    /// Four threads; the journal begins and ends in the middle of it. What replays it ends with the
    /// state of the pool, byte for byte: lists, counters, statistics, slots.
    #[test]
    fn a_replay_ends_with_the_very_state() {
        for policy in ["classic", "base", "v5", "merged", "v5+page_table_walk=off"] {
            same_state(policy);
        }
    }

    fn same_state(policy: &str) {
        let (name, switch) = policy.split_once('+').unwrap_or((policy, ""));
        let mut config = PoolConfig::new(2 << 20)
            .fault_mode(FaultMode::Explicit)
            .swap(SwapConfig::lz4(32 << 20))
            .policy(name)
            .unwrap();
        if !switch.is_empty() {
            config = config.switch(switch).unwrap();
        }
        let pool = Pool::new(config).unwrap();
        let name = format!("coldset-state-{}-{policy}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let group = pool.group("g", Limits::new().high(1 << 20)).unwrap();
        let regions = [
            group.anonymous(2 << 20).unwrap(),
            pool.anonymous(2 << 20).unwrap(),
        ];
        let round = |r: &crate::Region, n: usize, by: usize| {
            for i in 0..n {
                let page = (i * by * 37 + i / 7) % 512;
                r.fix_mut(page).unwrap()[i % 4096] ^= i as u8;
                drop(r.fix(page / 3).unwrap());
            }
        };
        let mut live = Vec::new();
        std::thread::scope(|s| {
            for r in &regions {
                s.spawn(|| round(r, 6000, 7));
                s.spawn(|| round(r, 6000, 11));
            }
            std::thread::sleep(std::time::Duration::from_millis(30));
            pool.record(&path).unwrap();
            let before = pool.stats().evicted;
            while pool.stats().evicted < before + 2000 {
                round(&regions[0], 500, 13);
            }
            let recorder = pool.inner.res.traffic.alone(|| {
                let mut core = pool.inner.res.core();
                live = core.policy.save();
                core.policy.record(None)
            });
            recorder.unwrap().finish().unwrap();
        });
        let (replayed, end) = final_state(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(
            replayed.requests > 100 && replayed.from_state,
            "{policy}: {} requests",
            replayed.requests
        );
        assert!(live == end, "{policy}: the states differ");
    }
}
