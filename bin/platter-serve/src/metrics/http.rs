//! Just enough of HTTP/1.1 (RFC 9112) to hand out one page.

use super::text::{CONTENT_TYPE, render};
use crate::daemon::Daemon;
use crate::error::ServeError;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest head of a request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;
/// How long a request and the reading of its answer may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A server of metrics. Dropping it ends it.
pub struct MetricsServer {
    address: SocketAddr,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at an address of the form `127.0.0.1:9100`; with port 0 the system chooses one. `insecure_plaintext` allows
    /// addresses other than loopback.
    ///
    /// # Errors
    /// The address is wrong, in use, or not loopback without `insecure_plaintext`.
    pub fn start(
        address: &str,
        insecure_plaintext: bool,
        daemon: &Arc<Daemon>,
    ) -> Result<MetricsServer, ServeError> {
        let at: SocketAddr = address.parse().map_err(|_| {
            ServeError::usage(format!(
                "metrics address {address:?}: expected IP:PORT, such as 127.0.0.1:9100"
            ))
        })?;
        if !at.ip().is_loopback() && !insecure_plaintext {
            return Err(ServeError::usage(format!(
                "metrics address {at} is not loopback and has no encryption: use 127.0.0.1 or [::1], or allow it with \
                 insecure_plaintext (on the command line --insecure-plaintext)"
            )));
        }
        let cannot = |error: io::Error| ServeError::system(format!("cannot serve metrics at {at}: {error}"));
        let listener = TcpListener::bind(at).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (stop, stopped) = UnixStream::pair().map_err(cannot)?;
        let daemon = Arc::clone(daemon);
        let run = move || serve_all(&listener, &stopped, &daemon);
        let thread =
            std::thread::Builder::new().name("platter-metrics".to_owned()).spawn(run).map_err(cannot)?;
        Ok(MetricsServer { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        let _ = self.stop.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve_all(listener: &TcpListener, stopped: &UnixStream, daemon: &Daemon) {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            // A peer that is gone or slow is no error of the server.
            Ok((stream, _)) => _ = serve(stream, || render(daemon)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Out of descriptors: the connection stays in the backlog meanwhile.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn serve(mut stream: TcpStream, page: impl Fn() -> String) -> io::Result<()> {
    let until = Instant::now() + REQUEST_TIMEOUT;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut head = Vec::new();
    let mut block = [0; 1024];
    while !has_end(&head) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > MAX_REQUEST_BYTES {
            return respond(
                &mut stream,
                "400 Bad Request",
                "text/plain",
                "the request is too long or too slow\n",
                false,
            );
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut block)? {
            0 => return Ok(()),
            read => head.extend_from_slice(&block[..read]),
        }
    }
    let line = String::from_utf8_lossy(&head);
    let mut words = line.lines().next().unwrap_or_default().split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/metrics" | "/") => respond(&mut stream, "200 OK", CONTENT_TYPE, &page(), false),
        ("HEAD", "/metrics" | "/") => respond(&mut stream, "200 OK", CONTENT_TYPE, &page(), true),
        ("GET" | "HEAD", _) => respond(&mut stream, "404 Not Found", "text/plain", "see /metrics\n", false),
        _ => respond(&mut stream, "405 Method Not Allowed", "text/plain", "only GET and HEAD\n", false),
    }
}

fn has_end(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

fn respond(stream: &mut TcpStream, status: &str, kind: &str, body: &str, head_only: bool) -> io::Result<()> {
    let length = body.len();
    let body = if head_only { "" } else { body };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)
}
