//! Do the books agree? For tests.

use crate::page::PageState;
use crate::pool::inner::Pool;

impl Pool {
    /// Waits for a moment in which nothing is under way and asserts all invariants: those of the
    /// engine; a folio for each page in memory and a page for each folio; as many of them, with what
    /// is lent, as the gate has let in, within the budget.
    ///
    /// # Panics
    /// If one is broken: that is a defect. The text names what does not agree.
    #[doc(hidden)]
    pub fn check(&self) {
        let pool = &*self.inner;
        let _one = pool.recording.lock().expect("recording");
        pool.res.traffic.alone(|| {
            let areas = pool.res.areas();
            let lent = areas
                .iter()
                .map(|a| a.loans().lock().expect("loans").charged());
            let lent: u64 = lent.sum();
            let mut core = pool.res.core();
            // A batch may hold on to folios that have been forgotten.
            core.policy.drain();
            let engine = core.policy.engine();
            engine.check();
            let mut resident = 0;
            for r in core.regions() {
                for p in 0..r.pages() {
                    let known = r.folio(p).is_some();
                    let state = r.words().get(p).state();
                    let name = r.book().object.0;
                    let what = format!("page {p} of region {name} is {state:?}");
                    match state {
                        PageState::Resident => assert!(known, "{what} without a folio"),
                        PageState::Evicted => assert!(!known, "{what} and has a folio"),
                        _ => panic!("{what}, and nothing is under way"),
                    }
                    if let Some(id) = r.folio(p) {
                        let owner = engine.folio(id).owner();
                        assert_eq!(owner, (r.book().object, p as u32), "{what}: whose folio?");
                        resident += 1;
                    }
                }
            }
            assert_eq!(engine.nr_folios() as u64, resident, "folios");
            assert_eq!(
                pool.res.gate.resident(),
                resident + lent,
                "pages that the gate has let in, {lent} of them lent"
            );
            let memcgs = &engine.memcgs;
            let cpus = 0..engine.config().nr_cpus as usize;
            let ahead: u64 = cpus.flat_map(|c| memcgs.stock(c)).map(|(_, n)| n).sum();
            assert_eq!(
                memcgs[core.policy.top].memory().usage(),
                resident + lent + ahead,
                "pages that are charged, {lent} of them lent and {ahead} for what will come"
            );
            // Not the peak: a budget may have been larger.
            let (used, budget) = (pool.res.gate.used(), pool.res.gate.budget());
            assert!(used <= budget + 8 * 16, "{used} pages of {budget}");
        });
    }
}
