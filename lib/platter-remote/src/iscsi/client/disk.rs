//! The disk: its channels and what it reports.

use super::attempt::{at_each, finish, resolve};
use super::channel::channel;
use super::discover::{duration, random_port, terms};
use super::error::IscsiError;
use super::library::library;
use super::options::IscsiOptions;
use super::session::Session;
use super::shared::Shared;
use super::url::Url;
use crate::trouble::failure;
use platter_block::backend::{Fact, Identity, LaneUse};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind};
use platter_scsi::host::found::{Found, Inquirer, Transport};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// What is one request must be in memory at both sides; the library gives all segments to one system call (`IOV_MAX` is 1024).
const TRANSPORT: Transport = Transport { max_transfer: 16 << 20, max_segments: 512 };

/// A disk at an iSCSI target.
pub struct IscsiDisk {
    shared: Arc<Shared>,
    name: Arc<str>,
    geometry: Geometry,
    /// The session by which the disk was opened, which is that of the first channel.
    first: Mutex<Option<Session>>,
}

impl IscsiDisk {
    /// Logs in at a target. Blocks until it has answered.
    ///
    /// # Errors
    /// libiscsi is not installed, there is no connection, the target refuses, or the logical unit is no disk that can be used.
    pub fn open(url: Url, options: IscsiOptions) -> Result<IscsiDisk, IscsiError> {
        library().map_err(IscsiError::Library)?;
        check(&options)?;
        let places = resolve(&url.portal.host, url.portal.port)?;
        let number = random_port();
        let terms = terms(&url, &options, (number, 0));
        let ready = at_each(&terms, &places, duration(options.connect_timeout), Inquirer::of_disk, finish)?;
        if options.write && ready.found.write_protected {
            let why = "the logical unit is write protected; open it read-only";
            return Err(IscsiError::Unfit(why.to_owned()));
        }
        let geometry = ready.found.geometry(options.write, TRANSPORT);
        let name = Arc::from(url.to_string());
        let shared = Arc::new(Shared::new(url, options, places, ready.found, number));
        Ok(IscsiDisk { shared, name, geometry, first: Mutex::new(Some(ready.session)) })
    }

    fn error(&self, kind: Kind, detail: String) -> Error {
        failure(&self.name, kind, detail)
    }

    fn connect(&self, port: u16) -> Result<Session, Error> {
        let shared = &self.shared;
        if port == 0 {
            let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(first) = first.filter(|session| !session.is_hung_up()) {
                return Ok(first);
            }
        }
        let terms = terms(&shared.url, &shared.options, (shared.number, port));
        let timeout = duration(shared.options.connect_timeout);
        let ready = at_each(&terms, &shared.places, timeout, Inquirer::of_disk, finish)
            .map_err(|error| self.error(Kind::Gone, error.to_string()))?;
        if let Some(difference) = shared.found.difference(&ready.found) {
            let why = format!("the target came back with another disk: {difference}");
            shared.reach.fail(why.clone());
            return Err(self.error(Kind::Gone, why));
        }
        Ok(ready.session)
    }
}

fn check(options: &IscsiOptions) -> Result<(), IscsiError> {
    let name = &options.initiator;
    let begins = ["iqn.", "eui.", "naa."].iter().any(|kind| name.starts_with(kind));
    if !begins || name.len() > 223 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(IscsiError::Unfit(format!(
            "{name:?} is no name of an initiator: it is iqn.YYYY-MM.DOMAIN:TEXT, eui.DIGITS or naa.DIGITS of at most 223 letters"
        )));
    }
    if ignores_broken_pipes() {
        return Ok(());
    }
    let why = "the program must ignore the signal SIGPIPE, because libiscsi writes to connections that may have ended";
    Err(IscsiError::Unfit(why.to_owned()))
}

/// Whether a write to a connection that has ended does not end the program.
fn ignores_broken_pipes() -> bool {
    super::session::signal_is_handled(libc::SIGPIPE)
}

/// The words of a rotation rate (SBC-3, Block Device Characteristics VPD page).
fn rotation(found: &Found) -> String {
    match found.rotation {
        0 => "not told".to_owned(),
        1 => "none (solid state)".to_owned(),
        rate => format!("{rate} a minute"),
    }
}

impl Disk for IscsiDisk {
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
        let Some(port) = self.shared.take_port() else {
            let most = self.shared.options.connections;
            let detail = format!("all {most} connections are in use; raise `connections`");
            return Err(self.error(Kind::Unsupported, detail));
        };
        match self.connect(port) {
            Ok(session) => {
                self.shared.watches.opened(port, session.duplicate(), &self.shared.unflushed);
                Ok(DiskChannel::new(channel(Arc::clone(&self.shared), port, session)))
            }
            Err(error) => {
                self.shared.put_port(port);
                Err(error)
            }
        }
    }

    fn max_channels(&self) -> Option<u32> {
        Some(self.shared.options.connections)
    }

    fn facts(&self) -> Vec<Fact> {
        let (shared, found, counts) = (&self.shared, &self.shared.found, &self.shared.counts);
        let cache = match found.write_cache {
            Some(true) => "on",
            Some(false) => "off",
            None => "not told",
        };
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed).to_string();
        let authentication = match (&shared.url.user, &shared.url.target_user) {
            (None, _) => "none",
            (Some(_), None) => "CHAP",
            (Some(_), Some(_)) => "mutual CHAP",
        };
        let mut facts = vec![
            ("driver", "iscsi".to_owned()),
            ("portal", shared.url.portal.to_string()),
            ("target", shared.url.target.clone()),
            ("logical unit", shared.url.lun.to_string()),
            ("authentication", authentication.to_owned()),
            ("vendor", found.vendor.clone()),
            ("product", format!("{} {}", found.product, found.revision).trim().to_owned()),
            ("serial number", found.serial.clone()),
            ("write cache of the unit", cache.to_owned()),
            ("unmap", if found.has_unmap() { "yes" } else { "no" }.to_owned()),
            ("write same", if found.write_same { "yes" } else { "no" }.to_owned()),
            // The library sends all commands as simple ones.
            ("order", "simple commands".to_owned()),
            ("rotation", rotation(found)),
            ("connections", format!("{} of {}", shared.connections(), shared.options.connections)),
            ("reconnects", count(&shared.reconnects)),
            ("repeated commands", count(&shared.repeated)),
            ("busy answers", count(&counts.busy)),
            ("aborts", count(&counts.aborts)),
        ];
        shared.reach.trouble().tell(&mut facts);
        facts
    }

    fn identity(&self) -> Option<Identity> {
        let mut hasher = DefaultHasher::new();
        let (url, found) = (&self.shared.url, &self.shared.found);
        // A unit that names itself is one disk through whichever portal.
        match found.designation.is_empty() {
            false => (&url.target, &found.designation).hash(&mut hasher),
            true => (&url.target, url.portal.to_string(), url.lun).hash(&mut hasher),
        }
        Some(Identity::Remote(hasher.finish()))
    }

    fn current_size(&self) -> Result<Option<u64>, Error> {
        let gone = self.shared.reach.is_gone();
        Ok((!gone).then_some(self.geometry.size))
    }

    fn explain(&self, _fault: Fault) -> Option<String> {
        self.shared.reach.cause()
    }
}
