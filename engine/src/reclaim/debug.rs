//! The debug commands of multi-gen lruvecs: aging and eviction on request (`docs/rules/aging.md`).

use super::cx::Cx;
use super::eviction::Eviction;
use super::work::Work;
use crate::engine::Engine;
use crate::ids::{LruvecId, MemcgId, NodeId};
use crate::lruvec::LruvecLists;
use crate::mglru::walk::{AgingStep, AgingTask};
use crate::mglru::{EvictableTypes, MultiGen, MAX_NR_GENS, MIN_NR_GENS};

/// A command of the debug interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DebugCommand {
    /// Create a youngest generation after `seq`, which must be the youngest.
    Age {
        /// The youngest sequence number.
        seq: u64,
        /// Walks everything, whatever filters say and whoever has run. Up to 6.13, a command without it is refused if there are
        /// four generations.
        force: bool,
    },
    /// Evict generations up to and including `seq`.
    Evict {
        /// A sequence number with at least two younger generations.
        seq: u64,
        /// Pages to free at most.
        nr: u64,
    },
}

/// Why a command is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DebugError {
    /// There is no such memcg or node.
    #[error("there is no lruvec of memcg {} on node {}; name one that a dump shows", .0.0, .1.0)]
    NoLruvec(MemcgId, NodeId),
    /// The lruvec has no generations.
    #[error("memcg {} has no generations; use a multi-gen variant", .0.0)]
    NotMultiGen(MemcgId),
    /// Aging from a generation that is not the youngest.
    #[error("generation {seq} is not the youngest; age from {max_seq}")]
    NotYoungest {
        /// Sequence number that was given.
        seq: u64,
        /// Sequence number of the youngest generation.
        max_seq: u64,
    },
    /// There are four generations already.
    #[error(
        "there are {MAX_NR_GENS} generations already; evict generation {min_seq} first, or force"
    )]
    Full {
        /// Sequence number of the oldest generation.
        min_seq: u64,
    },
    /// Eviction of one of the two youngest generations.
    #[error("generation {seq} cannot be evicted: the {MIN_NR_GENS} youngest stay; use {} or older", .max_seq.saturating_sub(MIN_NR_GENS))]
    TooYoung {
        /// Sequence number that was given.
        seq: u64,
        /// Sequence number of the youngest generation.
        max_seq: u64,
    },
}

#[derive(Debug)]
enum DebugStage {
    Aging(AgingTask),
    /// Take the next eviction.
    Evict,
    Evicting(Box<Eviction>),
    End,
}

/// A command in progress.
#[derive(Debug)]
pub(super) struct DebugRun {
    lruvec: LruvecId,
    seq: u64,
    types: EvictableTypes,
    at: DebugStage,
}

impl DebugRun {
    /// Checks the command.
    pub(super) fn new(
        eng: &Engine,
        memcg: MemcgId,
        node: NodeId,
        command: DebugCommand,
        swappiness: u16,
    ) -> Result<Self, DebugError> {
        if !eng.memcgs.exists(memcg) || node.0 >= eng.config().nr_nodes {
            return Err(DebugError::NoLruvec(memcg, node));
        }
        let lruvec = eng.lruvec_id(memcg, node);
        let LruvecLists::MultiGen(m) = &eng.lruvecs[lruvec].lists else {
            return Err(DebugError::NotMultiGen(memcg));
        };
        let types = EvictableTypes::of(swappiness);
        let (max_seq, min_seq) = (m.max_seq, m.min_seq_of(types));
        let (seq, at) = match command {
            DebugCommand::Age { seq, .. } if seq != max_seq => {
                return Err(DebugError::NotYoungest { seq, max_seq });
            }
            DebugCommand::Age { force, .. }
                if !force
                    && eng.rules.kernel.commands_need_room
                    && min_seq + MAX_NR_GENS as u64 - 1 <= max_seq =>
            {
                return Err(DebugError::Full { min_seq });
            }
            DebugCommand::Age { seq, force } => {
                let task = AgingTask::by_command(lruvec, seq, types, force);
                (seq, DebugStage::Aging(task))
            }
            DebugCommand::Evict { seq, .. } if seq > max_seq - MIN_NR_GENS => {
                return Err(DebugError::TooYoung { seq, max_seq });
            }
            DebugCommand::Evict { seq, .. } => (seq, DebugStage::Evict),
        };
        Ok(Self {
            lruvec,
            seq,
            types,
            at,
        })
    }

    fn gens<'a>(&self, eng: &'a Engine) -> &'a MultiGen {
        eng.lruvecs[self.lruvec].gens()
    }

    pub(super) fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>) -> Work {
        loop {
            match &mut self.at {
                DebugStage::Aging(task) => match task.step(eng, cx.answer.take()) {
                    AgingStep::Ask(work) => return work,
                    AgingStep::Done(_) => self.at = DebugStage::End,
                },
                DebugStage::Evict => {
                    let left = cx.sc.nr_to_reclaim.saturating_sub(cx.sc.nr_reclaimed);
                    if left == 0 || self.gens(eng).min_seq_of(self.types) > self.seq {
                        self.at = DebugStage::End;
                        continue;
                    }
                    let whole = eng.config().scale.max_lru_batch;
                    let batch = match eng.rules.kernel.batch_within_budget {
                        true => left.min(whole),
                        false => whole,
                    };
                    let mut one = Eviction::without_drain(eng, cx.sc, self.lruvec);
                    one.begin(eng, cx, batch);
                    self.at = DebugStage::Evicting(Box::new(one));
                }
                DebugStage::Evicting(one) => match one.step(eng, cx) {
                    Some(work) => return work,
                    None => {
                        let progress = one.scanned() > 0;
                        self.at = if progress {
                            DebugStage::Evict
                        } else {
                            DebugStage::End
                        };
                        if progress {
                            return Work::Yield;
                        }
                    }
                },
                DebugStage::End => return Work::Done,
            }
        }
    }

    /// Gives up: what has been isolated goes back by the list.
    pub(super) fn abandon(&mut self, eng: &mut Engine) {
        match &mut self.at {
            DebugStage::Aging(task) => task.abandon(eng),
            DebugStage::Evicting(_) | DebugStage::Evict | DebugStage::End => {}
        }
        self.at = DebugStage::End;
    }
}
