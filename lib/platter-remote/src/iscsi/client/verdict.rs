//! What an answer of the library means.

use super::library::status;
use super::session::Answer;
pub(super) use platter_scsi::host::verdict::{Judged, Verdict};

/// Judges an answer. A number that no status byte has is the library's own: the session ended, or the command was aborted.
pub(super) fn judge(answer: &Answer) -> Judged {
    match u8::try_from(answer.status) {
        Ok(status) => platter_scsi::host::verdict::judge(status, &answer.sense),
        Err(_) => {
            debug_assert!(matches!(answer.status, status::CANCELLED | status::ERROR));
            Verdict::Lost.into()
        }
    }
}
