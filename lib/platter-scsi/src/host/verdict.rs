//! What the answer to a command means: done, to be sent again, or failed.

use crate::sense::{Key, Sense, words};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was carried out.
    Good,
    /// It was not carried out, and may be sent again at once.
    Again,
    /// The target has no room for it at the moment (`EAGAIN`: the queue sends it again after a pause).
    Busy,
    /// It failed, with an errno.
    Failed(i32),
    /// The logical unit was reset, or its commands were ended, without answers to them. Its caches are lost with `power`.
    Reset {
        /// The unit was without power.
        power: bool,
    },
    /// There is no answer: the transport lost the command or the way to the unit. Only transports give this verdict.
    Lost,
}

/// A verdict, and what to tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// The words of a failure.
    pub why: String,
    /// The failure is of an earlier command, whose data may be lost.
    pub deferred: bool,
}

impl From<Verdict> for Judged {
    fn from(verdict: Verdict) -> Judged {
        Judged { verdict, why: String::new(), deferred: false }
    }
}

/// Medium errors, failures of the target and reservation conflicts have the errno values that the Linux block layer gives them
/// (`blk_errors`).
const MEDIUM: i32 = 61;
const TARGET: i32 = 121;
const CONFLICT: i32 = 52;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EILSEQ: i32 = 84;
const EOPNOTSUPP: i32 = 95;
const ENOMEDIUM: i32 = 123;
const ETIMEDOUT: i32 = 110;

/// Status bytes (SAM-5, 5.3).
mod status {
    pub(super) const GOOD: u8 = 0;
    pub(super) const CHECK_CONDITION: u8 = 2;
    pub(super) const CONDITION_MET: u8 = 4;
    pub(super) const BUSY: u8 = 8;
    pub(super) const RESERVATION_CONFLICT: u8 = 0x18;
    pub(super) const TASK_SET_FULL: u8 = 0x28;
    pub(super) const TASK_ABORTED: u8 = 0x40;
}

/// Judges an answer: the status byte and the sense data.
pub fn judge(status: u8, sense: &[u8]) -> Judged {
    let failed = |errno, why: &str| Judged { why: why.to_owned(), ..Verdict::Failed(errno).into() };
    match status {
        status::GOOD | status::CONDITION_MET => Verdict::Good.into(),
        status::CHECK_CONDITION => match Sense::decode(sense) {
            Ok(sense) => by_sense(&sense),
            Err(error) => failed(TARGET, &format!("CHECK CONDITION without sense data: {error}")),
        },
        status::BUSY => Judged { why: "BUSY".to_owned(), ..Verdict::Busy.into() },
        status::TASK_SET_FULL => Judged { why: "TASK SET FULL".to_owned(), ..Verdict::Busy.into() },
        status::TASK_ABORTED => Judged { why: "TASK ABORTED".to_owned(), ..Verdict::Again.into() },
        status::RESERVATION_CONFLICT => {
            failed(CONFLICT, "RESERVATION CONFLICT: another initiator has reserved the logical unit")
        }
        other => failed(TARGET, &format!("the status {other:02x}h")),
    }
}

fn by_sense(sense: &Sense<'_>) -> Judged {
    let (asc, ascq) = sense.code();
    let mut why = format!("{}, {}", sense.key().name(), describe(asc, ascq));
    if let Some(block) = sense.information() {
        why.push_str(&format!(", at logical block {block}"));
    }
    if let Some(pointer) = sense.field_pointer() {
        why.push_str(&format!(", {pointer}"));
    }
    if sense.is_deferred() {
        return Judged { verdict: Verdict::Again, why, deferred: true };
    }
    Judged { verdict: by_codes(sense.key(), asc, ascq), why, deferred: false }
}

fn describe(asc: u8, ascq: u8) -> String {
    match words(asc, ascq) {
        Some(words) => words.to_owned(),
        None => format!("additional sense code {asc:02x}h {ascq:02x}h"),
    }
}

