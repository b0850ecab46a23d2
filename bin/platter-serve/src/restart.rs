//! Answered writes that a server may have lost, and how clients learn of it: the next flush of each fails once.
//!
//! They are lost with a server that was killed ([`Past`]), or by a flush that the device has failed while it was served
//! (`Losses`). docs/serve.md has the rule.

use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_disk::device::Device;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How the server that served a device before this one has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Past {
    /// It is not known, or there was none.
    #[default]
    Unknown,
    /// It has flushed the device.
    Clean,
    /// It has not, and with it answered writes may be lost that no flush had covered.
    Lost,
}

/// Why answered writes may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// An earlier server was killed.
    Killed,
    /// A flush of the device failed.
    FlushFailed,
}

impl Loss {
    /// A clause.
    pub fn text(self) -> &'static str {
        match self {
            Loss::Killed => "an earlier server was killed and may have lost answered writes",
            Loss::FlushFailed => "a flush of the device failed before, and answered writes may be lost",
        }
    }
}

/// Flushes of a served device that have failed, numbered from 1. The server acknowledges each of them for the device, so that
/// later flushes are tried, when it has noted here which clients are to be told.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The number of the last one.
    last: AtomicU64,
    /// The last one of which no client needs to be told any more.
    accepted: AtomicU64,
    /// The last one of which a client was not told that has written and is gone. It may come back.
    departed: AtomicU64,
    /// No client needs to be told of what the server before this one has lost.
    past_accepted: AtomicBool,
    /// What the device has said last. Held while a failure is noted.
    text: Mutex<String>,
}

impl Losses {
    /// Notes a failed flush, and acknowledges it for the device.
    fn note(&self, device: &Device, text: &str, last: &mut String) -> u64 {
        // In this order: a flush that succeeds because of the acknowledgement finds the number when it is complete.
        let number = self.last.fetch_add(1, Ordering::SeqCst) + 1;
        device.acknowledge_flush_failure();
        text.clone_into(last);
        number
    }

