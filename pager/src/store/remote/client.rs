//! The thread that talks to a service.

use super::RemoteOptions;
use crate::sys::fuse::pool_thread;
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::options::ReadOptions;
use opendal::{ErrorKind, Metadata, Operator};
use std::io;
use std::ops::Range;
use std::sync::mpsc::{sync_channel, RecvTimeoutError, SyncSender};
use std::time::Duration;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};

/// Somebody waits for these bytes.
struct Request {
    range: Range<u64>,
    answer: SyncSender<io::Result<Vec<u8>>>,
}

/// The other end of the thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Client {
    name: String,
    requests: UnboundedSender<Request>,
    patience: Duration,
}

/// What must not change.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Identity {
    len: u64,
    etag: Option<String>,
    version: Option<String>,
    modified: Option<String>,
}

impl Identity {
    fn of(m: &Metadata) -> Self {
        Self {
            len: m.content_length(),
            etag: m.etag().map(str::to_owned),
            version: m.version().map(str::to_owned),
            modified: m.last_modified().map(|t| t.to_string()),
        }
    }
}

/// One object of one service.
struct Object {
    operator: Operator,
    path: String,
    name: String,
}

impl Object {
    fn error(&self, e: &opendal::Error) -> io::Error {
        let kind = match e.kind() {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, format!("remote object {}: {e}", self.name))
    }

    fn changed(&self, how: &str) -> io::Error {
        let text = format!(
            "remote object {} has changed since it was mapped ({how}); close the region and map it \
             again",
            self.name
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    }

    async fn identity(&self) -> io::Result<Identity> {
        let m = self.operator.stat(&self.path).await;
        m.map(|m| Identity::of(&m)).map_err(|e| self.error(&e))
    }

    /// Reads a range of the object that `was`. If the service can compare, it does, else its state
    /// is asked for afterwards.
    async fn read(&self, range: Range<u64>, was: &Identity) -> io::Result<Vec<u8>> {
        let can = self.operator.info().capability().read_with_if_match;
        let if_match = was.etag.clone().filter(|_| can);
        let compared = if_match.is_some();
        let options = ReadOptions {
            range: range.clone().into(),
            if_match,
            ..ReadOptions::default()
        };
        let read = self.operator.read_options(&self.path, options).await;
        let bytes = match read {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(e) if e.kind() == ErrorKind::ConditionNotMatch => {
                return Err(self.changed("another ETag"))
            }
            Err(e) => Err(self.error(&e)),
        };
        if !compared || bytes.is_err() {
            // A shorter object may be the reason of a failure.
            let is = self.identity().await;
            match is {
                Ok(is) if is.len != was.len => {
                    let how = format!("{} bytes, now {}", was.len, is.len);
                    return Err(self.changed(&how));
                }
                Ok(is) if is != *was => return Err(self.changed("same size")),
                Ok(_) => {}
                Err(e) => return bytes.and(Err(e)),
            }
        }
        let bytes = bytes?;
        if bytes.len() as u64 != range.end - range.start {
            let text = format!(
                "remote object {}: {} bytes instead of {}",
                self.name,
                bytes.len(),
                range.end - range.start
            );
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(bytes)
    }
}

impl Client {
    /// Starts the thread; also the object's size.
    pub(super) fn start(
        operator: &Operator,
        path: &str,
        options: &RemoteOptions,
    ) -> io::Result<(Self, u64)> {
        let timeout = TimeoutLayer::new()
            .with_timeout(options.timeout)
            .with_io_timeout(options.timeout);
        let retry = RetryLayer::new()
            .with_max_times(options.retries)
            .with_min_delay(Duration::from_millis(50))
            .with_max_delay(Duration::from_secs(2))
            .with_jitter();
        let info = operator.info();
        let object = Object {
            // Retries go round timeouts: a try that takes too long is one more to be repeated.
            operator: operator.clone().layer(timeout).layer(retry),
            path: path.to_owned(),
            name: format!(
                "{}:{}/{}",
                info.scheme(),
                info.root().trim_end_matches('/'),
                path.trim_start_matches('/')
            ),
        };
        let name = object.name.clone();
        let (requests, inbox) = unbounded_channel();
        let (ready, started) = sync_channel(1);
        pool_thread("coldset-remote", move || serve(object, inbox, &ready))?;
        let dead = |_| io::Error::other("the thread of a remote object has died");
        let len = started.recv().map_err(dead)??;
        let tries = options.retries as u32 + 1;
        let client = Self {
            name,
            requests,
            // Two calls a request at most, and the pauses between tries. Only a service that gets
            // round its own timeouts is waited for that long.
            patience: options.timeout * tries * 2 + Duration::from_secs(2) * tries + MARGIN,
        };
        Ok((client, len))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the object. Sleeps until they are there.
    pub(super) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (answer, answered) = sync_channel(1);
        let gone = || io::Error::other(format!("remote object {}: its thread has died", self.name));
        let request = Request { range, answer };
        self.requests.send(request).map_err(|_| gone())?;
        match answered.recv_timeout(self.patience) {
            Ok(bytes) => bytes,
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
            Err(RecvTimeoutError::Timeout) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("remote object {}: no answer", self.name),
            )),
        }
    }
}

const MARGIN: Duration = Duration::from_secs(5);

/// The thread: requests side by side, until nobody can ask any more.
fn serve(
    object: Object,
    mut inbox: UnboundedReceiver<Request>,
    ready: &SyncSender<io::Result<u64>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(r) => r,
        Err(e) => return drop(ready.send(Err(e))),
    };
    runtime.block_on(async move {
        let was = match object.identity().await {
            Ok(was) => was,
            Err(e) => return drop(ready.send(Err(e))),
        };
        // Who opened it waits for this; if that thread has gone, so has the object.
        let _ = ready.send(Ok(was.len));
        let shared = std::sync::Arc::new((object, was));
        while let Some(Request { range, answer }) = inbox.recv().await {
            let shared = shared.clone();
            tokio::spawn(async move {
                let (object, was) = &*shared;
                // Who asked may have given up.
                let _ = answer.send(object.read(range, was).await);
            });
        }
    });
}
