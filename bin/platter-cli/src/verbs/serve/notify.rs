//! What a service manager and other programs see of the process: sd_notify(3) and the file with its number.

use crate::cli::{CliError, Exit};
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

/// The variable in which systemd names its socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells the service manager, if there is one. It may be gone, which is no reason to fail.
pub(super) fn notify(state: &str) {
    if let Some(socket) = std::env::var_os(VARIABLE) {
        let _ = send(&socket, state);
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// A file with the number of the process, locked as long as it runs. Dropping it removes the file.
pub(super) struct PidFile {
    path: PathBuf,
    _locked: File,
}

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// Another process has it locked; it cannot be written; it is another file than one with a number.
    pub(super) fn write(path: &Path) -> Result<PidFile, CliError> {
        let shown = path.display();
        let cannot = |error: io::Error| {
            CliError::new(Exit::CannotOpen, format!("cannot write the pid file {shown}: {error}"))
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let mut file = options.open(path).map_err(cannot)?;
        let mut bytes = [0; 32];
        let len = file.read_at(&mut bytes, 0).map_err(cannot)?;
        // What a killed server left behind is overwritten, and removed at the end; any other file must not be.
        let Some(number) = number_in(&bytes[..len]) else {
            return Err(CliError::refused(format!(
                "{shown} is not a pid file: it has more than the number of a process; give another path"
            )));
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(CliError::refused(format!(
                "another server runs with the pid file {shown} (process {number}); stop it or give another path"
            )));
        }
        file.set_len(0).map_err(cannot)?;
        writeln!(file, "{}", std::process::id()).map_err(cannot)?;
        Ok(PidFile { path: path.to_owned(), _locked: file })
    }
}

/// The number in a pid file; nothing if the server was killed before it wrote it. `None`: this is something else.
fn number_in(bytes: &[u8]) -> Option<&str> {
    let number = std::str::from_utf8(bytes).ok()?.trim();
    (number.len() <= 20 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told_at_a_path_and_at_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        let mut bytes = [0; 16];
        assert_eq!(socket.recv(&mut bytes).unwrap(), 7);
        assert_eq!(&bytes[..7], b"READY=1");
        let name = format!("platter-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        assert_eq!(socket.recv(&mut bytes).unwrap(), 10);
    }

    #[test]
    fn a_pid_file_is_held_by_one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        std::fs::write(&path, "4194304\n").unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        let second = PidFile::write(&path).err().unwrap();
        assert!(second.message().unwrap().contains(&std::process::id().to_string()));
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_pid_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        for content in [&b"notes"[..], &[0; 4096], b"12345678901234567890x", b"\xff"] {
            std::fs::write(&path, content).unwrap();
            let written = PidFile::write(&path);
            assert!(written.err().unwrap().message().unwrap().contains("is not a pid file"));
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
    }
}
