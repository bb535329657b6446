//! The endpoint that Prometheus asks.

use super::metrics::exposition;
use crate::fuse::pool_thread;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Mutex;
use tiny_http::{Header, Method, Request, Response, Server};

/// What has been asked for, in this process, and where it listens.
static OPEN: Mutex<BTreeMap<(u32, String), SocketAddr>> = Mutex::new(BTreeMap::new());

/// Listens at `address` (`host:port`), once for all pools of the process. Where it listens: the port,
/// if 0 was asked for.
///
/// # Errors
/// The address is none, or taken.
pub(crate) fn open(address: &str) -> io::Result<SocketAddr> {
    let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
    let key = (std::process::id(), address.to_string());
    if let Some(at) = open.get(&key) {
        return Ok(*at);
    }
    let all: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    let listener = TcpListener::bind(&all[..])?;
    let at = listener.local_addr()?;
    pool_thread("coldset-metrics", move || {
        match Server::from_listener(listener, None) {
            Ok(server) => server.incoming_requests().for_each(answer),
            Err(e) => eprintln!("coldset: metrics: {e}"),
        }
    })?;
    open.insert(key, at);
    Ok(at)
}

fn answer(request: Request) {
    // Whoever goes away early has seen enough.
    let known = ["/metrics", "/"].contains(&request.url().split('?').next().unwrap_or(""));
    let _ = match request.method() {
        Method::Get | Method::Head if known => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let header = Header::from_bytes("Content-Type", kind).expect("a header");
            request.respond(Response::from_string(exposition()).with_header(header))
        }
        Method::Get | Method::Head => {
            request.respond(Response::from_string("see /metrics\n").with_status_code(404))
        }
        _ => request.respond(Response::from_string("read only\n").with_status_code(405)),
    };
}
