//! The disk: its limits, its channels and what it reports.

use super::attempt::negotiate;
use super::channel::channel;
use super::error::NbdError;
use super::options::NbdOptions;
use super::shared::Shared;
use super::socket::{Socket, resolve};
use super::status::Questions;
use crate::nbd::handshake::{BlockSizes, Export, Handshake, Outcome};
use crate::nbd::uri::Uri;
use crate::nbd::wire::transmission_flag;
use crate::trouble::failure;
use platter_block::allocation::Extent;
use platter_block::backend::{Fact, Identity, LaneUse};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::{Features, Geometry};
use platter_block::fault::{Error, Fault, Kind};
use platter_block::limits::Limits;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Smallest block of a disk in bytes. A server that takes single bytes gets whole blocks, except at its odd end.
const SECTOR: u32 = 512;
/// Largest read or write, whatever the server takes: what is one request must be in memory at both sides.
const MAX_TRANSFER: u32 = 32 << 20;
/// Largest discard or write-zeroes; lengths have 32 bits.
const MAX_DISCARD: u64 = 1 << 30;

/// The flags, with the names that reports have for them.
const FLAGS: [(u16, &str); 9] = [
    (transmission_flag::READ_ONLY, "read_only"),
    (transmission_flag::SEND_FLUSH, "flush"),
    (transmission_flag::SEND_FUA, "fua"),
    (transmission_flag::ROTATIONAL, "rotational"),
    (transmission_flag::SEND_TRIM, "trim"),
    (transmission_flag::SEND_WRITE_ZEROES, "write_zeroes"),
    (transmission_flag::SEND_DF, "df"),
    (transmission_flag::CAN_MULTI_CONN, "multi_conn"),
    (transmission_flag::SEND_CACHE, "cache"),
];

/// A disk at an NBD server.
pub struct NbdDisk {
    shared: Arc<Shared>,
    name: Arc<str>,
    geometry: Geometry,
    /// The connection by which the disk was opened, until a channel takes it.
    first: Mutex<Option<Socket>>,
    questions: Questions,
}

/// The names of the exports of a server. Blocks until the server has answered.
///
/// # Errors
/// There is no connection, or the server does not list its exports.
pub fn list(uri: &Uri, options: NbdOptions) -> Result<Vec<String>, NbdError> {
    let places = resolve(uri)?;
    let times = (options.connect_timeout, options.peer_timeout);
    match negotiate(&places, times, &Handshake::list)?.1 {
        Outcome::List(names) => Ok(names),
        Outcome::Export(_) | Outcome::StartTls => Ok(Vec::new()),
    }
}

impl NbdDisk {
    /// Connects to a server. Blocks until the server has answered.
    ///
    /// # Errors
    /// There is no connection, the server has no such export, or the options do not fit it.
    pub fn open(uri: Uri, options: NbdOptions) -> Result<NbdDisk, NbdError> {
        let places = resolve(&uri)?;
        let times = (options.connect_timeout, options.peer_timeout);
        let open = || Handshake::open(&uri.export);
        let (socket, outcome) = negotiate(&places, times, &open)?;
        let Outcome::Export(export) = outcome else {
            return Err(NbdError::Unfit("the server lists its exports instead of opening one".to_owned()));
        };
        check_options(&options, &export)?;
        let geometry = geometry(&export, options.write)?;
        let name = Arc::from(uri.to_string());
        let shared = Arc::new(Shared::new(uri, options, places, export));
        let questions = Questions::new(Arc::clone(&shared));
        Ok(NbdDisk { shared, name, geometry, first: Mutex::new(Some(socket)), questions })
    }

    fn first(&self) -> Option<Socket> {
        let socket = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        socket.filter(|socket| !socket.is_hung_up())
    }

    fn error(&self, kind: Kind, detail: String) -> Error {
        failure(&self.name, kind, detail)
    }

