//! What the status of a completion means.

use platter_nvme::status::Status;

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    /// It was not carried out, and may be sent again after a pause.
    Later,
    /// It failed, with an errno.
    Failed(i32),
}

/// Judges a status, as `nvme_error_status` and `nvme_decide_disposition` of the kernel do, which passed commands bypass.
pub(super) fn judge(status: Status) -> Verdict {
    let errno = match status.bare().0 {
        0x000 => return Verdict::Good,
        // Interrupted; the namespace is not ready.
        0x021 | 0x082 if !status.is_final() => return Verdict::Later,
        // Operation code, field.
        0x001 | 0x002 => libc::EOPNOTSUPP,
        0x020 => libc::EROFS,
        0x081 => libc::ENOSPC,
        0x083 => libc::EBADE,
        // The namespace is gone.
        0x00b => libc::ENODEV,
        // Range, write fault, unrecovered read, access denied, unwritten block.
        0x080 => libc::EREMOTEIO,
        0x280 | 0x281 | 0x286 | 0x287 => libc::ENODATA,
        // Protection information.
        0x282..=0x285 => libc::EILSEQ,
        // The path: internal error, asymmetric access; no path of the host, aborted by the host, as while a controller behind
        // a network is connected again. The last one may be carried out all the same.
        0x300..=0x303 | 0x370 | 0x371 => libc::ENOLINK,
        _ => libc::EIO,
    };
    Verdict::Failed(errno)
}

/// The result of a command that came back with an errno (negative) and without an answer of the controller. EINTR is that of a
/// command that was sent, and that the kernel cancelled when it reset the controller. A change that the controller may go on with,
/// as behind a network, could be carried out after newer data if it were sent again. So its result is not known.
pub(super) fn unanswered(result: i32, may_go_on: bool) -> i64 {
    match may_go_on && result == -libc::EINTR {
        true => -i64::from(libc::ENOLINK),
        false => i64::from(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_meaning() {
        for (status, verdict) in [
            (Status::SUCCESS, Verdict::Good),
            (Status::INTERRUPTED, Verdict::Later),
            (Status(Status::INTERRUPTED.0 | 1 << 14), Verdict::Failed(libc::EIO)),
            (Status::NAMESPACE_NOT_READY, Verdict::Later),
            (Status::INVALID_OPCODE, Verdict::Failed(libc::EOPNOTSUPP)),
            (Status::WRITE_PROTECTED, Verdict::Failed(libc::EROFS)),
            (Status::CAPACITY_EXCEEDED, Verdict::Failed(libc::ENOSPC)),
            (Status::LBA_OUT_OF_RANGE, Verdict::Failed(libc::EREMOTEIO)),
            (Status::READ_ERROR, Verdict::Failed(libc::ENODATA)),
            (Status::COMPARE_FAILURE, Verdict::Failed(libc::EILSEQ)),
            (Status::ABORT_REQUESTED, Verdict::Failed(libc::EIO)),
            (Status(0x300), Verdict::Failed(libc::ENOLINK)),
            (Status(0x301), Verdict::Failed(libc::ENOLINK)),
            (Status(0x4302), Verdict::Failed(libc::ENOLINK)),
            (Status(0x303), Verdict::Failed(libc::ENOLINK)),
            (Status(0x370), Verdict::Failed(libc::ENOLINK)),
            (Status(0x4371), Verdict::Failed(libc::ENOLINK)),
        ] {
            assert_eq!(judge(status), verdict, "{status}");
        }
    }

    #[test]
    fn a_change_that_a_reset_has_cancelled_may_have_been_carried_out() {
        assert_eq!(unanswered(-libc::EINTR, true), -i64::from(libc::ENOLINK));
        assert_eq!(unanswered(-libc::EINTR, false), -i64::from(libc::EINTR));
        // The kernel had no resources to send it.
        assert_eq!(unanswered(-libc::EAGAIN, true), -i64::from(libc::EAGAIN));
    }
}
