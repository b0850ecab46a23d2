//! A virtual machine in miniature. Its clients are programs in one guest, and each has a queue of the disk to itself.

use crate::guest::{DATA, DISCARD, FLUSH, Guest, IN, OUT, SLOTS, WRITE_ZEROES};
use crate::ways::{Client, Way};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserConfigFlags;

/// Most clients at a time.
const QUEUES: usize = 4;

/// Byte of the configuration space: whether writes need a flush to be durable.
const WRITE_BACK: u32 = 32;

struct Machine {
    guest: Guest,
    socket: PathBuf,
    /// Queues that no client has.
    free: Vec<usize>,
    /// Clients that have a write under way which must be durable when it is answered.
    through: u32,
}

impl Machine {
    /// The driver asks for durable writes as long as a client needs them.
    fn set_through(&mut self, on: bool) {
        let before = self.through;
        self.through = if on { before + 1 } else { before - 1 };
        if (before == 0) != (self.through == 0) {
            let value = u8::from(self.through == 0);
            self.guest.frontend().set_config(WRITE_BACK, VhostUserConfigFlags::WRITABLE, &[value]).unwrap();
        }
    }
}

pub(crate) struct VhostWay {
    server: Option<Server>,
    machine: Arc<Mutex<Machine>>,
    _folder: TempDir,
}

impl VhostWay {
    pub(crate) fn start(served: Served) -> Option<Box<dyn Way>> {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::default();
        server.devices().add(served).unwrap();
        let socket = folder.path().join("s");
        server.start("vhost-user-blk", socket.to_str().unwrap(), &Options::default()).unwrap();
        let mut guest = Guest::new(QUEUES, u64::MAX);
        guest.connect(&socket);
        let machine = Machine { guest, socket, free: (0..QUEUES).rev().collect(), through: 0 };
        let machine = Arc::new(Mutex::new(machine));
        Some(Box::new(VhostWay { server: Some(server), machine, _folder: folder }))
    }
}

fn lock(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Way for VhostWay {
    fn connect(&self) -> Box<dyn Client> {
        let queue = lock(&self.machine).free.pop().expect("a queue for each client");
        Box::new(VhostClient { machine: Arc::clone(&self.machine), queue })
    }

    /// The front end connects again, as virtual machine monitors do: requests that were in flight are answered then, and
    /// no client sees an error.
    fn disconnect_all(&self) {
        let machine = &mut *lock(&self.machine);
        let server = self.server.as_ref().unwrap();
        server.clients().list().iter().for_each(|client| client.disconnect());
        machine.guest.connect(&machine.socket);
        if machine.through > 0 {
            machine.guest.frontend().set_config(WRITE_BACK, VhostUserConfigFlags::WRITABLE, &[0]).unwrap();
        }
    }
}

impl Drop for VhostWay {
    fn drop(&mut self) {
        // What the last flush finds is for the tests to look at.
        let _ = self.server.take().unwrap().stop(Duration::from_secs(60));
    }
}

struct VhostClient {
    machine: Arc<Mutex<Machine>>,
    queue: usize,
}

fn told(status: u8) -> io::Result<()> {
    match status {
        0 => Ok(()),
        2 => Err(io::ErrorKind::Unsupported.into()),
        // The guest's kernel turns it into EIO.
        _ => Err(io::Error::from_raw_os_error(5)),
    }
}

impl VhostClient {
    /// Waits for an answer. The machine is free for other clients meanwhile.
    fn wait(&self) -> (u16, u8, Vec<u8>) {
        loop {
            let sleeper = {
                let guest = &mut lock(&self.machine).guest;
                if let Some((slot, (status, data))) = guest.take(self.queue) {
                    return (slot, status, data);
                }
                match guest.sleeper(self.queue) {
                    Some(sleeper) => sleeper,
                    None => continue,
                }
            };
            sleeper.sleep();
        }
    }

    /// One request.
    fn call(&self, kind: u32, sector: u64, data: &[u8]) -> io::Result<()> {
        {
            let guest = &mut lock(&self.machine).guest;
            let before = guest.available(self.queue);
            guest.submit(self.queue, kind, sector, data, data.len(), 512);
            guest.kick(self.queue, before);
        }
        told(self.wait().1)
    }

    /// Reads or writes `len` bytes with as many requests at once as the queue has room for. `each` gets what each piece has
    /// read; `data` are the bytes of a write.
    fn transfer(
        &self,
        kind: u32,
        pos: u64,
        len: usize,
        data: &[u8],
        mut each: impl FnMut(usize, &[u8]),
    ) -> io::Result<()> {
        let mut result = Ok(());
        let pieces: Vec<usize> = (0..len).step_by(DATA).collect();
        for batch in pieces.chunks(usize::from(SLOTS)) {
            let mut slots = Vec::new();
            {
                let guest = &mut lock(&self.machine).guest;
                let before = guest.available(self.queue);
                for at in batch {
                    let part = DATA.min(len - at);
                    let bytes = if data.is_empty() { &[][..] } else { &data[*at..at + part] };
                    // The data is cut into two descriptors at a place that depends on where it goes.
                    let (sector, cut) = ((pos + *at as u64) / 512, (pos as usize / 512 * 96) % part);
                    slots.push((guest.submit(self.queue, kind, sector, bytes, part, cut), *at));
                }
                guest.kick(self.queue, before);
            }
            for _ in batch {
                let (slot, status, data) = self.wait();
                let at = slots.iter().find(|known| known.0 == slot).expect("a slot in use").1;
                if status == 0 {
                    each(at, &data);
                }
                result = result.and(told(status));
            }
        }
        result
    }

    fn clear(&self, kind: u32, pos: u64, len: u64, flags: u32) -> io::Result<()> {
        let range =
            [&(pos / 512).to_le_bytes()[..], &((len / 512) as u32).to_le_bytes(), &flags.to_le_bytes()];
        self.call(kind, 0, &range.concat())
    }
}

impl Client for VhostClient {
    fn size(&self) -> u64 {
        lock(&self.machine).guest.capacity()
    }

    fn read(&mut self, pos: u64, data: &mut [u8]) -> io::Result<()> {
        let len = data.len();
        self.transfer(IN, pos, len, &[], |at, read| data[at..at + read.len()].copy_from_slice(read))
    }

    /// A durable one: by a flush after it, or with the write cache off, in turn.
    fn write(&mut self, pos: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let through = durable && (pos / 512).is_multiple_of(2);
        if through {
            lock(&self.machine).set_through(true);
        }
        let result = self.transfer(OUT, pos, data.len(), data, |_, _| {});
        if through {
            lock(&self.machine).set_through(false);
        }
        result?;
        if durable && !through { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call(FLUSH, 0, &[])
    }

    fn write_zeroes(&mut self, pos: u64, len: u64) -> io::Result<()> {
        // With and without leave to give up the space, in turn.
        self.clear(WRITE_ZEROES, pos, len, u32::from((pos / 512).is_multiple_of(2)))
    }

    fn discard(&mut self, pos: u64, len: u64) -> Option<io::Result<()>> {
        match self.clear(DISCARD, pos, len, 0) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => None,
            result => Some(result),
        }
    }

    fn extent(&mut self, _pos: u64, _len: u64) -> Option<(u64, bool)> {
        None
    }

    /// The front end has done so.
    fn reconnect(&mut self) {}
}

impl Drop for VhostClient {
    fn drop(&mut self) {
        lock(&self.machine).free.push(self.queue);
    }
}