    fn connect(&self) -> Result<Socket, Error> {
        if let Some(socket) = self.first() {
            return Ok(socket);
        }
        let shared = &self.shared;
        let times = (shared.options.connect_timeout, shared.options.peer_timeout);
        let open = || Handshake::open(&shared.uri.export);
        let gone = |error: NbdError| self.error(Kind::Gone, error.to_string());
        let (socket, outcome) = negotiate(&shared.places, times, &open).map_err(gone)?;
        match outcome {
            Outcome::Export(export) => match shared.check(&export) {
                Ok(()) => Ok(socket),
                Err(why) => {
                    shared.reach.fail(why.clone());
                    Err(self.error(Kind::Gone, why))
                }
            },
            Outcome::List(_) | Outcome::StartTls => {
                Err(self.error(Kind::Gone, "the server lists its exports".to_owned()))
            }
        }
    }
}

fn check_options(options: &NbdOptions, export: &Export) -> Result<(), NbdError> {
    let unfit = |why: &str| Err(NbdError::Unfit(why.to_owned()));
    if options.write && export.has(transmission_flag::READ_ONLY) {
        return unfit("the export is read-only at the server; open it read-only");
    }
    if options.connections > 1 && !export.has(transmission_flag::CAN_MULTI_CONN) {
        return unfit(
            "the server does not promise that a flush covers all connections (CAN_MULTI_CONN); leave `connections` at 1",
        );
    }
    if options.replay > 0 && !export.has(transmission_flag::SEND_FLUSH) {
        return unfit(
            "the server has no flush, so that `replay` would keep everything forever; leave it out",
        );
    }
    if options.replay > 0 && options.connections > 1 {
        // Another connection could write newer data before the old data is repeated.
        return unfit("`replay` needs `connections=1`");
    }
    Ok(())
}

/// The geometry of an export.
fn geometry(export: &Export, write: bool) -> Result<Geometry, NbdError> {
    let sizes = export.blocks.unwrap_or(BlockSizes::DEFAULT);
    let block = sizes.min.max(SECTOR);
    if sizes.min > 1 && !export.size.is_multiple_of(u64::from(sizes.min)) {
        let why = format!(
            "the size of the export, {} bytes, is not a multiple of its smallest block, {} bytes; its end cannot be reached",
            export.size, sizes.min
        );
        return Err(NbdError::Unfit(why));
    }
    let max = sizes.max.min(MAX_TRANSFER) & !(block - 1);
    if max == 0 {
        return Err(NbdError::Unfit(format!(
            "the server takes at most {} bytes at once; {block} are needed",
            sizes.max
        )));
    }
    let has = |flag| export.has(flag);
    let limits = Limits::unlimited(block)
        .with_physical_block(sizes.preferred.clamp(block, 1 << 20))
        .with_max_transfer(max)
        .with_max_segment_size(max)
        .with_optimal_io(if export.blocks.is_some() { sizes.preferred } else { 0 })
        .with_discard_granularity(if has(transmission_flag::SEND_TRIM) { block } else { 0 })
        .with_max_discard(MAX_DISCARD)
        .with_write_zeroes(has(transmission_flag::SEND_WRITE_ZEROES));
    let features = Features::NONE
        .with_write_cache(has(transmission_flag::SEND_FLUSH))
        .with_fua(has(transmission_flag::SEND_FUA))
        .with_rotational(has(transmission_flag::ROTATIONAL))
        .with_read_only(!write || has(transmission_flag::READ_ONLY));
    Ok(Geometry::new(export.size, limits).with_features(features))
}

