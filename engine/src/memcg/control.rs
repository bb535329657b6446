//! Writes to memory.max, memory.high and memory.reclaim (`docs/rules/memcg.md#control-files`) as tasks that are stepped.

use super::counter::{CounterKind, UNLIMITED};
use super::error::MemcgError;
use super::tree::MemcgTree;
use super::{MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use crate::counters::Counter;
use crate::ids::{MemcgId, Pages, PAGE_SIZE};

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEnd {
    /// The usage is within the limit, or the amount asked for was reclaimed.
    Satisfied,
    /// A signal was pending; the limit stays set.
    Interrupted,
    /// Reclaim made no progress (memory.reclaim: EAGAIN). The limit stays set.
    Exhausted,
}

/// What a write needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// Reclaim from the memcg; then `reclaim_done`.
    Reclaim {
        /// The memcg written to.
        memcg: MemcgId,
        /// Target, already at least 32.
        nr: Pages,
        /// memory.reclaim: counted as proactive, no memory pressure reported.
        proactive: bool,
        /// memory.reclaim with a swappiness of its own.
        swappiness: Option<u8>,
    },
    /// Empty the LRU add batches of all CPUs; then step on.
    DrainLruBatches,
    /// Invoke the OOM killer for the memcg (event OOM is counted); then `oom_done`.
    Oom {
        /// The memcg written to.
        memcg: MemcgId,
    },
    /// The task has ended, with this result.
    Done(WriteEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteStage {
    Loop,
    Reclaiming(Pages),
    Killing,
    Done(WriteEnd),
}

/// A limit write in its common part: id, drain, fruitless calls.
#[derive(Clone, Debug)]
struct Write {
    id: MemcgId,
    drained: bool,
    retries: u32,
    state: WriteStage,
}

impl Write {
    fn new(id: MemcgId) -> Self {
        Self {
            id,
            drained: false,
            retries: MAX_RECLAIM_RETRIES,
            state: WriteStage::Loop,
        }
    }

    /// One pass of the loop head shared by both limits: how far the usage is above `limit`, or
    /// `None` if the pass is decided.
    fn excess(&mut self, tree: &mut MemcgTree, limit: Pages, signal: bool) -> Option<Pages> {
        let usage = tree[self.id].memory.usage;
        if usage <= limit {
            self.state = WriteStage::Done(WriteEnd::Satisfied);
        } else if signal {
            self.state = WriteStage::Done(WriteEnd::Interrupted);
        } else if !self.drained {
            tree.drain_stocks(self.id);
            self.drained = true;
        } else {
            return Some(usage - limit);
        }
        None
    }

    fn reclaim_step(&self, nr: Pages) -> WriteStep {
        WriteStep::Reclaim {
            memcg: self.id,
            nr: nr.max(SWAP_CLUSTER_MAX),
            proactive: false,
            swappiness: None,
        }
    }

    fn answered(&mut self) {
        assert!(
            matches!(self.state, WriteStage::Reclaiming(_)),
            "reclaim_done without a reclaim request"
        );
        self.state = WriteStage::Loop;
    }

    /// Counts a fruitless call; after the 17th the write ends.
    fn fruitless_or_end(&mut self) {
        if self.retries == 0 {
            self.state = WriteStage::Done(WriteEnd::Exhausted);
        } else {
            self.retries -= 1;
        }
    }
}

/// A write to memory.max: the limit holds at once, then the usage is brought below it, by killing if
/// 16 reclaim calls were fruitless.
#[derive(Clone, Debug)]
pub struct MaxWrite {
    w: Write,
    max: Pages,
}

impl MaxWrite {
    /// Sets the limit (pages). Fails for the root and for unknown memcgs.
    pub fn new(tree: &mut MemcgTree, id: MemcgId, max: Pages) -> Result<Self, MemcgError> {
        tree.set_max(id, CounterKind::Memory, max)?;
        Ok(Self {
            w: Write::new(id),
            max,
        })
    }

    /// Continues until something must happen outside. `signal`: the writer has a signal pending.
    pub fn step(&mut self, tree: &mut MemcgTree, signal: bool) -> WriteStep {
        loop {
            match self.w.state {
                // Overtaken by a later write: its limit counts, and below that one there may be room
                // for ever although this one is exceeded.
                WriteStage::Loop if tree[self.w.id].memory.max != self.max.min(UNLIMITED) => {
                    self.w.state = WriteStage::Done(WriteEnd::Interrupted);
                }
                WriteStage::Loop => {
                    let Some(excess) = self.w.excess(tree, self.max, signal) else {
                        continue;
                    };
                    if self.w.retries > 0 {
                        self.w.state = WriteStage::Reclaiming(excess);
                    } else {
                        tree.event(self.w.id, Counter::EventsOom);
                        self.w.state = WriteStage::Killing;
                    }
                }
                WriteStage::Reclaiming(nr) => return self.w.reclaim_step(nr),
                WriteStage::Killing => return WriteStep::Oom { memcg: self.w.id },
                WriteStage::Done(end) => return WriteStep::Done(end),
            }
        }
    }

    /// Answers [`WriteStep::Reclaim`] with the number of pages freed.
    pub fn reclaim_done(&mut self, nr_reclaimed: Pages) {
        self.w.answered();
        if nr_reclaimed == 0 {
            self.w.retries -= 1;
        }
    }

    /// Answers [`WriteStep::Oom`]: whether something was killed. If nothing could be, the write
    /// ends with the limit exceeded.
    pub fn oom_done(&mut self, killed: bool) {
        assert!(
            self.w.state == WriteStage::Killing,
            "oom_done without an OOM request"
        );
        self.w.state = if killed {
            WriteStage::Loop
        } else {
            WriteStage::Done(WriteEnd::Exhausted)
        };
    }
}

/// A write to memory.high: reclaim down to the mark, no kill; the 17th fruitless call ends it.
#[derive(Clone, Debug)]
pub struct HighWrite {
    w: Write,
    high: Pages,
}

impl HighWrite {
    /// Sets the mark (pages). Fails for the root and for unknown memcgs.
    pub fn new(tree: &mut MemcgTree, id: MemcgId, high: Pages) -> Result<Self, MemcgError> {
        tree.set_high(id, CounterKind::Memory, high)?;
        Ok(Self {
            w: Write::new(id),
            high,
        })
    }

    /// Continues until something must happen outside. `signal`: the writer has a signal pending.
    pub fn step(&mut self, tree: &mut MemcgTree, signal: bool) -> WriteStep {
        loop {
            match self.w.state {
                WriteStage::Loop => {
                    if let Some(excess) = self.w.excess(tree, self.high, signal) {
                        self.w.state = WriteStage::Reclaiming(excess);
                    }
                }
                WriteStage::Reclaiming(nr) => return self.w.reclaim_step(nr),
                WriteStage::Done(end) => return WriteStep::Done(end),
                WriteStage::Killing => unreachable!("memory.high never kills"),
            }
        }
    }

    /// Answers [`WriteStep::Reclaim`] with the number of pages freed.
    pub fn reclaim_done(&mut self, nr_reclaimed: Pages) {
        self.w.answered();
        if nr_reclaimed == 0 {
            self.w.fruitless_or_end();
        }
    }
}

/// What is written to memory.reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimRequest {
    /// Pages to reclaim.
    pub pages: Pages,
    /// Swappiness for this request, 0 to 200.
    pub swappiness: Option<u8>,
}

impl ReclaimRequest {
    /// Parses `SIZE [swappiness=0..200]`, SIZE in bytes with an optional K, M, G or T.
    pub fn parse(text: &str) -> Result<Self, MemcgError> {
        let bad = |text: &str| MemcgError::Parse {
            file: "memory.reclaim",
            text: text.into(),
            expected: "SIZE [swappiness=0..200], SIZE in bytes or with K, M, G, T",
        };
        let mut words = text.split_whitespace();
        let size = words.next().ok_or_else(|| bad(text))?;
        let mut request = Self {
            pages: parse_pages(size).ok_or_else(|| bad(size))?,
            swappiness: None,
        };
        for word in words {
            let value = word.strip_prefix("swappiness=").ok_or_else(|| bad(word))?;
            let value: u8 = value.parse().map_err(|_| bad(word))?;
            if value > 200 {
                return Err(bad(word));
            }
            request.swappiness = Some(value);
        }
        Ok(request)
    }
}

/// Parses the size grammar of the memory control files: bytes, an optional K, M, G or T, or `max`;
/// rounded down to pages. `None` if the text is no size.
pub fn parse_pages(text: &str) -> Option<Pages> {
    if text == "max" {
        return Some(UNLIMITED);
    }
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        b't' | b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let bytes = u128::from(digits.parse::<u64>().ok()?) << shift;
    let pages = bytes / u128::from(PAGE_SIZE);
    Some(u64::try_from(pages).map_or(UNLIMITED, |p| p.min(UNLIMITED)))
}

/// A write to memory.reclaim, allowed on the root too: a quarter of the rest per call, until the
/// amount is reclaimed or the 17th call was fruitless.
#[derive(Clone, Debug)]
pub struct ReclaimWrite {
    w: Write,
    request: ReclaimRequest,
    done: Pages,
}

impl ReclaimWrite {
    /// Starts the request. Fails for unknown memcgs.
    pub fn new(tree: &MemcgTree, id: MemcgId, request: ReclaimRequest) -> Result<Self, MemcgError> {
        if !tree.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        Ok(Self {
            w: Write::new(id),
            request,
            done: 0,
        })
    }

    /// Pages reclaimed so far.
    pub fn reclaimed(&self) -> Pages {
        self.done
    }

    /// Continues until something must happen outside. `signal`: the writer has a signal pending.
    pub fn step(&mut self, signal: bool) -> WriteStep {
        loop {
            match self.w.state {
                WriteStage::Loop if self.done >= self.request.pages => {
                    self.w.state = WriteStage::Done(WriteEnd::Satisfied);
                }
                WriteStage::Loop if signal => {
                    self.w.state = WriteStage::Done(WriteEnd::Interrupted)
                }
                WriteStage::Loop => {
                    self.w.state = WriteStage::Reclaiming((self.request.pages - self.done) / 4);
                    // Only the last attempt is worth the interruption of all CPUs.
                    if self.w.retries == 0 {
                        return WriteStep::DrainLruBatches;
                    }
                }
                WriteStage::Reclaiming(nr) => {
                    return WriteStep::Reclaim {
                        memcg: self.w.id,
                        nr: nr.max(SWAP_CLUSTER_MAX),
                        proactive: true,
                        swappiness: self.request.swappiness,
                    }
                }
                WriteStage::Done(end) => return WriteStep::Done(end),
                WriteStage::Killing => unreachable!("memory.reclaim never kills"),
            }
        }
    }

    /// Answers [`WriteStep::Reclaim`] with the number of pages freed.
    pub fn reclaim_done(&mut self, nr_reclaimed: Pages) {
        self.w.answered();
        self.done += nr_reclaimed;
        if nr_reclaimed == 0 {
            self.w.fruitless_or_end();
        }
    }
}
