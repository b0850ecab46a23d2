//! Unix sockets at which an export listens.

use crate::error::ServeError;
use rustix::net::{Shutdown, shutdown, sockopt};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket that listens.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file, which tell whether it is still ours.
    made: (u64, u64),
}

impl UnixSocket {
    /// Listens at a path. A file that an earlier server has left there is replaced.
    pub(crate) fn bind(path: &Path) -> Result<UnixSocket, ServeError> {
        let shown = path.display();
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path)?;
                UnixListener::bind(path)
            }
            bound => bound,
        };
        let listener =
            listener.map_err(|error| ServeError::system(format!("cannot listen at {shown}: {error}")))?;
        let made = identity(path)
            .ok_or_else(|| ServeError::system(format!("{shown} vanished right after it was made")))?;
        Ok(UnixSocket { listener, path: path.to_owned(), made })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next connection: its socket, and what is known of the peer.
    pub(crate) fn accept(&self) -> io::Result<(OwnedFd, String)> {
        let (stream, _) = self.listener.accept()?;
        let peer = peer(&stream);
        Ok((stream.into(), peer))
    }

    /// Ends the waiting in [`UnixSocket::accept`], which fails from now on, and removes the file of the socket.
    pub(crate) fn close(&self) {
        if identity(&self.path) == Some(self.made) {
            let _ = fs::remove_file(&self.path);
        }
        // A listening socket that is shut down fails its accept(2); nothing is left to report.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }
}

/// What is known of the other end of a connection.
pub(crate) fn peer(stream: &UnixStream) -> String {
    let process = sockopt::socket_peercred(stream).map(|peer| peer.pid.as_raw_nonzero().get());
    process.map_or_else(|_| "unix".to_owned(), |pid| format!("unix, process {pid}"))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Removes a socket's file that a server has left behind.
fn remove_stale(path: &Path) -> Result<(), ServeError> {
    let shown = path.display();
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return Err(ServeError::usage(format!("{shown} exists and is not a socket: choose another path")));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| ServeError::system(format!("cannot remove the stale socket {shown}: {error}"))),
        Err(error) => Err(ServeError::system(format!("cannot find out whether {shown} is in use: {error}"))),
        Ok(_) => {
            Err(ServeError::system(format!("a server listens at {shown}: stop it, or choose another path")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stale_socket_is_replaced() {
        let refused = |path: &Path| UnixSocket::bind(path).err().expect("refused");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixSocket::bind(&path).unwrap();
        let second = refused(&path);
        assert!(second.to_string().contains("a server listens"), "{second}");
        drop(first);
        assert!(path.exists(), "dropped without being closed, as after a crash");
        let third = UnixSocket::bind(&path).unwrap();
        third.close();
        assert!(!path.exists() && third.accept().is_err());
        fs::write(&path, "text").unwrap();
        assert!(refused(&path).is_usage());
        third.close();
        assert!(path.exists(), "the file of another is not removed");
    }
}