impl Disk for NbdDisk {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_channel(&self, _lane_use: LaneUse) -> Result<DiskChannel, Error> {
        if let Some(why) = self.shared.reach.failure() {
            return Err(self.error(Kind::Gone, why.to_owned()));
        }
        if !self.shared.take_channel() {
            let most = self.shared.options.connections;
            let detail = format!("all {most} connections are in use; raise `connections`");
            return Err(self.error(Kind::Unsupported, detail));
        }
        match self.connect() {
            Ok(socket) => Ok(DiskChannel::new(channel(Arc::clone(&self.shared), socket))),
            Err(error) => {
                self.shared.channels.fetch_sub(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    fn max_channels(&self) -> Option<u32> {
        Some(self.shared.options.connections)
    }

    fn facts(&self) -> Vec<Fact> {
        let (shared, export) = (&self.shared, &self.shared.export);
        let flags: Vec<&str> =
            FLAGS.iter().filter(|(flag, _)| export.has(*flag)).map(|(_, name)| *name).collect();
        let blocks = match export.blocks {
            Some(BlockSizes { min, preferred, max }) => {
                format!("min {min}, preferred {preferred}, max {max}")
            }
            None => "not told by the server".to_owned(),
        };
        let mut facts = vec![
            ("driver", "nbd".to_owned()),
            ("server", shared.uri.address.to_string()),
            ("export", shared.uri.export.clone()),
            ("encryption", if shared.uri.tls { "TLS" } else { "none" }.to_owned()),
            ("server flags", if flags.is_empty() { "none".to_owned() } else { flags.join(" ") }),
            ("server block sizes", blocks),
            ("replies", if export.structured { "structured" } else { "simple" }.to_owned()),
            ("connections", format!("{} of {}", shared.connections(), shared.options.connections)),
            ("reconnects", shared.reconnects.load(Ordering::Relaxed).to_string()),
        ];
        shared.reach.trouble().tell(&mut facts);
        facts
    }

    fn identity(&self) -> Option<Identity> {
        let mut hasher = DefaultHasher::new();
        (&self.shared.uri.address, &self.shared.uri.export).hash(&mut hasher);
        Some(Identity::Remote(hasher.finish()))
    }

    fn current_size(&self) -> Result<Option<u64>, Error> {
        let gone = self.shared.reach.is_gone();
        Ok((!gone).then_some(self.geometry.size))
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        self.questions.allocation(pos, len).map_err(|error| {
            let detail = format!("the server does not tell the allocation status: {error}");
            Error { offset: pos, len, ..self.error(Kind::Io, detail) }
        })
    }

    fn explain(&self, _fault: Fault) -> Option<String> {
        self.shared.reach.cause()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(size: u64, blocks: Option<(u32, u32, u32)>, flags: u16) -> Export {
        let blocks = blocks.map(|(min, preferred, max)| BlockSizes { min, preferred, max });
        Export { size, flags, blocks, structured: false, allocation: None }
    }

    #[test]
    fn limits_are_those_of_the_server() {
        let all = transmission_flag::SEND_FLUSH | transmission_flag::SEND_FUA | transmission_flag::SEND_TRIM;
        let plain = geometry(&export(1000, None, all), true).unwrap();
        assert_eq!((plain.limits.logical_block, plain.limits.max_transfer), (512, 32 << 20));
        assert_eq!((plain.limits.discard_granularity, plain.limits.write_zeroes), (512, false));
        assert_eq!(plain.features, Features::NONE.with_write_cache(true).with_fua(true));
        let strict = geometry(&export(1 << 20, Some((4096, 65536, 1 << 20)), 0), true).unwrap();
        assert_eq!((strict.limits.logical_block, strict.limits.physical_block), (4096, 65536));
        assert_eq!((strict.limits.max_transfer, strict.limits.discard_granularity), (1 << 20, 0));
        assert_eq!(strict.features, Features::NONE);
        let endless = geometry(&export(1 << 20, Some((1, 4096, u32::MAX)), 0), false).unwrap();
        assert_eq!(endless.limits.max_transfer, 32 << 20);
        assert!(endless.features.read_only);
        for (size, blocks) in [(1000, (512, 512, 512)), (4096, (1, 1, 100))] {
            assert!(geometry(&export(size, Some(blocks), 0), true).is_err());
        }
    }

    #[test]
    fn options_that_a_server_cannot_keep_are_refused() {
        let flush = transmission_flag::SEND_FLUSH;
        let multi = flush | transmission_flag::CAN_MULTI_CONN;
        let options = NbdOptions::default().with_write(true);
        for (options, flags, part) in [
            (options, transmission_flag::READ_ONLY, "read-only"),
            (options.with_connections(2), flush, "CAN_MULTI_CONN"),
            (options.with_replay(1), 0, "no flush"),
            (options.with_replay(1).with_connections(2), multi, "connections=1"),
        ] {
            let error = check_options(&options, &export(512, None, flags)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(check_options(&options.with_connections(2), &export(512, None, multi)).is_ok());
    }
}
