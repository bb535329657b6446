//! The device: channels, merging, burst budget, counters.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256StarStar;

use super::fault::{below, FaultPlan, Faults};
use super::kind::DeviceSpec;
use super::{Completion, DeviceError, Op, Request};

/// Totals of a device. Times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceStats {
    /// Reads submitted, before merging and splitting.
    pub reads: u64,
    /// Writes submitted, likewise.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests merged with the one before them.
    pub merges: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Channel time (CPU time of the submitters for a synchronous device).
    pub busy_ns: u64,
    /// Time that requests waited for a channel.
    pub queue_ns: u64,
    /// The longest such wait.
    pub queue_max_ns: u64,
}

impl DeviceStats {
    /// KiB read, as in `pgpgin`.
    #[must_use]
    pub const fn kib_in(&self) -> u64 {
        self.read_bytes / 1024
    }

    /// KiB written, as in `pgpgout`.
    #[must_use]
    pub const fn kib_out(&self) -> u64 {
        self.write_bytes / 1024
    }
}

/// The request that was served last; one that continues it may be merged with it.
#[derive(Clone, Copy, Debug)]
struct Last {
    op: Op,
    submitted: u64,
    /// First byte after it.
    end_offset: u64,
    bytes: u64,
    start: u64,
    /// When its channel is done with it.
    end: u64,
    channel: usize,
}

/// A block device.
#[derive(Clone, Debug)]
pub struct Device {
    spec: DeviceSpec,
    /// When each channel is free.
    free_at: Vec<u64>,
    /// When the transfers accepted so far, reads and writes, have left their wire, which all channels share.
    wire_free_at: [u64; 2],
    /// Where the last request ended on the medium.
    head: Option<u64>,
    last: Option<Last>,
    burst_left: u64,
    rng: Xoshiro256StarStar,
    seed: u64,
    faults: Option<Faults>,
    stats: DeviceStats,
}

impl Device {
    /// An idle device. The seed matters only for jitter and for errors by probability.
    #[must_use]
    pub fn new(spec: DeviceSpec, seed: u64) -> Self {
        let channels = usize::try_from(spec.channels.clamp(1, 1024)).expect("at most 1024");
        Self {
            spec,
            free_at: vec![0; channels],
            wire_free_at: [0; 2],
            head: None,
            last: None,
            burst_left: spec.burst_bytes.unwrap_or(u64::MAX),
            rng: Xoshiro256StarStar::seed_from_u64(seed),
            seed,
            faults: None,
            stats: DeviceStats::default(),
        }
    }

    /// The figures of the device.
    #[must_use]
    pub const fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// True if requests are complete once the submitter has spent their CPU time.
    #[must_use]
    pub const fn is_synchronous(&self) -> bool {
        self.spec.synchronous
    }

    /// The totals so far.
    #[must_use]
    pub const fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    /// From now on things go wrong as planned; the counts of an earlier plan restart. The errors
    /// have a generator of their own, so they do not change the jitter.
    pub fn set_faults(&mut self, plan: FaultPlan) {
        self.faults = Some(Faults::new(plan, self.seed ^ 0x5bd1_e995_9e37_79b9));
    }

    /// True if a request submitted at `now` would wait for a channel.
    #[must_use]
    pub fn is_congested(&self, now: u64) -> bool {
        !self.spec.synchronous && self.free_at.iter().all(|&free| free > now)
    }

    /// Submits one request at time `now`, which must not be before that of an earlier request.
    pub fn submit(&mut self, now: u64, request: Request) -> Completion {
        self.count(&request);
        self.serve(now, request)
    }

    /// Submits requests together (a plug): those that continue the one before them are served as
    /// one, up to the largest request size, and complete together.
    pub fn submit_batch(&mut self, now: u64, requests: &[Request]) -> Vec<Completion> {
        let mut completions = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while let Some(&first) = rest.first() {
            let mut whole = first;
            let mut n = 1;
            while let Some(next) = rest.get(n).filter(|next| self.fits(&whole, next)) {
                whole.bytes += next.bytes;
                n += 1;
            }
            rest[..n].iter().for_each(|request| self.count(request));
            let completion = self.serve(now, whole);
            self.stats.merges += n as u64 - 1;
            self.stats.errors += (n as u64 - 1) * u64::from(completion.result.is_err());
            completions.push(completion);
            completions.extend((1..n).map(|_| Completion {
                merged: true,
                cpu_ns: 0,
                ..completion
            }));
            rest = &rest[n..];
        }
        completions
    }

