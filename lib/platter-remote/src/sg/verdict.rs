//! What the kernel's report on a command means.

use super::header::Returned;
use platter_scsi::host::verdict::{Judged, Verdict, judge as by_status};

/// Judges what came back. The numbers of transports are those of `scsi/scsi_status.h` (`DID_*`). The kernel reports a command
/// when it no longer runs, so one that the transport failed may be sent again.
pub(super) fn judge(returned: &Returned, sense: &[u8]) -> Judged {
    let (verdict, why) = match returned.transport {
        0 => return by_status(returned.status, sense),
        // The kernel has read the sense data too and draws a conclusion from it.
        0x10..=0x13 if !sense.is_empty() => return by_status(returned.status, sense),
        0x01 | 0x04 => (Verdict::Failed(libc::ENODEV), "the device is gone"),
        0x02 => (Verdict::Busy, "the bus is busy"),
        0x03 | 0x106 => (Verdict::Failed(libc::ETIMEDOUT), "the command timed out"),
        0x08 => (Verdict::Reset { power: false }, "the bus was reset"),
        0x0b..=0x0e => (Verdict::Again, "the transport was disturbed"),
        0x10 => (Verdict::Failed(libc::EREMOTEIO), "the target has failed"),
        0x11 => (Verdict::Failed(libc::EBADE), "the device is reserved"),
        0x12 => (Verdict::Failed(libc::ENOSPC), "the device has no space"),
        0x13 => (Verdict::Failed(libc::ENODATA), "an error of the medium"),
        _ => (Verdict::Failed(libc::EIO), "the transport has failed"),
    };
    let why = format!("{why} (host status {:#04x})", returned.transport);
    Judged { why, ..verdict.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_scsi::sense::{Failure, Key};

    #[test]
    fn transport_comes_before_status_except_where_it_follows_from_sense_data() {
        let of = |transport, status, sense: &[u8]| {
            let (sense_len, residual) = (sense.len(), 0);
            judge(&Returned { status, transport, sense_len, residual, is_direct: false }, sense).verdict
        };
        let medium = Failure::new(Key::MEDIUM_ERROR, 0x11, 0).to_fixed();
        assert_eq!(of(0, 0, &[]), Verdict::Good);
        assert_eq!(of(0, 2, &medium), Verdict::Failed(libc::ENODATA));
        assert_eq!(of(0x10, 2, &medium), Verdict::Failed(libc::ENODATA));
        assert_eq!(of(0x10, 0, &[]), Verdict::Failed(libc::EREMOTEIO));
        assert_eq!(of(1, 0, &[]), Verdict::Failed(libc::ENODEV));
        assert_eq!(of(3, 0, &[]), Verdict::Failed(libc::ETIMEDOUT));
        assert_eq!(of(0x106, 0, &[]), Verdict::Failed(libc::ETIMEDOUT));
        assert_eq!(of(8, 0, &[]), Verdict::Reset { power: false });
        assert_eq!(of(0x0d, 0, &[]), Verdict::Again);
        assert_eq!(of(7, 0, &[]), Verdict::Failed(libc::EIO));
    }
}
