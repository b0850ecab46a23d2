//! The service thread: reaps for futures that nobody polls. One per process, started on first need; it
//! sleeps while nothing is awaited.

use crate::future::{AsyncLane, Next};
use crate::sync::{Mutex, lock};
use crate::wake::{Event, sleep_on};
use platter_block::time::Span;
use std::sync::{Arc, LazyLock, OnceLock, Weak};

struct Service {
    /// Lanes that futures wait on, as they were reported.
    lanes: Mutex<Vec<Weak<AsyncLane>>>,
    bell: Event,
}

static SERVICE: LazyLock<Service> =
    LazyLock::new(|| Service { lanes: Mutex::new(Vec::new()), bell: Event::new() });
static THREAD: OnceLock<bool> = OnceLock::new();

/// Reports a lane with somebody waiting on it.
pub(crate) fn watch(lane: &Arc<AsyncLane>) {
    lock(&SERVICE.lanes).push(Arc::downgrade(lane));
    THREAD
        .get_or_init(|| std::thread::Builder::new().name("platter-service".to_string()).spawn(serve).is_ok());
    SERVICE.bell.ring();
}

fn serve() {
    let mut lanes: Vec<Weak<AsyncLane>> = Vec::new();
    let mut handles = Vec::new();
    loop {
        lanes.append(&mut lock(&SERVICE.lanes));
        handles.clear();
        handles.extend(SERVICE.bell.descriptor());
        let (mut timeout, mut again) = (None::<Span>, false);
        lanes.retain(|lane| {
            let Some(lane) = lane.upgrade() else { return false };
            match lane.serve(&mut handles) {
                Next::Idle => false,
                Next::Again => {
                    again = true;
                    true
                }
                Next::Sleep(span) => {
                    timeout = match (timeout, span) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    };
                    true
                }
            }
        });
        if !again {
            sleep_on(&handles, SERVICE.bell.descriptor().is_some(), timeout);
        }
        SERVICE.bell.clear();
    }
}