    /// A flush has failed that no client has asked for.
    pub(crate) fn own_flush_failed(&self, device: &Device, text: &str) {
        self.note(device, text, &mut self.text.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How many flushes have failed.
    pub(crate) fn count(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// What the device said of the last one, if an operator has not accepted it.
    #[cfg(any(feature = "daemon", test))]
    pub(crate) fn open(&self) -> Option<String> {
        let is_open = self.count() > self.accepted.load(Ordering::SeqCst);
        is_open.then(|| self.text.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Whether clients that come from now on are told of a failed flush.
    pub(crate) fn owes_newcomers(&self) -> bool {
        self.departed.load(Ordering::SeqCst) > self.accepted.load(Ordering::SeqCst)
    }

    /// Whether no client is told any more of what an earlier server has lost.
    pub(crate) fn is_past_accepted(&self) -> bool {
        self.past_accepted.load(Ordering::SeqCst)
    }

    /// An operator accepts that answered writes may be lost: no client is told of what has happened until now.
    pub(crate) fn accept(&self) {
        self.accepted.fetch_max(self.count(), Ordering::SeqCst);
        self.past_accepted.store(true, Ordering::SeqCst);
    }
}

/// Of which losses a client is to be told.
#[derive(Debug, Default)]
pub struct FirstFlush {
    losses: Arc<Losses>,
    /// What an earlier server has lost.
    past: AtomicBool,
    /// The last failed flush of which the client knows.
    told: AtomicU64,
    /// The client has written.
    wrote: AtomicBool,
}

impl FirstFlush {
    /// One that fails if `past` is set, if a flush has failed of which a client was not told that is gone, or if one fails
    /// from now on.
    pub(crate) fn new(losses: &Arc<Losses>, past: bool) -> FirstFlush {
        let told = if losses.owes_newcomers() { 0 } else { losses.count() };
        FirstFlush {
            losses: Arc::clone(losses),
            past: AtomicBool::new(past),
            told: AtomicU64::new(told),
            wrote: AtomicBool::new(false),
        }
    }

    /// Called for each flush of the client: why it must fail. At most once for a loss.
    #[inline]
    pub(crate) fn take(&self) -> Option<Loss> {
        let past = self.past.load(Ordering::Relaxed) && self.past.swap(false, Ordering::Relaxed);
        let last = self.losses.last.load(Ordering::SeqCst);
        let accepted = self.losses.accepted.load(Ordering::Relaxed);
        let told = self.told.load(Ordering::Relaxed);
        let failed = told < last && self.told.fetch_max(last, Ordering::Relaxed) < last && accepted < last;
        match (past && !self.losses.is_past_accepted(), failed) {
            (true, _) => Some(Loss::Killed),
            (_, true) => Some(Loss::FlushFailed),
            _ => None,
        }
    }

    /// The client has written.
    pub(crate) fn wrote(&self) {
        if !self.wrote.load(Ordering::Relaxed) {
            self.wrote.store(true, Ordering::Relaxed);
        }
    }

    /// A request of the client has failed. If that shows that a flush of the device has failed which is not known yet, notes it,
    /// acknowledges it for the device and returns what the device says.
    #[cold]
    pub(crate) fn failed(&self, device: &Device, op: Op, fault: Fault) -> Option<String> {
        let mut text = self.losses.text.lock().unwrap_or_else(PoisonError::into_inner);
        // Where the device does not keep a failure in mind, it is a new one if this client knows of all before it.
        let knows_all = self.told.load(Ordering::Relaxed) >= self.losses.count();
        let is_flush = op == Op::Flush;
        let is_new = !device.backend().flush_failures().is_empty() || (is_flush && knows_all);
        if is_new {
            let error = device.error(fault, Op::Flush, 0, 0, String::new()).to_string();
            self.losses.note(device, &error, &mut text);
        }
        if is_flush {
            self.told.fetch_max(self.losses.count(), Ordering::Relaxed);
        }
        is_new.then(|| text.clone())
    }
}

impl Drop for FirstFlush {
    fn drop(&mut self) {
        let last = self.losses.count();
        if self.told.load(Ordering::Relaxed) < last && self.wrote.load(Ordering::Relaxed) {
            self.losses.departed.fetch_max(last, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;
    use crate::events::Log;
    use crate::served::Served;
    use platter_disk::open::DiskOptions;

    /// A disk in memory, which loses everything with its process, and a file.
    fn served(past: Past) -> [Served; 2] {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let file = Device::open(file.path(), DiskOptions::read_write()).unwrap();
        [Device::ram(1 << 20).unwrap(), file].map(|device| Served::new("d", device).unwrap().after(past))
    }

    #[test]
    fn survivors_pay_unless_nothing_can_be_lost_and_newcomers_only_if_something_was() {
        let owed = |past, survives: bool| {
            served(past)
                .map(|it| if survives { it.survivor().take() } else { it.newcomer().take() })
                .map(|loss| loss == Some(Loss::Killed))
        };
        assert_eq!(owed(Past::Unknown, false), [false, false]);
        assert_eq!(owed(Past::Unknown, true), [true, false]);
        assert_eq!([owed(Past::Clean, false), owed(Past::Clean, true)], [[false; 2]; 2]);
        // The device that was killed need not be the one that is served now.
        assert_eq!([owed(Past::Lost, false), owed(Past::Lost, true)], [[true; 2]; 2]);
    }

    #[test]
    fn one_flush_fails() {
        let [ram, _] = served(Past::Lost);
        let (first, accepted) = (ram.newcomer(), ram.newcomer());
        assert_eq!(first.take(), Some(Loss::Killed));
        assert_eq!(first.take(), None);
        ram.losses().accept();
        assert_eq!([accepted.take(), ram.newcomer().take()], [None, None]);
    }

    #[test]
    fn each_client_is_told_once_of_a_failed_flush() {
        let [ram, _] = served(Past::Unknown);
        let clients = Clients::new(1);
        let client = clients.connect("nbd", "d", "peer", || {}).unwrap();
        let events = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&events);
        let log: Log = Arc::new(move |event| {
            counter.fetch_add(u64::from(event.name() == "flush-failed"), Ordering::Relaxed);
        });
        let told = (&*client, &log);
        let fault = Fault::from_errno(5);
        let (a, b, c) = (ram.newcomer(), ram.newcomer(), ram.newcomer());
        b.settle(ram.device(), told, Op::Write, Ok(())).unwrap();
        assert_eq!(a.settle(ram.device(), told, Op::Flush, Err(fault)), Err(fault));
        assert_eq!((ram.losses().count(), events.load(Ordering::Relaxed)), (1, 1));
        assert_eq!(a.take(), None, "its own flush has told it");
        // A flush that was begun before and succeeds afterwards says nothing of what was lost.
        assert!(c.settle(ram.device(), told, Op::Flush, Ok(())).is_err());
        assert_eq!(c.settle(ram.device(), told, Op::Flush, Ok(())), Ok(()));
        assert_eq!(ram.newcomer().take(), None, "all that were there and are gone know of it");
        // One that has written goes without being told, and may come back under another number.
        drop(b);
        assert_eq!(ram.newcomer().take(), Some(Loss::FlushFailed));
        assert_eq!(ram.newcomer().take(), Some(Loss::FlushFailed));
        assert!(ram.losses().open().is_some());
        ram.losses().accept();
        assert_eq!((ram.newcomer().take(), ram.losses().open()), (None, None));
        // The same failure told to a second flush in flight is no other one; the next one is.
        let d = ram.newcomer();
        assert_eq!(a.settle(ram.device(), told, Op::Flush, Err(fault)), Err(fault));
        assert_eq!(d.settle(ram.device(), told, Op::Flush, Err(fault)), Err(fault));
        assert_eq!(ram.losses().count(), 2);
        assert_eq!(d.settle(ram.device(), told, Op::Flush, Err(fault)), Err(fault));
        assert_eq!((ram.losses().count(), events.load(Ordering::Relaxed)), (3, 3));
        assert_eq!(a.take(), Some(Loss::FlushFailed));
        // A write of a client says nothing of a flush.
        assert_eq!(d.settle(ram.device(), told, Op::Write, Err(fault)), Err(fault));
        assert_eq!(ram.losses().count(), 3);
    }
}
