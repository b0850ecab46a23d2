//! A relay between a client and a server, which can be away.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct State {
    is_away: bool,
    is_over: bool,
    streams: Vec<TcpStream>,
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
                if state.is_away {
                    continue;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                [&client, &server].into_iter().for_each(|stream| stream.set_nodelay(true).unwrap());
                let copy = |stream: &TcpStream| stream.try_clone().unwrap();
                state.streams.extend([&client, &server].map(copy));
                for (from, to) in [(copy(&client), copy(&server)), (server, client)] {
                    std::thread::spawn(move || relay(from, to));
                }
            }
        });
        Relay { address, state }
    }

    /// Ends all connections, and those that are made until it is back.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_away = true;
        state.cuts += usize::from(!state.streams.is_empty());
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
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

fn relay(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    for stream in [&from, &to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
