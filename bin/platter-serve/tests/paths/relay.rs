//! A relay between a client and a server, which can be away.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

#[derive(Default)]
struct State {
    is_away: bool,
    is_over: bool,
    connections: Vec<Connection>,
    cuts: usize,
}

/// A relay at a port that the system has chosen.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Relay {
    pub(crate) fn new(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut state = shared.lock().unwrap();
                if state.is_over {
                    return;
                }
                if !state.is_away {
                    state.connections.push(Connection::new(client.unwrap(), server));
                }
            }
        });
        Relay { address, state }
    }

    /// Ends all connections, and those that are made until it is back.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_away = true;
        state.cuts += usize::from(!state.connections.is_empty());
        state.connections.drain(..).for_each(Connection::cut);
    }

    pub(crate) fn come_back(&self) {
        self.state.lock().unwrap().is_away = false;
    }

    /// How often it has left with connections.
    pub(crate) fn cuts(&self) -> usize {
        self.state.lock().unwrap().cuts
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.leave();
        self.state.lock().unwrap().is_over = true;
        // The thread that waits for connections sees it with this one.
        drop(TcpStream::connect(self.address));
    }
}

struct Connection {
    server: TcpStream,
    is_cut: Arc<AtomicBool>,
    answers: JoinHandle<()>,
}

impl Connection {
    fn new(client: TcpStream, server: SocketAddr) -> Connection {
        let server = TcpStream::connect(server).unwrap();
        [&client, &server].into_iter().for_each(|stream| stream.set_nodelay(true).unwrap());
        let copy = |stream: &TcpStream| stream.try_clone().unwrap();
        let (mut asking, mut asked) = (copy(&client), copy(&server));
        std::thread::spawn(move || {
            relay(&mut asking, |bytes| asked.write_all(bytes).is_ok());
            let _ = asked.shutdown(Shutdown::Write);
        });
        let is_cut = Arc::new(AtomicBool::new(false));
        let (mut answering, mut answered, cut) = (copy(&server), client, Arc::clone(&is_cut));
        let answers = std::thread::spawn(move || {
            relay(&mut answering, |bytes| {
                let _ = cut.load(Ordering::SeqCst) || answered.write_all(bytes).is_ok();
                true
            });
            let _ = answered.shutdown(Shutdown::Both);
        });
        Connection { server, is_cut, answers }
    }

    /// Ends it. The client sees that only when the server has ended what it had of this connection, so that the time a client
    /// gives the server for that is long enough on a machine that is slow.
    fn cut(self) {
        self.is_cut.store(true, Ordering::SeqCst);
        let _ = self.server.shutdown(Shutdown::Write);
        self.answers.join().unwrap();
    }
}

/// Passes on what comes until the stream ends or `take` refuses.
fn relay(from: &mut TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !take(&bytes[..count]) {
            break;
        }
    }
}