    fn fits(&self, whole: &Request, next: &Request) -> bool {
        whole.op == next.op
            && whole.end() == next.offset
            && whole.bytes + next.bytes <= self.max_req()
    }

    fn max_req(&self) -> u64 {
        match self.spec.max_req_bytes {
            0 => u64::MAX,
            max => max,
        }
    }

    fn count(&mut self, request: &Request) {
        match request.op {
            Op::Read => self.stats.reads += 1,
            Op::Write => self.stats.writes += 1,
        }
    }

    /// Serves a request, in pieces if it is too large for one.
    fn serve(&mut self, now: u64, request: Request) -> Completion {
        let result = self.decide(&request);
        if self.spec.synchronous {
            return self.copy(now, request, result);
        }
        let merged = result.is_ok() && self.continues_last(now, &request);
        let (start, end) = if merged {
            self.extend_last(now, &request)
        } else {
            self.serve_pieces(now, request)
        };
        if result.is_err() {
            // Nobody continues a request that failed.
            self.last = None;
        }
        let delay = match request.op {
            Op::Read => self.spec.delay_read_ns,
            Op::Write => self.spec.delay_write_ns,
        };
        Completion {
            start,
            end: end + delay,
            cpu_ns: 0,
            merged,
            result,
        }
    }

    fn serve_pieces(&mut self, now: u64, request: Request) -> (u64, u64) {
        let (mut offset, mut left) = (request.offset, request.bytes);
        let (mut start, mut end) = (u64::MAX, 0);
        loop {
            let bytes = left.min(self.max_req());
            let piece = Request {
                offset,
                bytes,
                ..request
            };
            let (piece_start, piece_end) = self.serve_piece(now, &piece);
            start = start.min(piece_start);
            end = end.max(piece_end);
            offset += bytes;
            left -= bytes;
            if left == 0 {
                return (start, end);
            }
        }
    }

    /// `start = max(now, earliest channel free); end = start + lat + bytes / bandwidth`, and longer
    /// while the wire that all channels share is busy with transfers before it.
    // Nearly every request is one piece: inlined, the loop over pieces would get ready for many.
    #[inline(never)]
    fn serve_piece(&mut self, now: u64, piece: &Request) -> (u64, u64) {
        // Any channel that is free by now serves as well as any other: it starts at once. Only if
        // all are busy does it matter which one is free first.
        let channel = self
            .free_at
            .iter()
            .position(|&at| at <= now)
            .unwrap_or_else(|| self.first_free());
        let free_at = self.free_at[channel];
        let start = now.max(free_at);
        let lat = self.latency(piece);
        let lat = self.jittered(lat);
        let transfer = self.transfer_ns(piece.op, piece.bytes);
        // A slow device is slow at its own work; the transfers waited for are slow already.
        let all = self.slowed(start, lat + transfer);
        let lat = self.slowed(start, lat).min(all);
        let ns = all + self.wait_for_wire(piece.op, start, all - lat);
        let end = start + ns;
        self.free_at[channel] = end;
        self.head = Some(piece.end());
        self.last = Some(Last {
            op: piece.op,
            submitted: now,
            end_offset: piece.end(),
            bytes: piece.bytes,
            start,
            end,
            channel,
        });
        let stats = &mut self.stats;
        stats.busy_ns += ns;
        stats.queue_ns += start - now;
        stats.queue_max_ns = stats.queue_max_ns.max(start - now);
        (start, end)
    }

    /// How long a transfer of `ns` that begins at `start` waits for those before it. Latencies
    /// overlap: the wire never waits for a slow request while a quick one is ready.
    fn wait_for_wire(&mut self, op: Op, start: u64, ns: u64) -> u64 {
        let wire = match op {
            Op::Write if self.spec.full_duplex => 1,
            _ => 0,
        };
        let wait = self.wire_free_at[wire].saturating_sub(start);
        self.wire_free_at[wire] = start + wait + ns;
        wait
    }

    /// The channel that is free first, the first of several.
    fn first_free(&self) -> usize {
        let free = self.free_at.iter().enumerate();
        let first = free.min_by_key(|&(nr, &at)| (at, nr));
        first.expect("a device has a channel").0
    }

