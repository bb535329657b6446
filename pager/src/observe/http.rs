//! The endpoint that Prometheus asks.

use super::metrics::exposition;
use super::server::{serve, REQUEST};
use crate::sys::fd::Kept;
use crate::sys::fork::OfProcess;
use crate::sys::fuse::pool_thread;
use httparse::{Error, Status, EMPTY_HEADER};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Mutex;

/// What has been asked for, in this process, and where it listens.
static OPEN: OfProcess<Mutex<BTreeMap<String, SocketAddr>>> = OfProcess::new();

/// Why nobody listens.
#[derive(Debug)]
pub(crate) enum NotOpen {
    /// It is no address.
    Address(io::Error),
    /// It is one, and the kernel refuses.
    Refused(io::Error),
}

/// Listens at `address` (`host:port`), once for all pools of the process. Where it listens: the port,
/// if 0 was asked for.
///
/// # Errors
/// The address is none, or taken.
pub(crate) fn open(address: &str) -> Result<SocketAddr, NotOpen> {
    let mut open = OPEN.get().lock().unwrap_or_else(|e| e.into_inner());
    if let Some(at) = open.get(address) {
        return Ok(*at);
    }
    let all = address.to_socket_addrs().map_err(NotOpen::Address)?;
    let all: Vec<SocketAddr> = all.collect();
    let at = listen(&all).map_err(NotOpen::Refused)?;
    open.insert(address.to_string(), at);
    Ok(at)
}

/// Answers at the first of these that is free.
fn listen(all: &[SocketAddr]) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(all)?;
    let at = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let listener = Kept::new(OwnedFd::from(listener))?;
    pool_thread("coldset-metrics", move || {
        serve(&listener, "metrics", answer);
    })?;
    Ok(at)
}

/// Headers of a request; others take more bytes than there may be.
const HEADERS: usize = 128;

fn answer(got: &[u8]) -> Option<Vec<u8>> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(got) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) if got.len() < REQUEST => return None,
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => {
            let most = format!("a request has at most {REQUEST} bytes and {HEADERS} headers\n");
            return Some(response(
                "431 Request Header Fields Too Large",
                "text/plain",
                &most,
                true,
            ));
        }
        Err(e) => {
            let why = format!("not understood: {e}\n");
            return Some(response("400 Bad Request", "text/plain", &why, true));
        }
    }
    let path = request.path.unwrap_or("").split('?').next();
    let known = path.is_some_and(|p| ["/metrics", "/"].contains(&p));
    let body = request.method != Some("HEAD");
    let text = "text/plain; charset=utf-8";
    Some(match request.method {
        Some("GET" | "HEAD") if known => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            response("200 OK", kind, &exposition(), body)
        }
        Some("GET" | "HEAD") => response("404 Not Found", text, "see /metrics\n", body),
        _ => response("405 Method Not Allowed", text, "read only\n", body),
    })
}

fn response(status: &str, kind: &str, content: &str, body: bool) -> Vec<u8> {
    let len = content.len();
    // The last one goes with any answer, and is meant for the one that needs it.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\nAllow: GET, HEAD\r\n\r\n"
    );
    let mut all = head.into_bytes();
    if body {
        all.extend_from_slice(content.as_bytes());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_line(request: &str) -> Option<String> {
        let a = answer(request.as_bytes())?;
        Some(String::from_utf8(a).unwrap().lines().next().unwrap().into())
    }

    #[test]
    fn requests_are_answered_when_they_are_whole() {
        let get = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..get.len() {
            assert_eq!(first_line(&get[..end]), None);
        }
        assert_eq!(first_line(get).unwrap(), "HTTP/1.1 200 OK");
        assert_eq!(
            first_line("GET / HTTP/1.0\r\n\r\n").unwrap(),
            "HTTP/1.1 200 OK"
        );
        let other = |r: &str| first_line(&format!("{r} HTTP/1.1\r\n\r\n")).unwrap();
        assert_eq!(other("GET /etc/passwd"), "HTTP/1.1 404 Not Found");
        assert_eq!(other("POST /metrics"), "HTTP/1.1 405 Method Not Allowed");
        assert_eq!(other("\u{1}"), "HTTP/1.1 400 Bad Request");
        let too_large = "HTTP/1.1 431 Request Header Fields Too Large";
        let long = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(REQUEST));
        assert_eq!(first_line(&long[..REQUEST - 1]), None);
        assert_eq!(first_line(&long[..REQUEST]).unwrap(), too_large);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(HEADERS + 1));
        assert_eq!(first_line(&many).unwrap(), too_large);
    }

    #[test]
    fn head_has_no_body() {
        let a = answer(b"HEAD / HTTP/1.1\r\n\r\n").unwrap();
        assert!(a.ends_with(b"\r\n\r\n"));
    }
}
