//! Events of a server, for its log.

use crate::clients::Client;
use crate::restart::Loss;
use std::fmt;
use std::sync::Arc;

/// Something that an operator may want to know.
#[non_exhaustive]
pub enum Event<'a> {
    /// A client has chosen a device.
    Connected(&'a Client),
    /// A client is gone, with the reason.
    Disconnected(&'a Client, &'a str),
    /// A connection ended before it was a client of a device.
    Refused {
        /// The kind of export.
        export: &'static str,
        /// The address of the peer.
        peer: &'a str,
        /// The reason.
        why: &'a str,
    },
    /// The first request of a client that the device failed.
    Failed(&'a Client, &'a str),
    /// A flush of the device, which this client or a write of it has asked for, has failed.
    FlushFailed(&'a Client, &'a str),
    /// A flush of a client was failed on purpose: its writes may be lost.
    Owed(&'a Client, Loss),
    /// An export cannot take connections at the moment.
    Impaired {
        /// The kind of export.
        export: &'static str,
        /// The reason.
        why: &'a str,
    },
}

impl Event<'_> {
    /// The name of the kind of event.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Connected(_) => "connected",
            Event::Disconnected(..) => "disconnected",
            Event::Refused { .. } => "refused",
            Event::Failed(..) => "failed",
            Event::FlushFailed(..) => "flush-failed",
            Event::Owed(..) => "owed",
            Event::Impaired { .. } => "impaired",
        }
    }

    /// The client, if the event is one of a client.
    pub fn client(&self) -> Option<&Client> {
        match self {
            Event::Connected(client)
            | Event::Disconnected(client, _)
            | Event::Failed(client, _)
            | Event::FlushFailed(client, _)
            | Event::Owed(client, _) => Some(client),
            Event::Refused { .. } | Event::Impaired { .. } => None,
        }
    }

    /// The kind of export.
    pub fn export(&self) -> &'static str {
        match self {
            Event::Connected(client)
            | Event::Disconnected(client, _)
            | Event::Failed(client, _)
            | Event::FlushFailed(client, _)
            | Event::Owed(client, _) => client.export,
            Event::Refused { export, .. } | Event::Impaired { export, .. } => export,
        }
    }

    /// The address of the peer.
    pub fn peer(&self) -> Option<&str> {
        match self {
            Event::Refused { peer, .. } => Some(peer),
            _ => self.client().map(|client| client.peer.as_str()),
        }
    }

    /// The reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Event::Connected(_) => None,
            Event::Owed(_, loss) => Some(loss.text()),
            Event::Disconnected(_, why) | Event::Failed(_, why) | Event::FlushFailed(_, why) => Some(why),
            Event::Refused { why, .. } | Event::Impaired { why, .. } => Some(why),
        }
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.export())?;
        match self {
            Event::Connected(client) => {
                write!(f, "client {} ({}) uses {:?}", client.id, client.peer, client.device)
            }
            Event::Disconnected(client, why) => {
                write!(f, "client {} ({}) is gone: {why}", client.id, client.peer)
            }
            Event::Refused { peer, why, .. } => write!(f, "connection from {peer} closed: {why}"),
            Event::Failed(client, why) => {
                write!(f, "client {} ({}): {why}; further errors are only counted", client.id, client.peer)
            }
            Event::FlushFailed(client, why) => write!(
                f,
                "a flush of {:?} failed, and answered writes may be lost ({why}): the next flush of each client fails; \
                 noticed by client {} ({})",
                client.device, client.id, client.peer
            ),
            Event::Owed(client, loss) => write!(
                f,
                "client {} ({}): a flush of {:?} fails once: {}",
                client.id,
                client.peer,
                client.device,
                loss.text()
            ),
            Event::Impaired { why, .. } => f.write_str(why),
        }
    }
}

/// What is called for each event, by the thread that notices it.
pub type Log = Arc<dyn Fn(&Event<'_>) + Send + Sync>;
