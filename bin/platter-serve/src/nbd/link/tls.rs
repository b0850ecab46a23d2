//! A connection through TLS. Data passes through buffers of the TLS library, so each byte is copied.

use crate::stream::socket::{Mode, Socket};
use crate::tls::{Tls, explain};
use rustix::io::Errno;
use rustls::ServerConnection;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

/// Most bytes that wait in the TLS library to be sent.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Encrypted(Box<ServerConnection>);

/// The socket as the TLS library calls it.
struct Raw<'a>(&'a Socket, Mode);

impl Read for Raw<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.receive(&mut [IoSliceMut::new(bytes)], self.1).map_err(io::Error::from)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(&[IoSlice::new(bytes)], self.1).map_err(io::Error::from)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send(parts, self.1).map_err(io::Error::from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::PROTO, Errno::from_raw_os_error)
}

impl Encrypted {
    /// Carries out the handshake.
    pub(super) fn begin(
        tls: &Tls,
        socket: &Socket,
        limit: impl Fn(&Socket) -> Result<(), String>,
    ) -> Result<Encrypted, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the TLS handshake failed: {error}");
        let mut connection = ServerConnection::new(tls.config()).map_err(|error| failed(&error))?;
        connection.set_buffer_limit(Some(BUFFER_BYTES));
        let mut raw = Raw(socket, Mode::Wait);
        while connection.is_handshaking() || connection.wants_write() {
            limit(socket)?;
            if connection.wants_write() {
                connection.write_tls(&mut raw).map_err(|error| failed(&error))?;
                continue;
            }
            match connection.read_tls(&mut raw) {
                Ok(0) => return Err("the peer closed the connection during the TLS handshake".to_owned()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err("the TLS handshake took too long".to_owned());
                }
                Err(error) => return Err(failed(&error)),
            }
            if let Err(error) = connection.process_new_packets() {
                // The alert tells the peer why; it may be gone.
                let _ = connection.write_tls(&mut raw);
                return Err(failed(&explain(&error)));
            }
        }
        Ok(Encrypted(Box::new(connection)))
    }

    /// Receives into `parts`, until they are full or nothing more has arrived.
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        parts: &mut [IoSliceMut<'_>],
        mode: Mode,
    ) -> Result<usize, Errno> {
        loop {
            match self.decrypted(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(errno(&error)),
                Ok(bytes) => return Ok(bytes),
            }
            match self.0.read_tls(&mut Raw(socket, mode)) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) => return Err(errno(&error)),
            }
            if self.0.process_new_packets().is_err() {
                // The alert tells the peer why; it may be gone.
                let _ = self.0.write_tls(&mut Raw(socket, Mode::Try));
                return Err(Errno::PROTO);
            }
        }
    }

    /// Takes what is decrypted already.
    fn decrypted(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut all = 0;
        for part in parts {
            let mut filled = 0;
            while filled < part.len() {
                match self.0.reader().read(&mut part[filled..]) {
                    Ok(0) => return Ok(all),
                    Ok(bytes) => (filled, all) = (filled + bytes, all + bytes),
                    Err(_) if all > 0 => return Ok(all),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }

    /// Takes as much of `parts` as there is room for, and sends what the socket takes.
    pub(super) fn send(
        &mut self,
        socket: &Socket,
        parts: &[IoSlice<'_>],
        mode: Mode,
    ) -> Result<usize, Errno> {
        self.push(socket, mode)?;
        let taken = self.0.writer().write_vectored(parts).map_err(|error| errno(&error))?;
        match self.push(socket, mode) {
            Ok(()) | Err(Errno::AGAIN) if taken > 0 => Ok(taken),
            Ok(()) => Err(Errno::AGAIN),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.0.wants_write()
    }

    pub(super) fn push(&mut self, socket: &Socket, mode: Mode) -> Result<(), Errno> {
        while self.0.wants_write() {
            self.0.write_tls(&mut Raw(socket, mode)).map_err(|error| errno(&error))?;
        }
        Ok(())
    }

    pub(super) fn close(&mut self, socket: &Socket) {
        self.0.send_close_notify();
        // The peer may be gone already.
        let _ = self.push(socket, Mode::Try);
    }
}
