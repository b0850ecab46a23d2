//! A relay between an initiator and a target, which looks at the units that pass and cuts the connection where it is told to.

use platter_remote::iscsi::wire::{HEADER_BYTES, Header, padding};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A unit that passes, without digests.
pub(crate) struct Unit<'a> {
    /// Number of the connection, from 0.
    pub(crate) connection: usize,
    pub(crate) to_target: bool,
    pub(crate) bytes: &'a [u8],
}

impl Unit<'_> {
    pub(crate) fn header(&self) -> Header {
        Header(self.bytes[..HEADER_BYTES].try_into().unwrap())
    }
}

/// What becomes of a unit.
pub(crate) enum Fate {
    Pass,
    /// It never arrives.
    Drop,
    /// This number of bytes arrives; then both sides see the end of the connection.
    Cut(usize),
    /// Something else arrives.
    Replace(Vec<u8>),
}

type Script = dyn Fn(&Unit<'_>) -> Fate + Send + Sync;

/// A relay at a port that the system has chosen.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    ends: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    is_over: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) fn new(target: &str, script: impl Fn(&Unit<'_>) -> Fate + Send + Sync + 'static) -> Relay {
        let target = target.to_owned();
        Relay::start(move |_| target.clone(), script)
    }

    /// A relay whose target is another one for each connection.
    pub(crate) fn choosing(target: impl Fn(usize) -> String + Send + 'static) -> Relay {
        Relay::start(target, |_| Fate::Pass)
    }

    fn start(
        target: impl Fn(usize) -> String + Send + 'static,
        script: impl Fn(&Unit<'_>) -> Fate + Send + Sync + 'static,
    ) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (count, over, all) = (Arc::clone(&connections), Arc::clone(&is_over), Arc::clone(&streams));
        let script: Arc<Script> = Arc::new(script);
        let ends = Arc::new(AtomicUsize::new(0));
        let ended = Arc::clone(&ends);
        std::thread::spawn(move || {
            for initiator in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let initiator = initiator.unwrap();
                let connection = count.fetch_add(1, Ordering::SeqCst);
                let target = TcpStream::connect(target(connection)).unwrap();
                [&initiator, &target].into_iter().for_each(|stream| stream.set_nodelay(true).unwrap());
                all.lock().unwrap().extend([&initiator, &target].map(|stream| stream.try_clone().unwrap()));
                let back = (target.try_clone().unwrap(), initiator.try_clone().unwrap());
                for (to_target, (from, to)) in [(true, (initiator, target)), (false, back)] {
                    let (script, ended) = (Arc::clone(&script), Arc::clone(&ended));
                    std::thread::spawn(move || {
                        relay(from, to, (connection, to_target), &*script);
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
            }
        });
        Relay { address, connections, ends, streams, is_over }
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends the connection of a number. None must have been cut before.
    pub(crate) fn cut_one(&self, connection: usize) {
        for stream in &self.streams.lock().unwrap()[2 * connection..][..2] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Connections that there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Directions of connections that have ended, at both sides.
    pub(crate) fn ends(&self) -> usize {
        self.ends.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // The thread that waits for connections sees it with this one.
        drop(TcpStream::connect(self.address));
    }
}

/// The next unit; `None` at the end.
fn unit(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    from.read_exact(&mut bytes).ok()?;
    let length = Header(bytes[..].try_into().unwrap()).data_bytes();
    bytes.resize(HEADER_BYTES + length + padding(length), 0);
    from.read_exact(&mut bytes[HEADER_BYTES..]).ok()?;
    Some(bytes)
}

fn relay(mut from: TcpStream, mut to: TcpStream, (connection, to_target): (usize, bool), script: &Script) {
    while let Some(bytes) = unit(&mut from) {
        let passed = match script(&Unit { connection, to_target, bytes: &bytes }) {
            Fate::Pass => to.write_all(&bytes),
            Fate::Drop => Ok(()),
            Fate::Replace(other) => to.write_all(&other),
            Fate::Cut(count) => {
                let _ = to.write_all(&bytes[..count.min(bytes.len())]);
                break;
            }
        };
        if passed.is_err() {
            break;
        }
    }
    for stream in [&from, &to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
