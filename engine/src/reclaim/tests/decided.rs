//! What a task tells of the folios that it had unmapped ([`ReclaimTask::decided`]).

use crate::config::{Config, Scale};
use crate::ids::NodeId;
use crate::presets::preset;
use crate::reclaim::{Decision, ReclaimTask, Work};
use crate::testing::{Host, Spec, Undecided};

/// A folio stays because a batch holds it. The next round drains the batch, meets the folio again and frees it, without
/// any request in between: a host that maps what stays must not be told that it did.
#[test]
fn a_folio_met_again_in_the_same_step_is_decided_on_once() {
    for name in ["v612-early", "v612", "v618", "base"] {
        let scale = Scale {
            max_lru_batch: 1,
            ..Scale::default()
        };
        let cfg = Config {
            scale,
            ..Config::default()
        };
        let mut h = Host::with(preset(name).unwrap(), cfg);
        h.set_seqs(10, [7, 7]);
        // 4 >> 1: a round of the first two.
        let ids = h.fill(7, 4, Spec::mapped(1));
        let victim = ids[1];
        h.script(ids[0]).accessed = 1;
        h.script(victim).uncached = true;
        let mut sc = h.request(1);
        sc.priority = 1;
        let mut task = ReclaimTask::try_to_free(sc, 0, NodeId(0));
        let mut open = Undecided::default();
        let (mut rests, mut asked) = (0, 0);
        let mut decided: Vec<Decision> = Vec::new();
        loop {
            let work = task.step(&mut h.eng);
            open.follow(&h.eng, &task, work);
            decided.extend(task.decided().iter().filter(|d| d.folio == victim));
            asked += u32::from(work == Work::Unmap { folio: victim });
            if work == Work::Done {
                break;
            }
            if work == Work::Yield && rests == 0 {
                h.eng.rotate(0, victim);
                rests = 1;
            }
            if let Some(answer) = h.serve(work, task.freed(), task.pieces()) {
                task.answer(answer);
            }
        }
        let folio = victim;
        assert_eq!(decided, [Decision { folio, freed: true }], "{name}");
        assert_eq!((rests, asked, task.outcome().rounds), (1, 1, 2), "{name}");
        let freed = h.seen.freed.iter().filter(|f| f.index == 1);
        assert_eq!((freed.count(), h.gone(victim)), (1, true), "{name}");
        h.eng.check();
    }
}
