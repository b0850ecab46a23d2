//! The socket, its connections, and who may use them.

use super::rpc::{Heard, answer_to};
use crate::daemon::Daemon;
use crate::error::ServeError;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most connections at a time.
pub const MAX_CONNECTIONS: usize = 16;
/// Longest line, in bytes.
pub const MAX_LINE_BYTES: usize = 64 << 10;
/// How long a peer may take to read a result.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Is told what the socket hears, for the log.
pub type Hears = Arc<dyn Fn(&Heard<'_>) + Send + Sync>;

/// The connections that there are, by number.
type Open = Arc<Mutex<BTreeMap<u64, UnixStream>>>;

/// A control socket. Dropping it ends its connections and removes it.
pub struct Control {
    path: PathBuf,
    /// Device and number of the socket's file: another server may have replaced it.
    file: (u64, u64),
    open: Open,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens at a path for calls on the daemon; `hears` is told of connections that are refused, and of
    /// calls that may change something. A socket that no server listens on any more is replaced.
    ///
    /// # Errors
    /// Another server listens there; there is a file that is no socket; the directory is missing or may not be written.
    pub fn start(path: &Path, daemon: &Arc<Daemon>, hears: Hears) -> Result<Control, ServeError> {
        let shown = path.display();
        let cannot = |error: io::Error| {
            ServeError::system(format!(
                "cannot listen at the control socket {shown}: {error}; its directory must exist"
            ))
        };
        check_free(path)?;
        let (listener, file) = bind(path).map_err(cannot)?;
        let (stop, stopped) = UnixStream::pair().map_err(cannot)?;
        let open = Open::default();
        let (connections, daemon) = (Arc::clone(&open), Arc::clone(daemon));
        let run = move || accept_all(&listener, &stopped, &connections, &daemon, &hears);
        let thread =
            std::thread::Builder::new().name("platter-control".to_owned()).spawn(run).map_err(cannot)?;
        Ok(Control { path: path.to_owned(), file, open, stop, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Closing its end wakes the thread as well.
        let _ = self.stop.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn check_free(path: &Path) -> Result<(), ServeError> {
    let shown = path.display();
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(ServeError::system(format!(
            "{shown} is not a socket; give another path for the control socket"
        )));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(ServeError::system(format!("cannot tell whether a server uses {shown}: {error}"))),
        Ok(_) => Err(ServeError::system(format!(
            "another server listens at {shown}; stop it or give another path"
        ))),
    }
}

/// Makes the socket under another name first, so that it never has a mode that lets others in.
fn bind(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let listener = UnixListener::bind(&temporary)?;
    let placed = fs::set_permissions(&temporary, Permissions::from_mode(0o600))
        .and_then(|()| listener.set_nonblocking(true))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| fs::symlink_metadata(path));
    match placed {
        Ok(found) => Ok((listener, (found.dev(), found.ino()))),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error)
        }
    }
}

fn accept_all(
    listener: &UnixListener,
    stopped: &UnixStream,
    open: &Open,
    daemon: &Arc<Daemon>,
    hears: &Hears,
) {
    let mut number = 0;
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) {
                    // Out of descriptors: the connection stays in the backlog meanwhile.
                    std::thread::sleep(Duration::from_millis(100));
                }
                continue;
            }
        };
        number += 1;
        if let Err(why) = begin(number, &stream, open, daemon, hears) {
            refuse(stream, &why);
            hears(&Heard::Refused(&why));
        }
    }
}

/// Tells a peer why, without waiting for it.
fn refuse(mut stream: UnixStream, why: &str) {
    let message = format!("the connection is refused: {why}");
    let error = serde_json::json!({ "code": -32001, "message": message });
    let response = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error });
    // A line fits into the socket's buffer, or the peer does not read.
    let _ = stream.set_nonblocking(true).and_then(|()| send(&mut stream, &response));
}

/// Serves a connection in a thread of its own.
fn begin(
    number: u64,
    stream: &UnixStream,
    open: &Open,
    daemon: &Arc<Daemon>,
    hears: &Hears,
) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(|error| error.to_string())?;
    if !may_use(peer.uid.as_raw(), rustix::process::geteuid().as_raw()) {
        return Err(format!(
            "the peer has user {}; only that of the server and root may use it",
            peer.uid.as_raw()
        ));
    }
    stream.set_nonblocking(false).map_err(told)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT)).map_err(told)?;
    let mut list = open.lock().unwrap_or_else(PoisonError::into_inner);
    if list.len() >= MAX_CONNECTIONS {
        return Err(format!("there are {MAX_CONNECTIONS} connections already"));
    }
    list.insert(number, stream.try_clone().map_err(told)?);
    drop(list);
    let stream = stream.try_clone().map_err(told)?;
    let (connections, daemon, hears) = (Arc::clone(open), Arc::downgrade(daemon), Arc::clone(hears));
    let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
    let run = move || {
        let audit = |method, params: &_, error: Option<&str>| {
            hears(&Heard::Call { uid, pid, method, params, error });
        };
        // A peer that is gone is no error.
        let _ = serve(stream, |line| daemon.upgrade().and_then(|daemon| answer_to(&daemon, line, &audit)));
        connections.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    };
    if let Err(error) = std::thread::Builder::new().name("platter-control".to_owned()).spawn(run) {
        open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        return Err(error.to_string());
    }
    Ok(())
}

fn may_use(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

fn serve(mut stream: UnixStream, answer: impl Fn(&[u8]) -> Option<serde_json::Value>) -> io::Result<()> {
    let mut line = Vec::new();
    let mut block = [0; 4096];
    loop {
        let read = match stream.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for piece in block[..read].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if line.len() > MAX_LINE_BYTES {
                let message = format!("a line has more than {MAX_LINE_BYTES} bytes");
                let error = serde_json::json!({ "code": -32600, "message": message });
                return send(
                    &mut stream,
                    &serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error }),
                );
            }
            if line.ends_with(b"\n") {
                if !line.trim_ascii().is_empty()
                    && let Some(response) = answer(&line)
                {
                    send(&mut stream, &response)?;
                }
                line.clear();
            }
        }
    }
}

fn send(stream: &mut UnixStream, response: &serde_json::Value) -> io::Result<()> {
    stream.write_all(format!("{response}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_and_root_may_use_it() {
        assert!(may_use(1000, 1000) && may_use(0, 1000) && may_use(0, 0));
        assert!(!may_use(1001, 1000) && !may_use(1000, 0));
    }
}
