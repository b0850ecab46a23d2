//! A server that does what a test says, byte by byte.

use platter_block::elevator::{Elevator, Noop};
use platter_block::queue::Settings;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_remote::nbd::client::{NbdDisk, NbdError, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_remote::nbd::wire::{
    Chunk, INIT_MAGIC, OPTION_MAGIC, OptionHeader, OptionReply, Request, SimpleReply, chunk, chunk_flag,
    command, info, option, option_reply, server_flag, transmission_flag,
};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

pub(crate) const SIZE: u64 = 1 << 20;
pub(crate) const FLAGS: u16 = transmission_flag::HAS_FLAGS
    | transmission_flag::SEND_FLUSH
    | transmission_flag::SEND_FUA
    | transmission_flag::SEND_TRIM
    | transmission_flag::SEND_WRITE_ZEROES;

/// What the server says of its export.
#[derive(Clone, Copy)]
pub(crate) struct Export {
    pub(crate) size: u64,
    pub(crate) flags: u16,
    pub(crate) structured: bool,
}

pub(crate) const EXPORT: Export = Export { size: SIZE, flags: FLAGS, structured: true };

/// A socket that waits for clients.
pub(crate) struct Server {
    pub(crate) listener: UnixListener,
    pub(crate) folder: TempDir,
}

impl Server {
    pub(crate) fn new() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        Server { listener, folder }
    }

    pub(crate) fn uri(&self) -> Uri {
        Uri::unix(self.folder.path().join("s"), "disk")
    }

    /// Accepts a client and negotiates.
    pub(crate) fn accept(&self, export: Export) -> Connection {
        let mut connection = self.accept_raw();
        connection.negotiate(export).unwrap();
        connection
    }

    pub(crate) fn accept_raw(&self) -> Connection {
        Connection { stream: self.listener.accept().unwrap().0, input: u64::MAX, output: u64::MAX }
    }
}

/// A client's connection. It is closed after a limited number of bytes of input or output.
pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    pub(crate) input: u64,
    pub(crate) output: u64,
}

impl Connection {
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let most = self.input.min(bytes.len() as u64) as usize;
        self.stream.read_exact(&mut bytes[..most])?;
        self.input -= most as u64;
        if most < bytes.len() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let most = self.output.min(bytes.len() as u64) as usize;
        self.stream.write_all(&bytes[..most])?;
        self.output -= most as u64;
        if most < bytes.len() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    pub(crate) fn negotiate(&mut self, export: Export) -> io::Result<()> {
        let flags = server_flag::FIXED_NEWSTYLE | server_flag::NO_ZEROES;
        self.write(
            &[&INIT_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &flags.to_be_bytes()].concat(),
        )?;
        self.read(&mut [0; 4])?;
        loop {
            let mut header = [0; OptionHeader::BYTES];
            self.read(&mut header)?;
            let OptionHeader { option, length } = OptionHeader::parse(&header).unwrap();
            self.read(&mut vec![0; length as usize])?;
            match option {
                option::STRUCTURED_REPLY if export.structured => {
                    self.answer(option, option_reply::ACK, &[])?
                }
                option::GO => {
                    let parts = [
                        &info::EXPORT.to_be_bytes()[..],
                        &export.size.to_be_bytes(),
                        &export.flags.to_be_bytes(),
                    ];
                    self.answer(option, option_reply::INFO, &parts.concat())?;
                    return self.answer(option, option_reply::ACK, &[]);
                }
                _ => self.answer(option, option_reply::ERR_UNSUP, &[])?,
            }
        }
    }

    fn answer(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let header = OptionReply { option, kind, length: data.len() as u32 };
        self.write(&[&header.to_bytes()[..], data].concat())
    }

    /// The next request, with its data.
    pub(crate) fn request(&mut self) -> io::Result<(Request, Vec<u8>)> {
        let mut header = [0; Request::BYTES];
        self.read(&mut header)?;
        let request = Request::parse(&header).expect("a request");
        let mut data = vec![0; if request.kind == command::WRITE { request.length as usize } else { 0 }];
        self.read(&mut data)?;
        Ok((request, data))
    }

    /// The next request, which must be of this kind.
    pub(crate) fn expect(&mut self, kind: u16) -> (Request, Vec<u8>) {
        let (request, data) = self.request().unwrap();
        assert_eq!(request.kind, kind, "{request:?}");
        (request, data)
    }

    pub(crate) fn simple(&mut self, request: &Request, error: u32, data: &[u8]) -> io::Result<()> {
        let header = SimpleReply { error, cookie: request.cookie };
        self.write(&[&header.to_bytes()[..], data].concat())
    }

