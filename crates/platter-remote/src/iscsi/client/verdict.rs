//! What the answer to a command means: done, to be sent again, or failed.

use super::library::status;
use super::session::Answer;
use platter_scsi::sense::{Key, Sense, words};

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was carried out.
    Good,
    /// It was not carried out, and may be sent again at once.
    Again,
    /// The target has no room for it at the moment (`EAGAIN`: the queue sends it again after a pause).
    Busy,
    /// It failed, with an errno.
    Failed(i32),
    /// The logical unit was reset, or its commands were ended, without answers to them. Whether it lost its cache.
    Reset { power: bool },
    /// The connection ended before the answer.
    Lost,
}

/// A verdict, and what to tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// The words of a failure.
    pub(super) why: String,
    /// The failure is of an earlier command, whose data may be lost.
    pub(super) deferred: bool,
}

impl From<Verdict> for Judged {
    fn from(verdict: Verdict) -> Judged {
        Judged { verdict, why: String::new(), deferred: false }
    }
}

/// Medium errors, failures of the target and reservation conflicts have the errno values that the Linux block layer gives them
/// (`blk_errors`).
const MEDIUM: i32 = libc::ENODATA;
const TARGET: i32 = libc::EREMOTEIO;
const CONFLICT: i32 = libc::EBADE;

/// Judges an answer.
pub(super) fn judge(answer: &Answer) -> Judged {
    let failed = |errno, why: &str| Judged { why: why.to_owned(), ..Verdict::Failed(errno).into() };
    match answer.status {
        status::GOOD | status::CONDITION_MET => Verdict::Good.into(),
        status::CHECK_CONDITION => match Sense::decode(&answer.sense) {
            Ok(sense) => by_sense(&sense),
            Err(error) => failed(TARGET, &format!("CHECK CONDITION without sense data: {error}")),
        },
        status::BUSY => Judged { why: "BUSY".to_owned(), ..Verdict::Busy.into() },
        status::TASK_SET_FULL => Judged { why: "TASK SET FULL".to_owned(), ..Verdict::Busy.into() },
        status::TASK_ABORTED => Judged { why: "TASK ABORTED".to_owned(), ..Verdict::Again.into() },
        status::RESERVATION_CONFLICT => {
            failed(CONFLICT, "RESERVATION CONFLICT: another initiator has reserved the logical unit")
        }
        status::CANCELLED | status::ERROR => Verdict::Lost.into(),
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
        (2, 0x04, 0x01 | 0x04 | 0x07..=0x0a | 0x14) => Verdict::Busy,
        (2, 0x3a, _) => Verdict::Failed(libc::ENOMEDIUM),
        (3, ..) => Verdict::Failed(MEDIUM),
        (5, 0x20 | 0x24 | 0x26, _) => Verdict::Failed(libc::EOPNOTSUPP),
        (5, 0x25, _) => Verdict::Failed(libc::ENODEV),
        // The first commands of a nexus tell that it is new.
        (6, 0x29, 0x07) => Verdict::Again,
        (6, 0x29, code) => Verdict::Reset { power: code < 2 },
        (6, 0x2f, _) => Verdict::Reset { power: false },
        (6, ..) => Verdict::Again,
        (7, 0x27, 0x07) => Verdict::Failed(libc::ENOSPC),
        (7, ..) => Verdict::Failed(libc::EROFS),
        // Protection information.
        (0xb, 0x10, _) => Verdict::Failed(libc::EILSEQ),
        (0xb, ..) => Verdict::Again,
        _ => Verdict::Failed(TARGET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::client::buffers::Buffers;
    use platter_scsi::sense::Failure;

    fn answer(status: i32, sense: &[u8]) -> Answer {
        let buffers = Buffers::default();
        Answer { token: 0, status, missing: 0, is_aborted: false, sense: sense.to_vec(), buffers }
    }

    fn with(key: u8, asc: u8, ascq: u8) -> Judged {
        judge(&answer(2, &Failure::new(Key(key), asc, ascq).to_fixed()))
    }

    #[test]
    fn each_status_has_its_meaning() {
        for (status, verdict) in [
            (0, Verdict::Good),
            (8, Verdict::Busy),
            (0x28, Verdict::Busy),
            (0x40, Verdict::Again),
            (0x18, Verdict::Failed(libc::EBADE)),
            (0x30, Verdict::Failed(libc::EREMOTEIO)),
            (0x0f00_0000, Verdict::Lost),
            (0x0f00_0001, Verdict::Lost),
            (2, Verdict::Failed(libc::EREMOTEIO)),
        ] {
            assert_eq!(judge(&answer(status, &[])).verdict, verdict, "{status:x}");
        }
    }

    #[test]
    fn each_kind_of_sense_has_its_meaning() {
        for (key, asc, ascq, verdict) in [
            (1, 0x17, 0x01, Verdict::Good),
            (2, 0x04, 0x01, Verdict::Busy),
            (2, 0x04, 0x03, Verdict::Failed(libc::EREMOTEIO)),
            (2, 0x3a, 0x00, Verdict::Failed(libc::ENOMEDIUM)),
            (3, 0x11, 0x00, Verdict::Failed(libc::ENODATA)),
            (4, 0x44, 0x00, Verdict::Failed(libc::EREMOTEIO)),
            (5, 0x20, 0x00, Verdict::Failed(libc::EOPNOTSUPP)),
            (5, 0x25, 0x00, Verdict::Failed(libc::ENODEV)),
            (6, 0x29, 0x00, Verdict::Reset { power: true }),
            (6, 0x29, 0x03, Verdict::Reset { power: false }),
            (6, 0x29, 0x07, Verdict::Again),
            (6, 0x2f, 0x00, Verdict::Reset { power: false }),
            (6, 0x2a, 0x09, Verdict::Again),
            (7, 0x27, 0x00, Verdict::Failed(libc::EROFS)),
            (7, 0x27, 0x07, Verdict::Failed(libc::ENOSPC)),
            (0xb, 0x47, 0x05, Verdict::Again),
            (0xb, 0x10, 0x01, Verdict::Failed(libc::EILSEQ)),
        ] {
            assert_eq!(with(key, asc, ascq).verdict, verdict, "{key:x} {asc:02x} {ascq:02x}");
        }
    }

    #[test]
    fn words_tell_where() {
        let sense = Failure::new(Key::MEDIUM_ERROR, 0x11, 0).with_information(4096).to_fixed();
        let judged = judge(&answer(2, &sense));
        assert_eq!(judged.why, "MEDIUM ERROR, UNRECOVERED READ ERROR, at logical block 4096");
        let mut deferred = sense;
        deferred[0] = 0xf1;
        let judged = judge(&answer(2, &deferred));
        assert!(judged.deferred && judged.verdict == Verdict::Again);
        assert!(with(4, 0x99, 0x01).why.contains("99h 01h"));
    }
}
