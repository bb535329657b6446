//! Observation of a pool from outside.
//!
//! | file | what |
//! |---|---|
//! | `snapshot.rs` | where a pool stands, as data; `pool/snapshot.rs` gathers it |
//! | `registry.rs` | the pools of this process |
//! | `socket.rs`, `client.rs` | a socket that answers with snapshots, and its readers |
//! | `metrics.rs`, `http.rs` | the same for Prometheus |
//! | `server.rs` | a thread that answers a few connections at a time |

mod client;
#[cfg(feature = "metrics")]
mod http;
#[cfg(feature = "metrics")]
mod metrics;
pub(crate) mod registry;
mod server;
pub(crate) mod snapshot;
mod socket;

pub use crate::budget::histogram::Distribution;
pub use crate::budget::moved::is_counted;
pub use client::{processes, read, ObserveError};
#[cfg(feature = "metrics")]
use http::NotOpen;
#[cfg(feature = "metrics")]
pub use metrics::{metrics, Metric};
pub use registry::{snapshot_all, ProcessSnapshot};
pub use snapshot::{Generation, GroupSnapshot, Lists, RegionKind, RegionSnapshot, Snapshot};
pub use socket::socket_path;

use crate::config::PoolConfig;
use crate::error::{Error, Result};
use std::net::SocketAddr;

/// Begins what the settings of a new pool ask for, or the environment. Where the endpoint listens.
///
/// # Errors
/// What the program has asked for and cannot be had. What only the environment asks for is no reason
/// to fail: that is one line on standard error.
pub(crate) fn begin(config: &PoolConfig) -> Result<Option<SocketAddr>> {
    let asked = config.observe.unwrap_or(false);
    if asked || (config.observe.is_none() && set("COLDSET_OBSERVE").is_some()) {
        let done = socket::open().map_err(Error::io("making a socket to be observed by"));
        unless_asked(asked, done)?;
    }
    let from_outside = set("COLDSET_METRICS");
    let (what, address) = match (&config.metrics, &from_outside) {
        (Some(address), _) => ("the address for metrics", address),
        (None, Some(address)) => ("COLDSET_METRICS", address),
        (None, None) => return Ok(None),
    };
    let done = metrics_at(what, address);
    Ok(unless_asked(config.metrics.is_some(), done)?.flatten())
}

#[cfg(feature = "metrics")]
fn metrics_at(what: &'static str, address: &str) -> Result<Option<SocketAddr>> {
    match http::open(address) {
        Ok(at) => Ok(Some(at)),
        Err(NotOpen::Address(e)) => Err(Error::Setting {
            what,
            value: format!("{address:?} ({e})"),
            range: "write HOST:PORT, for example 127.0.0.1:9100",
        }),
        Err(NotOpen::Refused(e)) => {
            let tried = format!("listening for Prometheus at {address:?} ({what})");
            Err(Error::io(tried)(e))
        }
    }
}

#[cfg(not(feature = "metrics"))]
fn metrics_at(_: &'static str, _: &str) -> Result<Option<SocketAddr>> {
    Err(Error::Mode(
        "metrics need the crate's feature `metrics`, which this program was built without",
    ))
}

fn unless_asked<T>(asked: bool, done: Result<T>) -> Result<Option<T>> {
    match done {
        Ok(v) => Ok(Some(v)),
        Err(e) if asked => Err(e),
        Err(e) => {
            eprintln!("coldset: {e}");
            Ok(None)
        }
    }
}

/// A variable that is neither empty nor 0.
fn set(name: &str) -> Option<String> {
    let v = std::env::var(name).ok();
    v.filter(|v| !v.is_empty() && v != "0")
}