    pub(crate) fn chunk(&mut self, request: &Request, done: bool, kind: u16, body: &[u8]) -> io::Result<()> {
        let flags = if done { chunk_flag::DONE } else { 0 };
        let header = Chunk { flags, kind, cookie: request.cookie, length: body.len() as u32 };
        self.write(&[&header.to_bytes()[..], body].concat())
    }

    pub(crate) fn data(&mut self, request: &Request, done: bool, offset: u64, data: &[u8]) -> io::Result<()> {
        self.chunk(request, done, chunk::OFFSET_DATA, &[&offset.to_be_bytes()[..], data].concat())
    }

    pub(crate) fn hole(&mut self, request: &Request, done: bool, offset: u64, length: u32) -> io::Result<()> {
        let body = [&offset.to_be_bytes()[..], &length.to_be_bytes()].concat();
        self.chunk(request, done, chunk::OFFSET_HOLE, &body)
    }

    pub(crate) fn error(
        &mut self,
        request: &Request,
        done: bool,
        error: u32,
        offset: Option<u64>,
    ) -> io::Result<()> {
        let head = [&error.to_be_bytes()[..], &2u16.to_be_bytes(), b"no"].concat();
        match offset {
            Some(offset) => {
                self.chunk(request, done, chunk::ERROR_OFFSET, &[&head[..], &offset.to_be_bytes()].concat())
            }
            None => self.chunk(request, done, chunk::ERROR, &head),
        }
    }

    /// Waits until the client has received everything that was sent to it.
    #[allow(unsafe_code)]
    pub(crate) fn await_taken(&self) {
        let mut left: libc::c_int = 1;
        while left > 0 {
            std::thread::yield_now();
            // SAFETY: the call stores an integer in `left`.
            let result = unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut left) };
            assert_eq!(result, 0);
        }
    }

    /// Whether the client closes its side without another request.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.stream.read(&mut [0]).is_ok_and(|count| count == 0)
    }

    /// Serves a store until the connection ends, with structured replies if they are in use.
    pub(crate) fn serve(&mut self, store: &Store, structured: bool) -> io::Result<()> {
        loop {
            let (request, data) = self.request()?;
            let range = request.offset as usize..request.offset as usize + request.length as usize;
            match request.kind {
                command::READ => {
                    let data = store.lock().unwrap()[range].to_vec();
                    match structured {
                        true => self.data(&request, true, request.offset, &data)?,
                        false => self.simple(&request, 0, &data)?,
                    }
                    continue;
                }
                command::WRITE => store.lock().unwrap()[range].copy_from_slice(&data),
                command::WRITE_ZEROES => store.lock().unwrap()[range].fill(0),
                command::DISC => return Ok(()),
                _ => {}
            }
            self.simple(&request, 0, &[])?;
        }
    }
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// What a server stores.
pub(crate) type Store = Arc<Mutex<Vec<u8>>>;

pub(crate) fn store() -> Store {
    Arc::new(Mutex::new(vec![0; SIZE as usize]))
}

pub(crate) fn options() -> NbdOptions {
    NbdOptions::default().with_write(true)
}

/// Opens a disk with one connection, and a timeout of its I/O if one is given.
pub(crate) fn open(uri: Uri, options: NbdOptions, timeout: Option<Span>) -> Result<Device, NbdError> {
    let disk = NbdDisk::open(uri, options)?;
    let queue = Settings { timeout, ..Settings::default() };
    let settings = DiskSettings::default().with_queue(queue);
    let noop: Box<dyn Elevator> = Box::new(Noop::default());
    Ok(Device::new(Arc::new(DiskBackend::over(Arc::new(disk), settings, Some(noop)).unwrap())))
}

/// Opens a disk at a server on another thread, so that this one can play the server.
pub(crate) fn opened(
    server: &Server,
    export: Export,
    options: NbdOptions,
    timeout: Option<Span>,
) -> (Device, Connection) {
    let uri = server.uri();
    let device = std::thread::spawn(move || open(uri, options, timeout).unwrap());
    let connection = server.accept(export);
    (device.join().unwrap(), connection)
}

/// Runs something on another thread, with a device.
pub(crate) fn aside<T: Send + 'static>(
    device: &Device,
    run: impl FnOnce(&Device) -> T + Send + 'static,
) -> JoinHandle<T> {
    let device = device.clone();
    std::thread::spawn(move || run(&device))
}
