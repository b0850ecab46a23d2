//! The report of a finished run, for people and as JSON.

use super::args::Copy;
use super::map::Status;
use super::meter;
use super::plan::Plan;
use super::stop::{GRACE, Stopped, Stopper};
use super::work::Work;
use crate::cli::CliError;
use platter::spec::{format_size, quote_path};
use platter_bench::report::units::{mib_per_s, thousands};
use serde_json::{Value, json};
use std::time::Duration;

/// Most ranges that are named in a message.
const MOST_LISTED: usize = 4;

/// A finished run.
pub(super) struct Outcome<'a> {
    pub(super) copy: &'a Copy,
    pub(super) plan: &'a Plan,
    pub(super) work: &'a Work,
    pub(super) time: Duration,
    /// All data was read again and is equal.
    pub(super) verified: bool,
    /// Bytes that were compared and are equal, if the comparison ended early.
    pub(super) compared: u64,
    /// Why it ended early.
    pub(super) stopped: Option<Stopped>,
}

impl Outcome<'_> {
    /// Whether all bytes are at the destination, and durable.
    pub(super) fn is_complete(&self) -> bool {
        self.work.map.is_done() && self.work.flushed
    }

    fn ns(&self) -> u64 {
        u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The first byte that is not known to be copied. A flush that failed may have lost all that was written.
    fn resume_offset(&self) -> u64 {
        if self.work.flush_failed { self.plan.start } else { self.work.map.first_missing() }
    }

    fn bad_bytes(&self) -> u64 {
        [Status::Bad, Status::Small, Status::Failed].iter().map(|status| self.work.map.bytes(*status)).sum()
    }

    pub(super) fn to_json(&self, error: Option<&CliError>) -> Value {
        let (work, totals) = (self.work, &self.work.totals);
        let bad = work.map.parts().filter(|(.., status)| !matches!(status, Status::Done | Status::Untried));
        let bad: Vec<Value> =
            bad.map(|(start, end, _)| json!({ "offset": start, "bytes": end - start })).collect();
        json!({
            "source": self.copy.source,
            "destination": self.copy.destination,
            "bytes": self.plan.size,
            "start_offset": self.plan.start,
            "resume_offset": self.resume_offset(),
            "bytes_written": totals.written,
            "bytes_zeroed": totals.zeroed,
            "bytes_skipped": totals.skipped,
            "bytes_bad": self.bad_bytes(),
            "bad": bad,
            "map": self.plan.map.as_ref().map(|map| map.path.to_string_lossy()),
            "seconds": self.time.as_secs_f64(),
            "mib_per_s": mib_per_s(totals.sum(), self.ns()),
            "created": self.plan.created,
            "flushed": work.flushed,
            "complete": self.is_complete(),
            "interrupted": matches!(self.stopped, Some(Stopped::Interrupted | Stopped::Abandoned(_))),
            "error": error.and_then(CliError::message),
            "verified": self.verified.then_some(true),
        })
    }

    /// One line about a complete copy, also of one with gaps.
    pub(super) fn summary(&self) -> Option<String> {
        self.stopped.is_none().then(|| meter::summary(&self.work.totals, self.ns(), self.verified))
    }

    /// The error of a run that did not do everything.
    pub(super) fn error(&self, stop: &Stopper<'_>) -> Option<CliError> {
        let went = match (self.is_complete(), self.copy.verify) {
            (true, true) => self.compared_so_far(),
            (true, false) => "all was copied and flushed".to_owned(),
            (false, _) => self.reached(),
        };
        Some(match &self.stopped {
            None if self.bad_bytes() > 0 => CliError::failed(self.gaps()),
            None => return None,
            Some(Stopped::Failed(error) | Stopped::Destination(error)) => {
                CliError::failed(format!("{error}\n{went}"))
            }
            Some(Stopped::Interrupted) => stop.interruption(format!("interrupted: {went}")),
            Some(Stopped::Abandoned(left)) => stop.interruption(format!(
                "interrupted: after {} s the devices still have {left}; {went}",
                GRACE.as_secs()
            )),
        })
    }

    fn compared_so_far(&self) -> String {
        format!(
            "all was copied and flushed, and {} of {} bytes were compared and are the same",
            thousands(self.compared),
            thousands(self.plan.size)
        )
    }

    /// How far an incomplete copy got, and how to continue.
    fn reached(&self) -> String {
        let resume = self.resume_offset();
        let durable = if self.work.flushed { "and flushed" } else { "but not flushed" };
        let mut text = format!(
            "{} of {} bytes are copied; the first {} are complete {durable}; {} is incomplete",
            thousands(self.work.map.bytes(Status::Done)),
            thousands(self.plan.size),
            thousands(resume),
            self.plan.destination.name()
        );
        match &self.plan.map {
            Some(map) => {
                let path = quote_path(&map.path);
                text += &format!("; to continue, repeat the command with the map {path}");
            }
            None => {
                if resume > self.plan.start {
                    text += &format!("; to continue from there, add --start {}", format_size(resume));
                }
                if matches!(self.stopped, Some(Stopped::Failed(_))) {
                    text += "; to copy all that can be read, add --rescue MAPFILE";
                }
            }
        }
        text
    }

    /// The ranges that a rescue could not read.
    fn gaps(&self) -> String {
        let bad: Vec<(u64, u64, Status)> =
            self.work.map.parts().filter(|(.., status)| *status != Status::Done).collect();
        let listed: Vec<String> = bad
            .iter()
            .take(MOST_LISTED)
            .map(|(start, end, _)| format!("{} at {}", thousands(end - start), thousands(*start)))
            .collect();
        let more = if bad.len() > MOST_LISTED { ", …" } else { "" };
        let ranges = if bad.len() == 1 { "1 range".to_owned() } else { format!("{} ranges", bad.len()) };
        let map = self.plan.map.as_ref().map(|map| map.path.clone()).unwrap_or_default();
        format!(
            "{} bytes in {ranges} cannot be read and were not copied: {}{more}; the map {} has all of them: to try \
             them again, repeat the command with --retries 1",
            thousands(self.bad_bytes()),
            listed.join(", "),
            quote_path(&map)
        )
    }
}
