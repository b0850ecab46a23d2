//! iSCSI, by the small initiator of the suite of that export.

use crate::initiator::{Answer, Initiator, Terms, attach, try_attach};
use crate::ways::{Client, Way};
use platter_scsi::cdb::{self, Cdb, Command};
use platter_scsi::page;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const BLOCK: u64 = 512;

pub(crate) struct IscsiWay {
    server: Option<Server>,
    address: String,
    clients: AtomicU8,
}

impl IscsiWay {
    pub(crate) fn start(served: Served) -> Option<Box<dyn Way>> {
        let mut server = Server::default();
        server.devices().add(served).unwrap();
        let address = server.start("iscsi", "127.0.0.1:0", &Options::default()).unwrap();
        Some(Box::new(IscsiWay { server: Some(server), address, clients: AtomicU8::new(0) }))
    }
}

impl Way for IscsiWay {
    fn connect(&self) -> Box<dyn Client> {
        // Each client has a port of its own, and other terms.
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let terms = Terms {
            isid: number,
            digests: number & 1 != 0,
            initial_r2t: number & 2 != 0,
            immediate: number & 4 == 0,
            ..Terms::default()
        };
        let initiator = attach(&self.address, &terms);
        Box::new(IscsiClient { address: self.address.clone(), initiator })
    }

    fn disconnect_all(&self) {
        let server = self.server.as_ref().unwrap();
        server.clients().list().iter().for_each(|client| client.disconnect());
    }
}

impl Drop for IscsiWay {
    fn drop(&mut self) {
        // What the last flush finds is for the tests to look at.
        let _ = self.server.take().unwrap().stop(Duration::from_secs(60));
    }
}

struct IscsiClient {
    address: String,
    initiator: Initiator,
}

fn over(command: &'static Command, pos: u64, length: &str, len: u64) -> Cdb {
    Cdb::new(command).with("LOGICAL BLOCK ADDRESS", pos / BLOCK).with(length, len / BLOCK)
}

impl IscsiClient {
    /// Unit attentions, which tell of other things than the command, are passed over.
    fn run(&mut self, cdb: &Cdb, read: u32, data: &[u8]) -> io::Result<Answer> {
        loop {
            let answer = self.initiator.command(cdb, read, data)?;
            match answer.status {
                0 => return Ok(answer),
                2 if answer.why().0 == 6 => {}
                // MEDIUM ERROR and the like, as a kernel tells programs of it.
                _ => return Err(io::Error::from_raw_os_error(5)),
            }
        }
    }
}

impl Client for IscsiClient {
    fn size(&self) -> u64 {
        let mut other = IscsiClient {
            address: self.address.clone(),
            initiator: attach(&self.address, &Terms { isid: 200, ..Terms::default() }),
        };
        let cdb = Cdb::new(&cdb::READ_CAPACITY_16).with("ALLOCATION LENGTH", 32);
        let data = other.run(&cdb, 32, &[]).unwrap().data;
        let capacity = page::CAPACITY_16.decode(&data);
        (capacity.get("RETURNED LOGICAL BLOCK ADDRESS").unwrap() + 1) * BLOCK
    }

    fn read(&mut self, pos: u64, data: &mut [u8]) -> io::Result<()> {
        let cdb = over(&cdb::READ_16, pos, "TRANSFER LENGTH", data.len() as u64);
        let answer = self.run(&cdb, data.len() as u32, &[])?;
        data.copy_from_slice(&answer.data);
        Ok(())
    }

    fn write(&mut self, pos: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let cdb = over(&cdb::WRITE_16, pos, "TRANSFER LENGTH", data.len() as u64);
        self.run(&cdb.with("FUA", u64::from(durable)), 0, data).map(drop)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.run(&Cdb::new(&cdb::SYNCHRONIZE_CACHE_10), 0, &[]).map(drop)
    }

    fn write_zeroes(&mut self, pos: u64, len: u64) -> io::Result<()> {
        let cdb = over(&cdb::WRITE_SAME_16, pos, "NUMBER OF LOGICAL BLOCKS", len);
        self.run(&cdb, 0, &[0; BLOCK as usize]).map(drop)
    }

    fn discard(&mut self, pos: u64, len: u64) -> Option<io::Result<()>> {
        let inquiry = Cdb::new(&cdb::INQUIRY).with("EVPD", 1).with("PAGE CODE", 0xb0);
        let limits = match self.run(&inquiry.with("ALLOCATION LENGTH", 64), 64, &[]) {
            Ok(answer) => answer.data,
            Err(error) => return Some(Err(error)),
        };
        let unit = page::BLOCK_LIMITS.decode(&limits).get("OPTIMAL UNMAP GRANULARITY").unwrap() * BLOCK;
        if unit == 0 {
            return None;
        }
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend((pos / BLOCK).to_be_bytes());
        list.extend(((len / BLOCK) as u32).to_be_bytes());
        list.extend([0; 4]);
        let cdb = Cdb::new(&cdb::UNMAP).with("PARAMETER LIST LENGTH", list.len() as u64);
        let result = self.run(&cdb, 0, &list).map(drop);
        // A part of a unit of discard keeps its contents.
        let whole = pos.is_multiple_of(unit) && len.is_multiple_of(unit);
        (whole || result.is_err()).then_some(result)
    }

    fn extent(&mut self, _: u64, _: u64) -> Option<(u64, bool)> {
        None
    }

    fn reconnect(&mut self) {
        // It may be disconnected again at once.
        let terms = self.initiator.terms.clone();
        let next = std::iter::repeat_with(|| try_attach(&self.address, &terms)).find_map(Result::ok);
        self.initiator = next.unwrap();
    }
}