/// Keys are those of SPC-4, 4.5.6; codes those of its annex D.
fn by_codes(key: Key, asc: u8, ascq: u8) -> Verdict {
    match (key.0, asc, ascq) {
        // NO SENSE, RECOVERED ERROR.
        (0 | 1, ..) => Verdict::Good,
        // NOT READY, in process of becoming ready, or an operation is in progress.
        (2, 0x04, 0x01 | 0x04..=0x0a | 0x14 | 0x1a..=0x1d) => Verdict::Busy,
        // The port cannot reach the unit, in standby or unavailable (ALUA).
        (2, 0x04, 0x0b | 0x0c) => Verdict::Failed(ENODEV),
        (2, 0x3a, _) => Verdict::Failed(ENOMEDIUM),
        (3, ..) => Verdict::Failed(MEDIUM),
        // Failure of the logical unit; its timeout, after which a write may still be carried out.
        (4, 0x3e, 0x01) => Verdict::Failed(ENODEV),
        (4, 0x3e, 0x02) => Verdict::Failed(ETIMEDOUT),
        (5, 0x20 | 0x24 | 0x26, _) => Verdict::Failed(EOPNOTSUPP),
        (5, 0x25, _) => Verdict::Failed(ENODEV),
        // The first commands of a nexus tell that it is new.
        (6, 0x29, 0x07) => Verdict::Again,
        (6, 0x29, code) => Verdict::Reset { power: code < 2 },
        (6, 0x2f, _) => Verdict::Reset { power: false },
        (6, ..) => Verdict::Again,
        (7, 0x27, 0x07) => Verdict::Failed(ENOSPC),
        (7, ..) => Verdict::Failed(EROFS),
        // Protection information.
        (0xb, 0x10, _) => Verdict::Failed(EILSEQ),
        (0xb, ..) => Verdict::Again,
        _ => Verdict::Failed(TARGET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::Failure;

    fn with(key: u8, asc: u8, ascq: u8) -> Judged {
        judge(2, &Failure::new(Key(key), asc, ascq).to_fixed())
    }

    #[test]
    fn each_status_has_its_meaning() {
        for (status, verdict) in [
            (0, Verdict::Good),
            (8, Verdict::Busy),
            (0x28, Verdict::Busy),
            (0x40, Verdict::Again),
            (0x18, Verdict::Failed(CONFLICT)),
            (0x30, Verdict::Failed(TARGET)),
            (2, Verdict::Failed(TARGET)),
        ] {
            assert_eq!(judge(status, &[]).verdict, verdict, "{status:x}");
        }
    }

    #[test]
    fn each_kind_of_sense_has_its_meaning() {
        for (key, asc, ascq, verdict) in [
            (1, 0x17, 0x01, Verdict::Good),
            (2, 0x04, 0x01, Verdict::Busy),
            (2, 0x04, 0x03, Verdict::Failed(TARGET)),
            (2, 0x04, 0x05, Verdict::Busy),
            (2, 0x04, 0x1b, Verdict::Busy),
            (2, 0x04, 0x0b, Verdict::Failed(ENODEV)),
            (2, 0x04, 0x0c, Verdict::Failed(ENODEV)),
            (2, 0x3a, 0x00, Verdict::Failed(ENOMEDIUM)),
            (3, 0x11, 0x00, Verdict::Failed(MEDIUM)),
            (4, 0x44, 0x00, Verdict::Failed(TARGET)),
            (4, 0x3e, 0x01, Verdict::Failed(ENODEV)),
            (4, 0x3e, 0x02, Verdict::Failed(ETIMEDOUT)),
            (5, 0x20, 0x00, Verdict::Failed(EOPNOTSUPP)),
            (5, 0x25, 0x00, Verdict::Failed(ENODEV)),
            (6, 0x29, 0x00, Verdict::Reset { power: true }),
            (6, 0x29, 0x03, Verdict::Reset { power: false }),
            (6, 0x29, 0x07, Verdict::Again),
            (6, 0x2f, 0x00, Verdict::Reset { power: false }),
            (6, 0x2a, 0x09, Verdict::Again),
            (7, 0x27, 0x00, Verdict::Failed(EROFS)),
            (7, 0x27, 0x07, Verdict::Failed(ENOSPC)),
            (0xb, 0x47, 0x05, Verdict::Again),
            (0xb, 0x10, 0x01, Verdict::Failed(EILSEQ)),
        ] {
            assert_eq!(with(key, asc, ascq).verdict, verdict, "{key:x} {asc:02x} {ascq:02x}");
        }
    }

    #[test]
    fn words_tell_where() {
        let sense = Failure::new(Key::MEDIUM_ERROR, 0x11, 0).with_information(4096).to_fixed();
        let judged = judge(2, &sense);
        assert_eq!(judged.why, "MEDIUM ERROR, UNRECOVERED READ ERROR, at logical block 4096");
        let mut deferred = sense;
        deferred[0] = 0xf1;
        let judged = judge(2, &deferred);
        assert!(judged.deferred && judged.verdict == Verdict::Again);
        assert!(with(4, 0x99, 0x01).why.contains("99h 01h"));
    }
}
