//! A device at rest: nothing new is admitted, what was begun ends, and everything is durable.

use crate::clients::{Client, Clients};
use crate::error::ServeError;
use crate::qos::Arbiter;
use crate::served::Served;
use crate::server::Flush;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked whether requests have ended.
const LOOK: Duration = Duration::from_millis(1);

/// Holds new requests of all clients of a device until it is dropped.
struct Hold<'a>(&'a Arbiter);

impl<'a> Hold<'a> {
    fn new(arbiter: &'a Arbiter) -> Hold<'a> {
        arbiter.hold();
        Hold(arbiter)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Holds new requests of clients back, waits until those that were begun have ended, flushes the device and lets
/// requests go on, in any case. Returns how long they were held.
///
/// # Errors
/// Requests have not ended, or the device could not be flushed, within `limit`.
pub fn drain(clients: &Clients, served: &Arc<Served>, limit: Duration) -> Result<Duration, ServeError> {
    let begin = Instant::now();
    let until = begin + limit;
    let hold = Hold::new(served.qos());
    while let Some(busy) = busy(clients, served) {
        if Instant::now() >= until {
            return Err(ServeError::system(format!(
                "the device {:?} has not come to rest within {limit:?}: {busy}; requests go on",
                served.name()
            )));
        }
        std::thread::sleep(LOOK);
    }
    if let Some(flush) = Flush::begin(Arc::clone(served)) {
        flush.finish(until).map_err(ServeError::system)?;
    }
    drop(hold);
    Ok(begin.elapsed())
}

/// What a device whose new requests are held back still has to do; `None`: nothing.
fn busy(clients: &Clients, served: &Served) -> Option<String> {
    let is_busy = |client: &&Arc<Client>| client.device == served.name() && client.admitted() > 0;
    let clients = clients.list();
    let busy: Vec<String> = clients.iter().filter(is_busy).map(|client| client.id.to_string()).collect();
    let gauges = served.device().statistics().gauges;
    let in_device = gauges.in_flight + gauges.queued + gauges.held;
    if busy.is_empty() && in_device == 0 {
        return None;
    }
    Some(format!(
        "{in_device} requests are in the device, clients with unanswered ones: {}",
        if busy.is_empty() { "none".to_owned() } else { busy.join(", ") }
    ))
}
