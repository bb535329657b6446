//! Out of memory: whom to kill (`docs/rules/zones.md#out-of-memory`). Pure choice; the host kills,
//! counts, and frees.

use crate::constants::COSTLY_ORDER;
use crate::ids::Pages;
use std::ops::ControlFlow;

/// oom_score_adj that exempts a task.
pub const ADJ_NEVER: i32 = -1000;

/// A task as the OOM killer sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OomTask {
    /// The host's name of the task.
    pub id: u32,
    /// Pages in memory.
    pub rss: Pages,
    /// Pages in swap.
    pub swap: Pages,
    /// Page-table pages.
    pub page_tables: Pages,
    /// oom_score_adj, -1000..=1000.
    pub adj: i32,
    /// A kernel thread or init: never killed.
    pub exempt: bool,
    /// Chosen earlier and not gone yet.
    pub victim: bool,
    /// Its memory has been reaped already.
    pub reaped: bool,
}

/// Badness in pages; `None` if the task must not be killed. `total` is RAM + swap, or the memcg's
/// amount ([`oom_total_pages`](crate::memcg::MemcgTree::oom_total_pages)).
pub fn badness(task: &OomTask, total: Pages) -> Option<i64> {
    if task.exempt || task.reaped || task.adj <= ADJ_NEVER {
        return None;
    }
    let used = (task.rss + task.swap + task.page_tables) as i64;
    Some(used.saturating_add(i64::from(task.adj).saturating_mul((total / 1000) as i64)))
}

/// Outcome of a scan for a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// Kill this task.
    Victim {
        /// [`OomTask::id`] of the worst.
        id: u32,
        /// Its badness, pages.
        badness: i64,
    },
    /// An earlier victim is still dying: wait for it.
    InProgress {
        /// [`OomTask::id`] of that victim.
        id: u32,
    },
    /// Nobody may be killed.
    Nobody,
}

/// Scans tasks in list order. The highest badness wins, the later task on a tie; a victim that is
/// still dying ends the scan.
pub fn select(tasks: impl IntoIterator<Item = OomTask>, total: Pages) -> Selection {
    let found = tasks
        .into_iter()
        .try_fold(None, |best: Option<(u32, i64)>, t| {
            if t.victim && !t.reaped {
                return ControlFlow::Break(t.id);
            }
            let better = badness(&t, total).filter(|&b| best.is_none_or(|(_, top)| b >= top));
            ControlFlow::Continue(better.map(|b| (t.id, b)).or(best))
        });
    match found {
        ControlFlow::Break(id) => Selection::InProgress { id },
        ControlFlow::Continue(Some((id, badness))) => Selection::Victim { id, badness },
        ControlFlow::Continue(None) => Selection::Nobody,
    }
}

/// Who ran out of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OomScope {
    /// The whole machine is out of memory.
    Global {
        /// The allocation may not enter a file system.
        no_fs: bool,
        /// The allocation is bound to one node.
        this_node: bool,
        /// The allocation asked to fail rather than to kill.
        retry_mayfail: bool,
        /// Kill the allocating task instead of scanning (sysctl).
        kill_allocating_task: bool,
    },
    /// A memcg at its limit.
    Memcg {
        /// Room below its limit now, pages.
        margin: Pages,
    },
}

/// An out-of-memory condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OomRequest {
    /// Order of the allocation.
    pub order: u32,
    /// Whose memory ran out.
    pub scope: OomScope,
    /// RAM + swap, or [`oom_total_pages`](crate::memcg::MemcgTree::oom_total_pages).
    pub total: Pages,
    /// The task that ran out.
    pub current: OomTask,
    /// It is already dying.
    pub current_dying: bool,
}

/// What the killer decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OomDecision {
    /// Kill this task; progress.
    Kill {
        /// [`OomTask::id`] of the victim.
        id: u32,
    },
    /// The current task is dying: let it use the reserves; progress.
    CurrentExits,
    /// An earlier victim is still dying; progress without a kill.
    Wait,
    /// No kill, but the caller may try again: there is room now, or it may not wait for the kill.
    Retry,
    /// No kill; the allocation fails.
    Refuse,
    /// Nobody can be killed: a memcg charge fails; a machine without victims is out of its wits.
    Nobody,
}

impl OomDecision {
    /// True if the allocation is worth another try.
    pub fn progress(self) -> bool {
        !matches!(self, Self::Refuse | Self::Nobody)
    }
}

