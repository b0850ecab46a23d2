//! What an export is, and the table of all kinds.

use crate::clients::Clients;
use crate::error::ServeError;
use crate::nbd;
use crate::served::Devices;
use std::sync::Arc;
use std::time::Instant;

/// A running export.
pub trait Export: Send {
    /// Where clients reach it, such as `127.0.0.1:10809`. A port that the system chose is filled in.
    fn address(&self) -> String;

    /// Takes no more clients, and disconnects those that there are as soon as what they have sent is answered. Returns
    /// at once.
    fn begin_stop(&mut self);

    /// Waits until all clients are gone, after [`begin_stop`](Export::begin_stop).
    ///
    /// # Errors
    /// Some are still there at `until`: a sentence that says which, and what they wait for.
    fn finish_stop(&mut self, until: Instant) -> Result<(), String>;
}

/// What an export is started with.
pub struct Start<'a> {
    /// The address, in the form that the export's [`Row`] describes.
    pub address: &'a str,
    /// The devices to serve.
    pub devices: Arc<Devices>,
    /// Where clients are entered.
    pub clients: Arc<Clients>,
}

/// A kind of export.
pub struct Row {
    /// Its name, which is also the option of `platter serve`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The form of its address, for help.
    pub address: &'static str,
    /// Starts one.
    pub start: fn(&Start<'_>) -> Result<Box<dyn Export>, ServeError>,
}

/// All kinds of exports.
pub const TABLE: &[Row] = &[nbd::ROW];

/// The kind of this name.
pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
