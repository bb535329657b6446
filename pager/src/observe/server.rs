//! Answering others: one thread and a few connections, with a bound on everything that they may take.
//!
//! Clients may be anybody. So this is no server crate: those that are kept well either have a
//! thread and a buffer without bounds for each connection, or bring a runtime of asynchronous tasks with
//! descriptors of its own into every program that maps a file. What is needed here is one short answer.

use crate::sys::exit::say;
use crate::sys::fd::Kept;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{accept_with, recv, send, shutdown, RecvFlags, SendFlags, Shutdown, SocketFlags};
use std::time::{Duration, Instant};

/// Connections at a time. Others wait in the kernel's queue of the socket, which is bounded.
const CONNECTIONS: usize = 8;
/// Bytes of a request.
pub(super) const REQUEST: usize = 8 << 10;
/// From the connection to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// After an error of the system's: no descriptor, no memory.
const PAUSE: Duration = Duration::from_millis(100);

/// The answer to what has come so far, which is at most [`REQUEST`] bytes; none: more must come.
pub(super) type Protocol = fn(&[u8]) -> Option<Vec<u8>>;

/// Somebody who has connected.
struct Connection {
    socket: Kept,
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
    sent: usize,
    /// Bytes that came after the request.
    more: usize,
    until: Instant,
}

/// Answers until the program closes the socket, which is a line on standard error: `what` names it.
pub(super) fn serve(listener: &Kept, what: &str, protocol: Protocol) {
    let mut all: Vec<Connection> = Vec::with_capacity(CONNECTIONS);
    loop {
        let ready = wait(listener, &all);
        let Ok(ready) = ready else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if !listener.is_ours() {
            return say(&format!(
                "coldset: {what}: the program has closed its socket; nobody is answered any more\n"
            ));
        }
        let now = Instant::now();
        let mut which = ready.iter().skip(1);
        all.retain_mut(|c| {
            let is_ready = which.next().is_some_and(|r| *r);
            now < c.until && (!is_ready || c.go_on(protocol))
        });
        if ready[0] && all.len() < CONNECTIONS {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                // Who has to say nothing gets an answer at once.
                Ok(socket) => all.extend(
                    Connection::new(socket, now).and_then(|mut c| c.go_on(protocol).then_some(c)),
                ),
                // It has gone again.
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// Waits for the first of them, or until one has been there for too long. Who is ready: the listener, then
/// connections.
fn wait(listener: &Kept, all: &[Connection]) -> Result<Vec<bool>, Errno> {
    let room = all.len() < CONNECTIONS;
    let newcomers = if room {
        PollFlags::IN
    } else {
        PollFlags::empty()
    };
    let mut fds = vec![PollFd::new(listener, newcomers)];
    fds.extend(all.iter().map(|c| {
        let sends = c.answer.as_ref().is_some_and(|a| c.sent < a.len());
        let what = if sends { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&c.socket, what)
    }));
    let first = all.iter().map(|c| c.until).min();
    let timeout = first.map(|t| {
        let left = t.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: left.as_secs() as _,
            tv_nsec: left.subsec_nanos().into(),
        }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(e) => return Err(e),
    }
    Ok(fds.iter().map(|f| !f.revents().is_empty()).collect())
}

impl Connection {
    fn new(socket: OwnedFd, now: Instant) -> Option<Self> {
        Some(Self {
            socket: Kept::new(socket).ok()?,
            request: Vec::new(),
            answer: None,
            sent: 0,
            more: 0,
            until: now + PATIENCE,
        })
    }

    /// Does what can be done without waiting. False: it is over.
    fn go_on(&mut self, protocol: Protocol) -> bool {
        if !self.socket.is_ours() {
            return false;
        }
        loop {
            let done = match &self.answer {
                None => self.read(protocol),
                Some(answer) if self.sent < answer.len() => {
                    let rest = &answer[self.sent..];
                    // A client that leaves early has seen enough.
                    let sent = send(&self.socket, rest, SendFlags::NOSIGNAL);
                    sent.map(|n| self.sent += n)
                }
                Some(_) => self.part(),
            };
            match done {
                Ok(()) | Err(Errno::INTR) => {}
                Err(e) => return e == Errno::AGAIN,
            }
        }
    }

    /// A part of the request, or the answer to it.
    fn read(&mut self, protocol: Protocol) -> Result<(), Errno> {
        self.answer = protocol(&self.request);
        if self.answer.is_some() {
            return Ok(());
        }
        let mut part = [0; 1024];
        let most = part.len().min(REQUEST - self.request.len());
        match recv(&self.socket, &mut part[..most], RecvFlags::empty())?.0 {
            0 => Err(Errno::PIPE),
            n => {
                self.request.extend_from_slice(&part[..n]);
                Ok(())
            }
        }
    }

    /// All is said. What the other side has not read yet would be lost if this side closed before it has
    /// read what the other one still says.
    fn part(&mut self) -> Result<(), Errno> {
        match shutdown(&self.socket, Shutdown::Write) {
            Ok(()) | Err(Errno::NOTCONN) => {}
            Err(e) => return Err(e),
        }
        match recv(&self.socket, &mut [0; 1024], RecvFlags::empty())?.0 {
            n if n > 0 && self.more < REQUEST => {
                self.more += n;
                Ok(())
            }
            _ => Err(Errno::PIPE),
        }
    }
}