/// Decides on an out-of-memory condition. `tasks` is the whole task list, or the memcg subtree's.
pub fn decide(request: &OomRequest, tasks: impl IntoIterator<Item = OomTask>) -> OomDecision {
    let r = request;
    let mut kill_current = false;
    match r.scope {
        OomScope::Memcg { margin } => {
            if r.order > COSTLY_ORDER {
                return OomDecision::Refuse;
            }
            if margin >= 1 << r.order {
                return OomDecision::Retry;
            }
        }
        OomScope::Global {
            no_fs,
            this_node,
            retry_mayfail,
            kill_allocating_task,
        } => {
            if r.order > COSTLY_ORDER || this_node || retry_mayfail {
                return OomDecision::Refuse;
            }
            if no_fs && !r.current_dying {
                return OomDecision::Retry;
            }
            kill_current = kill_allocating_task && badness(&r.current, r.total).is_some();
        }
    }
    if r.current_dying {
        return OomDecision::CurrentExits;
    }
    if kill_current {
        return OomDecision::Kill { id: r.current.id };
    }
    match select(tasks, r.total) {
        Selection::Victim { id, .. } => OomDecision::Kill { id },
        Selection::InProgress { .. } => OomDecision::Wait,
        Selection::Nobody => OomDecision::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOTAL: Pages = 1_048_576;

    fn task(id: u32, rss: Pages, adj: i32) -> OomTask {
        OomTask {
            id,
            rss,
            adj,
            ..OomTask::default()
        }
    }

    #[test]
    fn machine_c6_victim() {
        let (a, b) = (task(1, 100_000, 0), task(2, 60_000, 50));
        assert_eq!(badness(&b, TOTAL), Some(112_400));
        assert_eq!(
            select([a, b], TOTAL),
            Selection::Victim {
                id: 2,
                badness: 112_400
            }
        );
        let c = task(3, 100_000, 0);
        assert_eq!(
            select([a, c], TOTAL),
            Selection::Victim {
                id: 3,
                badness: 100_000
            }
        );
    }

    #[test]
    fn exempt_tasks_and_dying_victims() {
        let never = task(1, 900_000, -1000);
        let kthread = OomTask {
            exempt: true,
            ..task(2, 900_000, 0)
        };
        let reaped = OomTask {
            victim: true,
            reaped: true,
            ..task(3, 900_000, 0)
        };
        assert_eq!(select([never, kthread, reaped], TOTAL), Selection::Nobody);
        let small = task(4, 10, -999);
        let Selection::Victim { id: 4, badness } = select([never, small, reaped], TOTAL) else {
            panic!("a task with negative badness can be chosen")
        };
        assert_eq!(badness, 10 - 999 * 1048);
        let dying = OomTask {
            victim: true,
            ..task(5, 1, 0)
        };
        assert_eq!(
            select([small, dying], TOTAL),
            Selection::InProgress { id: 5 }
        );
    }

    fn global(current: OomTask) -> OomRequest {
        OomRequest {
            order: 0,
            scope: OomScope::Global {
                no_fs: false,
                this_node: false,
                retry_mayfail: false,
                kill_allocating_task: false,
            },
            total: TOTAL,
            current,
            current_dying: false,
        }
    }

    #[test]
    fn global_decisions() {
        let (a, b) = (task(1, 100, 0), task(2, 200, 0));
        let r = global(a);
        assert_eq!(decide(&r, [a, b]), OomDecision::Kill { id: 2 });
        assert_eq!(decide(&r, []), OomDecision::Nobody);
        assert_eq!(
            decide(&OomRequest { order: 4, ..r }, [a, b]),
            OomDecision::Refuse
        );
        let dying = OomRequest {
            current_dying: true,
            ..r
        };
        assert_eq!(decide(&dying, [a, b]), OomDecision::CurrentExits);
        let with = |no_fs, this_node, retry_mayfail, kill_allocating_task| {
            let scope = OomScope::Global {
                no_fs,
                this_node,
                retry_mayfail,
                kill_allocating_task,
            };
            decide(&OomRequest { scope, ..r }, [a, b])
        };
        assert_eq!(with(true, false, false, false), OomDecision::Retry);
        assert_eq!(with(false, true, false, false), OomDecision::Refuse);
        assert_eq!(with(false, false, true, false), OomDecision::Refuse);
        assert_eq!(with(false, false, false, true), OomDecision::Kill { id: 1 });
        assert!(OomDecision::Wait.progress() && !OomDecision::Nobody.progress());
    }

    #[test]
    fn memcg_decisions() {
        let a = task(1, 100, 0);
        let at = |margin, order| {
            let scope = OomScope::Memcg { margin };
            decide(
                &OomRequest {
                    scope,
                    order,
                    ..global(a)
                },
                [a],
            )
        };
        assert_eq!(at(0, 0), OomDecision::Kill { id: 1 });
        assert_eq!(at(1, 0), OomDecision::Retry);
        assert_eq!(at(3, 2), OomDecision::Kill { id: 1 });
        assert_eq!(at(100, 4), OomDecision::Refuse);
    }

    proptest! {
        #[test]
        fn the_victim_is_the_last_of_the_worst(
            tasks in prop::collection::vec((0u64..50, -3i32..3, any::<bool>()), 0..20)
        ) {
            let tasks: Vec<_> = tasks.iter().enumerate().map(|(i, &(rss, adj, exempt))| {
                OomTask { exempt, ..task(i as u32, rss, adj) }
            }).collect();
            match select(tasks.iter().copied(), 5000) {
                Selection::Victim { id, badness: worst } => {
                    for t in &tasks {
                        let b = badness(t, 5000);
                        prop_assert!(b.is_none_or(|b| b < worst || (b == worst && t.id <= id)));
                    }
                }
                other => {
                    prop_assert_eq!(other, Selection::Nobody);
                    prop_assert!(tasks.iter().all(|t| t.exempt));
                }
            }
        }
    }
}