    fn continues_last(&self, now: u64, request: &Request) -> bool {
        self.last.as_ref().is_some_and(|last| {
            last.op == request.op
                && last.end_offset == request.offset
                && last.bytes + request.bytes <= self.max_req()
                && now.saturating_sub(last.submitted) <= self.spec.merge_window_ns
                && now < last.end
                && self.free_at[last.channel] == last.end
        })
    }

    /// The request follows the last one on its channel without a latency of its own.
    fn extend_last(&mut self, now: u64, request: &Request) -> (u64, u64) {
        let mut last = self.last.expect("checked by the caller");
        let ns = self.transfer_ns(request.op, request.bytes);
        let ns = self.slowed(last.end, ns);
        let wait = self.wait_for_wire(request.op, now, ns);
        let ns = ns.max((now + wait + ns).saturating_sub(last.end));
        last.end += ns;
        last.bytes += request.bytes;
        last.end_offset = request.end();
        self.free_at[last.channel] = last.end;
        self.head = Some(request.end());
        self.last = Some(last);
        self.stats.merges += 1;
        self.stats.busy_ns += ns;
        (last.start, last.end)
    }

    /// A synchronous request: a copy by the CPU of the submitter.
    fn copy(&mut self, now: u64, request: Request, result: Result<(), DeviceError>) -> Completion {
        let ns = self.transfer_ns(request.op, request.bytes);
        let cpu_ns = self.slowed(now, ns);
        self.stats.busy_ns += cpu_ns;
        Completion {
            start: now,
            end: now + cpu_ns,
            cpu_ns,
            merged: false,
            result,
        }
    }

    /// The result of a request, counted.
    fn decide(&mut self, request: &Request) -> Result<(), DeviceError> {
        let result = match &mut self.faults {
            Some(faults) => faults.result(request.op, request.offset, request.bytes),
            None => Ok(()),
        };
        match (result, request.op) {
            (Err(_), _) => self.stats.errors += 1,
            (Ok(()), Op::Read) => self.stats.read_bytes += request.bytes,
            (Ok(()), Op::Write) => self.stats.write_bytes += request.bytes,
        }
        result
    }

    fn latency(&self, piece: &Request) -> u64 {
        let lat = match piece.op {
            Op::Read => self.spec.read_lat_ns,
            Op::Write => self.spec.write_lat_ns,
        };
        match self.spec.seq_lat_ns {
            Some(sequential) if self.head == Some(piece.offset) => sequential,
            _ => lat,
        }
    }

    /// `lat * (1 + (u - 1/2) * j)`, u uniform in [0, 1).
    fn jittered(&mut self, lat: u64) -> u64 {
        if self.spec.jitter_ppm == 0 {
            return lat;
        }
        let ppm = self.spec.jitter_ppm.min(1_000_000);
        let span = match lat.checked_mul(ppm) {
            Some(product) => product / 1_000_000,
            None => (u128::from(lat) * u128::from(ppm) / 1_000_000) as u64,
        };
        lat - span / 2 + below(&mut self.rng, span + 1)
    }

    fn slowed(&self, start: u64, ns: u64) -> u64 {
        let faults = self.faults.as_ref();
        faults.map_or(ns, |faults| faults.slowed(start, ns))
    }

    /// Time on the wire. Writes use up the burst budget and are slower without it.
    fn transfer_ns(&mut self, op: Op, bytes: u64) -> u64 {
        match op {
            Op::Read => ns_for(bytes, self.spec.read_bytes_per_s, 100),
            Op::Write => {
                let fast = bytes.min(self.burst_left);
                if self.spec.burst_bytes.is_some() {
                    self.burst_left -= fast;
                }
                let bw = self.spec.write_bytes_per_s;
                let slow_percent = self.spec.burst_after_percent;
                ns_for(fast, bw, 100) + ns_for(bytes - fast, bw, slow_percent)
            }
        }
    }
}

/// The time for `bytes` at `percent` of a bandwidth, rounded down.
fn ns_for(bytes: u64, bytes_per_s: u64, percent: u64) -> u64 {
    let (bw, percent) = (bytes_per_s.max(1), percent.max(1));
    // Almost every request is small enough for 64 bits, whose division is much faster.
    if percent == 100 && bytes <= u64::MAX / 1_000_000_000 {
        return bytes * 1_000_000_000 / bw;
    }
    let ns = u128::from(bytes) * 100_000_000_000 / (u128::from(bw) * u128::from(percent));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
